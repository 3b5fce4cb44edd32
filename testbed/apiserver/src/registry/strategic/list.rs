//! Merging lists: of maps by their merge key, of scalars as sets, in an order the patch may give.

use aplomb_apimachinery::resource::PatchMeta;
use serde_json::{Map, Value};

use super::map::{self, field_of, items_of, plain_strategy, without_directives};
use super::order::{self, Identity};
use super::refusal::Refusal;
use super::{DIRECTIVE, SET_ELEMENT_ORDER, text};

/// A merged list.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) items: Vec<Value>,
    /// What Go's merge, which works in place, leaves of the list it started from: later decisions
    /// about order look at it.
    remains: Vec<Value>,
}

/// Merges each list that comes with `$setElementOrder`, and takes it out of the patch.
pub(super) fn merge_ordered(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    meta: &dyn PatchMeta,
) -> Result<(), Refusal> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = match patch.remove(&directive).unwrap_or_default() {
            Value::Array(order) => order,
            other => return Err(Refusal::wrong_type("[]interface {}", &other)),
        };
        let key = field_of(&directive, SET_ELEMENT_ORDER, Refusal::ELEMENT_ORDER)?;
        let live = list_at(original, key)?;
        let mut stated = list_at(patch, key)?;
        let ordered = put_in_order(live, stated.as_mut(), &order, meta, key)?;
        if let Some(ordered) = ordered {
            original.insert(key.to_owned(), Value::Array(ordered));
            patch.remove(key);
        }
    }
    Ok(())
}

fn list_at(map: &Map<String, Value>, key: &str) -> Result<Option<Vec<Value>>, Refusal> {
    match map.get(key) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(Refusal::wrong_type("[]interface {}", other)),
    }
}

/// The merged list in the order given; `None` when there is no list on either side.
fn put_in_order(
    live: Option<Vec<Value>>,
    stated: Option<&mut Vec<Value>>,
    order: &[Value],
    meta: &dyn PatchMeta,
    key: &str,
) -> Result<Option<Vec<Value>>, Refusal> {
    let member = map::member(meta, key)?;
    let items = items_of(&member, meta)?;
    let merging = plain_strategy(&member)? == "merge";
    let merge_key = member.merge_key.as_str();
    check_order(stated.as_deref().map_or(&[], Vec::as_slice), order, merge_key)?;
    let (merged, before, of_patch) = match (live, stated) {
        (None, None) => return Ok(None),
        (Some(live), None) => (live.clone(), live, Vec::new()),
        (None, Some(stated)) => {
            let all = stated.clone();
            let kept = stated.iter_mut().filter_map(without_directives).collect();
            (kept, Vec::new(), all)
        }
        (Some(live), Some(stated)) if merging => {
            let merged = merge(live, stated, &*items, merge_key, false)?;
            (merged.items, merged.remains, stated.clone())
        }
        (Some(live), Some(stated)) => (stated.clone(), live, stated.clone()),
    };
    let (of_order, others) = partition(merged, order, merge_key)?;
    let maps = are_maps(&before, &of_patch)?;
    let by = Identity { maps, key: merge_key };
    order::normalize(of_order, others, order, &before, by).map(Some)
}

/// The items of a patch list must come in the order given, and all be in it.
fn check_order(stated: &[Value], order: &[Value], key: &str) -> Result<(), Refusal> {
    if stated.is_empty() || order.is_empty() {
        return Ok(());
    }
    let kept = if key.is_empty() {
        stated.to_vec()
    } else {
        order::split_deleted(stated.to_vec())?.0
    };
    let (mut at, mut place) = (0, 0);
    while at < kept.len() && place < order.len() {
        if kept[at].get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        at += usize::from(same_key(&kept[at], &order[place], key)?);
        place += 1;
    }
    if at == kept.len() {
        return Ok(());
    }
    let (stated, order) = (text::shown_list(stated), text::shown_list(order));
    Err(Refusal::Other(format!(
        "The order in patch list:\n{stated}\n doesn't match {SET_ELEMENT_ORDER} list:\n{order}\n"
    )))
}

fn same_key(one: &Value, other: &Value, key: &str) -> Result<bool, Refusal> {
    if key.is_empty() {
        return Ok(one == other);
    }
    let one = as_map(one)?;
    let other = as_map(other)?;
    Ok(key_value(one, key)? == key_value(other, key)?)
}

fn as_map(item: &Value) -> Result<&Map<String, Value>, Refusal> {
    item.as_object()
        .ok_or_else(|| Refusal::wrong_type("map[string]interface {}", item))
}

fn key_value<'a>(item: &'a Map<String, Value>, key: &str) -> Result<&'a Value, Refusal> {
    item.get(key).ok_or_else(|| Refusal::no_merge_key(item, key))
}

/// Merges two lists of maps, or of scalars; `deletes` takes scalars away instead.
pub(super) fn merge(
    live: Vec<Value>,
    patch: &mut [Value],
    meta: &dyn PatchMeta,
    key: &str,
    deletes: bool,
) -> Result<Merged, Refusal> {
    if live.is_empty() && patch.is_empty() {
        let (items, remains) = (live, Vec::new());
        return Ok(Merged { items, remains });
    }
    let maps = are_maps(&live, patch)?;
    if !maps && deletes {
        let kept = live.iter().filter(|item| !patch.contains(item)).cloned();
        let (items, remains) = (kept.collect(), live);
        return Ok(Merged { items, remains });
    }
    let (merged, server_order, stated, remains) = if maps {
        merge_maps(live, patch, meta, key)?
    } else {
        merge_scalars(live, patch)
    };
    let (of_patch, others) = partition(merged, &stated, key)?;
    let by = Identity { maps, key };
    let items = order::normalize(of_patch, others, &stated, &server_order, by)?;
    Ok(Merged { items, remains })
}

/// The merged items, the live ones that were left, those of the patch, and what remains of the live
/// list where Go worked on it in place.
type Parts = (Vec<Value>, Vec<Value>, Vec<Value>, Vec<Value>);

fn merge_scalars(live: Vec<Value>, patch: &[Value]) -> Parts {
    let both = live.iter().chain(patch).cloned().collect();
    let merged = without_duplicates(both);
    (merged, live.clone(), patch.to_vec(), live)
}

fn merge_maps(live: Vec<Value>, patch: &mut [Value], meta: &dyn PatchMeta, key: &str) -> Result<Parts, Refusal> {
    if key.is_empty() {
        let kind = meta.kind();
        let why = format!("cannot merge lists without merge key for {kind}");
        return Err(Refusal::Other(why));
    }
    let mut place = InPlace::new(live);
    let (plain, replaces) = follow_directives(&mut place, patch, key)?;
    if replaces {
        let items: Vec<Value> = plain.into_iter().map(|at| patch[at].clone()).collect();
        return Ok((items.clone(), items, Vec::new(), place.backing));
    }
    let left = place.items().to_vec();
    let stated = plain.iter().map(|at| patch[*at].clone()).collect();
    for at in plain {
        let wanted = key_value(as_map(&patch[at])?, key)?.clone();
        let found = find(place.items(), key, &wanted)?;
        match (found, &mut patch[at]) {
            (Some(found), Value::Object(item)) => {
                let live = as_map(&place.backing[found])?.clone();
                place.backing[found] = Value::Object(map::merge(live, item, meta)?);
            }
            (_, item) => place.append(item.clone()),
        }
    }
    Ok((place.items().to_vec(), left, stated, place.shared()))
}

/// Deletes what a patch says is to go. Returns which of its items are no directives, and whether
/// these are all that shall be left.
fn follow_directives(place: &mut InPlace, patch: &[Value], key: &str) -> Result<(Vec<usize>, bool), Refusal> {
    let (mut plain, mut replaces) = (Vec::new(), false);
    for (index, item) in patch.iter().enumerate() {
        let item = as_map(item)?;
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(index);
            continue;
        };
        match directive.as_str() {
            Some("delete") => place.delete(key, key_value(item, key)?)?,
            Some("replace") => replaces = true,
            Some("merge") => {
                let why = "merging lists cannot yet be specified in the patch";
                return Err(Refusal::Other(why.into()));
            }
            _ => return Err(Refusal::unknown_directive(directive, item)),
        }
    }
    Ok((plain, replaces))
}

/// A Go slice that is deleted from and appended to where it is.
#[derive(Debug)]
struct InPlace {
    backing: Vec<Value>,
    length: usize,
    /// What others still see once an append no longer fitted.
    left_behind: Option<Vec<Value>>,
}

impl InPlace {
    fn new(items: Vec<Value>) -> Self {
        Self {
            length: items.len(),
            backing: items,
            left_behind: None,
        }
    }

    fn items(&self) -> &[Value] {
        &self.backing[..self.length]
    }

    fn delete(&mut self, key: &str, wanted: &Value) -> Result<(), Refusal> {
        while let Some(at) = find(self.items(), key, wanted)? {
            for next in at + 1..self.length {
                self.backing[next - 1] = self.backing[next].clone();
            }
            self.length -= 1;
        }
        Ok(())
    }

    fn append(&mut self, item: Value) {
        if self.length < self.backing.len() {
            self.backing[self.length] = item;
        } else {
            self.left_behind.get_or_insert_with(|| self.backing.clone());
            self.backing.push(item);
        }
        self.length += 1;
    }

    fn shared(self) -> Vec<Value> {
        self.left_behind.unwrap_or(self.backing)
    }
}

fn find(items: &[Value], key: &str, wanted: &Value) -> Result<Option<usize>, Refusal> {
    for (index, item) in items.iter().enumerate() {
        let Value::Object(members) = item else {
            return Err(Refusal::Other(format!("value for key {index} is not a map")));
        };
        if members.get(key) == Some(wanted) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// The items that `by` has too, and the others.
fn partition(items: Vec<Value>, by: &[Value], key: &str) -> Result<(Vec<Value>, Vec<Value>), Refusal> {
    if key.is_empty() {
        return Ok(items.into_iter().partition(|item| by.contains(item)));
    }
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for item in items {
        let value = key_value(as_map(&item)?, key)?;
        match find(by, key, value)? {
            Some(_) => inside.push(item),
            None => outside.push(item),
        }
    }
    Ok((inside, outside))
}

/// Whether the items of both lists are maps; all must be of one type.
fn are_maps(one: &[Value], other: &[Value]) -> Result<bool, Refusal> {
    let mut types = one.iter().chain(other).map(text::type_name);
    let Some(first) = types.next() else {
        let why = "no elements in any of the given slices";
        return Err(Refusal::Other(why.into()));
    };
    if first == Some("[]interface {}") {
        return Err(Refusal::Unprocessable);
    }
    if types.any(|other| other != first) {
        let (one, other) = (text::shown_list(one), text::shown_list(other));
        return Err(Refusal::Other(format!(
            "list element types are not identical: [{one} {other}]"
        )));
    }
    Ok(first == Some("map[string]interface {}"))
}

/// Go's way to drop duplicates, which moves the last item to where one was.
fn without_duplicates(mut items: Vec<Value>) -> Vec<Value> {
    let mut at = 0;
    while at < items.len() {
        let mut other = at + 1;
        while other < items.len() {
            if items[at] == items[other] {
                items.swap_remove(other);
            } else {
                other += 1;
            }
        }
        at += 1;
    }
    items
}
