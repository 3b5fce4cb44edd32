//! The listeners: from sockets to requests. A connection that misbehaves is closed alone; no client input
//! stops a listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::handle::{ClientInfo, handle};
use super::response_body::ResponseBody;
use super::shared::ProxyShared;
use super::streams::PrefixedStream;
use crate::limits::client_address;

/// Flow control window for one request body, and for all bodies of a connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// hyper's default limit of headers.
const HYPER_MAX_HEADERS: usize = 100;
/// Interval of pings on an idle HTTP/2 connection.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Size of the kernel's accept queue.
const BACKLOG: usize = 1024;
/// How long a new client has for its first byte once the server is closing.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Pause after running out of file descriptors, until open connections close.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Accepts connections until the server closes, including those already in the kernel's queue.
pub(super) async fn accept(core: Arc<ProxyShared>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => start_connection(&core, stream, address, tls.clone()),
            Err(error) => {
                tracing::warn!(%error, "Failed to accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    for _ in 0..BACKLOG {
        let Some(Ok((stream, address))) = listener.accept().now_or_never() else {
            return;
        };
        start_connection(&core, stream, address, tls.clone());
    }
}

fn start_connection(core: &Arc<ProxyShared>, stream: TcpStream, address: SocketAddr, tls: Option<TlsAcceptor>) {
    let kind = if tls.is_some() { "https" } else { "http" };
    let place = core.connection_limit.try_acquire(());
    let place = place.zip(core.client_limit.try_acquire(client_address(address.ip())));
    let Some(place) = place else {
        return core.telemetry.record_refused(kind);
    };
    let open = core.telemetry.open_connection(kind);
    let shared = core.clone();
    core.connection_tasks.spawn(async move {
        let _held = (place, open);
        serve_connection(shared, stream, address, tls).await;
    });
}

async fn serve_connection(core: Arc<ProxyShared>, stream: TcpStream, address: SocketAddr, tls: Option<TlsAcceptor>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "Failed to set a socket option");
    }
    let mut socket = PrefixedStream::new(stream, core.limits.body_idle);
    let wait = core.limits.header_timeout;
    let client = |tls| ClientInfo { address, tls };
    let Some(tls) = tls else {
        let begin = tokio::select! {
            biased;
            begin = timeout(wait, socket.speaks_http2()) => begin,
            () = wait_closing(&core) => return,
        };
        if let Ok(Ok(http2)) = begin {
            serve_requests(core, socket, client(false), http2).await;
        }
        return;
    };
    let accepted = tokio::select! {
        biased;
        accepted = timeout(wait, tls.accept(socket)) => accepted,
        () = wait_closing(&core) => return,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            serve_requests(core, stream, client(true), http2).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, %address, "TLS handshake failed"),
        Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
    }
}

/// Resolves shortly after the server has begun to close, so that a client that has just connected can still
/// send its request.
async fn wait_closing(core: &ProxyShared) {
    core.closing.cancelled().await;
    tokio::time::sleep(CLOSE_GRACE).await;
}

/// Serves requests until the client closes or the server closes.
async fn serve_requests<S>(core: Arc<ProxyShared>, stream: S, client: ClientInfo, http2: bool)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let io = TokioIo::new(stream);
    let shared = core.clone();
    let service = service_fn(move |request| respond(shared.clone(), request, client));
    let ended = if http2 {
        let mut talk = std::pin::pin!(http2_builder(&core).serve_connection(io, service));
        tokio::select! {
            biased;
            ended = &mut talk => ended,
            () = core.closing.cancelled() => {
                talk.as_mut().graceful_shutdown();
                talk.await
            }
        }
    } else {
        let talk = http1_builder(&core).serve_connection(io, service).with_upgrades();
        let mut talk = std::pin::pin!(talk);
        tokio::select! {
            biased;
            ended = &mut talk => ended,
            () = core.closing.cancelled() => {
                talk.as_mut().graceful_shutdown();
                talk.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, address = %client.address, "Connection failed");
    }
}

async fn respond(
    core: Arc<ProxyShared>,
    request: Request<Incoming>,
    client: ClientInfo,
) -> Result<Response<ResponseBody>, Infallible> {
    let first = request.version() < Version::HTTP_2;
    let mut response = handle(&core, request, client).await;
    let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if first && !upgraded && core.draining.is_cancelled() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

fn http1_builder(core: &ProxyShared) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(core.limits.header_timeout)
        .max_header_size(core.limits.header_bytes);
    // Setting the limit, even to hyper's default, costs an allocation per request.
    if core.limits.headers != HYPER_MAX_HEADERS {
        builder.max_headers(core.limits.headers);
    }
    builder
}

fn http2_builder(core: &ProxyShared) -> http2::Builder<super::connection_tasks::ConnectionTasks> {
    let mut builder = http2::Builder::new(core.connection_tasks.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(core.limits.streams_per_connection)
        .max_header_list_size(u32::try_from(core.limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .enable_connect_protocol();
    builder
}
