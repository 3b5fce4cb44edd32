//! Types as structured merge sees them: what is a leaf, what is owned piece by piece, and by
//! which keys.
//!
//! Types live in one arena and refer to each other by [`TypeId`], so recursive types need no care.

use std::collections::BTreeMap;

use serde_json::Value;

use super::path::PathElement;
use super::set::{Set, Subtree};

/// A type of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(usize);

impl TypeId {
    /// Anything, owned as a whole.
    pub const UNTYPED: Self = Self(0);
    /// Anything: maps owned field by field, lists as a whole.
    pub const DEDUCED: Self = Self(1);
}

/// The types of one version of a resource.
#[derive(Clone, Debug)]
pub struct Schema {
    atoms: Vec<Atom>,
}

/// The forms a value of a type may take.
#[derive(Clone, Debug, Default)]
pub struct Atom {
    /// A single value.
    pub scalar: Option<Scalar>,
    /// A list.
    pub list: Option<ListType>,
    /// A map or a struct.
    pub map: Option<MapType>,
}

/// The forms a scalar may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// A list and how its items are told apart.
#[derive(Clone, Debug)]
pub struct ListType {
    /// Type of the items.
    pub element: TypeId,
    /// How items are owned.
    pub relationship: ListRelationship,
}

/// How the items of a list are owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRelationship {
    /// The list has one owner.
    Atomic,
    /// Scalars, owned by value.
    Set,
    /// Objects, owned by these key fields.
    Map(Vec<String>),
}

/// A map, a struct, or a struct that takes more fields.
#[derive(Clone, Debug)]
pub struct MapType {
    /// Declared fields.
    pub fields: BTreeMap<String, Field>,
    /// Type of the fields that are not declared; `None` where they are refused.
    pub element: Option<TypeId>,
    /// The map has one owner.
    pub atomic: bool,
}

/// A declared field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its type.
    pub kind: TypeId,
    /// Its default; completes the keys of list items.
    pub default: Option<Value>,
}

impl MapType {
    /// The type of a field, declared or not.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<TypeId> {
        self.fields.get(name).map(|field| field.kind).or(self.element)
    }
}

impl Default for Schema {
    fn default() -> Self {
        let untyped = |map_element, atomic| Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(ListType {
                element: TypeId::UNTYPED,
                relationship: ListRelationship::Atomic,
            }),
            map: Some(MapType {
                fields: BTreeMap::new(),
                element: Some(map_element),
                atomic,
            }),
        };
        Self {
            atoms: vec![untyped(TypeId::UNTYPED, true), untyped(TypeId::DEDUCED, false)],
        }
    }
}

impl Schema {
    /// Adds a type.
    pub fn add(&mut self, atom: Atom) -> TypeId {
        self.atoms.push(atom);
        TypeId(self.atoms.len() - 1)
    }

    /// Gives a type that was added before its final form.
    pub fn replace(&mut self, id: TypeId, atom: Atom) {
        self.atoms[id.0] = atom;
    }

    /// The forms of a type.
    #[must_use]
    pub fn atom(&self, id: TypeId) -> &Atom {
        &self.atoms[id.0]
    }

    /// A map of which nothing is declared; schema changes do not concern it.
    #[must_use]
    pub fn is_undeclared_map(&self, map: &MapType) -> bool {
        map.fields.is_empty()
            && map.element.is_some_and(|element| {
                element == TypeId::DEDUCED
                    || (element != TypeId::UNTYPED && self.atom(element).scalar == Some(Scalar::Untyped))
            })
    }

    /// The set with each declared field on the way to a member made a member too: a set of
    /// `a.b.c` then has `a`, unless `a` is a key of a map.
    #[must_use]
    pub fn with_named_fields(&self, set: &Set, kind: Option<TypeId>) -> Set {
        let atom = kind.map(|kind| self.atom(kind));
        let mut out = Set::default();
        for node in set.nodes() {
            let map = atom.and_then(|atom| atom.map.as_ref());
            let (named, below) = match (&node.element, map) {
                (PathElement::Field(name), Some(map)) => (map.fields.contains_key(name), map.field(name)),
                (PathElement::Key(_), _) => (false, atom.and_then(|atom| atom.list.as_ref()).map(|list| list.element)),
                _ => (false, None),
            };
            let children = &node.subtree.children;
            let member = node.subtree.member || (named && !children.is_empty());
            let children = self.with_named_fields(children, below);
            out.put(node.element.clone(), Subtree { member, children });
        }
        out
    }
}
