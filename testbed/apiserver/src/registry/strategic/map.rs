//! Merging maps: nulls delete, directives act, everything else is taken over or merged deeper.

use aplomb_apimachinery::resource::{PatchMember, PatchMeta};
use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::{DELETE_FROM_PRIMITIVE_LIST, DIRECTIVE, RETAIN_KEYS, SET_ELEMENT_ORDER, list, text};

pub(super) fn merge(
    mut original: Map<String, Value>,
    patch: &mut Map<String, Value>,
    meta: &dyn PatchMeta,
) -> Result<Map<String, Value>, Refusal> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch.clone())
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(Refusal::unknown_directive(directive, patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    list::merge_ordered(&mut original, patch, meta)?;
    for (key, value) in patch.iter_mut() {
        merge_member(&mut original, key, value, meta)?;
    }
    Ok(original)
}

fn merge_member(
    original: &mut Map<String, Value>,
    mut key: &str,
    value: &mut Value,
    meta: &dyn PatchMeta,
) -> Result<(), Refusal> {
    let deletes = key.starts_with(DELETE_FROM_PRIMITIVE_LIST);
    if deletes {
        let field = field_of(key, DELETE_FROM_PRIMITIVE_LIST, Refusal::PRIMITIVE_LIST)?;
        key = if field.is_empty() { key } else { field };
    }
    if value.is_null() {
        original.remove(key);
        return Ok(());
    }
    let same_type = original
        .get(key)
        .is_some_and(|live| text::type_name(live) == text::type_name(value));
    if !same_type {
        if !deletes {
            discard_nulls(value);
            take_over(original, key, value);
        }
        return Ok(());
    }
    let live = original.remove(key).unwrap_or_default();
    match (live, &mut *value) {
        (Value::Object(live), Value::Object(patch)) => {
            let merged = merged_map(live, patch, &member(meta, key)?)?;
            original.insert(key.to_owned(), Value::Object(merged));
        }
        (Value::Array(live), Value::Array(patch)) => {
            let merged = merged_list(live, patch, &member(meta, key)?, meta, deletes)?;
            original.insert(key.to_owned(), Value::Array(merged));
        }
        _ => take_over(original, key, value),
    }
    Ok(())
}

fn merged_map(
    live: Map<String, Value>,
    patch: &mut Map<String, Value>,
    member: &PatchMember<'_>,
) -> Result<Map<String, Value>, Refusal> {
    if plain_strategy(member)? == "replace" {
        return Ok(patch.clone());
    }
    merge(live, patch, &*member.of)
}

fn merged_list(
    live: Vec<Value>,
    patch: &mut [Value],
    member: &PatchMember<'_>,
    parent: &dyn PatchMeta,
    deletes: bool,
) -> Result<Vec<Value>, Refusal> {
    let items = items_of(member, parent)?;
    if plain_strategy(member)? != "merge" && !deletes {
        return Ok(patch.to_vec());
    }
    Ok(list::merge(live, patch, &*items, &member.merge_key, deletes)?.items)
}

/// What a directive with a field after its slash is about.
pub(super) fn field_of<'a>(key: &'a str, prefix: &str, otherwise: Refusal) -> Result<&'a str, Refusal> {
    match key.split_once('/') {
        Some((directive, field)) if directive == prefix => Ok(field),
        _ => Err(otherwise),
    }
}

pub(super) fn member<'a>(meta: &'a dyn PatchMeta, key: &str) -> Result<PatchMember<'a>, Refusal> {
    meta.member(key).map_err(Refusal::Other)
}

/// What is in a member of `parent` that must be a list.
pub(super) fn items_of<'m>(
    member: &'m PatchMember<'_>,
    parent: &dyn PatchMeta,
) -> Result<Box<dyn PatchMeta + 'm>, Refusal> {
    let wanted = || {
        let kind = parent.kind();
        Refusal::Other(format!("expected slice or array type, but got: {kind}"))
    };
    let items = member.of.items().ok_or_else(wanted)?;
    if items.kind() == "slice" {
        return Err(Refusal::Other("unexpected slice of slice".into()));
    }
    Ok(items)
}

/// The strategy of a member besides `retainKeys`, which only makes patches.
pub(super) fn plain_strategy<'a>(member: &'a PatchMember<'_>) -> Result<&'a str, Refusal> {
    const RETAIN: &str = "retainKeys";
    let strategies: Vec<&str> = member.strategy.split(',').collect();
    match strategies.as_slice() {
        [RETAIN] => Ok(""),
        [one] => Ok(one),
        [RETAIN, other] | [other, RETAIN] => Ok(other),
        _ => Err(Refusal::Other(format!(
            "unexpected patch strategy: [{}]",
            strategies.join(" ")
        ))),
    }
}

/// Clears what `$retainKeys` does not name; the patch may state nothing else.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), Refusal> {
    let Some(stated) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = stated else {
        return Err(Refusal::RETAIN_KEYS);
    };
    let kept = |key: &String| keys.iter().any(|kept| kept.as_str() == Some(key));
    let is_list_directive =
        |key: &str| key.starts_with(DELETE_FROM_PRIMITIVE_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    let strange = |(key, value): (&String, &Value)| !value.is_null() && !is_list_directive(key) && !kept(key);
    if patch.iter().any(strange) {
        return Err(Refusal::RETAIN_KEYS);
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

fn take_over(original: &mut Map<String, Value>, key: &str, value: &mut Value) {
    match without_directives(value) {
        Some(value) => original.insert(key.to_owned(), value),
        None => original.remove(key),
    };
}

/// The value without anything that is marked with a directive; `None` when it is marked itself.
pub(super) fn without_directives(value: &mut Value) -> Option<Value> {
    match value {
        Value::Object(members) => {
            if members.contains_key(DIRECTIVE) {
                return None;
            }
            let mut kept = Map::new();
            for (key, member) in members.iter_mut() {
                kept.extend(without_directives(member).map(|member| (key.clone(), member)));
            }
            *members = kept;
            Some(value.clone())
        }
        Value::Array(items) => Some(items.iter_mut().filter_map(without_directives).collect()),
        other => Some(other.clone()),
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}
