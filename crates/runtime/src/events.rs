//! Events that a person sees with `kubectl describe`, published in the background.
//!
//! Events have the lowest priority of all calls: an Event that exceeds the queue, the spam filter or
//! the rate limit is dropped and counted, and no reconcile ever waits for one. All readers of Events
//! see the note: it must not contain secrets.

mod correlator;

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Object;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use self::correlator::{EventCorrelator, EventDecision};
use crate::call_context::CallContext;
use crate::clock::Clock;
use crate::error::{Error, ErrorClass, Result};
use crate::ratelimit::api::EVENTS;
use crate::telemetry::{EventWritten, EventsDropped, Telemetry};

/// The length of the queue, as in client-go.
const QUEUE_CAPACITY: usize = 1000;

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Nothing is wrong.
    Normal,
    /// A person should act.
    Warning,
}

impl EventType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The content of an Event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventNote {
    /// Its type.
    pub severity: EventType,
    /// The reason, in one CamelCase word.
    pub reason: String,
    /// The action that was taken or tried, in one CamelCase word.
    pub action: String,
    /// The message, at most a kilobyte.
    pub message: String,
    /// Another object that is involved.
    pub related: Option<ObjectReference>,
}

impl EventNote {
    /// An Event of type Normal.
    #[must_use]
    pub fn normal(reason: &str, action: &str, message: impl Into<String>) -> Self {
        Self {
            severity: EventType::Normal,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message: message.into(),
            related: None,
        }
    }

    /// An Event of type Warning.
    #[must_use]
    pub fn warning(reason: &str, action: &str, message: impl Into<String>) -> Self {
        Self {
            severity: EventType::Warning,
            ..Self::normal(reason, action, message)
        }
    }
}

/// A note and its object.
#[derive(Clone, Debug, PartialEq)]
struct Event {
    regarding: ObjectReference,
    note: EventNote,
}

/// The reporter of Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventReporter {
    /// The controller, such as `aplomb.dev/tunnel`.
    pub controller: String,
    /// The name of this replica.
    pub instance: String,
}

/// Accepts Events and returns at once. Clones share the queue.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Event>,
    telemetry: Telemetry,
}

impl EventRecorder {
    /// A recorder, and the publisher task that writes its Events.
    #[must_use]
    pub fn new(
        client: kube::Client,
        reporter: EventReporter,
        telemetry: Telemetry,
        clock: crate::clock::Clock,
    ) -> (Self, EventPublisher) {
        let (queue, queued) = mpsc::channel(QUEUE_CAPACITY);
        let publisher = EventPublisher::new(client, reporter, telemetry.clone(), clock, queued);
        (Self { queue, telemetry }, publisher)
    }

    /// Publishes `note` about `object` later, or drops it: the call never blocks.
    pub fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, note: EventNote) {
        let regarding = object.object_ref(&());
        let reason = match self.queue.try_send(Event { regarding, note }) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(_)) => "full",
            Err(mpsc::error::TrySendError::Closed(_)) => "shutdown",
        };
        self.telemetry.emit(EventsDropped {
            reason,
            count: 1,
            err: "",
        });
    }
}

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long queued Events may take to write at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How often one Event is tried, and the wait between attempts.
const MAX_ATTEMPTS: u32 = 3;
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The task behind a recorder.
pub struct EventPublisher {
    client: Client,
    telemetry: Telemetry,
    clock: Clock,
    queue: mpsc::Receiver<Event>,
    correlator: EventCorrelator,
    begun: Instant,
}

impl fmt::Debug for EventPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("queued", &self.queue.len())
            .finish_non_exhaustive()
    }
}

impl EventPublisher {
    fn new(
        client: Client,
        reporter: EventReporter,
        telemetry: Telemetry,
        clock: Clock,
        queued: mpsc::Receiver<Event>,
    ) -> Self {
        Self {
            client,
            telemetry,
            clock,
            queue: queued,
            correlator: EventCorrelator::new(reporter),
            begun: Instant::now(),
        }
    }

    /// Writes Events until `shutdown` or until all recorders are dropped, then the rest of the queue within a
    /// few seconds.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let due = self.correlator.next_due().map(|due| self.begun + due);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                event = self.queue.recv() => match event {
                    Some(event) => self.handle(event, &shutdown).await,
                    None => break,
                },
                () = sleep_until_due(due) => while let Some(last) = self.correlator.take_finished(self.begun.elapsed()) {
                    self.write(&last, &shutdown).await;
                },
            }
        }
        self.queue.close();
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        if timeout_at(deadline, self.flush(&shutdown)).await.is_err() {
            let left = u64::try_from(self.queue.len()).unwrap_or(u64::MAX);
            // The Event that was being written is lost too.
            self.emit_dropped("shutdown", left + 1, "");
        }
    }

    async fn flush(&mut self, shutdown: &CancellationToken) {
        while let Some(event) = self.queue.recv().await {
            self.handle(event, shutdown).await;
        }
        while let Some(last) = self.correlator.take_unwritten() {
            self.write(&last, shutdown).await;
        }
    }

    async fn handle(&mut self, event: Event, shutdown: &CancellationToken) {
        let now = self.begun.elapsed();
        match self.correlator.decide(event, now, self.clock.now()) {
            EventDecision::Write(object) => self.write(&object, shutdown).await,
            EventDecision::Spam => self.emit_dropped("spam", 1, ""),
            EventDecision::Counted => {}
        }
    }

    /// Retries a few times if that can help, and not at all during shutdown.
    async fn write(&self, object: &Object, shutdown: &CancellationToken) {
        let mut pause = RETRY_DELAY;
        for attempt in 1..=MAX_ATTEMPTS {
            let error = match self.try_write(object).await {
                Ok(verb) => return self.telemetry.emit(EventWritten { verb }),
                Err(error) => error,
            };
            let reason = match error.class() {
                ErrorClass::Throttled | ErrorClass::Unavailable | ErrorClass::Forbidden => "unavailable",
                _ => "refused",
            };
            if reason == "refused" || attempt == MAX_ATTEMPTS || shutdown.is_cancelled() {
                return self.emit_dropped(reason, 1, &error.to_string());
            }
            let again = error.until().unwrap_or(Instant::now() + pause);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = sleep_until(again) => {}
            }
            pause *= 2;
        }
    }

    async fn try_write(&self, object: &Object) -> Result<&'static str> {
        if let Some(series) = &object.series {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let grown = Patch::Merge(json!({ "series": series }));
            let params = PatchParams::default();
            let api = self.api(object);
            match with_timeout(api.patch(name, &params, &grown)).await {
                Ok(_) => return Ok("update"),
                // It has expired: the series continues in a new object.
                Err(error) if error.class() == ErrorClass::Missing => {}
                Err(error) => return Err(error),
            }
        }
        let params = PostParams::default();
        match with_timeout(self.api(object).create(&params, object)).await {
            // An earlier attempt succeeded, and its response was lost.
            Err(error) if error.class() == ErrorClass::Exists => Ok("create"),
            other => other.map(|_| "create"),
        }
    }

    fn api(&self, object: &Object) -> Api<Object> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
        Api::namespaced(self.client.clone(), namespace)
    }

    fn emit_dropped(&self, reason: &'static str, count: u64, err: &str) {
        self.telemetry.emit(EventsDropped { reason, count, err });
    }
}

async fn with_timeout<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T> {
    let deadline = Instant::now() + CALL_TIMEOUT;
    let scope = CallContext { deadline, lane: EVENTS };
    match scope.run(timeout_at(deadline, call)).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::new(ErrorClass::Unavailable, "no response before the deadline")),
    }
}

async fn sleep_until_due(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
