//! A stand-in behind a socket, HTTP/1.1 and HTTP/2 without TLS.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service as _};

use super::{FakeService, Peer, Service};

/// A whole state may be put at once.
const MOST_BODY: usize = 64 << 20;
/// How long open requests get to finish; one that hangs by order never does.
const GRACE: Duration = Duration::from_secs(1);

/// A listener that is serving. Dropping it stops it.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl RunningServer {
    /// `http://` and the address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops listening, lets open requests finish for a moment and returns when all is closed.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "Listener ended badly");
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Serves on an address; port 0 picks one.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve<C: FakeService>(service: Service<C>, address: SocketAddr) -> std::io::Result<RunningServer> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let task = tokio::spawn(accept(listener, service, stop.clone()));
    Ok(RunningServer {
        address,
        stop,
        task: Some(task),
    })
}

async fn accept<C: FakeService>(listener: TcpListener, service: Service<C>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(talk(stream, peer, service.clone(), stop.clone()));
                }
                // Out of descriptors, most likely: those that are open will be closed.
                Err(error) => {
                    tracing::warn!(%error, "Connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, drained).await.is_err() {
        tracing::debug!("Open requests were cut off");
    }
}

async fn talk<C: FakeService>(stream: TcpStream, peer: SocketAddr, service: Service<C>, stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "Socket option was refused");
    }
    let handler = hyper::service::service_fn(move |request: Request<Incoming>| answer(service.clone(), peer, request));
    let builder = Builder::new(TokioExecutor::new());
    let serving = builder.serve_connection(TokioIo::new(stream), handler);
    tokio::pin!(serving);
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    // Also the way of a connection that was reset by order.
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "Connection ended badly");
    }
}

async fn answer<C: FakeService>(
    mut service: Service<C>,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, MOST_BODY).collect().await?.to_bytes();
    let mut request = Request::from_parts(parts, body);
    request.extensions_mut().insert(Peer(peer));
    Ok(service.call(request).await?.map(Full::new))
}
