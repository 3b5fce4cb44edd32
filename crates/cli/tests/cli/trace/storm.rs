//! Another writer that is always faster: it sits between an operator and the API server and writes the same object just
//! before the operator does. It sets the version from before on the operator's write, so that the server rejects it.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Its name as a field manager.
pub(crate) const RIVAL_MANAGER: &str = "other";

pub(crate) struct Storm {
    /// Serves for as long as it is kept.
    _served: JoinSet<()>,
    remaining: Arc<AtomicU32>,
}

impl Storm {
    /// Outruns the first `times` writes of the status of `object`; `kubeconfig` is written for the client that is outrun.
    pub(crate) async fn start(right: &Path, kubeconfig: &Path, object: &str, times: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        write_kubeconfig(right, kubeconfig, &format!("http://{address}"));
        let left = Arc::new(AtomicU32::new(times));
        let rival = Rival {
            client: client(right).await,
            object: object.to_owned(),
            left: left.clone(),
        };
        let mut served = JoinSet::new();
        served.spawn(serve(listener, Arc::new(rival)));
        Self {
            _served: served,
            remaining: left,
        }
    }

    /// How many writes it has yet to outrun.
    pub(crate) fn remaining(&self) -> u32 {
        self.remaining.load(Ordering::SeqCst)
    }
}

struct Rival {
    client: Client,
    object: String,
    left: Arc<AtomicU32>,
}

async fn serve(listener: TcpListener, rival: Arc<Rival>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let rival = rival.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let rival = rival.clone();
                async move { Ok::<_, Infallible>(rival.forward(request).await) }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            // A client may disconnect in the middle of a response.
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

impl Rival {
    async fn forward(&self, request: Request<Incoming>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let mut body = body.collect().await.expect("a body").to_bytes();
        let wanted = format!("{}/status", self.object);
        if head.method == http::Method::PATCH && head.uri.path() == wanted && self.take_conflict() {
            body = self.write_first(&body).await.into();
        }
        head.headers.remove(http::header::HOST);
        head.headers.remove(http::header::CONTENT_LENGTH);
        let request = Request::from_parts(head, Body::from(body.to_vec()));
        self.client.send(request).await.expect("the box responds")
    }

    fn take_conflict(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    /// Writes first, and ties the other's write to the version from before.
    async fn write_first(&self, body: &[u8]) -> Vec<u8> {
        let read = Request::get(&self.object).body(Vec::new()).expect("a request");
        let before: Value = self.client.request(read).await.expect("the object");
        let note = json!({ "metadata": { "annotations": { "example.com/turn": self.left.load(Ordering::SeqCst).to_string() } } });
        let path = format!("{}?fieldManager={RIVAL_MANAGER}", self.object);
        let write = Request::patch(path).header("content-type", "application/merge-patch+json");
        let write = write.body(note.to_string().into_bytes()).expect("a request");
        let written: Value = self.client.request(write).await.expect("it may write");
        assert_ne!(
            written["metadata"]["resourceVersion"],
            before["metadata"]["resourceVersion"]
        );
        let mut body: Value = serde_json::from_slice(body).expect("an apply is JSON");
        body["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        body.to_string().into_bytes()
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a context")).expect("a client")
}

fn write_kubeconfig(right: &Path, kubeconfig: &Path, server: &str) {
    let text = std::fs::read_to_string(right).expect("a kubeconfig");
    let mut value: Value = serde_saphyr::from_str(&text).expect("YAML");
    value["clusters"][0]["cluster"]["server"] = server.into();
    std::fs::write(kubeconfig, value.to_string()).expect("a file");
}
