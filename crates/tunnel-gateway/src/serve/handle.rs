//! From a request to its response: which tunnel owns it, which route serves it, and what the client gets.

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

use super::answer::{self, ErrorFormat, ErrorResponse};
use super::body::ResponseBody;
use super::core::ProxyShared;
use super::headers::{self, ForwardedInfo};
use super::pass::MatchedRoute;
use super::proof;
use super::record::RequestRecord;
use super::upgrade::{self, UpgradeRequest};
use super::upload::BoxError;
use crate::pool::PooledConnection;
use crate::table::{RouteAction, TableRoute};
use crate::{filter, path, reason, route};

/// Properties of a request that are not part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientInfo {
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
}

/// The outcome of a request.
pub(super) enum RequestOutcome {
    Origin(Response<Incoming>, PooledConnection),
    Upgrade(UpgradeRequest, Response<Incoming>, PooledConnection),
    Redirect(StatusCode, HeaderValue),
    Json(String),
}

/// Responds to any request.
pub(super) async fn handle<B>(
    core: &Arc<ProxyShared>,
    mut request: Request<B>,
    client: ClientInfo,
) -> Response<ResponseBody>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let takeover = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    let asking = ErrorFormat::of(&head);
    let time = core.clock.now();
    let mut record =
        RequestRecord::new(core.telemetry.clone(), core.access_log.clone(), time, &head);
    // The operator needs the reason of a failed proof even if headers are disabled.
    let shown = core.headers || head.uri.path() == PROOF_PATH;
    let id = headers::request_id(&head.headers).unwrap_or_else(|| core.request_id());
    record.asked_by(client.address.ip().to_canonical().to_string(), id);
    let reply = answer(core, &mut record, head, body, client).await;
    let tunnel = record.tunnel().cloned();
    let failed = reply.is_err();
    let mut response = match reply {
        Ok(RequestOutcome::Upgrade(wanted, response, lease)) => {
            upgrade::join(core, &wanted, takeover, (response, lease), record)
        }
        Ok(reply) => finish(core, &asking, reply, record),
        Err(failure) => {
            let ErrorResponse { reason, detail, .. } = &failure;
            let tunnel = tunnel.as_ref().map(|it| it.label());
            tracing::debug!(tunnel, reason, detail, "Gateway returned an error response");
            answer::page(&asking, &failure, record)
        }
    };
    let revision = tunnel.as_ref().map(|it| it.revision.as_str());
    answer::brand(response.headers_mut(), revision, failed, shown);
    response
}

/// The response of an exchange without an upgrade.
fn finish(
    core: &ProxyShared,
    asking: &ErrorFormat,
    reply: RequestOutcome,
    mut record: RequestRecord,
) -> Response<ResponseBody> {
    match reply {
        RequestOutcome::Origin(response, lease) | RequestOutcome::Upgrade(_, response, lease) => {
            record.answered(response.status().as_u16(), None);
            response.map(|body| ResponseBody::origin(body, lease, core.limits.body_idle, record))
        }
        RequestOutcome::Redirect(status, location) => {
            record.answered(status.as_u16(), None);
            let mut response = answer::whole(asking, status, "text/plain", String::new(), record);
            response.headers_mut().insert(LOCATION, location);
            response
        }
        RequestOutcome::Json(text) => {
            record.answered(200, None);
            answer::whole(asking, StatusCode::OK, "application/json", text, record)
        }
    }
}

async fn answer<B>(
    core: &Arc<ProxyShared>,
    record: &mut RequestRecord,
    mut head: Parts,
    body: B,
    client: ClientInfo,
) -> Result<RequestOutcome, ErrorResponse>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let (name, written) = headers::authority(&head)?;
    let name = core.meant(name);
    record.asked_for(&name);
    if head.headers.len() > core.limits.headers {
        return Err(ErrorResponse::new(
            431,
            reason::BAD_REQUEST,
            "too many headers",
        ));
    }
    let table = core.table.load_full();
    let unknown = || ErrorResponse::new(404, reason::UNKNOWN_HOST, name.clone());
    let host = route::host(&table, &name, client.tls).ok_or_else(unknown)?;
    record.belongs_to(&host.tunnel);
    normalize(&mut head)?;
    if head.uri.path() == PROOF_PATH {
        let proof = proof::answer(core, (host, client.tls), &head).await;
        return proof.map(RequestOutcome::Json);
    }
    let wanted = UpgradeRequest::of(&mut head, core);
    if head.method == Method::CONNECT {
        return Err(ErrorResponse::bad_request("this server is not a forward proxy"));
    }
    let no_route = || ErrorResponse::new(404, reason::NO_ROUTE, head.uri.path());
    let readings = path::readings(head.uri.path()).map_err(bad_path)?;
    let route = route::pick(host, &head, client.tls).ok_or_else(no_route)?;
    if !route::agree((host, client.tls), &head, route, &readings) {
        return Err(bad_path("selects another rule when it is decoded further"));
    }
    let origin = match &route.action {
        RouteAction::Forward(origin) => origin,
        RouteAction::Redirect => return redirect(route, (&name, client.tls), &head.uri),
        RouteAction::Nowhere { status, reason } => {
            return Err(ErrorResponse::new(
                *status,
                reason,
                "the rule has no usable backend",
            ));
        }
    };
    let asked = ForwardedInfo {
        client: client.address.ip(),
        tls: client.tls,
        host: &written,
        trusted: core.trusts(client.address),
    };
    let way = MatchedRoute {
        core,
        tunnel: &host.tunnel,
        route,
        origin,
    };
    way.pass(record, (head, body), asked, wanted).await
}

/// Replaces the path with the normalized one that rules match and origins get. The query is unchanged.
fn normalize(head: &mut Parts) -> Result<(), ErrorResponse> {
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

fn bad_path(why: &str) -> ErrorResponse {
    ErrorResponse::bad_request(format!("the path {why}"))
}

fn redirect(
    route: &TableRoute,
    from: (&str, bool),
    uri: &Uri,
) -> Result<RequestOutcome, ErrorResponse> {
    let (status, to) = filter::redirect(&route.filters, from, uri, route.prefix())
        .ok_or_else(|| ErrorResponse::new(500, reason::NO_ROUTE, "the redirect has no valid location"))?;
    Ok(RequestOutcome::Redirect(status, to))
}
