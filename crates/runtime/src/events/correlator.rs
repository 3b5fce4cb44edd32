//! Decides which Events are written: repeated Events become a series, and an object with too many
//! Events is limited. Pure; the limits are client-go's.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as Object, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::ObjectMeta;

use super::{Event, EventReporter, EventType};
use crate::support::LruMap;

/// How many objects and series are kept.
const MAX_REMEMBERED: usize = 4096;
/// The burst of Events about one object, and the time after which one more is allowed.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
/// A series without an Event for this long is over.
const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);
/// A continuing series is written this often.
const SERIES_REFRESH: Duration = Duration::from_secs(30 * 60);
/// The API's limits for the length of texts.
const NOTE_LIMIT: usize = 1024;
const WORD_LIMIT: usize = 128;
const NAME_LIMIT: usize = 253;

/// The decision about an Event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EventDecision {
    /// Write it: new, or with a series that has grown.
    Write(Box<Object>),
    /// Counted in a series that is written later.
    Counted,
    /// The object has had too many Events.
    Spam,
}

/// The fields in which Events of a series agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EventIdentity {
    regarding: ObjectIdentity,
    related: Option<ObjectIdentity>,
    severity: EventType,
    reason: String,
    action: String,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectIdentity {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

impl ObjectIdentity {
    fn from_reference(object: &ObjectReference) -> Self {
        Self {
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
        }
    }
}

/// An Event as it was last written, and how often it has happened since.
#[derive(Debug)]
struct RecordedSeries {
    object: Object,
    last: Duration,
    written: Duration,
    unwritten: bool,
}

#[derive(Clone, Copy, Debug)]
struct EventBucket {
    tokens: f64,
    at: Duration,
}

/// Keeps the recent Events. Times are since an arbitrary beginning.
#[derive(Debug)]
pub(super) struct EventCorrelator {
    reporter: EventReporter,
    series: LruMap<EventIdentity, RecordedSeries>,
    buckets: LruMap<ObjectIdentity, EventBucket>,
    sequence: u64,
}

impl EventCorrelator {
    pub(super) fn new(reporter: EventReporter) -> Self {
        Self {
            reporter,
            series: LruMap::new(MAX_REMEMBERED),
            buckets: LruMap::new(MAX_REMEMBERED),
            sequence: 0,
        }
    }

    /// Decides on one Event.
    pub(super) fn decide(&mut self, event: Event, now: Duration, wall: Timestamp) -> EventDecision {
        let event = truncate_event(event);
        let same = EventIdentity {
            regarding: ObjectIdentity::from_reference(&event.regarding),
            related: event.note.related.as_ref().map(ObjectIdentity::from_reference),
            severity: event.note.severity,
            reason: event.note.reason.clone(),
            action: event.note.action.clone(),
            message: event.note.message.clone(),
        };
        if let Some(decision) = self.count_repeat(&same, now, wall) {
            return decision;
        }
        if !self.take_token(&same.regarding, now) {
            return EventDecision::Spam;
        }
        let object = self.object(event, wall);
        let new = || RecordedSeries {
            object,
            last: now,
            written: now,
            unwritten: false,
        };
        EventDecision::Write(Box::new(self.series.get_or_insert(&same, new).object.clone()))
    }

    /// Counts a repeated Event.
    fn count_repeat(&mut self, same: &EventIdentity, now: Duration, wall: Timestamp) -> Option<EventDecision> {
        let known = self.series.get(same)?;
        let due = known.object.series.is_none() || now >= known.written + SERIES_REFRESH;
        let write = due && self.take_token(&same.regarding, now);
        let series = self.series.get_refresh(same)?;
        let count = series.object.series.as_ref().map_or(2, |old| old.count + 1);
        series.object.series = Some(EventSeries {
            count,
            last_observed_time: MicroTime(wall),
        });
        series.last = now;
        series.unwritten = !write;
        if !write {
            return Some(EventDecision::Counted);
        }
        series.written = now;
        Some(EventDecision::Write(Box::new(series.object.clone())))
    }

    /// The next series that ended by `now`, if it has to be written once more.
    pub(super) fn take_finished(&mut self, now: Duration) -> Option<Object> {
        while let Some((_, series)) = self.series.oldest()
            && now >= series.last + SERIES_TIMEOUT
        {
            if let Some(last) = self.evict_oldest() {
                return Some(last);
            }
        }
        None
    }

    /// Any series that has to be written once more, over or not.
    pub(super) fn take_unwritten(&mut self) -> Option<Object> {
        while self.series.oldest().is_some() {
            if let Some(last) = self.evict_oldest() {
                return Some(last);
            }
        }
        None
    }

    fn evict_oldest(&mut self) -> Option<Object> {
        let (_, series) = self.series.pop_oldest()?;
        series.unwritten.then_some(series.object)
    }

    /// When the next series ends.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let (_, series) = self.series.oldest()?;
        Some(series.last + SERIES_TIMEOUT)
    }

    /// Whether one more Event about this object may be written.
    fn take_token(&mut self, whom: &ObjectIdentity, now: Duration) -> bool {
        let full = || EventBucket { tokens: BURST, at: now };
        let bucket = self.buckets.get_or_insert(whom, full);
        let earned = (now - bucket.at).as_secs_f64() / REFILL.as_secs_f64();
        bucket.tokens = (bucket.tokens + earned).min(BURST);
        bucket.at = now;
        let admitted = bucket.tokens >= 1.0;
        if admitted {
            bucket.tokens -= 1.0;
        }
        admitted
    }

    fn object(&mut self, event: Event, wall: Timestamp) -> Object {
        self.sequence += 1;
        let namespace = event.regarding.namespace.clone();
        let metadata = ObjectMeta {
            name: Some(self.event_name(&event, wall)),
            namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        };
        Object {
            metadata,
            event_time: Some(MicroTime(wall)),
            regarding: Some(event.regarding),
            related: event.note.related,
            type_: Some(event.note.severity.as_str().to_owned()),
            reason: Some(event.note.reason),
            action: Some(event.note.action),
            note: Some(event.note.message),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(self.reporter.instance.clone()),
            ..Object::default()
        }
    }

    /// A unique name, without randomness.
    fn event_name(&self, event: &Event, wall: Timestamp) -> String {
        let uid = event.regarding.uid.as_deref().unwrap_or_default();
        let moment = wall.as_microsecond().to_le_bytes();
        let sequence = self.sequence.to_le_bytes();
        let parts: [&[u8]; 5] = [
            uid.as_bytes(),
            event.note.reason.as_bytes(),
            self.reporter.instance.as_bytes(),
            &moment,
            &sequence,
        ];
        let suffix = format!(".{:016x}", digest(&parts));
        let of = event.regarding.name.as_deref().unwrap_or_default();
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let name: String = of
            .chars()
            .map(|c| c.to_ascii_lowercase())
            .map(|c| if allowed(c) { c } else { '-' })
            .take(NAME_LIMIT - suffix.len())
            .collect();
        format!("{}{suffix}", name.trim_matches(['-', '.']))
    }
}

/// FNV-1a: short, and the same on every machine and in every release.
fn digest(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Shortens texts that the API would reject.
fn truncate_event(mut event: Event) -> Event {
    let limits = [
        (&mut event.note.message, NOTE_LIMIT),
        (&mut event.note.reason, WORD_LIMIT),
        (&mut event.note.action, WORD_LIMIT),
    ];
    for (text, limit) in limits {
        text.truncate(text.floor_char_boundary(limit));
    }
    event
}

#[cfg(test)]
mod tests;
