//! The local services behind tunnels: hyper servers on a thread of their own. The path of a request
//! selects the response. (The WebSocket server is interop/python/websocket_echo.py.)

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

type Body = BoxBody<Bytes, Infallible>;

/// A service; it ends with the test.
pub(crate) struct Origin {
    pub(crate) port: u16,
    held: Arc<Held>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

/// Responses wait here until the test releases them, however slow the machine is.
struct Held {
    waiting: AtomicUsize,
    gate: Semaphore,
}

impl Held {
    async fn wait(&self) {
        let _waits = Waits::new(&self.waiting);
        if let Ok(passed) = self.gate.acquire().await {
            passed.forget();
        }
    }
}

/// Counts a waiting response; dropped when its client disconnects.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Origin {
    /// Serves plain HTTP on a free port. `name` is in each response.
    pub(crate) fn start(name: &'static str) -> Result<Self> {
        Self::serve("127.0.0.1:0".parse()?, name, None)
    }

    /// The same on a given port, to restart a stopped service.
    pub(crate) fn restart(port: u16, name: &'static str) -> Result<Self> {
        Self::serve(SocketAddr::from(([127, 0, 0, 1], port)), name, None)
    }

    /// Serves https.
    pub(crate) fn start_tls(name: &'static str, config: Arc<ServerConfig>) -> Result<Self> {
        Self::serve("127.0.0.1:0".parse()?, name, Some(config.into()))
    }

    fn serve(at: SocketAddr, name: &'static str, tls: Option<TlsAcceptor>) -> Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let held = Arc::new(Held {
            waiting: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        });
        let service = Service {
            name,
            held: Arc::clone(&held),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! { biased;
                    _ = stopped => {}
                    _ = accept(listener, &service, tls) => {}
                }
            });
        });
        Ok(Self {
            port,
            held,
            stop: Some(stop),
        })
    }

    /// How many responses wait for their release.
    pub(crate) fn waiting_requests(&self) -> usize {
        self.held.waiting.load(Ordering::SeqCst)
    }

    /// Releases this many of them.
    pub(crate) fn release(&self, count: usize) {
        self.held.gate.add_permits(count);
    }

    /// Stops, and closes every connection.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _gone = stop.send(());
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The service of every connection.
#[derive(Clone)]
struct Service {
    name: &'static str,
    held: Arc<Held>,
}

async fn accept(listener: TcpListener, service: &Service, tls: Option<TlsAcceptor>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        while connections.try_join_next().is_some() {}
        let (tls, service) = (tls.clone(), service.clone());
        connections.spawn(async move {
            match tls {
                None => serve_connection(socket, service).await,
                Some(tls) => {
                    if let Ok(socket) = tls.accept(socket).await {
                        serve_connection(socket, service).await;
                    }
                }
            }
        });
    }
}

async fn serve_connection<S>(socket: S, service: Service)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(handle(request, &service).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    // A client may disconnect at any time.
    let _ended = builder
        .serve_connection_with_upgrades(TokioIo::new(socket), service)
        .await;
}

async fn handle(request: Request<Incoming>, service: &Service) -> Response<Body> {
    let (name, held) = (service.name, &service.held);
    let path = request.uri().path().to_owned();
    let mut parts = path.trim_start_matches('/').split('/');
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
    match (parts.next().unwrap_or_default(), number(parts.next())) {
        ("headers", _) => headers_response(&request, name),
        ("status", Some(code)) => {
            let mut response = text_response(format!("{name} says {code}"));
            let code = u16::try_from(code).unwrap_or(500);
            *response.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
            response
        }
        ("bytes", Some(count)) => stream_response(zero_stream(count), "application/octet-stream"),
        ("upload", _) => count_body(request).await,
        ("events", Some(count)) => stream_response(event_stream(count, held), "text/event-stream"),
        ("held", None) => {
            held.wait().await;
            text_response(format!("{name} at last"))
        }
        ("held", Some(count)) => {
            let half = zero_stream(count / 2);
            let all = half.chain(held_stream(held)).chain(zero_stream(count / 2 - 1));
            stream_response(all, "application/octet-stream")
        }
        ("trailers", _) => trailers_response(),
        _ => text_response(format!("{name}\n")),
    }
}

fn text_response(text: String) -> Response<Body> {
    Response::new(Full::new(Bytes::from(text)).boxed())
}

/// Each header of the request on a line, and the requested path.
fn headers_response(request: &Request<Incoming>, name: &str) -> Response<Body> {
    let mut lines = format!("{name}\n{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        lines.push_str(&format!("{name}: {}\n", value.to_str().unwrap_or("?")));
    }
    text_response(lines)
}

fn stream_response(stream: impl Stream<Item = Bytes> + Send + Sync + 'static, kind: &'static str) -> Response<Body> {
    let frames = stream.map(|bytes| Ok(Frame::data(bytes)));
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(frames)));
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn zero_stream(count: u64) -> impl Stream<Item = Bytes> + Send + Sync {
    static CHUNK: [u8; 64 * 1024] = [0; 64 * 1024];
    stream::unfold(count, |left| async move {
        let now = usize::try_from(left).unwrap_or(CHUNK.len()).min(CHUNK.len());
        let chunk = Bytes::from_static(&CHUNK[..now]);
        (now > 0).then(|| (chunk, left - now as u64))
    })
}

/// One byte that waits for its release.
fn held_stream(held: &Arc<Held>) -> impl Stream<Item = Bytes> + Send + Sync + use<> {
    let held = Arc::clone(held);
    stream::once(async move {
        held.wait().await;
        Bytes::from_static(&[0])
    })
}

/// Events; each but the first waits for its release.
fn event_stream(count: u64, held: &Arc<Held>) -> impl Stream<Item = Bytes> + Send + Sync + use<> {
    let held = Arc::clone(held);
    stream::unfold(0, move |at| {
        let held = Arc::clone(&held);
        async move {
            if at > 0 && at < count {
                held.wait().await;
            }
            (at < count).then(|| (Bytes::from(format!("data: {at}\n\n")), at + 1))
        }
    })
}

async fn count_body(request: Request<Incoming>) -> Response<Body> {
    let mut body = request.into_body();
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => total += frame.data_ref().map_or(0, Bytes::len),
            Err(error) => return text_response(format!("broke off after {total}: {error}\n")),
        }
    }
    text_response(format!("{total} bytes\n"))
}

fn trailers_response() -> Response<Body> {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-checksum", header::HeaderValue::from_static("of-the-body"));
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"body\n"))),
        Ok(Frame::trailers(trailers)),
    ];
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(stream::iter(frames))));
    let announced = header::HeaderValue::from_static("x-checksum");
    response.headers_mut().insert(header::TRAILER, announced);
    response
}
