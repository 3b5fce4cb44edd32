//! Carries out the course of a watch: asks the server, feeds the cache, tells the listeners.
//!
//! Every await is bounded, or ends with the silence of the server. Nothing here decides what comes
//! after a loss; `course` does.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, sleep, timeout};

use super::course::{Course, Loss, Page, Step};
use super::failure::{Failure, of_status, refusal, refused, unreachable};
use super::stream::{Line, Lines};
use super::wire::{self, Said};
use super::{Scope, Timing};
use crate::budget::api;
use crate::cache::{Cache, Event, News, Seen};
use crate::telemetry::{Telemetry, WatchListed, WatchLost};
use crate::version::Version;
use crate::view::View;

type Tell<T> = dyn Fn(&Event<T>) + Send + Sync;

/// A watch and what it feeds.
pub(crate) struct Drive<T> {
    pub(crate) client: kube::Client,
    pub(crate) kind: Arc<str>,
    pub(crate) scope: Scope,
    pub(crate) timing: Timing,
    pub(crate) cache: Cache<T>,
    pub(crate) tell: Box<Tell<T>>,
    /// What went wrong last, until something goes right.
    pub(crate) trouble: Arc<Mutex<Option<String>>>,
    pub(crate) telemetry: Telemetry,
}

/// How much earlier than asked for a server may end a watch in due time.
const PUNCTUAL: Duration = Duration::from_secs(5);

/// How long a server may ask us to wait: a page of a proxy under maintenance may say a day, and is
/// gone in a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Lists and watches until the task is aborted.
pub(crate) async fn drive<T: View>(watch: Drive<T>) {
    let mut course = Course::new(watch.timing.clone(), watch.seed());
    let mut listed = Vec::new();
    loop {
        let begun = Instant::now();
        let ended = match course.step().clone() {
            Step::List(page) => watch.list(&mut course, &page, &mut listed).await,
            Step::Watch { from, lifetime } => watch.follow(&mut course, &from, lifetime).await,
        };
        if let Err(failure) = ended {
            let delay = course.lost(failure.loss, begun.elapsed());
            watch.pause(delay, failure).await;
        }
    }
}

impl<T: View> Drive<T> {
    /// Fetches a page, and takes the list over with the last one.
    async fn list(
        &self,
        course: &mut Course,
        page: &Page,
        listed: &mut Vec<Seen<T>>,
    ) -> Result<(), Failure> {
        if !matches!(page, Page::Next(_)) {
            listed.clear();
        }
        let request =
            wire::list::<T>(&self.scope, &self.timing, page).map_err(|error| refused(&error))?;
        let fetch = async {
            let body = self.send(request).await?.into_body();
            let bytes = body.collect().await;
            bytes.map_err(|error| Failure::new(Loss::Cut, error.to_string()))
        };
        let bytes = self.within(self.timing.page, fetch).await?.to_bytes();
        let part = wire::page::<T>(&bytes)
            .map_err(|_| Failure::new(Loss::Cut, "the answer is no list"))?;
        listed.extend(part.items);
        if part.next.is_none() {
            let version = Version::parse(&part.version);
            let seen = self.cache.freshness().list_version;
            if !course.accepts(&version, seen.as_ref()) {
                let why = "the list is older than what the watch has shown";
                return Err(Failure::new(Loss::Refused, why));
            }
            self.take(News::All(mem::take(listed), version));
            self.cache.refresh(|freshness| freshness.synced = true);
            self.telemetry.emit(WatchListed {
                kind: &self.kind,
                scope: &self.scope,
                objects: self.cache.len(),
            });
        }
        course.paged(part.next, &part.version);
        Ok(())
    }

    /// Follows the changes until the connection is lost; there is no other end.
    async fn follow(
        &self,
        course: &mut Course,
        from: &str,
        lifetime: Duration,
    ) -> Result<(), Failure> {
        let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
        let request =
            wire::watch::<T>(&self.scope, from, seconds).map_err(|error| refused(&error))?;
        let response = self.within(self.timing.head, self.send(request)).await?;
        if course.opened() {
            self.alive();
        }
        let due = Instant::now() + lifetime.saturating_sub(PUNCTUAL);
        let mut lines = Lines::new(response.into_body().into_data_stream());
        loop {
            let next = self.attend(timeout(self.timing.silence, lines.next()));
            let line = match next.await {
                Err(_) => return Err(Failure::new(Loss::Silence, "nothing was heard")),
                Ok(None) if Instant::now() >= due => return Err(Failure::new(Loss::Ended, "")),
                Ok(None) => return Err(Failure::new(Loss::Closed, "the server ended it")),
                Ok(Some(Err(broken))) => return Err(Failure::new(Loss::Cut, broken.0)),
                Ok(Some(Ok(line))) => line,
            };
            self.hear(course, &line)?;
            // A stream with a line always at hand must not keep other tasks from running.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn hear(&self, course: &mut Course, line: &Line) -> Result<(), Failure> {
        let said = wire::line::<T>(line.bytes()).map_err(|_| match line {
            Line::Whole(_) => Failure::new(Loss::Expired, "a line is no watch event"),
            Line::Last(_) => Failure::new(Loss::Cut, "the stream ends inside a line"),
        })?;
        let (version, news) = match said {
            Said::Put(seen) => (seen.version(), News::Put(seen)),
            Said::Gone(seen) => (seen.version(), News::Gone(seen)),
            Said::Bookmark(version) => {
                let news = News::Passed(Version::parse(&version));
                (version, news)
            }
            Said::Error(status) => return Err(of_status(&status)),
        };
        let first = course.heard(version);
        self.take(news);
        if first {
            self.alive();
        }
        Ok(())
    }

    /// State first, then the listeners.
    fn take(&self, news: News<T>) {
        for event in self.cache.take(news) {
            (self.tell)(&event);
        }
    }

    fn alive(&self) {
        self.cache
            .refresh(|freshness| freshness.reconnecting_since = None);
        self.set_trouble(None);
    }

    async fn pause(&self, delay: Duration, failure: Failure) {
        let now = Instant::now();
        let delay = delay.max(failure.wait.min(LONGEST_WAIT));
        if failure.loss == Loss::Ended {
            // Everything before the end has arrived.
            self.cache
                .refresh(|freshness| freshness.last_activity = Some(now));
            return self.alive();
        }
        self.cache.refresh(|freshness| {
            freshness.reconnecting_since.get_or_insert(now);
        });
        self.telemetry.emit(WatchLost {
            kind: &self.kind,
            scope: &self.scope,
            reason: failure.loss.word(),
            why: &failure.why,
            known: self.has_trouble(&failure.why),
            delay,
        });
        self.set_trouble(Some(failure.why));
        self.attend(sleep(delay)).await;
    }

    fn has_trouble(&self, why: &str) -> bool {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_deref() == Some(why)
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Response<Body>, Failure> {
        let sent = self.client.send(request.map(Body::from)).await;
        let response = sent.map_err(|error| unreachable(&error.into()))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refusal(response).await)
    }

    async fn within<V>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<V, Failure>>,
    ) -> Result<V, Failure> {
        let scope = crate::scope::Scope {
            deadline: Instant::now() + limit,
            lane: api::BACKGROUND,
        };
        let done = self.attend(timeout(limit, scope.run(work))).await;
        done.unwrap_or_else(|_| {
            let why = format!("no answer within {limit:?}");
            Err(Failure::new(Loss::Unreachable, why))
        })
    }

    /// Waits for `work`, and meanwhile tells the events that waited for the answer of a write.
    async fn attend<F: Future>(&self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.cache.answered() => {
                    for event in self.cache.take_answered() {
                        (self.tell)(&event);
                    }
                }
                done = &mut work => return done,
            }
        }
    }

    /// Watches of different kinds and scopes part ways; a run can still be replayed.
    fn seed(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.kind, &self.scope).hash(&mut hasher);
        hasher.finish()
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
    async fn a_server_under_maintenance_is_asked_again_within_a_minute() {
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = requests.clone();
        let service = service_fn(move |_: http::Request<Body>| {
            seen.fetch_add(1, Ordering::Relaxed);
            let page = Response::builder()
                .status(503)
                .header("retry-after", 86_400);
            let page = page.body(Body::empty()).expect("a response");
            async { Ok::<_, Infallible>(page) }
        });
        let watch = Drive::<ConfigMap> {
            client: kube::Client::new(service, "default"),
            kind: "ConfigMap".into(),
            scope: Scope::default(),
            timing: Timing::default(),
            cache: Cache::new(),
            tell: Box::new(|_| {}),
            trouble: Arc::default(),
            telemetry: Telemetry::default(),
        };
        let minutes = timeout(LONGEST_WAIT * 3 + LONGEST_WAIT / 2, drive(watch));
        assert!(minutes.await.is_err(), "a watch never ends");
        assert_eq!(
            requests.load(Ordering::Relaxed),
            4,
            "as asked, but no longer"
        );
    }
}
