//! The stages of an object, how long each took, and the pushback in between. Each kind records its stages in its
//! status; the pushback comes from the journal and is counted in the gap in which it was met.

use std::collections::BTreeMap;

use aplomb_api::DurationString;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JournalNote, NoteKind, str_at, time_at};
use crate::status::earliest_time;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceStage {
    /// What was reached, such as `Programmed`.
    pub name: String,
    /// When it was reached; `None` if it is not reached yet.
    pub at: Option<Timestamp>,
    /// Milliseconds since the previous stage.
    pub gap_ms: Option<i64>,
    /// Milliseconds since the first stage.
    pub after_ms: Option<i64>,
    /// Writes rejected with a conflict since the previous stage.
    pub conflicts: u64,
    /// The writers that were first, as far as known.
    pub won_by: Vec<ConflictWinner>,
    /// Other pushback since the previous stage, by class.
    pub pushback: BTreeMap<String, u64>,
}

/// A writer that was first, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictWinner {
    /// The field manager; `None` if the object does not show it.
    pub manager: Option<String>,
    pub object: String,
    pub times: u64,
}

type Reached = (String, Option<Timestamp>);

pub(super) fn collect_stages(object: &Value, notes: &[JournalNote]) -> Vec<TraceStage> {
    let mut reached = match str_at(object, "/kind") {
        "HTTPProxy" => tunnel_stages(object, notes),
        "StableEgress" => egress_stages(object, notes),
        _ => record_stages(object, notes),
    };
    if reached.is_empty() {
        reached = vec![creation_stage(object)];
    }
    with_gaps(reached, notes)
}

fn creation_stage(object: &Value) -> Reached {
    let at = time_at(object, "/metadata/creationTimestamp");
    ("Created".to_owned(), at)
}

/// The stages of a tunnel, from its status.
fn tunnel_stages(object: &Value, notes: &[JournalNote]) -> Vec<Reached> {
    let stages = [
        ("Created", "created"),
        ("Accepted", "accepted"),
        ("Children written", "childrenWritten"),
        ("Programmed", "programmed"),
        ("Proven", "proven"),
    ];
    let at = |key| time_at(object, &format!("/status/timeline/{key}"));
    let mut reached: Vec<Reached> = stages.map(|(name, key)| (name.to_owned(), at(key))).into();
    // The first accepted status shows when it was first observed, which is late during many conflicts.
    let spec = object.pointer("/status/timeline/generation");
    if spec.and_then(Value::as_i64).is_none_or(|spec| spec == 1) {
        let noted = reached[0].1;
        let created = time_at(object, "/metadata/creationTimestamp");
        let known = notes.iter().map(|note| note.at);
        reached[0].1 = created.map(|created| earliest_time(created, noted, known)).or(noted);
    }
    reached
}

/// The last move, or the one in progress.
fn egress_stages(object: &Value, notes: &[JournalNote]) -> Vec<Reached> {
    let moves = ["/status/moving", "/status/lastMove"];
    let mut moves = moves.iter().filter_map(|at| object.pointer(at));
    let Some(last) = moves.find(|it| it.is_object()) else {
        return record_stages(object, notes);
    };
    let span = |key: &str| {
        let text = str_at(last, &format!("/stages/{key}"));
        let span = text.parse::<DurationString>().ok()?;
        SignedDuration::try_from(span.0).ok()
    };
    let decided = time_at(last, "/decided");
    let add = |at: Option<Timestamp>, key: &str| at?.checked_add(span(key)?).ok();
    let accepted = add(decided, "accept");
    let assigned = add(accepted, "assign");
    let labelled = add(assigned, "label");
    vec![
        ("Move needed".to_owned(), time_at(last, "/detected")),
        ("Decided".to_owned(), decided),
        ("Accepted by the provider".to_owned(), accepted),
        ("Floating IP assigned".to_owned(), assigned),
        ("Labels moved".to_owned(), labelled),
        ("Ended".to_owned(), time_at(last, "/ended")),
    ]
}

/// Creation, the keys and registrations that were requested, and each condition that became true.
fn record_stages(object: &Value, notes: &[JournalNote]) -> Vec<Reached> {
    let mut reached = vec![creation_stage(object)];
    let mut note = |name: String, at: Option<Timestamp>| {
        if at.is_some() {
            reached.push((name, at));
        }
    };
    for (key, said) in [("key", "requested"), ("pending", "requested, not created yet")] {
        let name = str_at(object, &format!("/status/{key}/name"));
        let since = time_at(object, &format!("/status/{key}/since"));
        note(format!("{name} {said}"), since);
    }
    note(
        "New key stored in its Secret".to_owned(),
        time_at(object, "/status/rotation/last"),
    );
    for retiring in object
        .pointer("/status/retiring")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let name = str_at(retiring, "/name");
        note(format!("replacing {name}"), time_at(retiring, "/retired"));
        note(format!("{name} replaced"), time_at(retiring, "/replaced"));
    }
    for condition in object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if str_at(condition, "/status") == "True" {
            let name = str_at(condition, "/type");
            let at = true_since(name, notes);
            let since = || time_at(condition, "/lastTransitionTime");
            note(name.to_owned(), at.or_else(since));
        }
    }
    reached.sort_by_key(|(_, at)| *at);
    reached
}

/// When a condition last became true: to the millisecond if the journal has it.
fn true_since(name: &str, notes: &[JournalNote]) -> Option<Timestamp> {
    let mut changes = notes.iter().rev().filter_map(|note| match &note.what {
        NoteKind::Condition { condition, status, .. } if condition == name => Some((note.at, status)),
        _ => None,
    });
    let (at, status) = changes.next()?;
    (status == "True").then_some(at)
}

fn with_gaps(reached: Vec<Reached>, notes: &[JournalNote]) -> Vec<TraceStage> {
    let first = reached.iter().find_map(|(_, at)| *at);
    let mut before: Option<Timestamp> = None;
    let mut open = true;
    let mut stages = Vec::new();
    let last = reached.len();
    for (number, (name, at)) in (1..).zip(reached) {
        // Pushback since the last stage reached counts for the first stage that is not; pushback that delayed
        // the status of the last stage counts for that stage.
        let until = match at {
            Some(at) if number == last => ready_note_time(notes, at).unwrap_or(at),
            _ => at.unwrap_or(Timestamp::MAX),
        };
        let met = (at.is_some() || open).then_some((before, until));
        open = open && at.is_some();
        let mut stage = TraceStage {
            name,
            at,
            gap_ms: millis_between(before, at),
            after_ms: millis_between(first, at),
            conflicts: 0,
            won_by: Vec::new(),
            pushback: BTreeMap::new(),
        };
        if let Some((after, until)) = met {
            let within = |note: &&JournalNote| after.is_none_or(|after| note.at > after) && note.at <= until;
            notes.iter().filter(within).for_each(|note| stage.record_note(note));
        }
        before = at.or(before);
        stages.push(stage);
    }
    stages
}

/// When the object was first reported ready, at `since` or later.
fn ready_note_time(notes: &[JournalNote], since: Timestamp) -> Option<Timestamp> {
    let ready = |note: &&JournalNote| matches!(&note.what, NoteKind::Condition { condition, status, .. } if condition == "Ready" && status == "True");
    let mut later = notes.iter().filter(|note| note.at >= since);
    later.find(ready).map(|note| note.at)
}

fn millis_between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<i64> {
    // A tunnel may be proven before `programmed` is written to its status. The gap is then zero.
    Some((to?.as_millisecond() - from?.as_millisecond()).max(0))
}

impl TraceStage {
    fn record_note(&mut self, note: &JournalNote) {
        match &note.what {
            NoteKind::Pushback { .. } if note.is_conflict() => self.conflicts += note.times,
            NoteKind::Pushback { class, .. } => {
                *self.pushback.entry(class.clone()).or_default() += note.times;
            }
            NoteKind::Conflict { object, winner } => self.record_winner(winner.as_ref(), object, note.times),
            _ => {}
        }
    }

    fn record_winner(&mut self, manager: Option<&String>, object: &str, times: u64) {
        let known = self.won_by.iter_mut();
        let mut known = known.filter(|it| it.manager.as_ref() == manager && it.object == object);
        if let Some(winner) = known.next() {
            winner.times += times;
            return;
        }
        self.won_by.push(ConflictWinner {
            manager: manager.cloned(),
            object: object.to_owned(),
            times,
        });
    }
}
