//! A stand-in as a `tower::Service`, for clients in the same process and behind hyper.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use tower::BoxError;

use super::{FakeService, SharedService, control};

/// Who is at the other end of a connection; requests in the same process have none.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// What becomes of a request.
#[derive(Debug)]
pub enum Outcome {
    /// An answer, after a while.
    Answer(Response<Bytes>, Duration),
    /// The connection goes, after a while.
    Reset(Duration),
    /// Nothing, ever.
    Silence,
}

/// A client's end of a stand-in. Cheap to clone; clones reach the same one.
#[derive(Debug)]
pub struct Service<C> {
    held: SharedService<C>,
}

impl<C> Clone for Service<C> {
    fn clone(&self) -> Self {
        Self {
            held: self.held.clone(),
        }
    }
}

impl<C: FakeService> Service<C> {
    /// One more end.
    #[must_use]
    pub fn new(held: SharedService<C>) -> Self {
        Self { held }
    }

    fn outcome(&self, request: &Request<Bytes>) -> Outcome {
        let now = self.held.now();
        let mut core = self.held.at(now);
        if !control::is_control(request.uri().path()) {
            return core.exchange(now, request);
        }
        let peer = request.extensions().get::<Peer>();
        let answer = if peer.is_none_or(|peer| peer.0.ip().is_loopback()) {
            control::answer(&mut *core, now, request)
        } else {
            control::forbidden()
        };
        Outcome::Answer(answer, Duration::ZERO)
    }
}

impl<C: FakeService> tower::Service<Request<Bytes>> for Service<C> {
    type Response = Response<Bytes>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Bytes>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    /// The request arrives when the future is first polled: one that is dropped was never sent.
    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let service = self.clone();
        async move {
            match service.outcome(&request) {
                Outcome::Answer(response, delay) => {
                    wait(delay).await;
                    Ok(response)
                }
                Outcome::Reset(delay) => {
                    wait(delay).await;
                    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    Err(BoxError::from(reset))
                }
                Outcome::Silence => {
                    let never: Infallible = std::future::pending().await;
                    match never {}
                }
            }
        }
        .boxed()
    }
}

async fn wait(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}
