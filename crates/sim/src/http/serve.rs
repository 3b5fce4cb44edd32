//! The service behind sockets: HTTP/1.1 and HTTP/2, plain or TLS.
//!
//! A connection that misbehaves ends alone; nothing a peer sends stops the listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::exchange::Peer;
use super::service::Service;
use super::tls::Identity;

/// Headers together may be this long.
const MAX_HEADERS: usize = 1 << 20;
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests get to finish on a graceful stop.
const GRACE: Duration = Duration::from_secs(2);
/// First byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// A listener that is serving. Dropping it stops it.
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Handle {
    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Serves on an address (port 0 picks one), over TLS when given an identity.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    service: Service,
    address: SocketAddr,
    tls: Option<Identity>,
) -> std::io::Result<Handle> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let acceptor = tls.map(|identity| TlsAcceptor::from(identity.config));
    let task = tokio::spawn(accept(listener, service, acceptor, stop.clone()));
    Ok(Handle {
        address,
        stop,
        task: Some(task),
    })
}

async fn accept(
    listener: TcpListener,
    service: Service,
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let (service, tls, stop) = (service.clone(), tls.clone(), stop.clone());
                    connections.spawn(connection(stream, peer, service, tls, stop));
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

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    service: Service,
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "Socket option was refused");
    }
    let Some(tls) = tls else {
        return talk(stream, peer, service, stop).await;
    };
    match is_tls(&stream).await {
        Some(true) => match tokio::time::timeout(TLS_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => talk(stream, peer, service, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, %peer, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        },
        Some(false) => refuse_plain(stream).await,
        None => {}
    }
}

async fn is_tls(stream: &TcpStream) -> Option<bool> {
    let mut first = [0];
    let peeked = tokio::time::timeout(TLS_TIMEOUT, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(1))).then_some(first[0] == TLS_HANDSHAKE)
}

async fn refuse_plain(mut stream: TcpStream) {
    let answer =
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    if let Err(error) = stream.write_all(answer).await {
        tracing::debug!(%error, "Peer left before its answer");
    }
}

async fn talk<S>(stream: S, peer: SocketAddr, service: Service, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handler = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let mut service = service.clone();
        async move {
            service
                .call(request)
                .await
                .map_err(|never: Infallible| never)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .title_case_headers(true)
        .max_buf_size(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(250)
        .max_header_list_size(u32::try_from(MAX_HEADERS).unwrap_or(u32::MAX));
    let serving = builder.serve_connection(TokioIo::new(stream), handler);
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "Connection ended badly");
    }
}
