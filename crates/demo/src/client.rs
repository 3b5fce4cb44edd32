//! What stories see from outside, as any client does: the response to one request, and the watch of one object, without
//! polling.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_BODY_SIZE: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

/// Sends `GET /` for `host` to `gateway`, on a connection of its own.
pub(crate) async fn get(gateway: SocketAddr, host: &str) -> Result<HttpAnswer> {
    let answer = timeout(REQUEST_TIMEOUT, send_request(gateway, host)).await;
    answer.context("no response in 2 s")?
}

async fn send_request(gateway: SocketAddr, host: &str) -> Result<HttpAnswer> {
    let stream = TcpStream::connect(gateway).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/").header(http::header::HOST, host);
    let request = request.body(Empty::<Bytes>::new())?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY_SIZE).collect().await;
        let body = body.map_err(|error| anyhow!("{error}"))?.to_bytes();
        ensure!(body.len() < MAX_BODY_SIZE, "the response is too long");
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(HttpAnswer { status, body })
    };
    tokio::select! { biased;
        answer = exchange => answer,
        ended = connection => Err(anyhow!("the connection closed: {ended:?}")),
    }
}

pub(crate) struct ObjectWatch<K> {
    name: String,
    /// The last version seen: it may already be as expected.
    last: Option<K>,
    events: BoxStream<'static, Result<Option<K>, watcher::Error>>,
}

impl<K> ObjectWatch<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    pub(crate) fn new(api: Api<K>, name: &str) -> Self {
        Self {
            name: format!("{}/{name}", K::kind(&()).to_lowercase()),
            last: None,
            events: watch_object(api, name).boxed(),
        }
    }

    /// The first version for which `fits` returns true.
    pub(crate) async fn wait_until(&mut self, limit: Duration, what: &str, fits: impl Fn(&K) -> bool) -> Result<K> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(object) = self.last.as_ref().filter(|it| fits(it)) {
                return Ok(object.clone());
            }
            let next = timeout_at(deadline, self.events.next()).await;
            let late = || format!("{} was not {what} within {limit:?}", self.name);
            match next.with_context(late)? {
                Some(Ok(object)) => self.last = object,
                // The watcher reconnects by itself.
                Some(Err(error)) => tracing::warn!(%error, "Demo watch failed; it will reconnect"),
                None => bail!("the watch of {} closed", self.name),
            }
        }
    }
}

pub(crate) fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == kind)
}

pub(crate) fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find_condition(conditions, kind).is_some_and(|it| it.status == "True")
}
