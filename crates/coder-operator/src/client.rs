//! Typed calls of coderd's API. Each returns the response headers, which carry the rate limit.
//!
//! One call is one request. This module does not wait, retry, follow redirects or decide; all calls
//! go through [`crate::server`], which has the backoff and the rate limiter.

mod ask;
mod base;
mod error;
mod model;

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use tower::ServiceExt;

use aplomb_http_client::{ApiToken, Transport};

pub(crate) use ask::{CoderCall, CoderEndpoint};
pub(crate) use base::ServerUrl;
pub(crate) use error::{CallError, CallErrorClass};
pub(crate) use model::{
    CreatedKey, CreatedProxy, Entitlement, Entitlements, Organization, ProvisionerKey, ProvisionerKeyDaemons,
    ProxyDisplay, WorkspaceProxy,
};
#[cfg(test)]
pub(crate) use model::{Feature, ProvisionerDaemon, WorkspaceProxyHealth};

/// Header with the token.
const SESSION_TOKEN_HEADER: HeaderName = HeaderName::from_static("coder-session-token");
/// Header that requests to bypass the rate limit.
const BYPASS_HEADER: HeaderName = HeaderName::from_static("x-coder-bypass-ratelimit");

/// A client for one server and one token. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CoderClient {
    transport: Transport,
    base_url: ServerUrl,
    token: ApiToken,
}

#[derive(Clone)]
pub(crate) struct CoderResponse<T> {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: T,
}

pub(crate) type Result<T> = std::result::Result<T, CallError>;

impl CoderClient {
    /// A client that reaches `base` over `transport`.
    pub(crate) fn new(transport: Transport, base: ServerUrl, token: ApiToken) -> Self {
        Self {
            transport,
            base_url: base,
            token,
        }
    }

    /// Sends one request. With `bypass` it requests to bypass the rate limit.
    pub(crate) async fn send<T>(&self, ask: &CoderCall<T>, bypass: bool) -> Result<CoderResponse<T>> {
        let lost = |cause: &dyn fmt::Display| CallError::no_answer(&self.token, ask.endpoint, cause);
        let request = self.build_request(ask, bypass).map_err(|cause| lost(&cause))?;
        let answer = self.transport.clone().oneshot(request).await;
        let (head, body) = answer.map_err(|cause| lost(&cause))?.into_parts();
        if !head.status.is_success() {
            let said = (head.status, head.headers, body.as_ref());
            return Err(CallError::from_response(&self.token, ask.endpoint, bypass, said));
        }
        match ask.parse(&body) {
            Some(body) => Ok(CoderResponse {
                status: head.status.as_u16(),
                headers: head.headers,
                body,
            }),
            None => Err(CallError::unreadable(ask.endpoint, head.status, head.headers)),
        }
    }

    fn build_request<T>(&self, ask: &CoderCall<T>, bypass: bool) -> std::result::Result<Request<Bytes>, http::Error> {
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(format!("{}{}", self.base_url.url(), ask.path))
            .header(header::ACCEPT, "application/json");
        if ask.endpoint.needs_token() {
            request = request.header(SESSION_TOKEN_HEADER, self.token.to_header_value(""));
        }
        if bypass {
            request = request.header(BYPASS_HEADER, HeaderValue::from_static("true"));
        }
        match &ask.body {
            None => request.body(Bytes::new()),
            Some(body) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone()),
        }
    }
}

/// Leaves the headers out: a proxy may have put anything there.
impl<T> fmt::Debug for CoderResponse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CoderClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.base_url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
