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

use super::error_response::{self, ErrorFormat, ErrorResponse};
use super::headers::{self, ForwardedInfo};
use super::matched_route::MatchedRoute;
use super::proof;
use super::request_body::BoxError;
use super::request_record::RequestRecord;
use super::response_body::ResponseBody;
use super::shared::ProxyShared;
use super::upgrade::{self, UpgradeRequest};
use crate::origin::pool::PooledConnection;
use crate::routing::{self, RouteAction, TableRoute, filters};
use crate::{path, reason};

/// Properties of a request that are not part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientInfo {
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
}

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
    let asking = ErrorFormat::from_request(&head);
    let time = core.clock.now();
    let mut record = RequestRecord::new(core.telemetry.clone(), core.access_log.clone(), time, &head);
    // The operator needs the reason of a failed proof even if headers are disabled.
    let shown = core.headers || head.uri.path() == PROOF_PATH;
    let id = headers::client_request_id(&head.headers).unwrap_or_else(|| core.request_id());
    record.set_client(client.address.ip().to_canonical().to_string(), id);
    let reply = handle_request(core, &mut record, head, body, client).await;
    let tunnel = record.tunnel().cloned();
    let failed = reply.is_err();
    let mut response = match reply {
        Ok(RequestOutcome::Upgrade(wanted, response, lease)) => {
            upgrade::join_streams(core, &wanted, takeover, (response, lease), record)
        }
        Ok(reply) => build_response(core, &asking, reply, record),
        Err(failure) => {
            let ErrorResponse { reason, detail, .. } = &failure;
            let tunnel = tunnel.as_ref().map(|it| it.display_name());
            tracing::debug!(tunnel, reason, detail, "Gateway returned an error response");
            error_response::failure_page(&asking, &failure, record)
        }
    };
    let revision = tunnel.as_ref().map(|it| it.revision.as_str());
    error_response::set_gateway_headers(response.headers_mut(), revision, failed, shown);
    response
}

/// The response of an exchange without an upgrade.
fn build_response(
    core: &ProxyShared,
    asking: &ErrorFormat,
    reply: RequestOutcome,
    mut record: RequestRecord,
) -> Response<ResponseBody> {
    match reply {
        RequestOutcome::Origin(response, lease) | RequestOutcome::Upgrade(_, response, lease) => {
            record.record_response(response.status().as_u16(), None);
            response.map(|body| ResponseBody::from_origin(body, lease, core.limits.body_idle, record))
        }
        RequestOutcome::Redirect(status, location) => {
            record.record_response(status.as_u16(), None);
            let mut response = error_response::full_response(asking, status, "text/plain", String::new(), record);
            response.headers_mut().insert(LOCATION, location);
            response
        }
        RequestOutcome::Json(text) => {
            record.record_response(200, None);
            error_response::full_response(asking, StatusCode::OK, "application/json", text, record)
        }
    }
}

async fn handle_request<B>(
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
    let name = core.effective_host(name);
    record.set_host(&name);
    if head.headers.len() > core.limits.headers {
        return Err(ErrorResponse::new(431, reason::BAD_REQUEST, "too many headers"));
    }
    let table = core.table.load_full();
    let unknown = || ErrorResponse::new(404, reason::UNKNOWN_HOST, name.clone());
    let host = routing::find_host(&table, &name, client.tls).ok_or_else(unknown)?;
    record.set_tunnel(&host.tunnel);
    normalize_path(&mut head)?;
    if head.uri.path() == PROOF_PATH {
        let proof = proof::handle_proof(core, (host, client.tls), &head).await;
        return proof.map(RequestOutcome::Json);
    }
    let wanted = UpgradeRequest::from_request(&mut head, core);
    if head.method == Method::CONNECT {
        return Err(ErrorResponse::bad_request("this server is not a forward proxy"));
    }
    let no_route = || ErrorResponse::new(404, reason::NO_ROUTE, head.uri.path());
    let readings = path::alternative_paths(head.uri.path()).map_err(invalid_path)?;
    let route = routing::match_route(host, &head, client.tls).ok_or_else(no_route)?;
    if !routing::all_readings_match((host, client.tls), &head, route, &readings) {
        return Err(invalid_path("selects another rule when it is decoded further"));
    }
    let origin = match &route.action {
        RouteAction::Forward(origin) => origin,
        RouteAction::Redirect => return redirect_outcome(route, (&name, client.tls), &head.uri),
        RouteAction::NoBackend { status, reason } => {
            return Err(ErrorResponse::new(*status, reason, "the rule has no usable backend"));
        }
    };
    let asked = ForwardedInfo {
        client: client.address.ip(),
        tls: client.tls,
        host: &written,
        trusted: core.is_trusted_proxy(client.address),
    };
    let way = MatchedRoute {
        shared: core,
        tunnel: &host.tunnel,
        route,
        origin,
    };
    way.forward(record, (head, body), asked, wanted).await
}

/// Replaces the path with the normalized one that rules match and origins get. The query is unchanged.
fn normalize_path(head: &mut Parts) -> Result<(), ErrorResponse> {
    let path = head.uri.path();
    if head.method == Method::OPTIONS && path == "*" {
        return Ok(());
    }
    let Cow::Owned(mut path) = path::normalize(path).map_err(invalid_path)? else {
        return Ok(());
    };
    if let Some(query) = head.uri.query() {
        path = format!("{path}?{query}");
    }
    let normal: Result<PathAndQuery, _> = path.parse();
    head.uri = normal.map_err(|_| invalid_path("is too long"))?.into();
    Ok(())
}

fn invalid_path(why: &str) -> ErrorResponse {
    ErrorResponse::bad_request(format!("the path {why}"))
}

fn redirect_outcome(route: &TableRoute, from: (&str, bool), uri: &Uri) -> Result<RequestOutcome, ErrorResponse> {
    let (status, to) = filters::redirect_location(&route.filters, from, uri, route.path_prefix())
        .ok_or_else(|| ErrorResponse::new(500, reason::NO_ROUTE, "the redirect has no valid location"))?;
    Ok(RequestOutcome::Redirect(status, to))
}
