//! One object for its page: the trace that is also served as JSON, its health color, and a chart of its
//! stages with the pushback it met. Pure.

use aplomb::journal::{JournalEntry, JournalLine};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::light::HealthColor;
use crate::status::{ObjectMap, ObjectName, PushbackMark, StageRow, marks};
use crate::trace::{ObjectTrace, Relative, RelativeFilter, RelativeQuery, TraceInputs, looks};

/// One object at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectStory {
    /// What `/trace/....json` serializes.
    pub trace: ObjectTrace,
    /// Its health color.
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
    pub fn of(object: &Value, objects: &ObjectMap, lines: &[JournalLine], at: Timestamp) -> Self {
        let mut relatives = relatives(object, objects);
        relatives.extend(written(object, lines));
        let journal = lines.iter().filter_map(|it| serde_json::to_value(it).ok());
        let evidence = TraceInputs {
            object: object.clone(),
            relatives,
            journal: journal.collect(),
            ..TraceInputs::default()
        };
        let trace = ObjectTrace::of(&evidence, at);
        let light = HealthColor::of(object);
        let going = matches!(light, HealthColor::Amber { .. });
        let picture = TimelineChart::of(&trace, lines, going);
        Self {
            trace,
            light,
            picture,
        }
    }
}

impl TimelineChart {
    fn of(trace: &ObjectTrace, lines: &[JournalLine], going: bool) -> Self {
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
            marks: marks(lines, began),
            end: if going {
                since(trace.at).max(last)
            } else {
                last
            },
            stages,
        }
    }
}

/// Objects that belong to it, of the kinds that are watched.
fn relatives(object: &Value, objects: &ObjectMap) -> Vec<Relative> {
    let of = object["metadata"]["uid"].as_str().unwrap_or_default();
    let found = |look: RelativeQuery| -> Vec<Relative> {
        let Some(all) = objects.known(look.kind) else {
            return Vec::new();
        };
        let relative = |name: ObjectName, object: Option<&Value>| Relative {
            of: of.to_owned(),
            kind: look.kind.to_owned(),
            namespace: name.namespace,
            name: name.name,
            role: look.role.to_owned(),
            exists: Some(object.is_some()),
            object: object.cloned(),
        };
        let here =
            |it: &&Value| ObjectName::of(it).namespace == look.namespace && look.by.means(it);
        let there: Vec<_> = all
            .iter()
            .filter(here)
            .map(|it| relative(ObjectName::of(it), Some(it)))
            .collect();
        match &look.by {
            RelativeFilter::Name(name) if there.is_empty() => {
                let namespace = look.namespace.clone();
                let name = name.clone();
                vec![relative(ObjectName { namespace, name }, None)]
            }
            _ => there,
        }
    };
    looks(object).into_iter().flat_map(found).collect()
}

/// Objects that were written on its behalf, from the journal.
fn written(object: &Value, lines: &[JournalLine]) -> Vec<Relative> {
    let of = object["metadata"]["uid"].as_str().unwrap_or_default();
    let own = ObjectName::of(object).id(object["kind"].as_str().unwrap_or_default());
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
        of: of.to_owned(),
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

    fn shop() -> ObjectStory {
        let objects = fixture::objects();
        let name = fixture::name("shop");
        let object = objects.get("HTTPProxy", &name).expect("the tunnel");
        let lines = fixture::journal(&name.id("HTTPProxy"));
        ObjectStory::of(object, &objects, &lines, fixture::at())
    }

    #[test]
    fn the_picture_ends_with_the_proof_and_has_the_pushback_on_it() {
        let TimelineChart { stages, marks, end } = shop().picture;
        assert_eq!(stages.last().map(|it| &*it.name), Some("Proven"));
        assert!((end - 0.412).abs() < 1e-9, "{end}");
        assert_eq!(marks.len(), 4);
        assert_eq!(marks[0].winner.as_deref(), Some("kubectl-edit"));
    }

    #[test]
    fn what_is_still_going_on_is_shown_up_to_now() {
        let objects = fixture::objects();
        let blog = &objects.of("HTTPProxy")[1];
        let story = ObjectStory::of(blog, &objects, &[], fixture::at());
        assert_eq!(story.light.word(), "amber");
        assert!(
            (story.picture.end - 121.9).abs() < 1e-6,
            "{}",
            story.picture.end
        );
    }
}
