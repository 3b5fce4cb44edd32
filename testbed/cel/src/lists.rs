//! Functions on lists and sets.

use std::cmp::Ordering;

use super::eval::Outcome;
use super::functions;
use super::value::Val;

/// Calls a function of this library, if `function` is one for these values.
pub(super) fn call(function: &str, values: &[Val]) -> Option<Outcome> {
    let outcome = match (function, values) {
        ("isSorted", [Val::List(items, _)]) => Ok(Val::Bool(
            items
                .windows(2)
                .all(|pair| pair[0].compare(&pair[1]) != Some(Ordering::Greater)),
        )),
        ("sum", [Val::List(items, _)]) => sum(items),
        ("min", [Val::List(items, _)]) => extreme(items, "min", Ordering::Less),
        ("max", [Val::List(items, _)]) => extreme(items, "max", Ordering::Greater),
        ("indexOf", [Val::List(items, _), item]) => position(items.iter().position(|other| other.equals(item))),
        ("lastIndexOf", [Val::List(items, _), item]) => position(items.iter().rposition(|other| other.equals(item))),
        ("slice", [Val::List(items, _), Val::Int(from), Val::Int(to)]) => slice(items, *from, *to),
        ("reverse", [Val::List(items, _)]) => Ok(Val::list(items.iter().rev().cloned().collect())),
        ("distinct", [Val::List(items, _)]) => Ok(Val::list(distinct(items))),
        ("sort", [Val::List(items, _)]) => Ok(Val::list(sorted(items))),
        ("flatten", [Val::List(items, _)]) => Ok(Val::list(flatten(items, 1))),
        ("flatten", [Val::List(items, _), Val::Int(depth)]) => Ok(Val::list(flatten(items, *depth))),
        ("lists.range", [Val::Int(end)]) => Ok(Val::list((0..*end).map(Val::Int).collect())),
        ("sets.contains", [Val::List(a, _), Val::List(b, _)]) => Ok(Val::Bool(covers(a, b))),
        ("sets.equivalent", [Val::List(a, _), Val::List(b, _)]) => Ok(Val::Bool(covers(a, b) && covers(b, a))),
        ("sets.intersects", [Val::List(a, _), Val::List(b, _)]) => Ok(Val::Bool(intersect(a, b))),
        _ => return None,
    };
    Some(outcome)
}

fn covers(all: &[Val], some: &[Val]) -> bool {
    some.iter().all(|item| all.iter().any(|other| item.equals(other)))
}

fn intersect(a: &[Val], b: &[Val]) -> bool {
    a.iter().any(|item| b.iter().any(|other| item.equals(other)))
}

fn position(at: Option<usize>) -> Outcome {
    Ok(Val::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)))
}

fn sum(items: &[Val]) -> Outcome {
    let mut items = items.iter();
    let Some(first) = items.next() else {
        return Ok(Val::Int(0));
    };
    items.try_fold(first.clone(), |total, item| {
        functions::call("_+_", &[total, item.clone()], false)
    })
}

fn extreme(items: &[Val], name: &str, wanted: Ordering) -> Outcome {
    let mut best: Option<&Val> = None;
    for item in items {
        if best.is_none_or(|best| item.compare(best) == Some(wanted)) {
            best = Some(item);
        }
    }
    best.cloned().ok_or_else(|| format!("{name} called on empty list"))
}

fn slice(items: &[Val], from: i64, to: i64) -> Outcome {
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    let found = range.and_then(|(from, to)| items.get(from..to));
    let length = items.len();
    found
        .map(|found| Val::list(found.to_vec()))
        .ok_or_else(|| format!("cannot slice({from}, {to}), list is length {length}"))
}

fn distinct(items: &[Val]) -> Vec<Val> {
    let mut out: Vec<Val> = Vec::new();
    for item in items {
        if !out.iter().any(|known| known.equals(item)) {
            out.push(item.clone());
        }
    }
    out
}

fn sorted(items: &[Val]) -> Vec<Val> {
    let mut sorted = items.to_vec();
    sorted.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
    sorted
}

fn flatten(items: &[Val], depth: i64) -> Vec<Val> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Val::List(inner, _) if depth > 0 => out.extend(flatten(inner, depth - 1)),
            other => out.push(other.clone()),
        }
    }
    out
}
