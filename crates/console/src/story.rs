//! One object as its page tells it: the trace that is served as JSON beside it, its lamp, and the picture of its
//! stages with the pushback on it. Pure.

use aplomb::journal::{Entry, Line};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::light::Light;
use crate::status::{Mark, Name, Objects, Stage, marks};
use crate::trace::{By, Evidence, Look, Relative, Trace, looks};

/// One object at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// What `/trace/....json` serializes.
    pub trace: Trace,
    /// What its toggle shows.
    pub light: Light,
    /// Its stages and the pushback on one axis.
    pub picture: Picture,
}

/// Stages and pushback on one axis of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Picture {
    /// The stages that were reached.
    pub stages: Vec<Stage>,
    /// The pushback, also what came after the picture's end.
    pub marks: Vec<Mark>,
    /// How many seconds it shows.
    pub end: f64,
}

impl Story {
    /// What `objects` and a journal tell of `object`.
    #[must_use]
    pub fn of(object: &Value, objects: &Objects, lines: &[Line], at: Timestamp) -> Self {
        let mut relatives = relatives(object, objects);
        relatives.extend(written(object, lines));
        let journal = lines.iter().filter_map(|it| serde_json::to_value(it).ok());
        let evidence = Evidence {
            object: object.clone(),
            relatives,
            journal: journal.collect(),
            ..Evidence::default()
        };
        let trace = Trace::of(&evidence, at);
        let light = Light::of(object);
        let going = matches!(light, Light::Amber { .. });
        let picture = Picture::of(&trace, lines, going);
        Self {
            trace,
            light,
            picture,
        }
    }
}

impl Picture {
    fn of(trace: &Trace, lines: &[Line], going: bool) -> Self {
        let Some(began) = trace.stages.iter().find_map(|it| it.at) else {
            return Self::default();
        };
        let since = |at: Timestamp| at.duration_since(began).as_secs_f64();
        let mut before = began;
        let reached = trace.stages.iter().filter_map(|it| Some((it, it.at?)));
        let stages: Vec<Stage> = reached
            .map(|(stage, at)| {
                let took = (since(at) - since(before)).max(0.0);
                before = at;
                Stage {
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

/// What belongs to it, of the kinds that are watched.
fn relatives(object: &Value, objects: &Objects) -> Vec<Relative> {
    let of = object["metadata"]["uid"].as_str().unwrap_or_default();
    let found = |look: Look| -> Vec<Relative> {
        let Some(all) = objects.known(look.kind) else {
            return Vec::new();
        };
        let relative = |name: Name, object: Option<&Value>| Relative {
            of: of.to_owned(),
            kind: look.kind.to_owned(),
            namespace: name.namespace,
            name: name.name,
            role: look.role.to_owned(),
            exists: Some(object.is_some()),
            object: object.cloned(),
        };
        let here = |it: &&Value| Name::of(it).namespace == look.namespace && look.by.means(it);
        let there: Vec<_> = all
            .iter()
            .filter(here)
            .map(|it| relative(Name::of(it), Some(it)))
            .collect();
        match &look.by {
            By::Name(name) if there.is_empty() => {
                let namespace = look.namespace.clone();
                let name = name.clone();
                vec![relative(Name { namespace, name }, None)]
            }
            _ => there,
        }
    };
    looks(object).into_iter().flat_map(found).collect()
}

/// What was written on its behalf, as the journal remembers it.
fn written(object: &Value, lines: &[Line]) -> Vec<Relative> {
    let of = object["metadata"]["uid"].as_str().unwrap_or_default();
    let own = Name::of(object).id(object["kind"].as_str().unwrap_or_default());
    let mut ids: Vec<_> = lines
        .iter()
        .filter_map(|line| match &line.entry {
            Entry::Wrote { object, .. } if *object != own => Some(object.clone()),
            _ => None,
        })
        .collect();
    ids.sort();
    ids.dedup();
    let relative = |id: aplomb::ObjectId| Relative {
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

    fn shop() -> Story {
        let objects = fixture::objects();
        let name = fixture::name("shop");
        let object = objects.get("HTTPProxy", &name).expect("the tunnel");
        let lines = fixture::journal(&name.id("HTTPProxy"));
        Story::of(object, &objects, &lines, fixture::at())
    }

    #[test]
    fn the_picture_ends_with_the_proof_and_has_the_pushback_on_it() {
        let Picture { stages, marks, end } = shop().picture;
        assert_eq!(stages.last().map(|it| &*it.name), Some("Proven"));
        assert!((end - 0.412).abs() < 1e-9, "{end}");
        assert_eq!(marks.len(), 4);
        assert_eq!(marks[0].winner.as_deref(), Some("kubectl-edit"));
    }

    #[test]
    fn what_is_still_going_on_is_shown_up_to_now() {
        let objects = fixture::objects();
        let blog = &objects.of("HTTPProxy")[1];
        let story = Story::of(blog, &objects, &[], fixture::at());
        assert_eq!(story.light.word(), "amber");
        assert!(
            (story.picture.end - 121.9).abs() < 1e-6,
            "{}",
            story.picture.end
        );
    }
}
