//! One request from its first byte to the headers of its answer: the chain of filters every request
//! passes before anybody looks at what it is about.
//!
//! A panic behind it is an answer, never the end of the server.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use aplomb_apimachinery::query::{Query, unescape};
use aplomb_apimachinery::status::ApiError;
use bytes::Bytes;
use futures::FutureExt;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, HOST, HeaderName, HeaderValue};
use http::{Method, Request, Response, Version};
use http_body_util::BodyExt;
use tower::BoxError;

use super::body::{self, BoxedBody};
use super::deadline;
use super::negotiate::header;
use super::response::{Body, Content, Reply};
use super::route::RequestInfo;
use super::router;
use super::service::Shared;
use crate::admission::Notes;
use crate::audit;
use crate::auth::{Attributes, AuthorizationDecision, accounts, impersonate, rbac};
use crate::call::User;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
const MAX_AUDIT_ID: usize = 64;

/// Where a request came from; the listener puts it into the request's extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// A request that has been read, authenticated and authorised.
pub(super) struct Context<'a> {
    pub(super) shared: &'a Shared,
    pub(super) method: Method,
    pub(super) headers: http::HeaderMap,
    pub(super) query: Query,
    pub(super) info: RequestInfo,
    pub(super) user: User,
    pub(super) record: audit::Record,
    /// What admission says about the request besides the answer.
    pub(super) notes: Notes,
}

impl Context<'_> {
    /// An error in the form this client asked for.
    pub(super) fn error(&self, error: &ApiError) -> Reply {
        Reply::error(error, &self.headers, &self.query)
    }
}

pub(super) async fn run<B>(shared: &Shared, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut parts, body) = request.into_parts();
    let mut body = body::boxed(body);
    name_host(&mut parts);
    if !parts.uri.path().starts_with('/') && parts.method != Method::CONNECT {
        return bad_request();
    }
    let Some(path) = unescape(parts.uri.path(), false) else {
        return bad_request();
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let uri = parts.uri.path_and_query();
    let uri = uri.map_or(path.as_str(), |uri| uri.as_str()).to_owned();
    let (info, wrong) = match RequestInfo::read(&parts.method, &path, &query) {
        Ok(info) => (info, None),
        Err(why) => (RequestInfo::default(), Some(why)),
    };
    let record = begin(shared, &parts, &uri, &info);
    let mut context = Context {
        shared,
        method: parts.method,
        headers: parts.headers,
        query,
        info,
        user: User::default(),
        record,
        notes: Notes::default(),
    };
    let reply = match wrong {
        Some(why) => unreadable(&uri, &why),
        None => guarded(&mut context, &mut body).await,
    };
    body::read_on(body);
    finish(context, reply, parts.version)
}

/// HTTP/2 names the host in the target and not in a header.
fn name_host(parts: &mut http::request::Parts) {
    let authority = parts.uri.authority().map(|host| host.as_str().to_owned());
    if let Some(host) = authority.and_then(|host| HeaderValue::try_from(host).ok()) {
        parts.headers.entry(HOST).or_insert(host);
    }
}

fn bad_request() -> Response<Body> {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let close = HeaderValue::from_static("close");
    Reply::bytes(400, plain, "400 Bad Request")
        .with(CONNECTION, close)
        .into_response()
}

/// 500 of a path that the server cannot take apart.
fn unreadable(uri: &str, why: &str) -> Reply {
    let quoted = aplomb_apimachinery::field::go_quote(uri);
    let text = format!("Internal Server Error: {quoted}: failed to create RequestInfo: {why}\n");
    Reply::text(500, text)
}

fn begin(shared: &Shared, parts: &http::request::Parts, uri: &str, info: &RequestInfo) -> audit::Record {
    let given: String = header(&parts.headers, AUDIT_ID.as_str())
        .chars()
        .take(MAX_AUDIT_ID)
        .collect();
    let audit_id = if given.is_empty() {
        shared.server.clock().uuid()
    } else {
        given
    };
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.ip().to_string());
    audit::Record {
        audit_id,
        request_uri: uri.to_owned(),
        verb: info.verb.clone(),
        source_ip: peer.unwrap_or_else(|| "127.0.0.1".to_owned()),
        user_agent: header(&parts.headers, "user-agent").to_owned(),
        object: (shared.audit.is_some() && info.is_resource).then(|| object_ref(info)),
        received: shared.server.clock().now(),
        ..audit::Record::default()
    }
}

/// Runs the request so that a panic becomes the answer the server gives for one.
async fn guarded(context: &mut Context<'_>, body: &mut BoxedBody<'_>) -> Reply {
    // Whatever the answer says, it says it of what is on disk.
    let shared = context.shared;
    let answered = {
        let work = pin!(filters(context, body));
        let settled = AssertUnwindSafe(shared.server.settled(work));
        settled.catch_unwind().await
    };
    match answered {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => context.error(&error),
        Err(_) => {
            tracing::error!(uri = %context.record.request_uri, "Request panicked");
            let text = "This request caused apiserver to panic. Look in the logs for details.\n";
            Reply::text(500, text)
        }
    }
}

async fn filters(context: &mut Context<'_>, body: &mut BoxedBody<'_>) -> Reply {
    if let Some(refused) = refused(context) {
        return refused;
    }
    let _room = match context.shared.in_flight.admit(&context.info) {
        Ok(room) => room,
        Err(error) => return context.error(&error),
    };
    let close = context.headers.get(http::header::CONTENT_LENGTH).cloned();
    let reply = router::answer(context, body::boxed(body)).await;
    if reply.code == 413 && body::far_over(close.as_ref()) {
        return reply.with(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

/// Finds out who asks, and whether it may: the answer if it may not.
fn refused(context: &mut Context<'_>) -> Option<Reply> {
    if let Err(error) = deadline::check(&context.info, &context.query) {
        return Some(context.error(&error));
    }
    let server = &context.shared.server;
    let authorization = header(&context.headers, AUTHORIZATION.as_str());
    let tokens = &context.shared.tokens;
    let user = match accounts::authenticate(server, tokens, authorization) {
        Ok(user) => user,
        Err(error) => return Some(context.error(&error)),
    };
    context.record.user = user.clone();
    let asked = attributes(&context.info);
    context.user = match impersonate::apply(server, &user, &context.headers, &asked) {
        Ok(None) => user,
        Ok(Some(other)) => {
            context.record.impersonated = Some(other.clone());
            other
        }
        Err(error) => return Some(context.error(&error).nosniff()),
    };
    let decision = rbac::authorize(server, &context.user, &asked);
    context.record.decision = Some(decision.clone());
    if let AuthorizationDecision { allowed: false, reason } = &decision {
        let refusal = rbac::refusal(&context.user, &asked, reason);
        return Some(context.error(&refusal).nosniff());
    }
    None
}

/// What authorization is asked about.
pub(super) fn attributes(info: &RequestInfo) -> Attributes {
    Attributes {
        is_resource: info.is_resource,
        verb: info.verb.clone(),
        group: info.group.clone(),
        resource: info.resource.clone(),
        subresource: info.subresource.clone(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        path: info.path.clone(),
    }
}

fn object_ref(info: &RequestInfo) -> audit::AuditObjectRef {
    audit::AuditObjectRef {
        resource: info.resource.clone(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        group: info.group.clone(),
        version: info.version.clone(),
        subresource: info.subresource.clone(),
        ..audit::AuditObjectRef::default()
    }
}

/// A body that keeps `end` until it has been read or dropped.
fn ending_with(body: Body, end: audit::StreamEnd) -> Body {
    body.map_frame(move |frame| {
        let _kept = &end;
        frame
    })
    .boxed_unsync()
}

fn finish(mut context: Context<'_>, reply: Reply, version: Version) -> Response<Body> {
    let mut reply = reply.warn(&context.notes.warnings());
    context.record.annotations = context.notes.annotations();
    let text = |value: &str| HeaderValue::from_str(value).ok();
    if let Some(id) = text(&context.record.audit_id) {
        reply.headers.insert(AUDIT_ID, id);
    }
    if !context.info.path.is_empty() {
        let cache = HeaderValue::from_static("no-cache, private");
        reply.headers.entry(CACHE_CONTROL).or_insert(cache);
    }
    let (schema, level) = &context.shared.flow;
    if context.record.decision.is_some()
        && let (Some(schema), Some(level)) = (text(schema), text(level))
    {
        reply.headers.insert(FLOW_SCHEMA, schema);
        reply.headers.insert(PRIORITY_LEVEL, level);
    }
    if version >= Version::HTTP_2 {
        reply.headers.remove(CONNECTION);
    }
    let head = context.method == Method::HEAD;
    let mut reply = audited(context, reply);
    if head {
        reply.body = Content::Whole(Bytes::new());
    }
    reply.into_response()
}

/// Writes the answer into the log, where there is one.
fn audited(context: Context<'_>, mut reply: Reply) -> Reply {
    let clock = context.shared.server.clock();
    match (&context.shared.audit, reply.body) {
        (Some(log), Content::Stream(body)) => {
            let end = log.started(context.record, reply.code.as_u16(), clock);
            reply.body = Content::Stream(ending_with(body, end));
        }
        (Some(log), body) => {
            // A request nobody could be named for never completes in the server's log.
            let known = context.record.decision.is_some() || !context.user.name.is_empty();
            let stage = if known { "ResponseComplete" } else { "ResponseStarted" };
            let (code, status) = (reply.code.as_u16(), reply.status.as_ref());
            log.complete(&context.record, stage, code, status, clock);
            reply.body = body;
        }
        (None, body) => reply.body = body,
    }
    reply
}
