//! From a request to its response: whose it is, which route serves it, and what the client is told.

use std::net::SocketAddr;
use std::sync::Arc;

use aplomb_api::tunnel::PathMatchType;
use aplomb_api::tunnel::headers::PROOF_PATH;
use bytes::Bytes;
use http::header::{CONNECTION, COOKIE, EXPECT, HOST, HeaderMap, HeaderValue, LOCATION, TE};
use http::request::Parts;
use http::uri::Uri;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as HttpBody;
use hyper::body::Incoming;

use super::answer::{self, Asking, Failure};
use super::body::Body;
use super::core::Core;
use super::forward::{self, Patience};
use super::headers::{self, Asked};
use super::proof;
use super::record::Record;
use super::upgrade::{self, Wanted};
use super::upload::{BoxError, Upload};
use crate::pool::{Key, Lease};
use crate::table::{Action, Host, Origin, Route};
use crate::{filter, reason, route};

/// What is known of a request beside what it says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
}

/// What becomes of a request.
enum Reply {
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
    answer::brand(response.headers_mut(), revision, failed, core.headers);
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
    record.asked_for(&name);
    if head.headers.len() > core.limits.headers {
        return Err(Failure::new(431, reason::BAD_REQUEST, "too many headers"));
    }
    let table = core.table.load_full();
    let host = route::host(&table, &name);
    let unknown = || Failure::new(404, reason::UNKNOWN_HOST, name.clone());
    let host = host.ok_or_else(unknown)?;
    record.belongs_to(&host.tunnel);
    if head.uri.path() == PROOF_PATH {
        return proof::answer(core, host, &head).await.map(Reply::Json);
    }
    let wanted = Wanted::of(&mut head, core);
    if head.method == Method::CONNECT {
        return Err(Failure::bad_request("this is no forward proxy"));
    }
    let no_route = || Failure::new(404, reason::NO_ROUTE, head.uri.path());
    let route = route::pick(host, &head).ok_or_else(no_route)?;
    match &route.action {
        Action::Nowhere { status, reason } => {
            Err(Failure::new(*status, reason, "the rule leads nowhere"))
        }
        Action::Redirect => {
            let from = (name.as_str(), client.tls);
            let redirect = filter::redirect(&route.filters, from, &head.uri, prefix(route));
            let none = || Failure::new(500, reason::NO_ROUTE, "the redirect leads nowhere");
            redirect
                .map(|(status, to)| Reply::Redirect(status, to))
                .ok_or_else(none)
        }
        Action::Forward(origin) => {
            let share = core.requests.take(host.tunnel.uid.clone());
            let too_many = || Failure::new(503, reason::TOO_MANY, "the tunnel is at its limit");
            record.counts_as(share.ok_or_else(too_many)?);
            let asked = Asked {
                client: client.address.ip(),
                tls: client.tls,
                host: &written,
                trusted: core.trusts(client.address),
            };
            let passing = Passing {
                core,
                host,
                route,
                origin,
                wanted,
            };
            passing.pass(record, (head, body), asked).await
        }
    }
}

/// What a route matched of the path by prefix.
fn prefix(route: &Route) -> &str {
    let path = route.matches.wanted.path.as_ref();
    path.filter(|it| it.kind == PathMatchType::PathPrefix)
        .map_or("/", |it| &it.value)
}

/// A request on its way to its origin.
struct Passing<'a> {
    core: &'a Arc<Core>,
    host: &'a Host,
    route: &'a Route,
    origin: &'a Arc<Origin>,
    wanted: Option<Wanted>,
}

impl Passing<'_> {
    async fn pass<B>(
        self,
        record: &mut Record,
        (mut head, body): (Parts, B),
        asked: Asked<'_>,
    ) -> Result<Reply, Failure>
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let expects = headers::expects_continue(&head);
        self.prepare(&mut head, record.request_id(), asked);
        let (upload, progress) = Upload::new(body, self.core.limits.body_idle);
        record.uploads(progress.clone());
        let mut request = Request::from_parts(head, ());
        let upload = if expects && !progress.finished() {
            upload.after(forward::continued(&mut request))
        } else {
            request.headers_mut().remove(EXPECT);
            upload
        };
        let request = request.map(|()| upload.boxed());
        let key = Key {
            tunnel: self.host.tunnel.uid.clone(),
            origin: self.origin.clone(),
        };
        let patience = match self.route.timeout {
            Some(limit) => Patience::Strict(limit),
            None => Patience::Lenient(self.core.limits.response_timeout),
        };
        let (mut response, lease) =
            forward::send(self.core, key, request, &progress, patience).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let unasked = || Failure::new(502, reason::ORIGIN_BROKEN, "an upgrade nobody wanted");
            let wanted = self.wanted.ok_or_else(unasked)?;
            return Ok(Reply::Upgrade(wanted, response, lease));
        }
        headers::strip(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        filter::on_response(&self.route.filters, response.headers_mut());
        Ok(Reply::Origin(response, lease))
    }

    /// The head as the origin gets it.
    fn prepare(&self, head: &mut Parts, id: &str, asked: Asked<'_>) {
        let trailers = headers::takes_trailers(head);
        let filters = &self.route.filters;
        headers::strip(&mut head.headers);
        headers::forwarded(&mut head.headers, asked);
        one_cookie(&mut head.headers);
        let id = HeaderValue::from_str(id).expect("made of harmless characters");
        head.headers.insert(headers::REQUEST_ID, id);
        let host = filter::host(filters).unwrap_or_else(|| asked.host.clone());
        head.headers.insert(HOST, host);
        filter::on_request(filters, &mut head.headers);
        if trailers {
            head.headers
                .insert(TE, HeaderValue::from_static("trailers"));
            let te = HeaderValue::from_static("te");
            head.headers.append(CONNECTION, te);
        }
        if let Some(wanted) = &self.wanted {
            wanted.ask(&mut head.headers);
        }
        head.uri = Uri::from(filter::path(filters, &head.uri, prefix(self.route)));
        head.version = Version::HTTP_11;
    }
}

/// HTTP/2 may cut the cookie into several headers; HTTP/1.1 has it in one.
fn one_cookie(headers: &mut HeaderMap) {
    let mut values = headers.get_all(COOKIE).iter();
    if values.by_ref().take(2).count() < 2 {
        return;
    }
    let parts: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(whole) = HeaderValue::from_bytes(&parts.join(&b"; "[..])) {
        headers.insert(COOKIE, whole);
    }
}
