//! From a request to its response: whose it is, which route serves it, and what the client is told.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use aplomb_api::tunnel::headers::PROOF_PATH;
use bytes::Bytes;
use http::header::{HeaderValue, LOCATION};
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use hyper::body::Incoming;

use super::answer::{self, Asking, Failure};
use super::body::Body;
use super::core::Core;
use super::headers::{self, Asked};
use super::pass::Way;
use super::proof;
use super::record::Record;
use super::upgrade::{self, Wanted};
use super::upload::BoxError;
use crate::pool::Lease;
use crate::table::{Action, Route};
use crate::{filter, path, reason, route};

/// What is known of a request beside what it says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
}

/// What becomes of a request.
pub(super) enum Reply {
    Origin(Response<Incoming>, Lease),
    Upgrade(Wanted, Response<Incoming>, Lease),
    Redirect(StatusCode, HeaderValue),
    Json(String),
}

/// Answers a request, whatever it is.
pub(super) async fn handle<B>(
    core: &Arc<Core>,
    mut request: Request<B>,
    client: Client,
) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let takeover = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    let asking = Asking::of(&head);
    let time = core.clock.now();
    let mut record = Record::new(core.telemetry.clone(), core.access_log.clone(), time, &head);
    // The operator needs the reason why a proof failed, even where the public is shown no headers.
    let shown = core.headers || head.uri.path() == PROOF_PATH;
    let id = headers::request_id(&head.headers).unwrap_or_else(|| core.request_id());
    record.asked_by(client.address.ip().to_canonical().to_string(), id);
    let reply = answer(core, &mut record, head, body, client).await;
    let tunnel = record.tunnel().cloned();
    let failed = reply.is_err();
    let mut response = match reply {
        Ok(Reply::Upgrade(wanted, response, lease)) => {
            upgrade::join(core, &wanted, takeover, (response, lease), record)
        }
        Ok(reply) => finish(core, &asking, reply, record),
        Err(failure) => {
            let Failure { reason, detail, .. } = &failure;
            let tunnel = tunnel.as_ref().map(|it| it.label());
            tracing::debug!(tunnel, reason, detail, "A request was answered here");
            answer::page(&asking, &failure, record)
        }
    };
    let revision = tunnel.as_ref().map(|it| it.revision.as_str());
    answer::brand(response.headers_mut(), revision, failed, shown);
    response
}

/// The response for a reply that changes no protocol.
fn finish(core: &Core, asking: &Asking, reply: Reply, mut record: Record) -> Response<Body> {
    match reply {
        Reply::Origin(response, lease) | Reply::Upgrade(_, response, lease) => {
            record.answered(response.status().as_u16(), None);
            response.map(|body| Body::origin(body, lease, core.limits.body_idle, record))
        }
        Reply::Redirect(status, location) => {
            record.answered(status.as_u16(), None);
            let mut response = answer::whole(asking, status, "text/plain", String::new(), record);
            response.headers_mut().insert(LOCATION, location);
            response
        }
        Reply::Json(text) => {
            record.answered(200, None);
            answer::whole(asking, StatusCode::OK, "application/json", text, record)
        }
    }
}

async fn answer<B>(
    core: &Arc<Core>,
    record: &mut Record,
    mut head: Parts,
    body: B,
    client: Client,
) -> Result<Reply, Failure>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let (name, written) = headers::authority(&head)?;
    let name = core.meant(name);
    record.asked_for(&name);
    if head.headers.len() > core.limits.headers {
        return Err(Failure::new(431, reason::BAD_REQUEST, "too many headers"));
    }
    let table = core.table.load_full();
    let unknown = || Failure::new(404, reason::UNKNOWN_HOST, name.clone());
    let host = route::host(&table, &name, client.tls).ok_or_else(unknown)?;
    record.belongs_to(&host.tunnel);
    normalize(&mut head)?;
    if head.uri.path() == PROOF_PATH {
        let proof = proof::answer(core, (host, client.tls), &head).await;
        return proof.map(Reply::Json);
    }
    let wanted = Wanted::of(&mut head, core);
    if head.method == Method::CONNECT {
        return Err(Failure::bad_request("this is no forward proxy"));
    }
    let no_route = || Failure::new(404, reason::NO_ROUTE, head.uri.path());
    let readings = path::readings(head.uri.path()).map_err(bad_path)?;
    let route = route::pick(host, &head, client.tls).ok_or_else(no_route)?;
    if !route::agree((host, client.tls), &head, route, &readings) {
        return Err(bad_path("leads to another rule when it is decoded further"));
    }
    let origin = match &route.action {
        Action::Forward(origin) => origin,
        Action::Redirect => return redirect(route, (&name, client.tls), &head.uri),
        Action::Nowhere { status, reason } => {
            return Err(Failure::new(*status, reason, "the rule leads nowhere"));
        }
    };
    let asked = Asked {
        client: client.address.ip(),
        tls: client.tls,
        host: &written,
        trusted: core.trusts(client.address),
    };
    let way = Way {
        core,
        tunnel: &host.tunnel,
        route,
        origin,
    };
    way.pass(record, (head, body), asked, wanted).await
}

/// Gives a request the path that rules are compared with and origins get. Its query stays as it is.
fn normalize(head: &mut Parts) -> Result<(), Failure> {
    let path = head.uri.path();
    if head.method == Method::OPTIONS && path == "*" {
        return Ok(());
    }
    let Cow::Owned(mut path) = path::normal(path).map_err(bad_path)? else {
        return Ok(());
    };
    if let Some(query) = head.uri.query() {
        path = format!("{path}?{query}");
    }
    let normal: Result<PathAndQuery, _> = path.parse();
    head.uri = normal.map_err(|_| bad_path("is too long"))?.into();
    Ok(())
}

fn bad_path(why: &str) -> Failure {
    Failure::bad_request(format!("the path {why}"))
}

fn redirect(route: &Route, from: (&str, bool), uri: &Uri) -> Result<Reply, Failure> {
    let (status, to) = filter::redirect(&route.filters, from, uri, route.prefix())
        .ok_or_else(|| Failure::new(500, reason::NO_ROUTE, "the redirect leads nowhere"))?;
    Ok(Reply::Redirect(status, to))
}
