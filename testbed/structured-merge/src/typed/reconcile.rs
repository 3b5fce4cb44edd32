//! Sets written under an older schema, brought in line with the present one.
//!
//! A container that became atomic is owned as a whole by whoever owned a part of it. The other
//! direction needs nothing: the owner of the whole goes on owning it.

use super::{Form, Forms};
use crate::path::PathElement;
use crate::schema::{ListRelationship, MapType, Schema, TypeId};
use crate::set::{Set, Subtree};

/// The set with parts of atomic containers replaced by the containers; `None` where it already
/// fits the schema.
#[must_use]
pub fn reconcile(schema: &Schema, kind: TypeId, set: &Set) -> Option<Set> {
    match (Walk { schema }).visit(kind, set, false) {
        Change::Below(set) => Some(set),
        Change::None | Change::Whole => None,
    }
}

enum Change {
    None,
    /// The container itself is to be owned, nothing below it.
    Whole,
    Below(Set),
}

struct Walk<'s> {
    schema: &'s Schema,
}

impl Walk<'_> {
    fn visit(&self, kind: TypeId, set: &Set, owned_whole: bool) -> Change {
        let atom = self.schema.atom(kind);
        match Forms::of(atom, None).pick(atom) {
            Some(Form::List(list)) => {
                if !owned_whole && list.relationship == ListRelationship::Atomic {
                    return Change::Whole;
                }
                self.below(set, |_| Some(list.element))
            }
            Some(Form::Map(map)) if !self.schema.is_undeclared_map(map) => {
                if !owned_whole && map.atomic {
                    return if set.is_empty() { Change::None } else { Change::Whole };
                }
                self.below(set, |element| field_type(map, element))
            }
            _ => Change::None,
        }
    }

    fn below(&self, set: &Set, kind_of: impl Fn(&PathElement) -> Option<TypeId>) -> Change {
        let mut changed = None;
        for (at, node) in set.nodes().iter().enumerate() {
            let Subtree { member, children } = &node.subtree;
            let change = match kind_of(&node.element) {
                Some(kind) => self.visit(kind, children, *member && children.is_empty()),
                None => Change::None,
            };
            let subtree = match change {
                Change::None if changed.is_none() => continue,
                Change::None => node.subtree.clone(),
                Change::Whole => Subtree::leaf(),
                Change::Below(children) => Subtree {
                    member: *member,
                    children,
                },
            };
            let out = changed.get_or_insert_with(|| first(set, at));
            out.put(node.element.clone(), subtree);
        }
        changed.map_or(Change::None, Change::Below)
    }
}

fn field_type(map: &MapType, element: &PathElement) -> Option<TypeId> {
    match element {
        PathElement::Field(name) => map.field(name),
        _ => map.element,
    }
}

fn first(set: &Set, count: usize) -> Set {
    let mut out = Set::default();
    for node in &set.nodes()[..count] {
        out.put(node.element.clone(), node.subtree.clone());
    }
    out
}
