//! Carries out the steps of a watch: sends requests, updates the cache, calls the listeners.
//!
//! Every await is bounded, or ends when the server is silent for too long. The next step after a loss is
//! decided in `course`.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::cache::{Cache, CacheEvent, DecodedObject, WatchUpdate};
use crate::informer::reflector::{
    Disconnect, ListPage, ReflectorState, ReflectorStep, WatchFailure, from_refusal, from_response, from_status,
    from_unreachable,
};
use crate::informer::wire::{LineReader, WatchLine, WireObject};
use crate::informer::{ReflectorTiming, Scope, wire};
use crate::key::ResourceVersion;
use crate::ratelimit::api;
use crate::support::seed_of;
use crate::telemetry::{Telemetry, WatchListed, WatchLost};
use crate::view::View;

type NotifyFn<T> = dyn Fn(&CacheEvent<T>) + Send + Sync;

/// A watch with its cache and listeners.
pub(crate) struct ReflectorTask<T> {
    pub(crate) client: kube::Client,
    pub(crate) kind: Arc<str>,
    pub(crate) scope: Scope,
    pub(crate) timing: ReflectorTiming,
    pub(crate) cache: Cache<T>,
    pub(crate) notify: Box<NotifyFn<T>>,
    /// The last error, until the next success.
    pub(crate) trouble: Arc<Mutex<Option<String>>>,
    pub(crate) telemetry: Telemetry,
}

/// How much earlier than requested a server may end a watch normally.
const END_TOLERANCE: Duration = Duration::from_secs(5);

/// The maximum Retry-After that is honored: the page of a proxy under maintenance may say a day, and be
/// gone in a minute.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Lists and watches until the task is aborted.
pub(crate) async fn run_reflector<T: View>(watch: ReflectorTask<T>) {
    let mut course = ReflectorState::new(watch.timing.clone(), watch.seed());
    let mut listed = Vec::new();
    loop {
        let begun = Instant::now();
        let ended = match course.step().clone() {
            ReflectorStep::List(page) => watch.list(&mut course, &page, &mut listed).await,
            ReflectorStep::Watch { from, lifetime } => watch.follow_changes(&mut course, &from, lifetime).await,
        };
        if let Err(failure) = ended {
            let delay = course.record_loss(failure.loss, begun.elapsed());
            watch.pause(delay, failure).await;
        }
    }
}

impl<T: View> ReflectorTask<T> {
    /// Fetches a page, and applies the list with the last one.
    async fn list(
        &self,
        course: &mut ReflectorState,
        page: &ListPage,
        listed: &mut Vec<DecodedObject<T>>,
    ) -> Result<(), WatchFailure> {
        if !matches!(page, ListPage::Next(_)) {
            listed.clear();
        }
        let request = wire::list_request::<T>(&self.scope, &self.timing, page).map_err(|error| from_refusal(&error))?;
        let fetch = async {
            let body = self.send(request).await?.into_body();
            let bytes = body.collect().await;
            bytes.map_err(|error| WatchFailure::new(Disconnect::Cut, error.to_string()))
        };
        let bytes = self.with_timeout(self.timing.page_timeout, fetch).await?.to_bytes();
        let part =
            wire::parse_page::<T>(&bytes).map_err(|_| WatchFailure::new(Disconnect::Cut, "response is not a list"))?;
        listed.extend(part.items);
        if part.continue_token.is_none() {
            let version = ResourceVersion::parse(&part.version);
            let seen = self.cache.freshness().list_version;
            if !course.accept_list(&version, seen.as_ref()) {
                let why = "list is older than the state already shown";
                return Err(WatchFailure::new(Disconnect::Refused, why));
            }
            self.apply_update(WatchUpdate::Relisted(mem::take(listed), version));
            self.cache.refresh(|freshness| freshness.synced = true);
            self.telemetry.emit(WatchListed {
                kind: &self.kind,
                scope: &self.scope,
                objects: self.cache.len(),
            });
        }
        course.record_page(part.continue_token, &part.version);
        Ok(())
    }

    /// Follows the changes until the connection is lost; it never returns otherwise.
    async fn follow_changes(
        &self,
        course: &mut ReflectorState,
        from: &str,
        lifetime: Duration,
    ) -> Result<(), WatchFailure> {
        let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
        let request = wire::watch_request::<T>(&self.scope, from, seconds).map_err(|error| from_refusal(&error))?;
        let response = self.with_timeout(self.timing.open_timeout, self.send(request)).await?;
        if course.record_open() {
            self.record_activity();
        }
        let due = Instant::now() + lifetime.saturating_sub(END_TOLERANCE);
        let mut lines = LineReader::new(response.into_body().into_data_stream());
        loop {
            let next = self.wait_delivering_events(timeout(self.timing.silence_timeout, lines.next()));
            let line = match next.await {
                Err(_) => return Err(WatchFailure::new(Disconnect::Silence, "no data received")),
                Ok(None) if Instant::now() >= due => {
                    return Err(WatchFailure::new(Disconnect::Ended, ""));
                }
                Ok(None) => {
                    return Err(WatchFailure::new(Disconnect::Closed, "server closed the stream"));
                }
                Ok(Some(Err(broken))) => return Err(WatchFailure::new(Disconnect::Cut, broken.0)),
                Ok(Some(Ok(line))) => line,
            };
            self.handle_line(course, &line)?;
            // A stream with a line always ready must not keep other tasks from running.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn handle_line(&self, course: &mut ReflectorState, line: &WatchLine) -> Result<(), WatchFailure> {
        let said = wire::parse_line::<T>(line.bytes()).map_err(|_| match line {
            WatchLine::Whole(_) => WatchFailure::new(Disconnect::Expired, "line is not a watch event"),
            WatchLine::Unterminated(_) => WatchFailure::new(Disconnect::Cut, "stream ended inside a line"),
        })?;
        let (version, news) = match said {
            WireObject::Put(seen) => (seen.version(), WatchUpdate::Put(seen)),
            WireObject::Deleted(seen) => (seen.version(), WatchUpdate::Deleted(seen)),
            WireObject::Bookmark(version) => {
                let news = WatchUpdate::Bookmark(ResourceVersion::parse(&version));
                (version, news)
            }
            WireObject::Error(status) => return Err(from_status(&status)),
        };
        let first = course.record_event(version);
        self.apply_update(news);
        if first {
            self.record_activity();
        }
        Ok(())
    }

    /// First the state, then the listeners.
    fn apply_update(&self, news: WatchUpdate<T>) {
        for event in self.cache.apply_update(news) {
            (self.notify)(&event);
        }
    }

    fn record_activity(&self) {
        self.cache.refresh(|freshness| freshness.reconnecting_since = None);
        self.set_trouble(None);
    }

    async fn pause(&self, delay: Duration, failure: WatchFailure) {
        let now = Instant::now();
        let delay = delay.max(failure.wait.min(MAX_WAIT));
        if failure.loss == Disconnect::Ended {
            // Everything before the end has been received.
            self.cache.refresh(|freshness| freshness.last_activity = Some(now));
            return self.record_activity();
        }
        self.cache.refresh(|freshness| {
            freshness.reconnecting_since.get_or_insert(now);
        });
        self.telemetry.emit(WatchLost {
            kind: &self.kind,
            scope: &self.scope,
            reason: failure.loss.as_str(),
            why: &failure.reason,
            known: self.has_trouble(&failure.reason),
            delay,
        });
        self.set_trouble(Some(failure.reason));
        self.wait_delivering_events(sleep(delay)).await;
    }

    fn has_trouble(&self, why: &str) -> bool {
        let trouble = self.trouble.lock();
        trouble.as_deref() == Some(why)
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock() = trouble;
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Response<Body>, WatchFailure> {
        let sent = self.client.send(request.map(Body::from)).await;
        let response = sent.map_err(|error| from_unreachable(&error.into()))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(from_response(response).await)
    }

    async fn with_timeout<V>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<V, WatchFailure>>,
    ) -> Result<V, WatchFailure> {
        let scope = crate::call_context::CallContext {
            deadline: Instant::now() + limit,
            lane: api::BACKGROUND,
        };
        let done = self.wait_delivering_events(timeout(limit, scope.run(work))).await;
        done.unwrap_or_else(|_| {
            let why = format!("no response within {limit:?}");
            Err(WatchFailure::new(Disconnect::Unreachable, why))
        })
    }

    /// Waits for `work`, and in the meantime delivers the events that waited for the response of a write.
    async fn wait_delivering_events<F: Future>(&self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.cache.write_answered() => {
                    for event in self.cache.take_held_events() {
                        (self.notify)(&event);
                    }
                }
                done = &mut work => return done,
            }
        }
    }

    /// A seed from kind and scope: watches spread out, and a run can still be replayed.
    fn seed(&self) -> u64 {
        seed_of(&(&self.kind, &self.scope))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use tower::service_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn server_under_maintenance_is_retried_within_a_minute() {
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = requests.clone();
        let service = service_fn(move |_: http::Request<Body>| {
            seen.fetch_add(1, Ordering::Relaxed);
            let page = Response::builder().status(503).header("retry-after", 86_400);
            let page = page.body(Body::empty()).expect("a response");
            async { Ok::<_, Infallible>(page) }
        });
        let watch = ReflectorTask::<ConfigMap> {
            client: kube::Client::new(service, "default"),
            kind: "ConfigMap".into(),
            scope: Scope::default(),
            timing: ReflectorTiming::default(),
            cache: Cache::new(),
            notify: Box::new(|_| {}),
            trouble: Arc::default(),
            telemetry: Telemetry::default(),
        };
        let minutes = timeout(MAX_WAIT * 3 + MAX_WAIT / 2, run_reflector(watch));
        assert!(minutes.await.is_err(), "a watch never ends");
        assert_eq!(requests.load(Ordering::Relaxed), 4, "as requested, but no longer");
    }
}
