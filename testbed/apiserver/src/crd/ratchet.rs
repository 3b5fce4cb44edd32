//! Ratcheting: an update may keep an invalid value it does not touch.
//!
//! A [`Correlated`] pairs a new value with the old one it replaces. Lists are paired item by item
//! only when they are maps; everything else in a list has no counterpart.

use serde_json::{Map, Value};

use super::structural::Structural;

/// A new value and its old counterpart, under one schema.
#[derive(Clone, Copy, Debug)]
pub struct Correlated<'a> {
    /// The value as it was.
    pub old: &'a Value,
    /// The value as it is to be.
    pub new: &'a Value,
    schema: &'a Structural,
}

impl<'a> Correlated<'a> {
    /// Pairs two values of one schema.
    #[must_use]
    pub fn new(new: &'a Value, old: &'a Value, schema: &'a Structural) -> Self {
        Self { old, new, schema }
    }

    /// The pair of a member, if both sides and the schema have it.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<Self> {
        let (old, new) = (self.old.as_object()?.get(name)?, self.new.as_object()?.get(name)?);
        Some(Self {
            old,
            new,
            schema: self.schema.child(name)?,
        })
    }

    /// The pair of an item of a list-map, found by its keys.
    #[must_use]
    pub fn index(&self, index: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        let old = find_by_keys(self.schema, self.old.as_array()?, new).filter(|old| !old.is_null())?;
        Some(Self {
            old,
            new,
            schema: self.schema.items.as_deref()?,
        })
    }

    /// Whether the new value is the old one; list-maps may be in another order.
    #[must_use]
    pub fn unchanged(&self) -> bool {
        match (self.old, self.new) {
            (Value::Array(old), Value::Array(new)) if self.is_list_map() => {
                old.len() == new.len() && (0..new.len()).all(|i| self.index(i).is_some_and(|pair| pair.unchanged()))
            }
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len() && new.keys().all(|k| self.key(k).is_some_and(|pair| pair.unchanged()))
            }
            (old, new) => old == new,
        }
    }

    fn is_list_map(&self) -> bool {
        self.schema.extensions.list_type.as_deref() == Some("map")
    }
}

/// The item of `items` with the same list-map keys as `item`; `None` unless the list is a map.
#[must_use]
pub fn find_by_keys<'a>(schema: &Structural, items: &'a [Value], item: &Value) -> Option<&'a Value> {
    let names = &schema.extensions.list_map_keys;
    if schema.extensions.list_type.as_deref() != Some("map") || names.is_empty() {
        return None;
    }
    let wanted = item.as_object()?;
    items
        .iter()
        .find(|candidate| candidate.as_object().is_some_and(|c| same_keys(c, wanted, names)))
}

fn same_keys(one: &Map<String, Value>, other: &Map<String, Value>, names: &[String]) -> bool {
    let scalar = |value: &&Value| !(value.is_null() || value.is_array() || value.is_object());
    names.iter().all(|name| {
        other
            .get(name)
            .filter(scalar)
            .is_some_and(|key| one.get(name) == Some(key))
    })
}
