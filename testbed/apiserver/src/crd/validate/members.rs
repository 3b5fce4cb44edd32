//! The members of objects and the items of arrays.

use serde_json::{Map, Value};

use super::Walk;
use super::failure::{Failure, Report};
use crate::crd::structural::{Additional, Structural};

pub(super) fn check_object(walk: &Walk<'_>, map: &Map<String, Value>, schema: &Structural, path: &str) -> Report {
    let mut report = Report::default();
    let count = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.limits.min_properties.filter(|min| count < *min) {
        report.push(Failure::invalid(
            path,
            count.into(),
            &format!("should have at least {min} properties"),
        ));
    }
    if let Some(max) = schema.limits.max_properties.filter(|max| count > *max) {
        report.push(Failure::too_many(path, count, max, "properties"));
    }
    check_other_members(walk, map, schema, path, &mut report);
    for (name, property) in &schema.properties {
        if let Some(member) = map.get(name) {
            let at = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            report.merge(walk.member(name, member, property, &at));
        }
    }
    for name in schema.limits.required.iter().filter(|name| !map.contains_key(*name)) {
        report.push(Failure::required(&format!("{path}.{name}")));
    }
    report
}

fn check_other_members(
    walk: &Walk<'_>,
    map: &Map<String, Value>,
    schema: &Structural,
    path: &str,
    report: &mut Report,
) {
    for (name, member) in map.iter().filter(|(name, _)| !schema.properties.contains_key(*name)) {
        match &schema.additional {
            Some(Additional::Schema(additional)) => {
                report.merge(walk.member(name, member, additional, &format!("{path}.{name}")));
            }
            Some(Additional::Allowed(false)) => {
                let text = format!("{path}.{name} in body is a forbidden property");
                report.push(Failure::forbidden_member(path, name, text));
            }
            Some(Additional::Allowed(true)) | None => {}
        }
    }
}

pub(super) fn check_array(walk: &Walk<'_>, items: &[Value], schema: &Structural, path: &str) -> Report {
    let mut report = Report::default();
    if let Some(item_schema) = schema.items.as_deref() {
        for (index, item) in items.iter().enumerate() {
            report.merge(walk.item(index, item, item_schema, &format!("{path}[{index}]")));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.limits.min_items.filter(|min| count < *min) {
        report.push(Failure::invalid(
            path,
            count.into(),
            &format!("should have at least {min} items"),
        ));
    }
    if let Some(max) = schema.limits.max_items.filter(|max| count > *max) {
        report.push(Failure::too_many(path, count, max, "items"));
    }
    if schema.limits.unique_items && has_duplicates(items) {
        report.push(Failure::invalid(path, "".into(), "shouldn't contain duplicates"));
    }
    report.matches += 1;
    report
}

fn has_duplicates(items: &[Value]) -> bool {
    items
        .iter()
        .enumerate()
        .any(|(index, item)| items[..index].contains(item))
}
