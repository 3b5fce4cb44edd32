//! Two values of one type merged; where both state a leaf, the right one wins.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::sides::Sides;
use super::{Forms, Mismatches, item_element};
use crate::path::PathElement;
use crate::schema::{ListType, MapType, Schema, TypeId};

/// Merges `right` over `left`. Nothing is removed; list items keep the order of `left` as far as
/// `right` does not change it.
///
/// # Errors
/// A list whose items cannot be told apart, or values of no known form.
pub fn merge(schema: &Schema, kind: TypeId, left: &Value, right: &Value) -> Result<Value, Mismatches> {
    Ok(Walk { schema }
        .visit(kind, Some(left), Some(right))?
        .unwrap_or(Value::Null))
}

struct Walk<'s> {
    schema: &'s Schema,
}

type Merged = Result<Option<Value>, Mismatches>;

impl Walk<'_> {
    fn visit(&self, kind: TypeId, left: Option<&Value>, right: Option<&Value>) -> Merged {
        let atom = self.schema.atom(kind);
        let form = Forms::of(atom, right.or(left)).pick(atom);
        match Sides::of(form, left, right)? {
            Sides::Leaves => Ok(right.or(left).cloned()),
            Sides::Maps(map, l, r) => self.map(map, l, r),
            Sides::Lists(list, l, r) => self.list(list, l, r),
        }
    }

    fn map(&self, map: &MapType, left: Option<&Map<String, Value>>, right: Option<&Map<String, Value>>) -> Merged {
        let mut out = Map::new();
        let mut field = |name: &str, l, r| {
            let kind = map.field(name).unwrap_or(TypeId::DEDUCED);
            let merged = self.visit(kind, l, r);
            if let Some(value) = merged.map_err(|why| why.below(&PathElement::field(name)))? {
                out.insert(name.to_owned(), value);
            }
            Ok(())
        };
        for (name, value) in left.into_iter().flatten() {
            field(name, Some(value), right.and_then(|right| right.get(name)))?;
        }
        for (name, value) in right.into_iter().flatten() {
            if left.is_none_or(|left| !left.contains_key(name)) {
                field(name, None, Some(value))?;
            }
        }
        Ok((!out.is_empty()).then_some(Value::Object(out)))
    }

    fn list(&self, list: &ListType, left: &[Value], right: &[Value]) -> Merged {
        let right = self.index(list, right, false)?;
        let left = self.index(list, left, true)?;
        let order = interleave(&left, &right);
        let mut out = Vec::with_capacity(order.len());
        for (element, l, r) in order {
            let merged = self.visit(list.element, l, r).map_err(|why| why.below(element))?;
            out.extend(merged);
        }
        Ok((!out.is_empty()).then_some(Value::Array(out)))
    }

    fn index<'v>(&self, list: &ListType, items: &'v [Value], duplicates: bool) -> Result<Indexed<'v>, Mismatches> {
        let mut indexed = Indexed {
            order: Vec::with_capacity(items.len()),
            items: BTreeMap::new(),
        };
        for (position, item) in items.iter().enumerate() {
            let element = item_element(self.schema, list, item)
                .map_err(|why| Mismatches::new(format!("element {position}: {why}")))?;
            if indexed.items.contains_key(&element) {
                if !duplicates {
                    return Err(Mismatches::new(format!("duplicate entries for key {element}")));
                }
                indexed.items.insert(element.clone(), &Value::Null);
            } else {
                indexed.items.insert(element.clone(), item);
            }
            indexed.order.push((element, item));
        }
        Ok(indexed)
    }
}

/// The items of a list in order and by element; items that share an element merge with nothing.
struct Indexed<'v> {
    order: Vec<(PathElement, &'v Value)>,
    items: BTreeMap<PathElement, &'v Value>,
}

impl<'v> Indexed<'v> {
    fn get(&self, element: &PathElement) -> Option<&'v Value> {
        self.items.get(element).copied()
    }
}

type Pair<'a, 'v> = (&'a PathElement, Option<&'v Value>, Option<&'v Value>);

/// The order of a merged list: items both sides have come in the right side's order, the others
/// stay beside their neighbours.
fn interleave<'a, 'v>(left: &'a Indexed<'v>, right: &'a Indexed<'v>) -> Vec<Pair<'a, 'v>> {
    let mut shared = right
        .order
        .iter()
        .map(|(element, _)| element)
        .filter(|e| left.get(e).is_some());
    let mut next_shared = shared.next();
    let mut merged = BTreeSet::new();
    let mut out = Vec::with_capacity(left.order.len().max(right.order.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.order.len() || r < right.order.len() {
        match (left.order.get(l), right.order.get(r)) {
            // Both are at the same item: it is taken below, where the right side's turn is.
            (Some((mine, _)), Some((theirs, _))) if mine == theirs => l += 1,
            (Some((mine, item)), _) if right.get(mine).is_none() => {
                out.push((mine, Some(*item), None));
                l += 1;
                continue;
            }
            (Some((mine, _)), Some(_)) if next_shared.is_some_and(|next| next != mine) => {
                l += 1;
                continue;
            }
            (Some((mine, _)), _) if merged.contains(mine) => l += 1,
            _ => {}
        }
        if let Some((theirs, _)) = right.order.get(r) {
            merged.insert(theirs);
            out.push((theirs, left.get(theirs), right.get(theirs)));
            r += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    out
}
