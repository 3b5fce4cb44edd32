//! coderd's API: thin, typed calls that keep the headers of every answer, because they say what is left
//! of the rate limit.
//!
//! One call is one request. Nothing here waits, tries again, follows a redirect or decides; every call of
//! the operator goes through [`crate::server`], which has the gate and the budget.

mod ask;
mod base;
mod redact;
mod endpoint;
mod error;
mod model;

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use tower::ServiceExt;

use aplomb_http_client::{ApiToken, Transport};

pub use ask::CoderCall;
pub use base::ServerUrl;
pub use endpoint::CoderEndpoint;
pub use error::{CallError, CallErrorClass};
pub use model::{
    BuildInfo, CoderUser, CreatedKey, CreatedProxy, Entitlement, Entitlements, Feature,
    Organization, ProvisionerDaemon, ProvisionerKey, ProvisionerKeyDaemons, ProxyDisplay,
    WorkspaceProxy, WorkspaceProxyHealth,
};

/// Carries the token.
const SESSION_TOKEN_HEADER: HeaderName = HeaderName::from_static("coder-session-token");
/// Asks not to be counted.
const BYPASS_HEADER: HeaderName = HeaderName::from_static("x-coder-bypass-ratelimit");

/// Speaks to one server with one token. Cheap to clone.
#[derive(Clone)]
pub struct CoderClient {
    transport: Transport,
    base_url: ServerUrl,
    token: ApiToken,
}

/// An answer of success.
#[derive(Clone)]
pub struct CoderResponse<T> {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// What it says.
    pub body: T,
}

/// What a call returns.
pub type Result<T> = std::result::Result<T, CallError>;

impl CoderClient {
    /// A client that reaches `base` over `transport`.
    #[must_use]
    pub fn new(transport: Transport, base: ServerUrl, token: ApiToken) -> Self {
        Self {
            transport,
            base_url: base,
            token,
        }
    }

    /// Where it speaks to.
    #[must_use]
    pub fn base_url(&self) -> &ServerUrl {
        &self.base_url
    }

    /// Makes one call: one request, however it ends. With `bypass` it asks not to be counted.
    ///
    /// # Errors
    /// What the server said, or that it said nothing.
    pub async fn send<T>(&self, ask: &CoderCall<T>, bypass: bool) -> Result<CoderResponse<T>> {
        let lost =
            |cause: &dyn fmt::Display| CallError::no_answer(&self.token, ask.endpoint, cause);
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
            None => Err(CallError::unreadable(
                ask.endpoint,
                head.status,
                head.headers,
            )),
        }
    }

    fn build_request<T>(
        &self,
        ask: &CoderCall<T>,
        bypass: bool,
    ) -> std::result::Result<Request<Bytes>, http::Error> {
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

/// Without the headers: what a gateway puts there is nobody's to vouch for.
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
#[path = "client/tests.rs"]
mod tests;
