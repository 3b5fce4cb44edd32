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

use super::body::ResponseBody;
use super::core::ProxyShared;
use super::handle::{ClientInfo, handle};
use super::socket::PrefixedStream;
use crate::limits::client;

/// Flow control window for one request body, and for all bodies of a connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// hyper's default limit of headers.
const HYPERS_HEADERS: usize = 100;
/// Interval of pings on an idle HTTP/2 connection.
const PING: Duration = Duration::from_secs(30);
/// Size of the kernel's accept queue.
const BACKLOG: usize = 1024;
/// How long a new client has for its first byte once the server is closing.
const LATE: Duration = Duration::from_secs(1);
/// Pause after running out of file descriptors, until open connections close.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until the server closes, including those already in the kernel's queue.
pub(super) async fn accept(
    core: Arc<ProxyShared>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => admit(&core, stream, address, tls.clone()),
            Err(error) => {
                tracing::warn!(%error, "Failed to accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    for _ in 0..BACKLOG {
        let Some(Ok((stream, address))) = listener.accept().now_or_never() else {
            return;
        };
        admit(&core, stream, address, tls.clone());
    }
}

/// Serves a connection if the limits permit it.
fn admit(
    core: &Arc<ProxyShared>,
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
) {
    let kind = if tls.is_some() { "https" } else { "http" };
    let place = core.connections.take(());
    let place = place.zip(core.clients.take(client(address.ip())));
    let Some(place) = place else {
        return core.telemetry.refused(kind);
    };
    let open = core.telemetry.connected(kind);
    let shared = core.clone();
    core.crew.start(async move {
        let _held = (place, open);
        connection(shared, stream, address, tls).await;
    });
}

async fn connection(
    core: Arc<ProxyShared>,
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
) {
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
            () = closed(&core) => return,
        };
        if let Ok(Ok(http2)) = begin {
            talk(core, socket, client(false), http2).await;
        }
        return;
    };
    let accepted = tokio::select! {
        biased;
        accepted = timeout(wait, tls.accept(socket)) => accepted,
        () = closed(&core) => return,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            talk(core, stream, client(true), http2).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, %address, "TLS handshake failed"),
        Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
    }
}

/// Resolves shortly after the server has begun to close, so that a client that has just connected can still
/// send its request.
async fn closed(core: &ProxyShared) {
    core.closing.cancelled().await;
    tokio::time::sleep(LATE).await;
}

/// Serves requests until the client closes or the server closes.
async fn talk<S>(core: Arc<ProxyShared>, stream: S, client: ClientInfo, http2: bool)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let io = TokioIo::new(stream);
    let shared = core.clone();
    let service = service_fn(move |request| respond(shared.clone(), request, client));
    let ended = if http2 {
        let mut talk = std::pin::pin!(second(&core).serve_connection(io, service));
        tokio::select! {
            biased;
            ended = &mut talk => ended,
            () = core.closing.cancelled() => {
                talk.as_mut().graceful_shutdown();
                talk.await
            }
        }
    } else {
        let talk = first(&core).serve_connection(io, service).with_upgrades();
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

fn first(core: &ProxyShared) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(core.limits.header_timeout)
        .max_header_size(core.limits.header_bytes);
    // Setting the limit, even to hyper's default, costs an allocation per request.
    if core.limits.headers != HYPERS_HEADERS {
        builder.max_headers(core.limits.headers);
    }
    builder
}

fn second(core: &ProxyShared) -> http2::Builder<super::crew::ConnectionTasks> {
    let mut builder = http2::Builder::new(core.crew.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(core.limits.streams_per_connection)
        .max_header_list_size(u32::try_from(core.limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING)
        .enable_connect_protocol();
    builder
}
