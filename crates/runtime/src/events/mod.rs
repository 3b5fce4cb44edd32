//! Events that a person sees with `kubectl describe`, published in the background.
//!
//! Events have the lowest priority of all calls: an Event that exceeds the queue, the spam filter or
//! the rate limit is dropped and counted, and no reconcile ever waits for one. All readers of Events
//! see the note: it must not contain secrets.

mod correlator;
mod publisher;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use tokio::sync::mpsc;

pub use self::publisher::EventPublisher;
use crate::telemetry::{EventsDropped, Telemetry};

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
