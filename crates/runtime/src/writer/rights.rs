//! Decides which objects may be written as children: none for an owner that is being deleted, and no object
//! that belongs to others.
//!
//! A cache may lag in both cases. So a child is created only if it does not exist, and an owner that
//! may be deleted is read from the server before a child is recreated.

use serde_json::Value;

use crate::error::{Error, ErrorClass, Result};
use crate::key::ObjectRef;
use crate::managed_fields::{has_fields, has_finalizer_of, newest_foreign_manager};
use crate::version::ResourceVersion;

use super::pass::{Pass, PassOwner};

impl PassOwner {
    /// Whether the owner, as it was read, is being deleted and has no finalizer of `manager`.
    pub(crate) fn is_released_by(&self, manager: &str) -> bool {
        self.is_live_released_by(&self.read, manager)
    }

    /// The same for the owner's state `live`.
    pub(super) fn is_live_released_by(&self, live: &Value, manager: &str) -> bool {
        let finalizers = live["metadata"]["finalizers"].as_array();
        let mut finalizers = finalizers.into_iter().flatten().filter_map(Value::as_str);
        let declared = finalizers.any(|name| self.finalizers.contains(&name));
        is_deleting(live) && !declared && !has_finalizer_of(live, manager)
    }
}

impl Pass {
    /// A pass over an owner that is being deleted cleans up and creates nothing.
    pub(super) fn check_owner_not_deleting(&self, object: &ObjectRef) -> Result<()> {
        let owner = &self.owner;
        if !is_deleting(&owner.read) {
            return Ok(());
        }
        let what = format!(
            "apply of {object}: {} is being deleted; clean up and remove its finalizer instead",
            owner.id
        );
        Err(Error::new(ErrorClass::Invalid, what))
    }

    /// Fails if the owner of `object` no longer exists. `again`: the owner has had it,
    /// so that its absence may be the first sign of a deletion; then it is read from the server.
    pub(super) async fn require_owner(&self, object: &ObjectRef, again: bool) -> Result<()> {
        let owner = &self.owner;
        let ours = |live: &Value| live["metadata"]["uid"] == owner.uid;
        let cached = match &owner.known {
            Some(known) => known.live(&owner.id.key).filter(ours),
            None => Some(self.read()),
        };
        if let Some(cached) = cached.as_ref().filter(|cached| is_deleting(cached)) {
            return Err(self.owner_deleting_error(object, cached));
        }
        if !again && cached.is_some() {
            return Ok(());
        }
        let found = self.read_live(&owner.kind, &owner.id, None).await?;
        match found.filter(ours) {
            Some(live) if is_deleting(&live) => {
                if let Some(known) = &owner.known {
                    known.record_read(&live);
                }
                Err(self.owner_deleting_error(object, &live))
            }
            Some(_) => Ok(()),
            None => {
                self.record_owner_deleted();
                Err(self.conflict_error(object, "was deleted"))
            }
        }
    }

    /// The owner no longer exists on the server. Updates the cache, because its watch may lag.
    pub(super) fn record_owner_deleted(&self) {
        let owner = &self.owner;
        self.state().owner_deleted = true;
        if let Some(known) = &owner.known {
            known.begin_write(&owner.id.key).record_delete(&owner.uid);
        }
    }

    fn owner_deleting_error(&self, object: &ObjectRef, live: &Value) -> Error {
        if self.owner.is_live_released_by(live, self.writer.manager()) {
            self.state().owner_deleted = true;
        }
        self.conflict_error(object, "is being deleted")
    }

    fn conflict_error(&self, object: &ObjectRef, why: &str) -> Error {
        let owner = &self.owner;
        let what = format!("apply of {object}: {} {why}", owner.id);
        let read = owner.read["metadata"]["resourceVersion"].as_str();
        Error::new(ErrorClass::Conflict, what).with_object(owner.id.clone(), read.map(ResourceVersion::parse))
    }

    /// Whether `live` has the owner among its owners.
    pub(super) fn has_owner_reference(&self, live: &Value) -> bool {
        references(live).any(|it| it["uid"] == self.owner.uid)
    }

    /// Whether this controller has written `live`, or the owner owns it.
    pub(super) fn is_child(&self, live: &Value) -> bool {
        self.has_owner_reference(live) || has_fields(live, self.writer.manager())
    }

    /// Two controllers of one child would keep undoing each other's changes.
    pub(super) fn check_single_controller(&self, object: &ObjectRef, live: &Value) -> Result<()> {
        let uid = &self.owner.uid;
        let Some(other) = references(live).find(|it| it["controller"] == true && it["uid"] != *uid) else {
            return Ok(());
        };
        let name = |field: &str| other[field].as_str().unwrap_or("?").to_owned();
        let what = format!(
            "{object} is already controlled by {} {}; give one of the two another name, or delete {object} if that owner no longer needs it",
            name("kind"),
            name("name"),
        );
        Err(name_taken_error(object, live, what))
    }

    /// An object that neither this controller has written nor the owner owns belongs to others.
    /// `owned`: whether the owner can own it, which is impossible across namespaces.
    pub(super) fn check_controller(&self, object: &ObjectRef, live: &Value, owned: bool) -> Result<()> {
        if self.is_child(live) {
            return Ok(());
        }
        let manager = self.writer.manager();
        let by = newest_foreign_manager(live, manager);
        let by = by.map_or_else(String::new, |by| format!(" (written by {by})"));
        let owner = &self.owner.id;
        let ways = match owned {
            true => format!(
                "delete it, use another name, or add an ownerReference to {} {} to hand it over",
                owner.kind, owner.key.name,
            ),
            // The garbage collector would delete an object with such a reference.
            false => "delete it or use another name".to_owned(),
        };
        let what = format!("{object} exists and is not managed by {manager}{by}; {ways}");
        Err(name_taken_error(object, live, what))
    }
}

fn name_taken_error(object: &ObjectRef, live: &Value, what: String) -> Error {
    let version = live["metadata"]["resourceVersion"].as_str();
    Error::new(ErrorClass::Exists, what).with_object(object.clone(), version.map(ResourceVersion::parse))
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    let references = object["metadata"]["ownerReferences"].as_array();
    references.into_iter().flatten()
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}
