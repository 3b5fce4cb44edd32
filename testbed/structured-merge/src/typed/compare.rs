//! What changed between two values of one type?

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::sides::Sides;
use super::{Forms, Mismatches, item_element};
use crate::path::PathElement;
use crate::schema::{Atom, ListType, MapType, Schema, TypeId};
use crate::set::{Set, Subtree};
use crate::value::equal;

/// The fields that differ; no field is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Only in the old value.
    pub removed: Set,
    /// In both, with another value.
    pub modified: Set,
    /// Only in the new value.
    pub added: Set,
}

impl Comparison {
    /// The comparison without some fields and everything below them.
    #[must_use]
    pub fn without(self, fields: Option<&Set>) -> Self {
        let Some(fields) = fields.filter(|fields| !fields.is_empty()) else {
            return self;
        };
        Self {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }
}

/// Compares an old with a new value.
///
/// # Errors
/// A list whose items cannot be told apart, or values of no known form.
pub fn compare(schema: &Schema, kind: TypeId, old: &Value, new: &Value) -> Result<Comparison, Mismatches> {
    let mut changes = Changes::default();
    Walk { schema }.visit(kind, Some(old), Some(new), &mut changes)?;
    Ok(Comparison {
        removed: changes.removed.children,
        modified: changes.modified.children,
        added: changes.added.children,
    })
}

/// A comparison of one path and everything below it.
#[derive(Default)]
struct Changes {
    removed: Subtree,
    modified: Subtree,
    added: Subtree,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    fn put(&mut self, element: &PathElement, below: Self) {
        for (mine, theirs) in [
            (&mut self.removed, below.removed),
            (&mut self.modified, below.modified),
            (&mut self.added, below.added),
        ] {
            if !theirs.is_empty() {
                mine.children.put(element.clone(), theirs);
            }
        }
    }
}

struct Walk<'s> {
    schema: &'s Schema,
}

type Side<'v> = Option<&'v Value>;

impl Walk<'_> {
    fn visit(&self, kind: TypeId, old: Side<'_>, new: Side<'_>, out: &mut Changes) -> Result<(), Mismatches> {
        let atom = self.schema.atom(kind);
        let (old_forms, new_forms) = (Forms::of(atom, old), Forms::of(atom, new));
        match (old, new) {
            (_, None) => self.handle(old_forms, atom, old, new, out)?,
            (None, _) => self.handle(new_forms, atom, old, new, out)?,
            _ => {
                if old_forms != new_forms {
                    self.handle(old_forms, atom, old, new, out)?;
                }
                self.handle(new_forms, atom, old, new, out)?;
            }
        }
        out.added.member |= old.is_none();
        out.removed.member |= new.is_none();
        Ok(())
    }

    fn handle(
        &self,
        forms: Forms,
        atom: &Atom,
        old: Side<'_>,
        new: Side<'_>,
        out: &mut Changes,
    ) -> Result<(), Mismatches> {
        match Sides::of(forms.pick(atom), old, new)? {
            Sides::Leaves => {
                leaf(old, new, out);
                Ok(())
            }
            Sides::Maps(map, l, r) => self.map(map, l, r, out),
            Sides::Lists(list, l, r) => self.list(list, l, r, out),
        }
    }

    fn map(
        &self,
        map: &MapType,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        out: &mut Changes,
    ) -> Result<(), Mismatches> {
        let mut field = |name: &str, l, r| {
            let mut below = Changes::default();
            let kind = map.field(name).unwrap_or(TypeId::DEDUCED);
            self.visit(kind, l, r, &mut below)
                .map_err(|why| why.below(&PathElement::field(name)))?;
            if !below.is_empty() {
                out.put(&PathElement::field(name), below);
            }
            Ok(())
        };
        for (name, value) in old.into_iter().flatten() {
            field(name, Some(value), new.and_then(|new| new.get(name)))?;
        }
        for (name, value) in new.into_iter().flatten() {
            if old.is_none_or(|old| !old.contains_key(name)) {
                field(name, None, Some(value))?;
            }
        }
        Ok(())
    }

    fn list(&self, list: &ListType, old: &[Value], new: &[Value], out: &mut Changes) -> Result<(), Mismatches> {
        let mut items: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (position, item) in old.iter().enumerate() {
            items
                .entry(self.element(list, position, item)?)
                .or_default()
                .0
                .push(item);
        }
        for (position, item) in new.iter().enumerate() {
            items
                .entry(self.element(list, position, item)?)
                .or_default()
                .1
                .push(item);
        }
        for (element, (old, new)) in &items {
            let mut below = Changes::default();
            self.item(list, old, new, &mut below)
                .map_err(|why| why.below(element))?;
            out.put(element, below);
        }
        Ok(())
    }

    fn element(&self, list: &ListType, position: usize, item: &Value) -> Result<PathElement, Mismatches> {
        item_element(self.schema, list, item).map_err(|why| Mismatches::new(format!("element {position}: {why}")))
    }

    /// Items that share a key are compared as one leaf; becoming or ceasing to be such a group
    /// is a removal of the one and an addition of the other.
    fn item(&self, list: &ListType, old: &[&Value], new: &[&Value], out: &mut Changes) -> Result<(), Mismatches> {
        match (old, new) {
            ([] | [_], [] | [_]) => self.visit(list.element, old.first().copied(), new.first().copied(), out),
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| equal(a, b));
                out.modified.member |= !same;
                Ok(())
            }
            ([_, _, ..], _) => {
                if let Some(only) = new.first() {
                    self.visit(list.element, None, Some(only), out)?;
                }
                out.removed.member = true;
                Ok(())
            }
            (_, [_, _, ..]) => {
                if let Some(only) = old.first() {
                    self.visit(list.element, Some(only), None, out)?;
                }
                out.added.member = true;
                Ok(())
            }
        }
    }
}

fn leaf(old: Side<'_>, new: Side<'_>, out: &mut Changes) {
    if let (Some(old), Some(new)) = (old, new) {
        out.modified.member |= !equal(old, new);
    }
}
