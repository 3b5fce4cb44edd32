//! Tunnels and their agents: health color, hostname, and how long each stage took.

use aplomb::journal::{JournalEntry, JournalLine};
use aplomb::{ErrorClass, ObjectRef};
use aplomb_api::tunnel::{ConnectorStatus, HttpProxyStatus};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects::{ObjectMap, ObjectName, creation_time, find_condition, parse_status, value_text};
use crate::health::{HealthColor, STAGES};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TunnelRow {
    #[serde(flatten)]
    pub name: ObjectName,
    pub resource_version: String,
    pub light: HealthColor,
    pub hostname: Option<String>,
    /// The Connector of its agents.
    pub connector: Option<String>,
    pub reason: String,
    pub message: String,
    pub created: Option<Timestamp>,
    pub timeline: TimelineRow,
}

/// Stages and pushback on one axis that begins when the operator first observed the newest spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TimelineRow {
    /// When the axis begins.
    pub began: Option<Timestamp>,
    /// The stages that were reached, in order.
    pub stages: Vec<StageRow>,
    /// Pushback since the axis began.
    pub marks: Vec<PushbackMark>,
}

/// A stage that was reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StageRow {
    /// Its name, as in `status.timeline`.
    pub name: String,
    /// When it was reached.
    pub at: Timestamp,
    /// How many seconds after the axis began.
    pub offset: f64,
    /// How many seconds after the previous stage.
    pub took: f64,
}

/// Pushback: a conflict, an exhausted rate limit, or an upstream that did not respond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushbackMark {
    pub at: Timestamp,
    /// How many seconds after the axis began; for a repeated one, the first.
    pub offset: f64,
    /// How many times, close together.
    pub times: u64,
    /// Its class: `Conflict`, `Throttled` and so on.
    pub class: String,
    /// The object that was written, if it is known.
    pub object: Option<String>,
    /// The writer that was first, if it is known.
    pub winner: Option<String>,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectorRow {
    #[serde(flatten)]
    pub name: ObjectName,
    /// Whether it is online: `True`, `False` or `Unknown`.
    pub online: String,
    pub reason: String,
    /// The machine it runs on.
    pub device: Option<String>,
    pub agent_version: Option<String>,
    pub offline_since: Option<Timestamp>,
}

pub(super) fn tunnel_rows(objects: &ObjectMap, journal: &dyn Fn(&ObjectRef) -> Vec<JournalLine>) -> Vec<TunnelRow> {
    let tunnel = |object: &Value| {
        let name = ObjectName::from_object(object);
        let lines = journal(&name.object_ref("HTTPProxy"));
        let said: HttpProxyStatus = parse_status(object);
        let ready = find_condition(object, "Ready").unwrap_or(&Value::Null);
        TunnelRow {
            resource_version: value_text(&object["metadata"]["resourceVersion"]),
            light: HealthColor::from_object(object),
            hostname: said.hostname,
            connector: said.connector,
            reason: value_text(&ready["reason"]),
            message: value_text(&ready["message"]),
            created: creation_time(object),
            timeline: timeline_row(object, &lines),
            name,
        }
    };
    objects.of_kind("HTTPProxy").iter().map(tunnel).collect()
}

/// The stages of the newest spec, and the pushback since.
pub(crate) fn timeline_row(object: &Value, lines: &[JournalLine]) -> TimelineRow {
    let said = &object["status"]["timeline"];
    let moment = |name: &str| said[name].as_str()?.parse::<Timestamp>().ok();
    let reached = STAGES.iter().filter_map(|name| Some((*name, moment(name)?)));
    let mut reached: Vec<(&str, Timestamp)> = reached.collect();
    // Stages are sorted by time, not by name: a tunnel may be proven by an agent that was there before
    // its gateway has acknowledged.
    reached.sort_by_key(|(_, at)| *at);
    let seen = reached.first().map(|(_, at)| *at);
    let first = said["generation"].as_i64().is_none_or(|it| it == 1);
    let made = creation_time(object).filter(|_| first);
    let began = made
        .map(|made| earliest_time(made, seen, lines.iter().map(|it| it.at)))
        .or(seen);
    let Some(began) = began else {
        return TimelineRow::default();
    };
    let mut before = began;
    let stage = |(name, at): &(&str, Timestamp)| {
        let took = seconds_between(before, *at).max(0.0);
        before = *at;
        StageRow {
            name: (*name).to_owned(),
            at: *at,
            offset: seconds_between(began, *at),
            took,
        }
    };
    TimelineRow {
        began: Some(began),
        stages: reached.iter().map(stage).collect(),
        marks: pushback_marks(lines, began),
    }
}

/// When an object was created, more exactly than the API server's whole seconds: the first `known` time of that second,
/// or else the time its status says it was observed, but not later than the end of that second. During many conflicts the
/// first status that is accepted is late.
pub(crate) fn earliest_time(
    made: Timestamp,
    seen: Option<Timestamp>,
    known: impl Iterator<Item = Timestamp>,
) -> Timestamp {
    let ends = made + SignedDuration::from_secs(1);
    let within = known.chain(seen).filter(|at| (made..ends).contains(at)).min();
    within.unwrap_or_else(|| seen.map_or(made, |seen| seen.min(ends)))
}

/// The pushback since the axis began. A later journal line names the winner of a conflict, once that is known.
pub(crate) fn pushback_marks(lines: &[JournalLine], began: Timestamp) -> Vec<PushbackMark> {
    let mut marks: Vec<PushbackMark> = Vec::new();
    for line in lines.iter().filter(|it| it.at >= began) {
        let mark = |class: ErrorClass, message: &str| PushbackMark {
            at: line.at,
            offset: seconds_between(began, line.at),
            times: line.times,
            class: class.as_str().to_owned(),
            message: message.to_owned(),
            ..PushbackMark::default()
        };
        match &line.entry {
            JournalEntry::Pushback { class, message } => marks.push(mark(*class, message)),
            JournalEntry::Conflict { object, winner } => {
                let mut won = mark(ErrorClass::Conflict, "");
                won.object = Some(object.to_string());
                won.winner.clone_from(winner);
                attribute_conflicts(&mut marks, won);
            }
            _ => {}
        }
    }
    marks
}

/// Sets the winner of the newest conflicts that have none: as many as `won` counts.
fn attribute_conflicts(marks: &mut Vec<PushbackMark>, mut won: PushbackMark) {
    let open = |it: &PushbackMark| it.class == won.class && it.object.is_none();
    while let Some(at) = marks.iter().rposition(open).filter(|_| won.times > 0) {
        let of = won.times.min(marks[at].times);
        won.times -= of;
        let told = PushbackMark {
            times: of,
            object: won.object.clone(),
            winner: won.winner.clone(),
            ..marks[at].clone()
        };
        marks[at].times -= of;
        match marks[at].times {
            0 => marks[at] = told,
            _ => marks.insert(at + 1, told),
        }
    }
    if won.times > 0 {
        marks.push(won);
    }
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

pub(super) fn connector_rows(objects: &ObjectMap) -> Vec<ConnectorRow> {
    let connector = |object: &Value| {
        let said: ConnectorStatus = parse_status(object);
        let details = said.connection_details.unwrap_or_default();
        let online = find_condition(object, "Online").unwrap_or(&Value::Null);
        ConnectorRow {
            name: ObjectName::from_object(object),
            online: online["status"].as_str().unwrap_or("Unknown").to_owned(),
            reason: value_text(&online["reason"]),
            device: details.device,
            agent_version: details.agent_version,
            offline_since: said.offline_since.map(|it| it.0),
        }
    };
    objects.of_kind("Connector").iter().map(connector).collect()
}
