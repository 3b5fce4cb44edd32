//! Limit ranges at work: containers get the limits they do not name, and may not go beyond.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value::{at, items_mut, list, members, set, text};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

fn limits_of<'a>(range: &'a Value, kind: &str) -> Vec<&'a Value> {
    let limits = list(range, &["spec", "limits"]).iter();
    limits
        .filter(|limit| text(limit, &["type"]) == kind)
        .collect()
}

/// A pod under the limit ranges of its namespace.
pub(super) fn pod(pod: &mut Value, ranges: &[Arc<Value>]) -> Result<(), String> {
    for range in ranges {
        fill(pod, range);
    }
    for range in ranges {
        let mut wrong = Vec::new();
        for limit in limits_of(range, "Container") {
            for key in ["containers", "initContainers"] {
                for container in list(pod, &["spec", key]) {
                    wrong.extend(beyond(limit, at(container, &["resources"]), "Container"));
                }
            }
        }
        refuse(wrong)?;
    }
    Ok(())
}

/// A claim under the limit ranges of its namespace.
pub(super) fn claim(claim: &Value, ranges: &[Arc<Value>]) -> Result<(), String> {
    for range in ranges {
        let mut wrong = Vec::new();
        for limit in limits_of(range, "PersistentVolumeClaim") {
            let asked = at(claim, &["spec", "resources", "requests"]);
            for (resource, least) in members(limit, &["min"]) {
                wrong.extend(too_little(
                    resource,
                    least,
                    asked,
                    &Value::Null,
                    "PersistentVolumeClaim",
                ));
            }
            for (resource, most) in members(limit, &["max"]) {
                wrong.extend(asks_too_much(resource, most, asked));
            }
        }
        refuse(wrong)?;
    }
    Ok(())
}

/// Several findings are one sentence in brackets.
fn refuse(wrong: Vec<String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let wrong: Vec<String> = wrong
        .into_iter()
        .filter(|why| seen.insert(why.clone()))
        .collect();
    match wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

fn fill(pod: &mut Value, range: &Value) {
    let mut notes = Vec::new();
    for limit in limits_of(range, "Container") {
        for (key, called) in [
            ("containers", "container"),
            ("initContainers", "init container"),
        ] {
            for container in items_mut(pod, &["spec", key]) {
                notes.extend(fill_container(container, limit, called));
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        set(pod, &["metadata", "annotations", ANNOTATION], note.into());
    }
}

fn fill_container(container: &mut Value, limit: &Value, called: &str) -> Vec<String> {
    let name = text(container, &["name"]).to_owned();
    let mut notes = Vec::new();
    for (from, to, word) in [
        ("defaultRequest", "requests", "request"),
        ("default", "limits", "limit"),
    ] {
        let mut added = Vec::new();
        for (resource, amount) in members(limit, &[from]) {
            let path = ["resources", to, resource.as_str()];
            if at(container, &path).is_null() {
                set(container, &path, amount.clone());
                added.push(resource.as_str());
            }
        }
        if !added.is_empty() {
            notes.push(format!("{} {word} for {called} {name}", added.join(", ")));
        }
    }
    notes
}

fn beyond(limit: &Value, resources: &Value, kind: &str) -> Vec<String> {
    let (asked, allowed) = (at(resources, &["requests"]), at(resources, &["limits"]));
    let mut wrong = Vec::new();
    for (resource, least) in members(limit, &["min"]) {
        wrong.extend(too_little(resource, least, asked, allowed, kind));
    }
    for (resource, most) in members(limit, &["max"]) {
        wrong.extend(too_much(resource, most, asked, allowed, kind));
    }
    wrong
}

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

fn too_little(
    resource: &str,
    least: &Value,
    asked: &Value,
    allowed: &Value,
    kind: &str,
) -> Option<String> {
    let least = amount(least)?;
    let head = format!("minimum {resource} usage per {kind} is {least}");
    let (asked, allowed) = (
        amount(at(asked, &[resource])),
        amount(at(allowed, &[resource])),
    );
    match (asked, allowed) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(asked), _) if asked < least => Some(format!("{head}, but request is {asked}")),
        (_, Some(allowed)) if allowed < least => Some(format!("{head}, but limit is {allowed}")),
        _ => None,
    }
}

fn too_much(
    resource: &str,
    most: &Value,
    asked: &Value,
    allowed: &Value,
    kind: &str,
) -> Option<String> {
    let most = amount(most)?;
    let head = format!("maximum {resource} usage per {kind} is {most}");
    let (asked, allowed) = (
        amount(at(asked, &[resource])),
        amount(at(allowed, &[resource])),
    );
    match (asked, allowed) {
        (_, None) => Some(format!("{head}.  No limit is specified")),
        (_, Some(allowed)) if allowed > most => Some(format!("{head}, but limit is {allowed}")),
        (Some(asked), _) if asked > most => Some(format!("{head}, but request is {asked}")),
        _ => None,
    }
}

fn asks_too_much(resource: &str, most: &Value, asked: &Value) -> Option<String> {
    let most = amount(most)?;
    let head = format!("maximum {resource} usage per PersistentVolumeClaim is {most}");
    match amount(at(asked, &[resource])) {
        None => Some(format!("{head}.  No request is specified")),
        Some(asked) if asked > most => Some(format!("{head}, but request is {asked}")),
        Some(_) => None,
    }
}
