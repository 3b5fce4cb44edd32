//! Who owns whom, by UID, and what follows from it. Pure: changes in, decisions out.
//!
//! The rules are those of Kubernetes' garbage collector; carrying decisions out is in `mod`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::GroupResource;
use aplomb_apiserver::storage::{Change, Key};

/// The finalizer that keeps an owner until its dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an owner until its dependents have forgotten it.
pub(super) const ORPHAN: &str = "orphan";

pub(super) type Uid = String;

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: Uid,
    blocks: bool,
}

/// One object.
#[derive(Clone, Debug)]
struct Node {
    key: Key,
    owners: Vec<Owner>,
    terminating: bool,
    foreground: bool,
    orphan: bool,
    /// How it is deleted if nothing else says how: a finalizer that is there already is honoured.
    policy: &'static str,
}

/// Where objects of a kind are kept.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) resource: GroupResource,
    pub(super) namespaced: bool,
}

/// Finds the place of a kind; `None` if it is not served.
pub(super) type Places<'a> = &'a dyn Fn(&str, &str) -> Option<Place>;

/// What is to be done about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Nothing,
    /// The kind of an owner is not served, so nobody can say whether the owner exists.
    Puzzled,
    /// Delete it with this propagation, after clearing `blockOwnerDeletion` from its references
    /// if it is part of a circle.
    Delete {
        policy: &'static str,
        unblock: bool,
    },
    /// Remove the references to these owners; others are still there.
    Forget {
        owners: BTreeSet<Uid>,
    },
    /// Remove its reference from each of these, then its `orphan` finalizer.
    Orphan {
        dependents: BTreeSet<Uid>,
    },
    /// Its dependents are gone: remove `foregroundDeletion`.
    Release,
}

enum State {
    Solid,
    Dangling,
    Waiting,
}

/// Whether a write may change the graph: most only change what an object says.
pub(super) fn matters(change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return true;
    };
    let read = ["uid", "ownerReferences", "finalizers", "deletionTimestamp"];
    read.iter()
        .any(|member| old["metadata"][member] != new["metadata"][member])
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Uid, Node>,
    by_key: BTreeMap<Key, Uid>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Graph {
    /// Takes note of a write and returns whom it may concern.
    pub(super) fn apply(&mut self, change: &Change) -> BTreeSet<Uid> {
        let mut concerned = BTreeSet::new();
        let old = change.old.as_deref().map(object::uid);
        let new = change.new.as_deref().map(object::uid);
        if let Some(old) = old
            && Some(old) != new
        {
            self.remove(old, &mut concerned);
        }
        if let Some(object) = &change.new {
            self.upsert(&change.key, object, &mut concerned);
        }
        concerned
    }

    /// Takes note of an object that was there before.
    pub(super) fn add(&mut self, key: &Key, object: &Value) -> BTreeSet<Uid> {
        let mut concerned = BTreeSet::new();
        self.upsert(key, object, &mut concerned);
        concerned
    }

    pub(super) fn key(&self, uid: &str) -> Option<&Key> {
        self.nodes.get(uid).map(|node| &node.key)
    }

    fn remove(&mut self, uid: &str, concerned: &mut BTreeSet<Uid>) {
        let Some(node) = self.nodes.remove(uid) else {
            return;
        };
        self.by_key.remove(&node.key);
        concerned.extend(self.dependents_of(uid).cloned());
        for owner in &node.owners {
            self.unlink(&owner.uid, uid);
            concerned.insert(owner.uid.clone());
        }
    }

    fn upsert(&mut self, key: &Key, object: &Value, concerned: &mut BTreeSet<Uid>) {
        let uid = object::uid(object).to_owned();
        let node = Node::of(key, object);
        let old = self.nodes.get(&uid).cloned();
        let old_owners = old.as_ref().map(|node| node.owners.clone()).unwrap_or_default();
        if old_owners != node.owners {
            concerned.insert(uid.clone());
        }
        for gone in old_owners.iter().filter(|old| !node.refers_to(&old.uid)) {
            self.unlink(&gone.uid, &uid);
        }
        for old in old_owners.iter().filter(|old| old.blocks && !node.blocks(&old.uid)) {
            concerned.insert(old.uid.clone());
        }
        for owner in &node.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(uid.clone());
        }
        let was = |flag: fn(&Node) -> bool| old.as_ref().is_some_and(flag);
        if node.orphan && !was(|node| node.orphan) {
            concerned.insert(uid.clone());
        }
        if node.foreground && !was(|node| node.foreground) {
            concerned.insert(uid.clone());
            concerned.extend(self.dependents_of(&uid).cloned());
        }
        self.by_key.insert(key.clone(), uid.clone());
        self.nodes.insert(uid, node);
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Uid> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// What is to be done about an object now.
    pub(super) fn decide(&self, uid: &str, places: Places<'_>) -> Decision {
        let Some(node) = self.nodes.get(uid) else {
            return Decision::Nothing;
        };
        if node.orphan {
            return Decision::Orphan {
                dependents: self.dependents_of(uid).cloned().collect(),
            };
        }
        if node.foreground {
            let blocked = self
                .dependents_of(uid)
                .any(|dependent| self.nodes.get(dependent).is_some_and(|dependent| dependent.blocks(uid)));
            return if blocked { Decision::Nothing } else { Decision::Release };
        }
        if node.terminating || node.owners.is_empty() {
            return Decision::Nothing;
        }
        self.decide_by_owners(uid, node, places)
    }

    fn decide_by_owners(&self, uid: &str, node: &Node, places: Places<'_>) -> Decision {
        let (mut solid, mut waiting, mut absent) = (false, BTreeSet::new(), BTreeSet::new());
        for owner in &node.owners {
            let Some(place) = places(&owner.api_version, &owner.kind) else {
                return Decision::Puzzled;
            };
            if place.namespaced && node.key.namespace.is_empty() {
                // A cluster-scoped object cannot have a namespaced owner; nobody can look it up.
                return Decision::Nothing;
            }
            match self.state_of(owner, &place, &node.key) {
                State::Solid => solid = true,
                State::Waiting => _ = waiting.insert(owner.uid.clone()),
                State::Dangling => _ = absent.insert(owner.uid.clone()),
            }
        }
        if solid {
            absent.extend(waiting);
            return if absent.is_empty() {
                Decision::Nothing
            } else {
                Decision::Forget { owners: absent }
            };
        }
        let mut dependents = self.dependents_of(uid).peekable();
        if !waiting.is_empty() && dependents.peek().is_some() {
            let unblock = dependents.any(|it| self.nodes.get(it).is_some_and(|it| it.foreground));
            return Decision::Delete {
                policy: "Foreground",
                unblock,
            };
        }
        Decision::Delete {
            policy: node.policy,
            unblock: false,
        }
    }

    fn state_of(&self, owner: &Owner, place: &Place, dependent: &Key) -> State {
        let namespace = if place.namespaced {
            dependent.namespace.clone()
        } else {
            String::new()
        };
        let key = Key {
            resource: place.resource.clone(),
            namespace,
            name: owner.name.clone(),
        };
        match self.by_key.get(&key).filter(|uid| **uid == owner.uid) {
            None => State::Dangling,
            Some(uid) if self.nodes.get(uid).is_some_and(|node| node.foreground) => State::Waiting,
            Some(_) => State::Solid,
        }
    }
}

impl Node {
    fn of(key: &Key, object: &Value) -> Self {
        let terminating = object::is_terminating(object);
        let finalizers = object::finalizers(object);
        Self {
            key: key.clone(),
            owners: owners(object),
            terminating,
            foreground: terminating && finalizers.contains(&FOREGROUND),
            orphan: terminating && finalizers.contains(&ORPHAN),
            policy: if finalizers.contains(&ORPHAN) {
                "Orphan"
            } else if finalizers.contains(&FOREGROUND) {
                "Foreground"
            } else {
                "Background"
            },
        }
    }

    fn refers_to(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner.uid == uid)
    }

    fn blocks(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner.uid == uid && owner.blocks)
    }
}

fn owners(object: &Value) -> Vec<Owner> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let read = |reference: &Value| Owner {
        api_version: object::text(reference, "apiVersion").to_owned(),
        kind: object::text(reference, "kind").to_owned(),
        name: object::text(reference, "name").to_owned(),
        uid: object::text(reference, "uid").to_owned(),
        blocks: reference["blockOwnerDeletion"] == true,
    };
    references.into_iter().flatten().map(read).collect()
}
