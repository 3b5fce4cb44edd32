//! Children, and shares in the objects of others, by server-side apply.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{GetParams, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Class, Error, Result};
use crate::key::ObjectId;
use crate::managed::{Part, applied_entry};
use crate::version::Version;

use super::answer::Answer;
use super::converged::converged;
use super::desired::Desired;
use super::kind::Kind;
use super::known::Known;
use super::pass::Pass;
use super::send::Write;

/// What an apply came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The object was made.
    Created,
    /// It was changed.
    Changed,
    /// It was so already.
    Unchanged,
}

/// An object that is as wanted.
#[derive(Clone, Debug)]
pub struct Applied<K> {
    /// The object with everything the server added.
    pub object: K,
    /// What had to be done for it.
    pub effect: Effect,
}

/// What an apply does besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The object is the owner's own.
    Child,
    /// The object is somebody else's; only the fields that are sent are ours.
    Share,
}

impl Pass {
    /// Makes a child of the owner as `desired` says, in every field that it names.
    ///
    /// `known` is the cache of its kind; without one, the object is read first. A child that was
    /// deleted in the meantime is not brought back: that is a conflict, and the next pass decides.
    pub async fn apply<K>(&self, desired: &K, known: Option<&dyn Known>) -> Result<Applied<K>>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        self.apply_as(desired, known, Role::Child, false).await
    }

    /// Like [`Self::apply`], but refused as a conflict when another writer was first: for what is
    /// computed from the object itself. First since when is what the `resourceVersion` of `desired`
    /// says, else since the cache last showed it.
    pub async fn apply_locked<K>(
        &self,
        desired: &K,
        known: Option<&dyn Known>,
    ) -> Result<Applied<K>>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        self.apply_as(desired, known, Role::Child, true).await
    }

    /// Applies the few fields in `desired` to an object that is not the owner's child: no owner
    /// reference is added and nothing prunes it.
    pub async fn share<K>(&self, desired: &K, known: Option<&dyn Known>) -> Result<Applied<K>>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        self.apply_as(desired, known, Role::Share, false).await
    }

    /// Sets the labels and annotations in `metadata` on the owner itself, and takes away those that
    /// an earlier call set and this one does not name. A conflict if another writer was first.
    pub async fn mark(&self, metadata: &ObjectMeta) -> Result<()> {
        let owner = &self.owner;
        let marks = ObjectMeta {
            name: Some(owner.id.key.name.to_string()),
            namespace: owner.id.key.namespace.as_deref().map(str::to_owned),
            labels: metadata.labels.clone(),
            annotations: metadata.annotations.clone(),
            ..ObjectMeta::default()
        };
        let desired = Desired::new(&json!({ "metadata": &marks }), &owner.kind, None)?;
        let live = self.live();
        let bare = marks.labels.is_none() && marks.annotations.is_none();
        let nothing = bare && applied_entry(&live, self.writer.manager(), None).is_none();
        if nothing || self.needless(&owner.id, None, &desired.body, &live) {
            self.suppressed("apply", &owner.id);
            return Ok(());
        }
        let read = self.read();
        let write = Write {
            verb: "apply",
            object: &owner.id,
            part: Part::Main,
            live: Some(&live),
            lock: read["metadata"]["resourceVersion"].as_str(),
            known: owner.known.as_deref(),
        };
        let answer = self.send_apply(&owner.kind, &desired.body, &write).await?;
        self.state().answered = Some(answer.body);
        Ok(())
    }

    async fn apply_as<K>(
        &self,
        desired: &K,
        known: Option<&dyn Known>,
        role: Role,
        locked: bool,
    ) -> Result<Applied<K>>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let kind = Kind::of::<K>();
        let mut desired = Desired::new(desired, &kind, self.owner.id.key.namespace.as_deref())?;
        let object = kind.object(desired.key.clone());
        if role == Role::Child {
            // Before anything can fail: a child that could not be written is wanted all the same.
            self.state().wanted.insert(object.clone());
            desired.controlled_by(&self.owner.controller());
        }
        let live = self.look(&kind, &object, known).await?;
        self.admit(role, &object, live.as_ref())?;
        let done = |live: &&Value| self.needless(&object, None, &desired.body, live);
        if let Some(live) = live.as_ref().filter(done) {
            self.suppressed("apply", &object);
            return Ok(Applied {
                object: serde_json::from_value(live.clone())?,
                effect: Effect::Unchanged,
            });
        }
        let seen = live
            .as_ref()
            .and_then(|live| live["metadata"]["resourceVersion"].as_str());
        let write = Write {
            verb: "apply",
            object: &object,
            part: Part::Main,
            live: live.as_ref(),
            lock: desired.version.as_deref().or(seen).filter(|_| locked),
            known,
        };
        let answer = self.send_apply(&kind, &desired.body, &write).await?;
        Ok(Applied {
            effect: effect(&answer, live.as_ref()),
            object: serde_json::from_value(answer.body)?,
        })
    }

    /// Whether an object that is there, or is not, may be written to in this role.
    fn admit(&self, role: Role, object: &ObjectId, live: Option<&Value>) -> Result<()> {
        match (role, live) {
            (Role::Child, Some(live)) => self.refuse_foreign(object, live),
            (Role::Share, None) => {
                let what = format!("{object} is not there, and a part of it makes no whole");
                Err(Error::new(Class::Missing, what).on(object.clone(), None))
            }
            (Role::Child, None) | (Role::Share, Some(_)) => Ok(()),
        }
    }

    async fn send_apply(&self, kind: &Kind, desired: &Value, write: &Write<'_>) -> Result<Answer> {
        let key = &write.object.key;
        let parameters = PatchParams::apply(self.writer.manager()).force();
        let request = kind
            .request(key.namespace.as_deref())
            .patch(
                &key.name,
                &parameters,
                &Patch::Apply(pinned(desired, write)),
            )
            .map_err(Error::fault)?;
        let answer = self.send(write, request).await?;
        if answer.accepted() {
            self.remember(write.object, None, desired, (write.live, &answer.body));
            return Ok(answer);
        }
        let error = self.refused(write, &answer);
        if two_controllers(&answer) {
            let what = format!("{} is already controlled by another object", write.object);
            return Err(Error::new(Class::Exists, what).on(write.object.clone(), None));
        }
        Err(error)
    }

    /// The object as far as it is known; read from the server where no cache holds all of it.
    pub(super) async fn look(
        &self,
        kind: &Kind,
        object: &ObjectId,
        known: Option<&dyn Known>,
    ) -> Result<Option<Value>> {
        if let Some(known) = known {
            match known.live(&object.key) {
                None => return Ok(None),
                // Without the notes of who owns what nothing could be compared.
                Some(live) if live["metadata"]["managedFields"].is_array() => {
                    return Ok(Some(live));
                }
                Some(_) => {}
            }
        }
        let request = kind
            .request(object.key.namespace.as_deref())
            .get(&object.key.name, &GetParams::default())
            .map_err(Error::fault)?;
        let answer = Answer::to(&self.writer.0.client, request).await?;
        if answer.accepted() {
            return Ok(Some(answer.body));
        }
        if answer.object_missing() {
            return Ok(None);
        }
        Err(answer.refusal("read", object))
    }

    /// Two controllers of one child would undo each other for ever.
    pub(super) fn refuse_foreign(&self, object: &ObjectId, live: &Value) -> Result<()> {
        let references = live["metadata"]["ownerReferences"].as_array();
        let other = references
            .into_iter()
            .flatten()
            .find(|it| it["controller"] == true && it["uid"] != self.owner.uid);
        let Some(other) = other else {
            return Ok(());
        };
        let name = |field: &str| other[field].as_str().unwrap_or("?").to_owned();
        let what = format!(
            "{object} is already controlled by {} {}; give one of the two another name, or delete {object} if that owner no longer needs it",
            name("kind"),
            name("name"),
        );
        let version = live["metadata"]["resourceVersion"]
            .as_str()
            .map(Version::parse);
        Err(Error::new(Class::Exists, what).on(object.clone(), version))
    }

    /// Whether writing `desired` would change nothing.
    pub(super) fn needless(
        &self,
        object: &ObjectId,
        subresource: Option<&'static str>,
        desired: &Value,
        live: &Value,
    ) -> bool {
        let inner = &self.writer.0;
        inner.suppress
            && (converged(desired, live, &inner.manager, subresource)
                || inner
                    .memory
                    .holds(object, subresource, &inner.manager, desired, live))
    }

    /// Remembers what came of a write, if nothing else will tell that it need not be repeated.
    pub(super) fn remember(
        &self,
        object: &ObjectId,
        subresource: Option<&'static str>,
        desired: &Value,
        change: (Option<&Value>, &Value),
    ) {
        let inner = &self.writer.0;
        if !converged(desired, change.1, &inner.manager, subresource) {
            inner
                .memory
                .keep(object, subresource, &inner.manager, desired, change);
        }
    }
}

/// The body of an apply: tied to the object that was read, so that it cannot bring back one that is
/// gone, and to a version if the write is locked.
fn pinned(desired: &Value, write: &Write<'_>) -> Value {
    let mut body = desired.clone();
    let uid = write.live.and_then(|live| live["metadata"]["uid"].as_str());
    if let Some(uid) = uid {
        body["metadata"]["uid"] = json!(uid);
    }
    if let Some(version) = write.lock {
        body["metadata"]["resourceVersion"] = json!(version);
    }
    body
}

/// The server refuses a second controller, which a cache that is behind could not show.
fn two_controllers(answer: &Answer) -> bool {
    let causes = answer.body["details"]["causes"].as_array();
    let mut fields = causes.into_iter().flatten().map(|cause| &cause["field"]);
    answer.code == http::StatusCode::UNPROCESSABLE_ENTITY
        && fields.any(|field| *field == "metadata.ownerReferences")
}

fn effect(answer: &Answer, live: Option<&Value>) -> Effect {
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    match live {
        _ if answer.code == http::StatusCode::CREATED => Effect::Created,
        Some(live) if version(live) == version(&answer.body) => Effect::Unchanged,
        _ => Effect::Changed,
    }
}
