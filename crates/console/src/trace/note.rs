//! Lines of an operator's journal, read from its admin address. Unknown lines are skipped: the operator may be
//! newer than this program.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// A line of a journal.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JournalNote {
    pub(super) at: Timestamp,
    /// When it last happened, if it was repeated.
    #[serde(default)]
    pub(super) until: Option<Timestamp>,
    /// How many times it happened.
    #[serde(default = "once")]
    pub(super) times: u64,
    #[serde(flatten)]
    pub(super) what: NoteKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "what", content = "detail", rename_all = "camelCase")]
pub(super) enum NoteKind {
    Triggered {
        reason: String,
        lane: String,
    },
    Started,
    Ended(String),
    Pushback {
        class: String,
        message: String,
    },
    Conflict {
        object: String,
        winner: Option<String>,
    },
    Wrote {
        verb: String,
        object: String,
        version: Option<String>,
    },
    Stale {
        verb: String,
        object: String,
    },
    Condition {
        condition: String,
        status: String,
        reason: String,
    },
}

impl JournalNote {
    /// Whether another writer was first. The journal has this twice: when it happens, and when the winner is known.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(&self.what, NoteKind::Pushback { class, .. } if class == "Conflict")
    }
}

fn once() -> u64 {
    1
}

/// The lines that can be parsed, sorted by time.
pub(super) fn parse_notes(lines: &[Value]) -> Vec<JournalNote> {
    let understood = lines.iter().filter_map(|line| JournalNote::deserialize(line).ok());
    let mut notes: Vec<JournalNote> = understood.collect();
    notes.sort_by_key(|note| note.at);
    notes
}
