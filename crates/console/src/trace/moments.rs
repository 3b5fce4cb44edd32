//! Who did what when: the journal, managedFields, conditions and Events of an object in one list.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JournalNote, NoteKind, str_at, time_at};

/// One event in the life of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceMoment {
    /// When it happened; for a repeated one, the first time.
    pub at: Timestamp,
    /// The last time, if it was repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    pub times: u64,
    /// Who did it: a field manager, a controller, or the operator itself.
    pub who: String,
    pub what: String,
    pub from: MomentSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MomentSource {
    /// managedFields: the last write of each manager, to the second.
    ManagedFields,
    /// A condition of the object, to the second.
    Condition,
    Event,
    Journal,
}

impl MomentSource {
    /// The source, as printed in tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ManagedFields => "managedFields",
            Self::Condition => "condition",
            Self::Event => "event",
            Self::Journal => "journal",
        }
    }

    /// Whether its times are exact to the second only.
    pub(super) fn is_coarse(self) -> bool {
        matches!(self, Self::ManagedFields | Self::Condition)
    }
}

pub(super) fn collect_moments(object: &Value, notes: &[JournalNote], events: &[Value]) -> Vec<TraceMoment> {
    let mut all = writer_moments(object);
    all.extend(condition_moments(object, notes));
    all.extend(events.iter().filter_map(event_moment));
    all.extend(notes.iter().map(note_moment));
    all.sort_by_key(|moment| (moment.at, moment.from));
    all
}

fn new_moment(at: Timestamp, who: &str, what: String, from: MomentSource) -> TraceMoment {
    TraceMoment {
        at,
        until: None,
        times: 1,
        who: who.to_owned(),
        what,
        from,
    }
}

/// The last write of each manager.
fn writer_moments(object: &Value) -> Vec<TraceMoment> {
    let created = time_at(object, "/metadata/creationTimestamp");
    let created = created.map(|at| new_moment(at, "", "created".to_owned(), MomentSource::ManagedFields));
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let wrote = entries.into_iter().flatten().filter_map(|entry| {
        let at = time_at(entry, "/time")?;
        let how = match str_at(entry, "/operation") {
            "Apply" => "last applied",
            _ => "last wrote",
        };
        let fields = field_names(entry);
        let what = format!("{how} {fields}");
        Some(new_moment(
            at,
            str_at(entry, "/manager"),
            what,
            MomentSource::ManagedFields,
        ))
    });
    created.into_iter().chain(wrote).collect()
}

/// The fields that a manager wrote: `spec`, `metadata.labels`.
fn field_names(entry: &Value) -> String {
    let mut parts = Vec::new();
    let top = entry.pointer("/fieldsV1").and_then(Value::as_object);
    for (name, below) in top.into_iter().flatten() {
        let name = name.trim_start_matches("f:");
        match (name, below.as_object()) {
            ("metadata", Some(below)) => {
                let inner = below.keys().filter_map(|key| key.strip_prefix("f:"));
                parts.extend(inner.map(|key| format!("metadata.{key}")));
            }
            _ => parts.push(name.to_owned()),
        }
    }
    match parts.is_empty() {
        true => "no remaining fields".to_owned(),
        false => parts.join(", "),
    }
}

/// The last transition of each condition, unless the journal has it.
fn condition_moments(object: &Value, notes: &[JournalNote]) -> Vec<TraceMoment> {
    let known = |type_: &str, status: &str| {
        notes.iter().any(|note| {
            matches!(&note.what, NoteKind::Condition { condition, status: was, .. } if condition == type_ && was == status)
        })
    };
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    let all = all.into_iter().flatten().filter_map(|condition| {
        let (type_, status) = (str_at(condition, "/type"), str_at(condition, "/status"));
        if known(type_, status) {
            return None;
        }
        let at = time_at(condition, "/lastTransitionTime")?;
        let what = transition_text(type_, status, str_at(condition, "/reason"));
        Some(new_moment(at, "", what, MomentSource::Condition))
    });
    all.collect()
}

fn transition_text(type_: &str, status: &str, reason: &str) -> String {
    format!("{type_} became {status} ({reason})")
}

fn event_moment(event: &Value) -> Option<TraceMoment> {
    let first = [
        "/eventTime",
        "/firstTimestamp",
        "/deprecatedFirstTimestamp",
        "/metadata/creationTimestamp",
    ];
    let at = first.iter().find_map(|at| time_at(event, at))?;
    let last = ["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp"];
    let until = last.iter().find_map(|at| time_at(event, at));
    let counts = ["/series/count", "/count", "/deprecatedCount"];
    let times = counts.iter().find_map(|at| event.pointer(at)?.as_u64());
    let said = |pointers: [&str; 3]| {
        let mut texts = pointers.iter().map(|at| str_at(event, at));
        texts.find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let who = said(["/reportingController", "/reportingComponent", "/source/component"]);
    let note = said(["/note", "/message", "/none"]);
    let what = format!("{}: {note}", str_at(event, "/reason"));
    Some(TraceMoment {
        until: until.filter(|until| *until > at),
        times: times.unwrap_or(1).max(1),
        ..new_moment(at, &who, what, MomentSource::Event)
    })
}

fn note_moment(note: &JournalNote) -> TraceMoment {
    let (who, what) = match &note.what {
        NoteKind::Triggered { reason, lane } => ("", format!("queued: {reason} ({lane})")),
        NoteKind::Started => ("operator", "reconcile started".to_owned()),
        NoteKind::Ended(verdict) => ("operator", format!("reconcile ended: {verdict}")),
        NoteKind::Pushback { class, message } => ("API server", format!("{class}: {message}")),
        NoteKind::Conflict { object, winner } => (
            winner.as_deref().unwrap_or("another writer"),
            format!("wrote {object} first"),
        ),
        NoteKind::Wrote { verb, object, version } => ("operator", write_text(verb, object, version.as_deref())),
        NoteKind::Stale { verb, object } => (
            "operator",
            format!("{verb} of {object} finished after the lease was lost"),
        ),
        NoteKind::Condition {
            condition,
            status,
            reason,
        } => ("operator", transition_text(condition, status, reason)),
    };
    TraceMoment {
        until: note.until,
        times: note.times,
        ..new_moment(note.at, who, what, MomentSource::Journal)
    }
}

fn write_text(verb: &str, object: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("wrote {object} ({verb}), version {version}"),
        None => format!("{object} unchanged ({verb})"),
    }
}
