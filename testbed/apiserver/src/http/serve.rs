//! The service behind sockets: HTTP/1.1 and HTTP/2, plain or TLS.
//!
//! A connection that misbehaves ends alone; nothing a peer sends stops the listener.

use std::net::SocketAddr;
use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderValue};
use http::{Method, Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::filters::Peer;
use super::malformed_request::Refusing;
use super::response::{Body, Reply};
use super::service::Service;
use super::tls::Identity;

/// Headers together may be this long.
const MAX_HEADERS: usize = 1 << 20;
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests get to finish on a graceful stop.
const GRACE: Duration = Duration::from_secs(2);
const MAX_STREAMS: u32 = 250;
/// What a peer of a TLS listener starts with when it speaks plain HTTP.
const PLAIN_STARTS: [&[u8; 5]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];
const MAX_REFUSED: u64 = 64 * 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(500);

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
pub async fn serve(service: Service, address: SocketAddr, tls: Option<Identity>) -> std::io::Result<Handle> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    if let Some(identity) = &tls {
        service.server().set_authority(&identity.ca_pem);
    }
    let acceptor = tls.map(|identity| TlsAcceptor::from(identity.config));
    let task = tokio::spawn(accept(listener, service, acceptor, stop.clone()));
    Ok(Handle {
        address,
        stop,
        task: Some(task),
    })
}

async fn accept(listener: TcpListener, service: Service, tls: Option<TlsAcceptor>, stop: CancellationToken) {
    let mut connections = tokio::task::JoinSet::new();
    let most = service.limits().connections;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) if connections.len() >= most => {
                    drop(stream);
                    tracing::debug!(%peer, "Connection was refused: there are as many as may be");
                }
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
        return talk(stream, peer, service, stop, Protocol::Either).await;
    };
    if looks_like_http(&stream).await {
        return refuse_plain(stream).await;
    }
    match tokio::time::timeout(TLS_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let protocol = if h2 { Protocol::Http2 } else { Protocol::Http1 };
            talk(stream, peer, service, stop, protocol).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, %peer, "TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
    }
}

/// Whether a peer of a TLS listener speaks HTTP to it.
async fn looks_like_http(stream: &TcpStream) -> bool {
    let mut first = [0; 5];
    let peeked = tokio::time::timeout(TLS_TIMEOUT, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(_))) && PLAIN_STARTS.contains(&&first)
}

async fn refuse_plain(mut stream: TcpStream) {
    let answer = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let said = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        // Unread bytes would turn the close into a reset, and the answer would be lost.
        let mut rest = stream.take(MAX_REFUSED);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    if let Ok(Err(error)) = tokio::time::timeout(REFUSAL_TIMEOUT, said).await {
        tracing::debug!(%error, "Peer left before its answer");
    }
}

/// Which protocols a connection may speak; TLS peers have chosen one in the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Either,
    Http1,
    Http2,
}

async fn talk<S>(stream: S, peer: SocketAddr, service: Service, stop: CancellationToken, protocol: Protocol)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handler = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let mut service = service.clone();
        async move {
            match refused(&request) {
                Some(refusal) => Ok(refusal),
                None => service.call(request).await,
            }
        }
    });
    let serving = builder(protocol);
    let serving = serving.serve_connection(TokioIo::new(Refusing::new(stream)), handler);
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

fn builder(protocol: Protocol) -> Builder<TokioExecutor> {
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
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEADERS).unwrap_or(u32::MAX));
    match protocol {
        Protocol::Either => builder,
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_only(),
    }
}

/// What Go's HTTP library answers before any handler sees the request.
fn refused(request: &Request<Incoming>) -> Option<Response<Body>> {
    if request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return Some(Response::new(
            Empty::new().map_err(|never| match never {}).boxed_unsync(),
        ));
    }
    let hosts = request.headers().get_all(HOST).iter().count();
    let reason = match hosts {
        0 if request.version() == Version::HTTP_11 && request.uri().authority().is_none() => {
            "Bad Request: missing required Host header"
        }
        0 | 1 => return None,
        _ => "Bad Request",
    };
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut response = Reply::bytes(400, text, format!("400 {reason}"))
        .with(CONNECTION, HeaderValue::from_static("close"))
        .into_response();
    response
        .extensions_mut()
        .insert(ReasonPhrase::from_static(reason.as_bytes()));
    Some(response)
}
