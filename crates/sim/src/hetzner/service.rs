//! The simulator as a `tower::Service`, for clients in the same process and behind hyper.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use tower::BoxError;

use super::exchange::Outcome;
use super::{Hetzner, control};

/// Who is at the other end of a connection; requests in the same process have none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// A client's end of the simulator. Cheap to clone; clones reach the same one.
#[derive(Clone, Debug)]
pub struct Service {
    hetzner: Hetzner,
}

impl Service {
    pub(super) fn new(hetzner: Hetzner) -> Self {
        Self { hetzner }
    }

    fn outcome(&self, request: &Request<Bytes>) -> Outcome {
        let now = self.hetzner.now();
        let mut core = self.hetzner.at(now);
        if !is_control(request.uri().path()) {
            return core.exchange(now, request);
        }
        let peer = request.extensions().get::<Peer>();
        let answer = if peer.is_none_or(|peer| peer.0.ip().is_loopback()) {
            control::answer(&mut core, now, request)
        } else {
            control::forbidden()
        };
        Outcome::Answer(answer, std::time::Duration::ZERO)
    }
}

impl tower::Service<Request<Bytes>> for Service {
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

async fn wait(delay: std::time::Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

fn is_control(path: &str) -> bool {
    let rest = path.strip_prefix(control::ROOT);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
