//! The rules of ownership: who owns what after an update or an apply.
//!
//! Works on sets and objects only; what an entry of `managedFields` looks like and which fields
//! are never tracked is not known here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::conflict::Conflict;
use super::managed::ManagerId;
use super::set::Set;
use super::typed::Comparison;
use super::types::{ConvertError, Object, Types};
use super::value::equal;

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The fields.
    pub set: Set,
    /// The version they are named in.
    pub api_version: String,
    /// By apply rather than by update.
    pub applied: bool,
}

impl VersionedSet {
    /// Takes away what changed or is gone; returns what of it was owned and changed.
    fn lose(&mut self, changes: &Comparison) -> Set {
        let changed = changes.modified.union(&changes.added);
        let lost = self.set.intersection(&changed);
        if !lost.is_empty() || !changes.removed.is_empty() {
            self.set = self.set.difference(&lost).difference(&changes.removed);
        }
        lost
    }
}

/// All owners of an object.
pub type Managers = BTreeMap<ManagerId, VersionedSet>;

/// Why ownership could not be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateError {
    /// Others own fields that the applier wants to change.
    Conflicts(Vec<Conflict>),
    /// Anything else.
    Other(String),
}

/// The rules, for one resource and one part of it.
#[derive(Clone, Copy, Debug)]
pub struct Updater<'a> {
    /// The versions of the resource.
    pub types: &'a Types,
    /// Fields nobody can own through this part, by version.
    pub ignored: &'a BTreeMap<String, Set>,
}

type Result<T> = std::result::Result<T, UpdateError>;

fn other<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> UpdateError {
    move |why| UpdateError::Other(format!("{what}: {why}"))
}

fn failed(what: impl std::fmt::Display) -> impl Fn(ConvertError) -> UpdateError {
    move |why| match why {
        ConvertError::Missing => UpdateError::Other(format!("{what}: no such version")),
        ConvertError::Other(why) => UpdateError::Other(format!("{what}: {why}")),
    }
}

impl Updater<'_> {
    /// After a create, update or patch made `new` of `live`: what changed is `manager`'s now.
    ///
    /// # Errors
    /// An object that does not fit its type.
    pub fn update(
        &self,
        live: &Object<'_>,
        new: &Object<'_>,
        managers: Managers,
        manager: &ManagerId,
    ) -> Result<Managers> {
        let managers = self.reconcile(live, managers)?;
        let (mut managers, changes) = self.resolve(live, new, managers, manager, true)?;
        let mine = managers.remove(manager).map(|owned| owned.set).unwrap_or_default();
        let set = mine
            .difference(&changes.removed)
            .union(&changes.modified)
            .union(&changes.added);
        let set = self.without_ignored(&new.version, set);
        if !set.is_empty() {
            let api_version = new.version.clone();
            managers.insert(
                manager.clone(),
                VersionedSet {
                    set,
                    api_version,
                    applied: false,
                },
            );
        }
        Ok(managers)
    }

    /// `config` applied to `live`: the merged object, or `None` if it is `live` unchanged, and
    /// the owners.
    ///
    /// # Errors
    /// Conflicts, unless `force`; an object that does not fit its type.
    pub fn apply(
        &self,
        live: &Object<'_>,
        config: &Object<'_>,
        managers: Managers,
        manager: &ManagerId,
        force: bool,
    ) -> Result<(Option<Value>, Managers)> {
        let mut managers = self.reconcile(live, managers)?;
        let merged = self
            .types
            .merge(live, config)
            .map_err(other("failed to merge config"))?;
        let set = self.without_ignored(&config.version, self.types.field_set(config));
        let api_version = config.version.clone();
        let last = managers.insert(
            manager.clone(),
            VersionedSet {
                set,
                api_version,
                applied: true,
            },
        );
        let needed = |last: &VersionedSet| {
            let converted = managers.values().any(|other| other.api_version != config.version);
            !last.set.is_empty() && (converted || Self::drops_something(last, &managers[manager]))
        };
        let merged = match last.filter(needed) {
            Some(last) => self.prune(merged, &managers, &config.version, &last)?,
            None => merged,
        };
        let (managers, _) = self.resolve(live, &merged, managers, manager, force)?;
        let changed = !equal(&live.value, &merged.value);
        Ok((changed.then(|| merged.value.into_owned()), managers))
    }

    /// Whether an applier states less than last time. If not, and nothing has to be converted,
    /// pruning would leave all as it is: what it owned it still owns, and what it did not own is
    /// not its to remove.
    fn drops_something(last: &VersionedSet, now: &VersionedSet) -> bool {
        last.api_version != now.api_version || !last.set.difference(&now.set).is_empty()
    }

    fn without_ignored(&self, version: &str, set: Set) -> Set {
        match self.ignored.get(version) {
            Some(ignored) if !ignored.is_empty() => set.recursive_difference(ignored),
            _ => set,
        }
    }

    fn reconcile(&self, live: &Object<'_>, managers: Managers) -> Result<Managers> {
        let mut served: BTreeMap<String, bool> = BTreeMap::new();
        let mut out = Managers::new();
        for (manager, mut owned) in managers {
            let known = match served.get(&owned.api_version) {
                Some(known) => *known,
                None => self.serves(live, &owned.api_version)?,
            };
            served.insert(owned.api_version.clone(), known);
            if !known {
                continue;
            }
            if let Some(set) = self.types.reconcile(&owned.api_version, &owned.set) {
                owned.set = set;
            }
            out.insert(manager, owned);
        }
        Ok(out)
    }

    fn serves(&self, live: &Object<'_>, version: &str) -> Result<bool> {
        match self.types.convert(live, version) {
            Ok(_) => Ok(true),
            Err(ConvertError::Missing) => Ok(false),
            Err(ConvertError::Other(why)) => Err(UpdateError::Other(why)),
        }
    }

    /// Takes what changed away from all others, or refuses to.
    fn resolve(
        &self,
        old: &Object<'_>,
        new: &Object<'_>,
        managers: Managers,
        manager: &ManagerId,
        force: bool,
    ) -> Result<(Managers, Comparison)> {
        let mut versions = BTreeMap::new();
        versions.insert(new.version.clone(), self.compare(old, new)?);
        let mut conflicts = Vec::new();
        let mut out = Managers::new();
        for (name, mut owned) in managers {
            if &name == manager {
                out.insert(name, owned);
                continue;
            }
            if !versions.contains_key(&owned.api_version) {
                let Some(changes) = self.compare_in(&owned.api_version, old, new)? else {
                    continue;
                };
                versions.insert(owned.api_version.clone(), changes);
            }
            let Some(changes) = versions.get(&owned.api_version) else {
                continue;
            };
            owned.lose(changes).for_each(&mut |path| {
                let (manager, path) = (name.clone(), path.to_vec());
                conflicts.push(Conflict { manager, path });
            });
            out.insert(name, owned);
        }
        if !force && !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(conflicts));
        }
        out.retain(|_, owned| !owned.set.is_empty());
        Ok((out, versions.remove(&new.version).unwrap_or_default()))
    }

    fn compare(&self, old: &Object<'_>, new: &Object<'_>) -> Result<Comparison> {
        let changes = self
            .types
            .compare(old, new)
            .map_err(other("failed to compare objects"))?;
        Ok(changes.without(self.ignored.get(&new.version)))
    }

    fn compare_in(&self, version: &str, old: &Object<'_>, new: &Object<'_>) -> Result<Option<Comparison>> {
        let in_version = |object, what| match self.types.convert(object, version) {
            Err(ConvertError::Missing) => Ok(None),
            converted => converted.map(Some).map_err(failed(what)),
        };
        let old = in_version(old, "failed to convert old object")?;
        let new = in_version(new, "failed to convert new object")?;
        match (old, new) {
            (Some(old), Some(new)) => self.compare(&old, &new).map(Some),
            _ => Ok(None),
        }
    }

    /// Removes what the applier owned last time, states no longer, and nobody else owns.
    fn prune(
        &self,
        merged: Object<'static>,
        managers: &Managers,
        version: &str,
        last: &VersionedSet,
    ) -> Result<Object<'static>> {
        let converted = match self.types.convert(&merged, &last.api_version) {
            Err(ConvertError::Missing) => return Ok(merged),
            converted => converted.map_err(failed(
                "failed to prune fields: failed to convert merged object to last applied version",
            ))?,
        };
        let stated = self.stated(&converted);
        let mine = self.types.with_named_fields(&converted.version, &last.set);
        let pruned = self.types.remove(&converted, &mine);
        let pruned = self.add_back_owned(&converted, &stated, pruned, managers)?;
        let pruned = match self.types.convert(&pruned, &last.api_version) {
            Err(ConvertError::Missing) => return Ok(merged),
            converted => converted.map_err(failed("failed to prune fields: failed add back dangling items: failed to convert pruned object to last applied version"))?,
        };
        // What the applier did not own last time is not its to remove either.
        let gone = stated.difference(&self.stated(&pruned)).intersection(&mine);
        let pruned = self.types.remove(&converted, &gone);
        self.types
            .convert(&pruned, version)
            .map_err(failed("failed to prune fields"))
    }

    fn stated(&self, object: &Object<'_>) -> Set {
        self.types
            .with_named_fields(&object.version, &self.types.field_set(object))
    }

    /// Puts back what anybody owns now, beginning with the version at hand: what it owns may be
    /// needed to convert to the others.
    fn add_back_owned(
        &self,
        merged: &Object<'static>,
        stated: &Set,
        mut pruned: Object<'static>,
        managers: &Managers,
    ) -> Result<Object<'static>> {
        let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
        for versioned in managers.values() {
            let set = owned.entry(&versioned.api_version).or_default();
            *set = set.union(&versioned.set);
        }
        if let Some(set) = owned.remove(merged.version.as_str()) {
            pruned = self.add_back(merged, stated, &pruned, &set);
        }
        let mut merged = Cow::Borrowed(merged);
        for (version, set) in owned {
            let what = |which: &str| {
                let step = "failed to prune fields: failed add back owned items";
                failed(format!("{step}: failed to convert {which} object at version {version}"))
            };
            merged = match self.types.convert(&merged, version) {
                Err(ConvertError::Missing) => continue,
                converted => Cow::Owned(converted.map_err(what("merged"))?),
            };
            pruned = match self.types.convert(&pruned, version) {
                Err(ConvertError::Missing) => continue,
                converted => converted.map_err(what("pruned"))?,
            };
            pruned = self.add_back(&merged, &self.stated(&merged), &pruned, &set);
        }
        Ok(pruned)
    }

    fn add_back(
        &self,
        merged: &Object<'static>,
        stated: &Set,
        pruned: &Object<'static>,
        owned: &Set,
    ) -> Object<'static> {
        let owned = self.types.with_named_fields(&merged.version, owned);
        let kept = self.stated(pruned).union(&owned);
        self.types.remove(merged, &stated.difference(&kept))
    }
}

/// An object by reference.
pub(super) fn borrowed<'a>(version: &str, value: &'a Value) -> Object<'a> {
    Object {
        version: version.to_owned(),
        value: Cow::Borrowed(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::openapi::{Components, read};
    use crate::tests::properties::spec;
    use crate::tests::{V1, openapi, widget};
    use crate::typed;

    proptest! {
        /// Pruning is skipped for an applier that drops nothing; this is why it may be.
        #[test]
        fn pruning_leaves_all_where_nothing_is_dropped(
            stored in spec(), first in spec(), more in spec(), theirs in spec(),
        ) {
            let types = Types::new([(V1, &openapi())], &Components::new(), true);
            let ignored = BTreeMap::new();
            let updater = Updater { types: &types, ignored: &ignored };
            let (schema, root) = read(&openapi(), &Components::new());
            let second = typed::merge(&schema, root, &widget(&first), &widget(&more)).expect("fits");
            let owned = |object: &Value| VersionedSet {
                set: typed::field_set(&schema, root, object),
                api_version: V1.to_owned(),
                applied: true,
            };
            let (last, now) = (owned(&widget(&first)), owned(&second));
            if Updater::drops_something(&last, &now) {
                return Ok(());
            }
            let live = typed::merge(&schema, root, &widget(&stored), &widget(&first)).expect("fits");
            let merged = types.merge(&borrowed(V1, &live), &borrowed(V1, &second)).expect("fits");
            let managers = Managers::from([
                (ManagerId::applier("a", ""), now),
                (ManagerId::applier("b", ""), owned(&widget(&theirs))),
            ]);
            let pruned = updater.prune(merged.clone(), &managers, V1, &last).expect("fits");
            prop_assert_eq!(pruned.value, merged.value);
        }
    }
}
