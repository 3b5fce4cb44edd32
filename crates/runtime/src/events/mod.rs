//! Events that a person sees with `kubectl describe`, published in the background.
//!
//! They are worth less than any other call: what does not fit in the queue, in the spam filter or
//! in the budget is dropped and counted, and no reconcile ever waits for one. The note is shown to
//! whoever may read Events: it must hold no secret.

mod correlator;
mod publisher;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use tokio::sync::mpsc;

pub use self::publisher::EventPublisher;
use crate::telemetry::{EventsDropped, Telemetry};

/// How many Events may wait to be written, as in client-go.
const QUEUE_CAPACITY: usize = 1000;

/// Whether an Event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Nothing is wrong.
    Normal,
    /// A person should look.
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

/// Something worth telling a person about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventNote {
    /// Whether it is good news.
    pub severity: EventType,
    /// Why, in one CamelCase word.
    pub reason: String,
    /// What was done or tried, in one CamelCase word.
    pub action: String,
    /// The whole story, in at most a kilobyte.
    pub message: String,
    /// Another object that has a part in it.
    pub related: Option<ObjectReference>,
}

impl EventNote {
    /// Good news.
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

    /// Something a person should look at.
    #[must_use]
    pub fn warning(reason: &str, action: &str, message: impl Into<String>) -> Self {
        Self {
            severity: EventType::Warning,
            ..Self::normal(reason, action, message)
        }
    }
}

/// A note and the object it is about.
#[derive(Clone, Debug, PartialEq)]
struct Event {
    regarding: ObjectReference,
    note: EventNote,
}

/// Who publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventReporter {
    /// The controller, such as `aplomb.dev/tunnel`.
    pub controller: String,
    /// This replica of it.
    pub instance: String,
}

/// Takes Events and returns at once. Clones share the queue.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Event>,
    telemetry: Telemetry,
}

impl EventRecorder {
    /// A recorder, and the publisher that has to run for anything to be written.
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

    /// Publishes `note` about `object` later, or never: nobody waits for it.
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
