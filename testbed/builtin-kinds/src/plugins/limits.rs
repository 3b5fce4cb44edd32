//! Limit ranges at work: containers get the limits they do not name, and neither they nor pods nor
//! claims may go beyond.
//!
//! Resources are gone through by name, also where the server's own order is any.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::usage::amounts::{Amounts, read};
use super::super::usage::sum;
use super::super::value::{at, items_mut, list, members, set, text};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];
/// The largest number of units whose thousandths fit a machine word.
const MAX_MILLI: i128 = i64::MAX as i128 / 1000;

/// What something asks for and what it is limited to.
struct Resources {
    requests: Amounts,
    limits: Amounts,
}

fn limits_of<'a>(range: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    let limits = list(range, &["spec", "limits"]).iter();
    limits.filter(move |limit| text(limit, &["type"]) == kind)
}

/// Gives the containers of a pod what they do not name, of one range after the other.
pub(super) fn fill(pod: &mut Value, ranges: &[Arc<Value>]) {
    for range in ranges {
        let mut notes = Vec::new();
        for limit in limits_of(range, "Container") {
            for (key, called) in CONTAINERS {
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

/// A pod under the limit ranges of its namespace; the first that refuses is heard.
pub(super) fn pod(pod: &Value, ranges: &[Arc<Value>]) -> Result<(), String> {
    for range in ranges {
        let mut wrong = Vec::new();
        for limit in list(range, &["spec", "limits"]) {
            wrong.extend(match text(limit, &["type"]) {
                kind @ "Container" => containers(pod)
                    .iter()
                    .flat_map(|container| beyond(limit, container, kind))
                    .collect(),
                kind @ "Pod" => beyond(limit, &whole(pod), kind),
                _ => Vec::new(),
            });
        }
        refuse(wrong)?;
    }
    Ok(())
}

/// A claim under the limit ranges of its namespace.
pub(super) fn claim(claim: &Value, ranges: &[Arc<Value>]) -> Result<(), String> {
    const KIND: &str = "PersistentVolumeClaim";
    let asked = Resources {
        requests: read(claim, &["spec", "resources", "requests"]),
        limits: Amounts::new(),
    };
    for range in ranges {
        let mut wrong = Vec::new();
        for limit in limits_of(range, KIND) {
            for (resource, least) in &read(limit, &["min"]) {
                wrong.extend(too_little(resource, least, &asked, KIND));
            }
            for (resource, most) in &read(limit, &["max"]) {
                wrong.extend(asks_too_much(resource, most, &asked.requests, KIND));
            }
        }
        refuse(wrong)?;
    }
    Ok(())
}

fn containers(pod: &Value) -> Vec<Resources> {
    let each = CONTAINERS.iter().flat_map(|(key, _)| list(pod, &["spec", key]));
    each.map(|container| Resources {
        requests: read(container, &["resources", "requests"]),
        limits: read(container, &["resources", "limits"]),
    })
    .collect()
}

fn whole(pod: &Value) -> Resources {
    let of = |which: &str| {
        let mut sum = sum::of_containers(pod, |container| read(container, &["resources", which]));
        sum::override_by_pod(&mut sum, pod, which, sum::is_compute);
        sum
    };
    Resources {
        requests: of("requests"),
        limits: of("limits"),
    }
}

/// Several findings are one sentence in brackets.
fn refuse(wrong: Vec<String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let wrong: Vec<String> = wrong.into_iter().filter(|why| seen.insert(why.clone())).collect();
    match wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

fn beyond(limit: &Value, resources: &Resources, kind: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (resource, least) in &read(limit, &["min"]) {
        wrong.extend(too_little(resource, least, resources, kind));
    }
    for (resource, most) in &read(limit, &["max"]) {
        wrong.extend(too_much(resource, most, resources, kind));
    }
    for (resource, most) in &read(limit, &["maxLimitRequestRatio"]) {
        wrong.extend(too_wide(resource, most, resources, kind));
    }
    wrong
}

/// Amounts as the server compares them: in thousandths where all of them fit, else in units.
fn measured<const N: usize>(amounts: [&Quantity; N]) -> [i128; N] {
    let fit = amounts.iter().all(|amount| amount.parts(0) <= MAX_MILLI);
    amounts.map(|amount| amount.parts(if fit { 3 } else { 0 }))
}

/// What is asked for and allowed of a resource, and both beside `bound` as they are compared.
fn compared<'a>(
    resource: &str,
    resources: &'a Resources,
    bound: &Quantity,
) -> (Option<&'a Quantity>, Option<&'a Quantity>, [i128; 3]) {
    let nothing = Quantity::zero();
    let asked = resources.requests.get(resource);
    let allowed = resources.limits.get(resource);
    let measured = measured([asked.unwrap_or(&nothing), allowed.unwrap_or(&nothing), bound]);
    (asked, allowed, measured)
}

fn too_little(resource: &str, least: &Quantity, of: &Resources, kind: &str) -> Option<String> {
    let head = format!("minimum {resource} usage per {kind} is {least}");
    let (asked, allowed, [request, limit, bound]) = compared(resource, of, least);
    match (asked, allowed) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(asked), _) if request < bound => Some(format!("{head}, but request is {asked}")),
        (_, Some(allowed)) if limit < bound => Some(format!("{head}, but limit is {allowed}")),
        _ => None,
    }
}

fn too_much(resource: &str, most: &Quantity, of: &Resources, kind: &str) -> Option<String> {
    let head = format!("maximum {resource} usage per {kind} is {most}");
    let (asked, allowed, [request, limit, bound]) = compared(resource, of, most);
    match (asked, allowed) {
        (_, None) => Some(format!("{head}.  No limit is specified")),
        (_, Some(allowed)) if limit > bound => Some(format!("{head}, but limit is {allowed}")),
        (Some(asked), _) if request > bound => Some(format!("{head}, but request is {asked}")),
        _ => None,
    }
}

/// What only asks has no limit that could be looked at.
fn asks_too_much(resource: &str, most: &Quantity, asked: &Amounts, kind: &str) -> Option<String> {
    let head = format!("maximum {resource} usage per {kind} is {most}");
    let Some(asked) = asked.get(resource) else {
        return Some(format!("{head}.  No request is specified"));
    };
    let [request, bound] = measured([asked, most]);
    (request > bound).then(|| format!("{head}, but request is {asked}"))
}

/// A limit may only be so many times the request.
fn too_wide(resource: &str, most: &Quantity, of: &Resources, kind: &str) -> Option<String> {
    let head = format!("{resource} max limit to request ratio per {kind} is {most}");
    let (_, _, [request, limit, _]) = compared(resource, of, most);
    if request == 0 {
        return Some(format!("{head}, but no request is specified or request is 0"));
    }
    if limit == 0 {
        return Some(format!("{head}, but no limit is specified or limit is 0"));
    }
    let ratio = quotient(limit, request);
    let (observed, bound) = if most.parts(0) <= MAX_MILLI {
        (ratio * 1000.0, most.parts(3))
    } else {
        (ratio, most.parts(0))
    };
    (observed > quotient(bound, 1)).then(|| format!("{head}, but provided ratio is {ratio:.6}"))
}

#[allow(clippy::cast_precision_loss)] // the server shows and compares it as a double
fn quotient(amount: i128, by: i128) -> f64 {
    amount as f64 / by as f64
}

#[cfg(test)]
mod tests;
