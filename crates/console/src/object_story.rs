//! One object for its page: the trace that is also served as JSON, its health color, and a chart of its
//! stages with the pushback it met. Pure.

use aplomb::journal::{JournalEntry, JournalLine};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::health::HealthColor;
use crate::status::{ObjectMap, ObjectName, PushbackMark, StageRow, pushback_marks};
use crate::trace::{ObjectTrace, Relative, RelativeFilter, RelativeQuery, TraceInputs, relative_queries};

/// One object at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectStory {
    /// What `/trace/....json` serializes.
    pub trace: ObjectTrace,
    pub light: HealthColor,
    /// Its stages and the pushback on one time axis.
    pub picture: TimelineChart,
}

/// Stages and pushback on one time axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineChart {
    /// The stages that were reached.
    pub stages: Vec<StageRow>,
    /// The pushback, including marks after the chart's end.
    pub marks: Vec<PushbackMark>,
    /// How many seconds the chart covers.
    pub end: f64,
}

impl ObjectStory {
    /// The story of `object`, from `objects` and a journal.
    #[must_use]
    pub fn from_object(object: &Value, objects: &ObjectMap, lines: &[JournalLine], at: Timestamp) -> Self {
        let mut relatives = find_relatives(object, objects);
        relatives.extend(written_objects(object, lines));
        let journal = lines.iter().filter_map(|it| serde_json::to_value(it).ok());
        let evidence = TraceInputs {
            object: object.clone(),
            relatives,
            journal: journal.collect(),
            ..TraceInputs::default()
        };
        let trace = ObjectTrace::from_inputs(&evidence, at);
        let light = HealthColor::from_object(object);
        let going = matches!(light, HealthColor::Amber { .. });
        let picture = TimelineChart::from_trace(&trace, lines, going);
        Self { trace, light, picture }
    }
}

impl TimelineChart {
    fn from_trace(trace: &ObjectTrace, lines: &[JournalLine], going: bool) -> Self {
        let Some(began) = trace.stages.iter().find_map(|it| it.at) else {
            return Self::default();
        };
        let since = |at: Timestamp| at.duration_since(began).as_secs_f64();
        let mut before = began;
        let reached = trace.stages.iter().filter_map(|it| Some((it, it.at?)));
        let stages: Vec<StageRow> = reached
            .map(|(stage, at)| {
                let took = (since(at) - since(before)).max(0.0);
                before = at;
                StageRow {
                    name: stage.name.clone(),
                    at,
                    offset: since(at),
                    took,
                }
            })
            .collect();
        let last = stages.iter().map(|it| it.offset).fold(0.001, f64::max);
        Self {
            marks: pushback_marks(lines, began),
            end: if going { since(trace.at).max(last) } else { last },
            stages,
        }
    }
}

/// Objects that belong to it, of the kinds that are watched.
fn find_relatives(object: &Value, objects: &ObjectMap) -> Vec<Relative> {
    let of = object["metadata"]["uid"].as_str().unwrap_or_default();
    let found = |look: RelativeQuery| -> Vec<Relative> {
        let Some(all) = objects.watched(look.kind) else {
            return Vec::new();
        };
        let relative = |name: ObjectName, object: Option<&Value>| Relative {
            parent: of.to_owned(),
            kind: look.kind.to_owned(),
            namespace: name.namespace,
            name: name.name,
            role: look.role.to_owned(),
            exists: Some(object.is_some()),
            object: object.cloned(),
        };
        let here = |it: &&Value| ObjectName::from_object(it).namespace == look.namespace && look.filter.matches(it);
        let there: Vec<_> = all
            .iter()
            .filter(here)
            .map(|it| relative(ObjectName::from_object(it), Some(it)))
            .collect();
        match &look.filter {
            RelativeFilter::Name(name) if there.is_empty() => {
                let namespace = look.namespace.clone();
                let name = name.clone();
                vec![relative(ObjectName { namespace, name }, None)]
            }
            _ => there,
        }
    };
    relative_queries(object).into_iter().flat_map(found).collect()
}

/// Objects that were written on its behalf, from the journal.
fn written_objects(object: &Value, lines: &[JournalLine]) -> Vec<Relative> {
    let of = object["metadata"]["uid"].as_str().unwrap_or_default();
    let own = ObjectName::from_object(object).object_ref(object["kind"].as_str().unwrap_or_default());
    let mut ids: Vec<_> = lines
        .iter()
        .filter_map(|line| match &line.entry {
            JournalEntry::Wrote { object, .. } if *object != own => Some(object.clone()),
            _ => None,
        })
        .collect();
    ids.sort();
    ids.dedup();
    let relative = |id: aplomb::ObjectRef| Relative {
        parent: of.to_owned(),
        kind: id.kind.to_string(),
        namespace: id.key.namespace.map(|it| it.to_string()),
        name: id.key.name.to_string(),
        role: "written for it".to_owned(),
        ..Relative::default()
    };
    ids.into_iter().map(relative).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn shop_story() -> ObjectStory {
        let objects = fixture::objects();
        let name = fixture::object_name("shop");
        let object = objects.get("HTTPProxy", &name).expect("the tunnel");
        let lines = fixture::journal(&name.object_ref("HTTPProxy"));
        ObjectStory::from_object(object, &objects, &lines, fixture::fixture_time())
    }

    #[test]
    fn the_chart_ends_with_the_proof_and_has_the_pushback() {
        let TimelineChart { stages, marks, end } = shop_story().picture;
        assert_eq!(stages.last().map(|it| &*it.name), Some("Proven"));
        assert!((end - 0.412).abs() < 1e-9, "{end}");
        assert_eq!(marks.len(), 4);
        assert_eq!(marks[0].winner.as_deref(), Some("kubectl-edit"));
    }

    #[test]
    fn an_open_timeline_extends_to_now() {
        let objects = fixture::objects();
        let blog = &objects.of_kind("HTTPProxy")[1];
        let story = ObjectStory::from_object(blog, &objects, &[], fixture::fixture_time());
        assert_eq!(story.light.as_str(), "amber");
        assert!((story.picture.end - 121.9).abs() < 1e-6, "{}", story.picture.end);
    }
}
