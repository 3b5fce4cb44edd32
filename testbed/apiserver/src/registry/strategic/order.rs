//! The order of a merged list: what the patch says, then what the live list said.

use serde_json::Value;

use super::DIRECTIVE;
use super::refusal::Refusal;

/// How the items of a list are told apart: by a key if they are maps, by themselves otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    pub(super) maps: bool,
    pub(super) key: &'a str,
}

impl Identity<'_> {
    fn of<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        if self.maps {
            item.get(self.key).filter(|value| !value.is_null())
        } else {
            Some(item)
        }
    }

    fn index(&self, list: &[Value], item: &Value) -> Option<usize> {
        let wanted = self.of(item);
        list.iter().position(|other| self.of(other) == wanted)
    }
}

/// Items of the patch in the order of the patch and the others in the order of the live list, woven
/// together by the latter.
pub(super) fn normalize(
    patch: Vec<Value>,
    server_only: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    by: Identity<'_>,
) -> Result<Vec<Value>, Refusal> {
    let patch = sorted(patch, patch_order, by)?;
    let server_only = sorted(server_only, server_order, by)?;
    Ok(woven(server_only, patch, server_order, by))
}

fn sorted(items: Vec<Value>, order: &[Value], by: Identity<'_>) -> Result<Vec<Value>, Refusal> {
    let (mut items, deleted) = if by.maps {
        check_keys(&items, by.key)?;
        check_keys(order, by.key)?;
        split_deleted(items)?
    } else {
        (items, Vec::new())
    };
    // Go's stable sort, with its answer for items that have no place: they go first.
    for start in 1..items.len() {
        let mut at = start;
        while at > 0 && before(&items[at], &items[at - 1], order, by) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
    items.extend(deleted);
    Ok(items)
}

fn before(item: &Value, other: &Value, order: &[Value], by: Identity<'_>) -> bool {
    match (by.index(order, item), by.index(order, other)) {
        (Some(item), Some(other)) => item < other,
        _ => true,
    }
}

fn check_keys(items: &[Value], key: &str) -> Result<(), Refusal> {
    for item in items {
        let Value::Object(members) = item else {
            return Err(Refusal::wrong_type("map[string]interface {}", item));
        };
        if !members.contains_key(key) {
            return Err(Refusal::no_merge_key(members, key));
        }
    }
    Ok(())
}

/// The items that stay and those that are marked for deletion.
pub(super) fn split_deleted(items: Vec<Value>) -> Result<(Vec<Value>, Vec<Value>), Refusal> {
    if let Some(other) = items.iter().find(|item| !item.is_object()) {
        return Err(Refusal::wrong_type("map[string]interface {}", other));
    }
    Ok(items
        .into_iter()
        .partition(|item| item.get(DIRECTIVE).and_then(Value::as_str) != Some("delete")))
}

/// Puts each item of `left` before the first of `right` that came after it on the server.
fn woven(left: Vec<Value>, right: Vec<Value>, server_order: &[Value], by: Identity<'_>) -> Vec<Value> {
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    let mut all = Vec::new();
    loop {
        let goes_left = match (left.peek(), right.peek()) {
            (Some(one), Some(other)) => {
                let places = (by.index(server_order, one), by.index(server_order, other));
                matches!(places, (Some(one), Some(other)) if one < other)
            }
            (one, _) => one.is_some(),
        };
        let next = if goes_left { left.next() } else { right.next() };
        match next {
            Some(item) => all.push(item),
            None => return all,
        }
    }
}
