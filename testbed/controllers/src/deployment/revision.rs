//! What a deployment writes on its replica sets: revisions, their history, and the sizes a share
//! is computed from.
//!
//! Pure edits of annotations; each says whether it changed anything.

use serde_json::{Map, Value};

use aplomb_apimachinery::object;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const HISTORY_LENGTH: usize = 2000;
/// Annotations of a deployment that its replica sets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

fn annotations(object: &mut Value) -> &mut Map<String, Value> {
    let annotations = object::metadata_mut(object)
        .entry("annotations")
        .or_insert_with(|| Value::Object(Map::new()));
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations.as_object_mut().expect("it was made one above")
}

/// An annotation.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let annotations = object.pointer("/metadata/annotations")?;
    annotations.get(name)?.as_str()
}

/// An annotation that is a count.
pub(super) fn count(object: &Value, name: &str) -> Option<i64> {
    let count: u32 = annotation(object, name)?.parse().ok()?;
    i32::try_from(count).ok().map(i64::from)
}

/// The revision of a replica set; none is 0, and what is no number is none at all.
pub(super) fn of(object: &Value) -> Option<i64> {
    annotation(object, REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// The highest revision among replica sets.
pub(super) fn highest(sets: &[Value]) -> i64 {
    sets.iter().filter_map(of).max().unwrap_or(0).max(0)
}

fn set(object: &mut Value, name: &str, value: &str) -> bool {
    if annotation(object, name) == Some(value) {
        return false;
    }
    annotations(object).insert(name.to_owned(), value.into());
    true
}

/// Notes the revision on a deployment.
pub(super) fn note(deployment: &mut Value, revision: &str) -> bool {
    set(deployment, REVISION, revision)
}

/// Notes the sizes shares are computed from.
pub(super) fn note_sizes(replica_set: &mut Value, desired: i64, surge: i64) -> bool {
    let first = set(replica_set, DESIRED, &desired.to_string());
    set(replica_set, MAX_REPLICAS, &(desired + surge).to_string()) || first
}

/// Brings the annotations of the new replica set up to date: the deployment's own, and the
/// revision. One that takes a higher revision has been rolled back to, and remembers the old one.
pub(super) fn stamp(deployment: &Value, replica_set: &mut Value, revision: i64) -> bool {
    let mut changed = false;
    let own = deployment.pointer("/metadata/annotations");
    for (name, value) in own.and_then(Value::as_object).into_iter().flatten() {
        if !NOT_COPIED.contains(&name.as_str()) {
            changed |= set(replica_set, name, value.as_str().unwrap_or_default());
        }
    }
    let before = annotation(replica_set, REVISION).map(str::to_owned);
    let Ok(old) = before.as_deref().unwrap_or("0").parse::<i64>() else {
        return false;
    };
    if old < revision {
        set(replica_set, REVISION, &revision.to_string());
        changed = true;
        if let Some(before) = before {
            remember(replica_set, &before);
        }
    }
    changed
}

fn remember(replica_set: &mut Value, revision: &str) {
    let history = annotation(replica_set, HISTORY).unwrap_or_default().to_owned();
    if history.is_empty() {
        set(replica_set, HISTORY, revision);
        return;
    }
    let mut kept = history.as_str();
    while kept.len() + revision.len() + 1 > HISTORY_LENGTH {
        let Some((_, rest)) = kept.split_once(',') else {
            return;
        };
        kept = rest;
    }
    let history = format!("{kept},{revision}");
    set(replica_set, HISTORY, &history);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment() -> Value {
        json!({ "metadata": { "annotations": {
            "kubernetes.io/change-cause": "edit", REVISION: "7", NOT_COPIED[0]: "{}",
        } } })
    }

    #[test]
    fn a_new_set_gets_the_deployments_annotations_and_its_revision() {
        let mut replica_set = json!({ "metadata": {} });
        assert!(stamp(&deployment(), &mut replica_set, 1));
        let expected = json!({ "kubernetes.io/change-cause": "edit", REVISION: "1" });
        assert_eq!(replica_set["metadata"]["annotations"], expected);
        assert!(!stamp(&deployment(), &mut replica_set, 1));
    }

    #[test]
    fn one_that_is_rolled_back_to_remembers_what_it_was() {
        let mut replica_set = json!({ "metadata": { "annotations": { REVISION: "1" } } });
        stamp(&deployment(), &mut replica_set, 3);
        stamp(&deployment(), &mut replica_set, 5);
        assert_eq!(annotation(&replica_set, HISTORY), Some("1,3"));
        assert_eq!(of(&replica_set), Some(5));
    }
}
