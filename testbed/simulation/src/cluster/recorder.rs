//! Writes every request of a client, its answer and the events of its watches to the trace.
//!
//! It stands outside the faults, so the trace shows what the client saw, and inside the retries,
//! so it shows every attempt. Bodies appear as digests: a different byte is a different line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use aplomb_apiserver::call::Verb;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body as RequestBody;
use serde::Deserialize;
use tower::{BoxError, Layer, Service};

use super::crash_gate::ProcessLife;
use crate::faults::{Body, Target, body_lines};
use crate::trace::Trace;

/// How many requests and effects there have been in a world.
pub(super) type Activity = Arc<AtomicU64>;

#[derive(Clone, Debug)]
pub(super) struct Recorder {
    pub(super) identity: Arc<str>,
    pub(super) trace: Trace,
    pub(super) numbers: Arc<AtomicU64>,
    pub(super) activity: Activity,
    /// The life of the component that sends, if it is one.
    pub(super) life: Option<ProcessLife>,
}

impl<S> Layer<S> for Recorder {
    type Service = Recorded<S>;

    fn layer(&self, inner: S) -> Recorded<S> {
        Recorded {
            recorder: self.clone(),
            inner,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Recorded<S> {
    recorder: Recorder,
    inner: S,
}

impl<S> Service<Request<RequestBody>> for Recorded<S>
where
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let recorder = self.recorder.clone();
        Box::pin(async move {
            let target = Target::of(&request);
            if let Some(life) = &recorder.life {
                life.ensure_alive().await;
            }
            let (number, request) = recorder.sent(request).await?;
            let answer = inner.call(request);
            let result = match &recorder.life {
                Some(life) if target.is_write() => life.effect(&target.to_string(), answer).await,
                _ => answer.await,
            };
            if let Some(life) = &recorder.life {
                life.ensure_alive().await;
            }
            recorder.answered(number, &target, result).await
        })
    }
}

impl Recorder {
    async fn sent(&self, request: Request<RequestBody>) -> Result<(u64, Request<RequestBody>), BoxError> {
        self.activity.fetch_add(1, Ordering::Relaxed);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let (method, uri) = (&head.method, &head.uri);
        let digest = digest(&body);
        self.line(format_args!("request {number} {method} {uri} {digest}"));
        Ok((number, Request::from_parts(head, RequestBody::from(body))))
    }

    async fn answered(
        &self,
        number: u64,
        target: &Target,
        result: Result<Response<Body>, BoxError>,
    ) -> Result<Response<Body>, BoxError> {
        let response = result.inspect_err(|error| {
            self.line(format_args!("answer {number} error {error}"));
        })?;
        let code = response.status().as_u16();
        let (head, body) = response.into_parts();
        if target.verb == Verb::Watch && code == 200 {
            self.line(format_args!("answer {number} {code} watch"));
            return Ok(Response::from_parts(head, self.watch(number, body)));
        }
        let bytes = body.collect().await?.to_bytes();
        let digest = digest(&bytes);
        self.line(format_args!("answer {number} {code} {digest}"));
        let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
        Ok(Response::from_parts(head, body))
    }

    fn watch(&self, number: u64, body: Body) -> Body {
        let recorder = self.clone();
        let end = self.clone();
        let events = body_lines(body)
            .then(move |line| {
                let recorder = recorder.clone();
                async move {
                    if let Some(life) = &recorder.life {
                        life.ensure_alive().await;
                    }
                    recorder.event(number, &line);
                    line
                }
            })
            .chain(futures::stream::poll_fn(move |_| {
                end.line(format_args!("end {number}"));
                Poll::Ready(None)
            }));
        StreamBody::new(events.map_ok(Frame::data)).boxed_unsync()
    }

    fn event(&self, number: u64, line: &Result<Bytes, BoxError>) {
        match line {
            Ok(line) => match serde_json::from_slice::<Event<'_>>(line) {
                Ok(Event {
                    kind,
                    object: Object { metadata },
                }) => {
                    let Metadata {
                        namespace,
                        name,
                        resource_version,
                    } = metadata;
                    let digest = digest(line);
                    self.line(format_args!(
                        "event {number} {kind} {namespace}/{name}@{resource_version} {digest}"
                    ));
                }
                Err(_) => self.line(format_args!("event {number} partial {}", digest(line))),
            },
            Err(error) => self.line(format_args!("event {number} error {error}")),
        }
    }

    fn line(&self, what: std::fmt::Arguments<'_>) {
        self.trace.record(&self.identity, what);
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(default)]
    object: Object,
}

#[derive(Default, Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
}

/// FNV-1a: short, the same everywhere, and any changed byte shows.
fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
