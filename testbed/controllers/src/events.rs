//! Events a controller records about objects: counted, combined and throttled as Kubernetes'
//! recorder does it.
//!
//! An event that cannot be written is dropped; nothing may wait for one.

use std::collections::{BTreeMap, BTreeSet};

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::GroupResource;
use aplomb_apiserver::storage::Key;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::system_client::SystemClient;

/// From this many different messages on, similar events are combined.
const DIFFERENT_MESSAGES: usize = 10;
const SIMILAR_FOR: SignedDuration = SignedDuration::from_mins(10);
/// Events about one object before they are throttled, and how often one more is let through.
const BURST: f64 = 25.0;
const REFILL: SignedDuration = SignedDuration::from_mins(5);

/// Where an event comes from and what it is about, up to its reason.
type Similar = (String, &'static str, String);

/// Whether something is worth a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Records the events of one component.
#[derive(Debug)]
pub(super) struct Recorder {
    door: SystemClient,
    component: &'static str,
    correlation: Correlation,
}

impl Recorder {
    pub(super) fn new(door: &SystemClient, component: &'static str) -> Self {
        Self {
            door: door.clone(),
            component,
            correlation: Correlation::default(),
        }
    }

    /// Records that something happened to an object that is stored.
    pub(super) async fn record(&mut self, about: &Value, severity: Severity, reason: &str, message: &str) {
        let now = self.door.server.clock().now();
        let seen = self
            .correlation
            .observe(object::uid(about), severity, reason, message, now);
        let Some(seen) = seen else { return };
        let place = Key {
            resource: GroupResource::new("", "events"),
            namespace: object::namespace(about).to_owned(),
            name: format!("{}.{:x}", object::name(about), seen.first),
        };
        let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let written = if seen.count == 1 {
            let event = self.event(about, severity, reason, &seen, &at, &place);
            self.door.create(&place, &event).await.map(drop)
        } else {
            let again = json!({ "count": seen.count, "lastTimestamp": at, "message": seen.message });
            match self.door.resource_at(&place.resource) {
                Some(events) => self.door.merge(&events, &place, &again).await,
                None => return,
            }
        };
        if let Err(error) = written {
            tracing::debug!(%error, "Event was not written");
        }
    }

    fn event(&self, about: &Value, severity: Severity, reason: &str, seen: &Seen, at: &str, place: &Key) -> Value {
        let reporting = if seen.combined { "" } else { self.component };
        json!({
            "metadata": { "name": place.name, "namespace": place.namespace },
            "involvedObject": {
                "apiVersion": object::text(about, "apiVersion"),
                "kind": object::text(about, "kind"),
                "name": object::name(about),
                "namespace": object::namespace(about),
                "uid": object::uid(about),
                "resourceVersion": object::resource_version(about),
            },
            "reason": reason,
            "message": seen.message,
            "source": { "component": self.component },
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "type": severity.as_str(),
            "reportingComponent": reporting,
        })
    }
}

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// Nanoseconds that tell the first of its kind from all others.
    first: i128,
    count: u32,
    message: String,
    combined: bool,
}

/// What has been recorded lately.
#[derive(Debug, Default)]
struct Correlation {
    similar: BTreeMap<Similar, (BTreeSet<String>, Timestamp)>,
    counts: BTreeMap<(Similar, String), (i128, u32)>,
    tokens: BTreeMap<(String, &'static str), (f64, Timestamp)>,
    last: i128,
}

impl Correlation {
    /// Counts an event in; `None` when there are too many of them.
    fn observe(&mut self, uid: &str, severity: Severity, reason: &str, message: &str, now: Timestamp) -> Option<Seen> {
        let similar: Similar = (uid.to_owned(), severity.as_str(), reason.to_owned());
        let combined = self.is_one_of_many(&similar, message, now);
        let (key, message) = if combined {
            let message = format!("(combined from similar events): {message}");
            ((similar, String::new()), message)
        } else {
            ((similar, message.to_owned()), message.to_owned())
        };
        self.last = now.as_nanosecond().max(self.last + 1);
        let (first, count) = self.counts.entry(key).or_insert((self.last, 0));
        *count += 1;
        let seen = Seen {
            first: *first,
            count: *count,
            message,
            combined,
        };
        self.may_speak(uid, severity, now).then_some(seen)
    }

    fn is_one_of_many(&mut self, similar: &Similar, message: &str, now: Timestamp) -> bool {
        let fresh = (BTreeSet::new(), now);
        let (messages, last) = self.similar.entry(similar.clone()).or_insert(fresh);
        if now.duration_since(*last) > SIMILAR_FOR {
            messages.clear();
        }
        *last = now;
        messages.insert(message.to_owned());
        let many = messages.len() >= DIFFERENT_MESSAGES;
        if many {
            messages.pop_first();
        }
        many
    }

    fn may_speak(&mut self, uid: &str, severity: Severity, now: Timestamp) -> bool {
        let key = (uid.to_owned(), severity.as_str());
        let (tokens, last) = self.tokens.entry(key).or_insert((BURST, now));
        let refilled = now.duration_since(*last).as_secs_f64() / REFILL.as_secs_f64();
        *tokens = (*tokens + refilled).min(BURST);
        *last = now;
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(correlation: &mut Correlation, message: &str, second: i64) -> Option<Seen> {
        let now = Timestamp::from_second(second).unwrap();
        correlation.observe("uid", Severity::Normal, "Reason", message, now)
    }

    #[test]
    fn the_same_again_is_counted() {
        let mut correlation = Correlation::default();
        let first = observe(&mut correlation, "a", 1).unwrap();
        let second = observe(&mut correlation, "a", 2).unwrap();
        assert_eq!((first.count, second.count), (1, 2));
        assert_eq!(first.first, second.first);
    }

    #[test]
    fn the_tenth_different_one_is_combined_with_the_next() {
        let mut correlation = Correlation::default();
        let seen: Vec<Seen> = (0..12)
            .map(|n| observe(&mut correlation, &n.to_string(), 1).unwrap())
            .collect();
        assert!(!seen[8].combined);
        assert_eq!(seen[9].message, "(combined from similar events): 9");
        assert_eq!((seen[9].count, seen[11].count), (1, 3));
    }

    #[test]
    fn too_many_about_one_object_are_dropped_until_time_has_passed() {
        let mut correlation = Correlation::default();
        assert!((0..25).all(|_| observe(&mut correlation, "a", 1).is_some()));
        assert!(observe(&mut correlation, "a", 1).is_none());
        assert!(observe(&mut correlation, "a", 302).is_some());
    }
}
