//! One request before the quotas of its namespace: what it would use of each, or why it may not.

use std::sync::Arc;

use serde_json::Value;

use super::super::value::text;
use super::amounts::{Amounts, add, growth, only, read, shown, written};
use super::{Evaluator, QuotaSurroundings};

/// A write that may need room.
#[derive(Debug)]
pub struct QuotaRequest<'a> {
    pub subresource: &'a str,
    pub object: &'a Value,
    /// What is there now; nothing for a new object.
    pub old: Option<&'a Value>,
}

/// A quota and what is used of it with the request.
#[derive(Debug)]
pub struct Charge {
    pub quota: Arc<Value>,
    pub used: Value,
}

/// What a request is charged for, of each quota that it changes.
///
/// # Errors
/// Why it is forbidden.
pub fn charged(
    evaluator: &Evaluator,
    asked: &QuotaRequest<'_>,
    quotas: &[Arc<Value>],
    around: &QuotaSurroundings<'_>,
) -> Result<Vec<Charge>, String> {
    let mut concerned = Vec::new();
    for quota in quotas {
        let hard = read(quota, &["status", "hard"]);
        let counted = evaluator.matching(&hard, around);
        if counted.is_empty() || !evaluator.is_covered(quota, asked.object) {
            continue;
        }
        countable(evaluator, asked, quota, &counted)?;
        concerned.push((quota, hard));
    }
    if concerned.is_empty() {
        return Ok(Vec::new());
    }
    let usage = evaluator.usage(asked.object, around);
    let mut charges = Vec::new();
    for (quota, hard) in concerned {
        // A quota that did not cover the object before is asked for all of it.
        let before = asked.old.filter(|old| evaluator.is_covered(quota, old));
        let more = match before {
            Some(old) => growth(&usage, &evaluator.usage(old, around)),
            None => usage.clone(),
        };
        let mut more = only(&more, |name| hard.contains_key(name));
        more.retain(|_, amount| !amount.is_zero());
        if more.is_empty() {
            continue;
        }
        let used = with_room(quota, &hard, &more, asked.subresource == "status")?;
        charges.push(Charge {
            quota: Arc::clone(quota),
            used: written(&used),
        });
    }
    Ok(charges)
}

/// Whether the object says what is counted, and the quota what is used.
fn countable(evaluator: &Evaluator, asked: &QuotaRequest<'_>, quota: &Value, counted: &Amounts) -> Result<(), String> {
    let name = text(quota, &["metadata", "name"]);
    if let Some(why) = evaluator.missing(asked.object, counted) {
        return Err(format!("failed quota: {name}: {why}"));
    }
    let used = read(quota, &["status", "used"]);
    if counted.keys().all(|resource| used.contains_key(resource)) {
        return Ok(());
    }
    let resources: Vec<&str> = counted.keys().map(String::as_str).collect();
    Err(format!(
        "status unknown for quota: {name}, resources: {}",
        resources.join(",")
    ))
}

/// What is used with `more`, which has to fit unless a status only `tells` of it.
fn with_room(quota: &Value, hard: &Amounts, more: &Amounts, tells: bool) -> Result<Amounts, String> {
    let used = read(quota, &["status", "used"]);
    let mut sum = used.clone();
    add(&mut sum, more);
    let exceeded = only(more, |name| sum.get(name) > hard.get(name));
    if exceeded.is_empty() || tells {
        return Ok(sum);
    }
    let of = |amounts: &Amounts| shown(&only(amounts, |name| exceeded.contains_key(name)));
    Err(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        text(quota, &["metadata", "name"]),
        shown(&exceeded),
        of(&used),
        of(hard)
    ))
}

#[cfg(test)]
mod tests;
