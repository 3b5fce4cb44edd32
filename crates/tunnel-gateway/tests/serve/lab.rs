//! A gateway with origins in the same process, connected by in-memory pipes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_api::tunnel::{RouteFilter, RouteMatch};
use aplomb_tunnel_gateway::origin::{DialError, OriginDialer, OriginStream};
use aplomb_tunnel_gateway::proxy::{ProxyServer, ProxySettings};
use aplomb_tunnel_gateway::routing::{
    AgentTarget, CompiledMatch, OriginAddress, OriginTarget, Protocols, RouteAction, RoutingTable, TableRoute,
    TunnelInfo, VirtualHost,
};
use aplomb_tunnel_gateway::telemetry::GatewayMetrics;
use aplomb_tunnel_protocol::{OriginState as Reach, Proof, ProofStatement};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// The body type of requests and responses in tests.
pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The request handler of an origin.
pub(crate) type Service = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// A complete body.
pub(crate) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An origin that responds with the result of `answer`.
pub(crate) fn service<F>(answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static) -> Service
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    Arc::new(move |request| answer(request).boxed())
}

/// An origin that returns the request line and the headers by name.
pub(crate) fn echo() -> Service {
    service(|request| async move {
        let mut lines = vec![format!("{} {}", request.method(), request.uri())];
        for (name, value) in request.headers() {
            lines.push(format!("{name}: {}", value.to_str().expect("text")));
        }
        lines.sort_by_key(|line| line.contains(": "));
        Response::new(full(lines.join("\n")))
    })
}

/// The behavior of an origin, by its authority.
#[derive(Clone)]
pub(crate) enum OriginBehavior {
    Service(Service),
    Error(DialError),
    /// The same, but a proof waits until its deadline.
    DelayedError(DialError),
    /// The test handles the other end.
    Pipe(Arc<dyn Fn(tokio::io::DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>),
}

/// Connects to origins of this process.
pub(crate) struct FakeDialer {
    tasks: Tasks,
    origins: Mutex<BTreeMap<String, OriginBehavior>>,
    serving: Mutex<Vec<TaskHandle<()>>>,
    pub(crate) dials: AtomicUsize,
}

impl FakeDialer {
    pub(crate) fn set_origin(&self, authority: &str, behind: OriginBehavior) {
        let mut origins = self.origins.lock().expect("whole");
        origins.insert(authority.to_owned(), behind);
    }

    fn origin_behavior(&self, origin: &OriginTarget) -> Result<OriginBehavior, DialError> {
        let origins = self.origins.lock().expect("whole");
        let behind = origins.get(&origin.authority).cloned();
        behind.ok_or_else(|| DialError::Unreachable("no such origin".to_owned()))
    }
}

impl OriginDialer for FakeDialer {
    fn dial<'a>(
        &'a self,
        origin: &'a OriginTarget,
        _: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn OriginStream>, DialError>> {
        self.dials.fetch_add(1, Ordering::SeqCst);
        let behind = self.origin_behavior(origin);
        let (near, far) = tokio::io::duplex(64 * 1024);
        let task = match behind {
            Err(error) | Ok(OriginBehavior::Error(error) | OriginBehavior::DelayedError(error)) => {
                return std::future::ready(Err(error)).boxed();
            }
            Ok(OriginBehavior::Pipe(with)) => self.tasks.spawn(with(far)),
            Ok(OriginBehavior::Service(service)) => self.tasks.spawn(async move {
                let service = service_fn(move |request| {
                    let answer = service(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(far), service)
                    .with_upgrades();
                // The gateway may close the connection.
                let _ = connection.await;
            }),
        };
        self.serving.lock().expect("whole").push(task);
        let stream: Box<dyn OriginStream> = Box::new(near);
        std::future::ready(Ok(stream)).boxed()
    }

    fn prove<'a>(
        &'a self,
        origin: &'a OriginTarget,
        statement: &'a ProofStatement,
        until: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>> {
        let proven = match self.origin_behavior(origin) {
            Ok(OriginBehavior::DelayedError(error)) => {
                return tokio::time::sleep_until(until).map(|()| Err(error)).boxed();
            }
            Err(error) | Ok(OriginBehavior::Error(error)) => Err(error),
            Ok(_) => Ok(Proof {
                statement: statement.clone(),
                gateway: "gateway".to_owned(),
                origin: Reach::Reachable,
                signature: "signed".to_owned(),
            }),
        };
        std::future::ready(proven).boxed()
    }
}

/// A rule: its match, its filters, and its action.
pub(crate) fn route(rule: usize, wanted: Value, filters: Value, action: RouteAction) -> TableRoute {
    let wanted: RouteMatch = serde_json::from_value(wanted).expect("a match");
    let filters: Vec<RouteFilter> = serde_json::from_value(filters).expect("filters");
    TableRoute {
        rule,
        protocols: Protocols::ALL,
        matches: CompiledMatch {
            wanted,
            path: None,
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
        },
        filters,
        action,
        timeout: None,
    }
}

/// Forwards to an origin behind a connector.
pub(crate) fn forward(authority: &str) -> RouteAction {
    let target = OriginAddress::Connector(Arc::new(AgentTarget {
        namespace: "default".to_owned(),
        name: "laptop".to_owned(),
        uid: "u1".to_owned(),
        id: "00".to_owned(),
        session: "s".to_owned(),
        relay: None,
        addresses: Vec::new(),
        released: false,
    }));
    RouteAction::Forward(Arc::new(OriginTarget {
        target,
        authority: authority.to_owned(),
        tls: None,
    }))
}

/// A tunnel with these routes. Its UID and its revision are derived from its name.
pub(crate) fn host(name: &str, mut routes: Vec<TableRoute>) -> Arc<VirtualHost> {
    aplomb_tunnel_gateway::routing::sort_routes(&mut routes);
    Arc::new(VirtualHost {
        protocols: Protocols::ALL,
        tunnel: Arc::new(TunnelInfo {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            generation: 3,
            revision: format!("rev-{name}"),
        }),
        routes,
    })
}

/// A tunnel that forwards everything under one hostname to one origin.
pub(crate) fn single_route(name: &str, authority: &str) -> (String, Arc<VirtualHost>) {
    let all = route(0, serde_json::json!({}), serde_json::json!([]), forward(authority));
    (format!("{name}.example.com"), host(name, vec![all]))
}

/// A gateway. `a.example.com` is forwarded to the origin `a:80`.
pub(crate) struct Lab {
    pub(crate) server: Arc<ProxyServer>,
    pub(crate) table: Arc<ArcSwap<RoutingTable>>,
    pub(crate) dialer: Arc<FakeDialer>,
    pub(crate) tasks: Tasks,
    listening: Mutex<Vec<TaskHandle<()>>>,
}

pub(crate) const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)), 4711);

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(ProxySettings::default())
    }

    pub(crate) fn with(settings: ProxySettings) -> Self {
        let tasks = settings.tasks.clone();
        let mut table = RoutingTable::default();
        table
            .hosts
            .extend([single_route("a", "a:80"), single_route("b", "b:80")]);
        let table = Arc::new(ArcSwap::from_pointee(table));
        let dialer = Arc::new(FakeDialer {
            tasks: tasks.clone(),
            origins: Mutex::default(),
            serving: Mutex::default(),
            dials: AtomicUsize::new(0),
        });
        dialer.set_origin("a:80", OriginBehavior::Service(echo()));
        dialer.set_origin("b:80", OriginBehavior::Service(echo()));
        let telemetry = GatewayMetrics::default();
        let server = ProxyServer::new(settings, table.clone(), dialer.clone(), telemetry);
        Self {
            server: Arc::new(server),
            table,
            dialer,
            tasks,
            listening: Mutex::default(),
        }
    }

    /// The origin of `a.example.com`.
    pub(crate) fn origin<F>(&self, answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let behind = OriginBehavior::Service(service(answer));
        self.dialer.set_origin("a:80", behind);
    }

    /// Serves other routes under `a.example.com`.
    pub(crate) fn routes(&self, routes: Vec<TableRoute>) {
        let mut table = RoutingTable::clone(&self.table.load());
        table.hosts.insert("a.example.com".to_owned(), host("a", routes));
        self.table.store(Arc::new(table));
    }

    /// A listener on loopback.
    pub(crate) async fn listen(&self, tls: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let task = match tls {
            true => self.tasks.spawn(self.server.serve_tls(listener)),
            false => self.tasks.spawn(self.server.serve_http(listener)),
        };
        self.listening.lock().expect("whole").push(task);
        address
    }

    /// Sends one request without a socket.
    pub(crate) async fn send(&self, request: Request<Body>) -> Response<aplomb_tunnel_gateway::proxy::ResponseBody> {
        self.server.handle(request, PEER, false).await
    }

    /// GET without a socket; returns the status and the text of the body.
    pub(crate) async fn get(&self, url: &str) -> (u16, String) {
        let request = Request::get(url).body(full("")).expect("a request");
        let response = self.send(request).await;
        let status = response.status().as_u16();
        (status, text(response.into_body()).await)
    }
}

/// The complete body.
pub(crate) async fn text<B>(body: B) -> String
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let whole = body.collect().await.expect("a whole body").to_bytes();
    String::from_utf8(whole.to_vec()).expect("text")
}

/// A client connection of HTTP/1.1 or HTTP/2 with prior knowledge.
pub(crate) enum Client {
    One(hyper::client::conn::http1::SendRequest<Body>),
    Two(hyper::client::conn::http2::SendRequest<Body>),
}

impl Client {
    pub(crate) async fn connect(tasks: &Tasks, address: SocketAddr, two: bool) -> (Self, TaskHandle<()>) {
        let stream = TcpStream::connect(address).await.expect("connected");
        Self::over(tasks, stream, two).await
    }

    pub(crate) async fn over(tasks: &Tasks, stream: impl OriginStream + 'static, two: bool) -> (Self, TaskHandle<()>) {
        let io = TokioIo::new(stream);
        if two {
            let executor = hyper_util::rt::TokioExecutor::new();
            let (sender, connection) = hyper::client::conn::http2::handshake(executor, io)
                .await
                .expect("HTTP/2");
            let task = tasks.spawn(async move { drop(connection.await) });
            return (Self::Two(sender), task);
        }
        let (sender, connection) = hyper::client::conn::http1::handshake(io).await.expect("HTTP/1.1");
        let task = tasks.spawn(async move { drop(connection.with_upgrades().await) });
        (Self::One(sender), task)
    }

    /// Sends a request to `http://a.example.com`, or to its own authority.
    pub(crate) async fn send(&mut self, mut request: Request<Body>) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::One(sender) => {
                let authority = request.uri().authority().expect("an authority");
                let host = authority.as_str().parse().expect("a header");
                request.headers_mut().insert("host", host);
                let path = request.uri().path_and_query().cloned();
                *request.uri_mut() = path.expect("a path").into();
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

/// Waits at most a minute, so that a test that hangs reports where.
pub(crate) async fn with_timeout<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within a minute"))
}
