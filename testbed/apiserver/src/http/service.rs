//! The box as a `tower::Service`, and clients that talk to it without a socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response};
use kube::client::retry::RetryPolicy;
use tower::retry::RetryLayer;
use tower::util::MapRequestLayer;
use tower::{BoxError, ServiceBuilder};

use super::filters;
use super::limits::{InFlight, Limits};
use super::openapi;
use super::response::Body;
use crate::audit::Log;
use crate::auth::Tokens;
use crate::auth::tokens::MASTERS;
use crate::call::User;
use crate::server::ApiServer;

/// What every request of a service needs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) server: ApiServer,
    pub(super) tokens: Tokens,
    pub(super) audit: Option<Log>,
    /// The flow schema and priority level every answer names.
    pub(super) flow: (String, String),
    /// What is published about the kinds.
    pub(super) openapi: openapi::OpenApiCache,
    pub(super) limits: Limits,
    pub(super) in_flight: InFlight,
}

/// The box behind HTTP. Cheap to clone; clones share tokens and audit log.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
}

impl Service {
    /// Serves a server with a token table of its own and no audit log.
    #[must_use]
    pub fn new(server: ApiServer) -> Self {
        Self::with(server, Tokens::default(), None)
    }

    /// Serves a server with known tokens and, perhaps, an audit log.
    #[must_use]
    pub fn with(server: ApiServer, tokens: Tokens, audit: Option<Log>) -> Self {
        Self::limited(server, tokens, audit, Limits::default())
    }

    /// The same with bounds of its own.
    #[must_use]
    pub fn limited(server: ApiServer, tokens: Tokens, audit: Option<Log>, limits: Limits) -> Self {
        let flow = (server.clock().uuid(), server.clock().uuid());
        Self {
            shared: Arc::new(Shared {
                server,
                tokens,
                audit,
                flow,
                openapi: openapi::OpenApiCache::default(),
                limits,
                in_flight: InFlight::new(&limits),
            }),
        }
    }

    /// Its bounds.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// The server behind it.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.shared.server
    }

    /// The tokens it knows.
    #[must_use]
    pub fn tokens(&self) -> &Tokens {
        &self.shared.tokens
    }

    /// A token that stands for a user here. The same user has the same token.
    #[must_use]
    pub fn token_for(&self, user: &User) -> String {
        let token = format!("in-process-{}", user.name);
        self.shared.tokens.insert(&token, user.clone());
        token
    }

    /// The service as one user sees it: every request carries that user's token.
    pub fn authenticated(
        &self,
        user: &User,
    ) -> impl tower::Service<
        Request<kube::client::Body>,
        Response = Response<Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static {
        let bearer = format!("Bearer {}", self.token_for(user));
        let mut value = HeaderValue::try_from(bearer).unwrap_or(HeaderValue::from_static("Bearer"));
        value.set_sensitive(true);
        ServiceBuilder::new()
            .layer(MapRequestLayer::new(move |mut request: Request<kube::client::Body>| {
                request.headers_mut().insert(AUTHORIZATION, value.clone());
                request
            }))
            .service(self.clone())
    }

    /// A client that acts as a user and does not retry by itself.
    #[must_use]
    pub fn client_as(&self, user: &User) -> kube::Client {
        kube::Client::new(self.authenticated(user), "default")
    }

    /// A client that acts as a user and retries as clients of kube do by default.
    #[must_use]
    pub fn retrying_client_as(&self, user: &User) -> kube::Client {
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::server_retry()))
            .map_err(|never: Infallible| -> BoxError { match never {} })
            .service(self.authenticated(user));
        kube::Client::new(service, "default")
    }

    /// A client that may do anything.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_as(&admin())
    }
}

/// A client of a server that may do anything.
///
/// Clients of several identities come from one [`Service`], which knows all their tokens.
#[must_use]
pub fn client(server: &ApiServer) -> kube::Client {
    Service::new(server.clone()).client()
}

/// A user who may do anything.
#[must_use]
pub fn admin() -> User {
    User {
        name: "admin".into(),
        uid: "admin".into(),
        groups: vec![MASTERS.into()],
        ..User::default()
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = self.shared.clone();
        Box::pin(async move { Ok(filters::run(&shared, request).await) })
    }
}
