//! `anyOf`, `oneOf`, `allOf` and `not`.

use aplomb_apimachinery::field::go_quote;
use serde_json::Value;

use super::Walk;
use super::failure::{Failure, Report};
use crate::crd::structural::Structural;

pub(super) fn check(walk: &Walk<'_>, value: &Value, schema: &Structural, path: &str) -> Report {
    let mut report = Report::default();
    any_of(walk, value, schema, path, &mut report);
    one_of(walk, value, schema, path, &mut report);
    all_of(walk, value, schema, path, &mut report);
    if let Some(not) = &schema.not
        && walk.check(value, not, path).is_valid()
    {
        let text = format!("{} must not validate the schema (not)", go_quote(path));
        report.push(Failure::composite(text));
    }
    report.matches += 1;
    report
}

fn any_of(walk: &Walk<'_>, value: &Value, schema: &Structural, path: &str, report: &mut Report) {
    let mut best: Option<Report> = None;
    for alternative in &schema.any_of {
        let result = walk.check(value, alternative, path);
        if result.is_valid() {
            report.merge(result);
            return;
        }
        keep_best(&mut best, result);
    }
    if let Some(best) = best {
        let text = format!("{} must validate at least one schema (anyOf)", go_quote(path));
        report.push(Failure::composite(text));
        report.merge(best);
    }
}

fn one_of(walk: &Walk<'_>, value: &Value, schema: &Structural, path: &str, report: &mut Report) {
    if schema.one_of.is_empty() {
        return;
    }
    let mut best: Option<Report> = None;
    let mut valid: Vec<Report> = Vec::new();
    for alternative in &schema.one_of {
        let result = walk.check(value, alternative, path);
        if result.is_valid() {
            valid.push(result);
        } else {
            keep_best(&mut best, result);
        }
    }
    let found = match valid.len() {
        1 => return valid.into_iter().for_each(|only| report.merge(only)),
        0 => "Found none valid".to_owned(),
        count => format!("Found {count} valid alternatives"),
    };
    let text = format!(
        "{} must validate one and only one schema (oneOf). {found}",
        go_quote(path)
    );
    report.push(Failure::composite(text));
    if let (true, Some(best)) = (valid.is_empty(), best) {
        report.merge(best);
    }
}

fn all_of(walk: &Walk<'_>, value: &Value, schema: &Structural, path: &str, report: &mut Report) {
    let mut valid = 0;
    for part in &schema.all_of {
        let result = walk.check(value, part, path);
        valid += usize::from(result.is_valid());
        report.merge(result);
    }
    if valid < schema.all_of.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        let text = format!("{} must validate all the schemas (allOf){none}", go_quote(path));
        report.push(Failure::composite(text));
    }
}

/// Of failed alternatives the first with the most checks made is the one to show.
fn keep_best(best: &mut Option<Report>, result: Report) {
    if best.as_ref().is_none_or(|known| result.matches > known.matches) {
        *best = Some(result);
    }
}
