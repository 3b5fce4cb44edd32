//! The layer that stands between one client and the server and makes faults happen.
//!
//! It is generic over the service, so the same layer wraps the box and a client of a real server.
//! Everything it does is written to the trace; what it does not touch passes unchanged.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::call::Verb;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::retry::RetryPolicy;
use serde_json::json;
use tokio::time::sleep;
use tower::retry::RetryLayer;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::answer::{self, Body};
use super::fault::{Fault, WatchFault};
use super::outage::{Condition, Outages};
use super::rule::Rule;
use super::sampler::Sampler;
use super::target::Target;
use super::{stale, stream};
use crate::trace::Trace;

/// The faults one client meets. Cheap to clone; clones share rules, counts and draws.
///
/// It is a [`Layer`]: put it around anything that answers requests.
#[derive(Clone, Debug)]
pub struct Faults {
    identity: Arc<str>,
    trace: Trace,
    outages: Outages,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug)]
struct Script {
    rules: Vec<Rule>,
    sampler: Option<Sampler>,
    rng: fastrand::Rng,
    rivals: u64,
}

impl Faults {
    /// No faults yet, for the client called `identity`. Times in rules count from the beginning
    /// of `trace`.
    #[must_use]
    pub fn new(identity: &str, trace: &Trace) -> Self {
        let rng = fastrand::Rng::with_seed(0);
        let script = Script {
            rules: Vec::new(),
            sampler: None,
            rng,
            rivals: 0,
        };
        Self {
            identity: identity.into(),
            trace: trace.clone(),
            outages: Outages::new(),
            script: Arc::new(Mutex::new(script)),
        }
    }

    /// Shares the restarts of the server with other clients.
    #[must_use]
    pub fn with_outages(mut self, outages: &Outages) -> Self {
        self.outages = outages.clone();
        self
    }

    /// Adds a scripted fault. The first rule that hits a request decides; delays add up.
    pub fn add(&self, rule: Rule) {
        self.script(|script| script.rules.push(rule));
    }

    /// Draws faults for requests no rule hits.
    pub fn sample(&self, sampler: Sampler) {
        self.script(|script| script.sampler = Some(sampler));
    }

    /// Forgets all rules and the sampler: from here on everything goes well. Watches that are
    /// open keep the fault they have.
    pub fn clear(&self) {
        self.script(|script| {
            script.rules.clear();
            script.sampler = None;
        });
    }

    /// A client that meets these faults on its way to the server `client` talks to: the box or a
    /// real one. It retries what kube's clients retry, the injected refusals too.
    #[must_use]
    pub fn client(&self, client: &kube::Client) -> kube::Client {
        let stack = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::server_retry()))
            .layer(self.clone())
            .service(service_fn(sender(client)));
        kube::Client::new(stack, client.default_namespace())
    }

    /// The same without the retries that kube adds.
    #[must_use]
    pub fn plain_client(&self, client: &kube::Client) -> kube::Client {
        let stack = ServiceBuilder::new()
            .layer(self.clone())
            .service(service_fn(sender(client)));
        kube::Client::new(stack, client.default_namespace())
    }

    /// The restarts of the server behind.
    #[must_use]
    pub fn outages(&self) -> &Outages {
        &self.outages
    }

    fn script<T>(&self, act: impl FnOnce(&mut Script) -> T) -> T {
        act(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a request meets: how long it takes, and at most one fault.
    fn plan(&self, target: &Target) -> (Duration, Option<Fault>) {
        let now = self.trace.elapsed();
        self.script(|script| {
            let Script {
                rules, sampler, rng, ..
            } = script;
            let mut delay = Duration::ZERO;
            let mut decided = None;
            for rule in rules {
                match rule.hit(target, now) {
                    Some(Fault::Latency(latency)) => delay += latency.draw(rng),
                    Some(fault) if decided.is_none() => decided = Some(fault.clone()),
                    _ => {}
                }
            }
            if let Some(sampler) = sampler {
                let (drawn_delay, drawn) = sampler.draw(target);
                return (delay + drawn_delay, decided.or(drawn));
            }
            (delay, decided)
        })
    }

    fn record(&self, what: &str, target: &Target) {
        self.trace.record(&self.identity, format_args!("fault {what} {target}"));
    }
}

impl<S> Layer<S> for Faults {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FaultService {
            faults: self.clone(),
            inner,
        }
    }
}

/// A service with [`Faults`] in front of it.
#[derive(Clone, Debug)]
pub struct FaultService<S> {
    faults: Faults,
    inner: S,
}

impl<S, B> Service<Request<kube::client::Body>> for FaultService<S>
where
    S: Service<Request<kube::client::Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Readiness of the inner service is awaited inside the future, for each request it sends.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let faults = self.faults.clone();
        let upstream = Inner(self.inner.clone());
        Box::pin(async move { faults.handle(&upstream, request).await })
    }
}

/// The service behind the layer, as the parts that carry out faults see it.
pub(super) trait Upstream: Sync {
    /// Sends a request on.
    fn send(
        &self,
        request: Request<kube::client::Body>,
    ) -> impl Future<Output = Result<Response<Body>, BoxError>> + Send;
}

struct Inner<S>(S);

impl<S, B> Upstream for Inner<S>
where
    S: Service<Request<kube::client::Body>, Response = Response<B>> + Clone + Send + Sync,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    async fn send(&self, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError> {
        let response = self.0.clone().oneshot(request).await.map_err(Into::into)?;
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }
}

impl Faults {
    async fn handle(
        &self,
        upstream: &impl Upstream,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, BoxError> {
        let target = Target::of(&request);
        let (delay, fault) = self.plan(&target);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        match self.outages.condition() {
            Condition::Down => {
                self.record("refused", &target);
                return Err(stream::refused());
            }
            Condition::Initializing if matches!(target.verb, Verb::List | Verb::Watch) => {
                self.record("initializing", &target);
                return Ok(answer::error(&answer::initializing(1)));
            }
            _ => {}
        }
        let response = match fault {
            None => upstream.send(request).await?,
            Some(fault) => {
                self.record(&fault.to_string(), &target);
                self.carry_out(fault, upstream, request, &target).await?
            }
        };
        if target.verb != Verb::Watch {
            return Ok(response);
        }
        let cut = |body| stream::body(stream::cut_on_restart(stream::pieces(body), &self.outages));
        Ok(response.map(cut))
    }

    async fn carry_out(
        &self,
        fault: Fault,
        upstream: &impl Upstream,
        request: Request<kube::client::Body>,
        target: &Target,
    ) -> Result<Response<Body>, BoxError> {
        let refuse = |error: ApiError| Ok(answer::error(&error));
        match fault {
            Fault::Latency(_) => upstream.send(request).await,
            Fault::Conflict => refuse(answer::conflict(target)),
            Fault::TooManyRequestsText { retry_after } => refuse(answer::too_many_text(retry_after)),
            Fault::TooManyRequests { retry_after } => refuse(answer::initializing(retry_after)),
            Fault::InternalError => refuse(answer::internal()),
            Fault::ServiceUnavailable => refuse(answer::unavailable()),
            Fault::Unauthorized => refuse(answer::unauthorized()),
            Fault::Gone => refuse(answer::gone()),
            Fault::Timeout { committed } => {
                swallow(committed, upstream, request).await;
                Ok(answer::timeout())
            }
            Fault::Reset { committed } => {
                swallow(committed, upstream, request).await;
                Err(stream::reset())
            }
            Fault::Truncated { keep } => truncated(upstream.send(request).await?, keep).await,
            Fault::Rival => self.after_rival(upstream, request, target).await,
            Fault::Watch(WatchFault::Expired) => Ok(answer::expired_watch()),
            Fault::Watch(fault) => Ok(disturbed(upstream.send(request).await?, &fault)),
            Fault::Stale(stale) => {
                let catch_up = stale.until.map(|until| self.trace.instant(until));
                let (head, _) = request.into_parts();
                stale::serve(upstream, head, target, &stale, catch_up).await
            }
        }
    }

    /// Touches the object first, so that its version is no longer the one the client knows.
    async fn after_rival(
        &self,
        upstream: &impl Upstream,
        request: Request<kube::client::Body>,
        target: &Target,
    ) -> Result<Response<Body>, BoxError> {
        let touch = self.touch(&request, target);
        let code = upstream
            .send(touch)
            .await
            .map_or(0, |response| response.status().as_u16());
        self.record(&format!("rival-wrote({code})"), target);
        upstream.send(request).await
    }

    /// The rival's write to the object that `request` is about.
    fn touch(&self, request: &Request<kube::client::Body>, target: &Target) -> Request<kube::client::Body> {
        let turn = self.script(|script| {
            script.rivals += 1;
            script.rivals
        });
        let path = request.uri().path();
        let path = match &target.subresource {
            Some(subresource) => path.trim_end_matches(subresource.as_str()).trim_end_matches('/'),
            None => path,
        };
        let annotations = json!({ "rival.example.com/turn": turn.to_string() });
        let touch = json!({ "metadata": { "annotations": annotations } });
        let mut write = Request::new(kube::client::Body::from(touch.to_string().into_bytes()));
        *write.method_mut() = Method::PATCH;
        let mut uri = request.uri().clone().into_parts();
        uri.path_and_query = format!("{path}?fieldManager=rival").parse().ok();
        *write.uri_mut() = uri.try_into().unwrap_or_default();
        let merge_patch = HeaderValue::from_static("application/merge-patch+json");
        write.headers_mut().insert(CONTENT_TYPE, merge_patch);
        if let Some(token) = request.headers().get(AUTHORIZATION) {
            write.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        *write.extensions_mut() = request.extensions().clone();
        write
    }
}

/// Lets the server carry the request out, and loses its answer.
async fn swallow(committed: bool, upstream: &impl Upstream, request: Request<kube::client::Body>) {
    if committed && let Ok(response) = upstream.send(request).await {
        drop(response.into_body().into_data_stream());
    }
}

fn disturbed(response: Response<Body>, fault: &WatchFault) -> Response<Body> {
    let disturb = |body| stream::disturb(stream::lines(stream::pieces(body)), fault);
    response.map(|body| stream::body(disturb(body)))
}

async fn truncated(response: Response<Body>, keep: usize) -> Result<Response<Body>, BoxError> {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(http::header::CONTENT_LENGTH);
    let bytes = body.collect().await?.to_bytes();
    let kept = bytes.slice(..keep.min(bytes.len()));
    Ok(Response::from_parts(parts, answer::full(kept)))
}

/// Sends requests on through `client`.
fn sender(
    client: &kube::Client,
) -> impl Fn(Request<kube::client::Body>) -> BoxFuture<'static, kube::Result<Response<kube::client::Body>>>
+ Clone
+ Send
+ 'static {
    let inner = client.clone();
    move |request| {
        let inner = inner.clone();
        Box::pin(async move { inner.send(request).await })
    }
}
