//! Server-side apply of children, and of single fields in objects of others.

use kube::Resource;
use kube::api::{GetParams, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorClass, Result};
use crate::key::{ObjectKey, ObjectRef};
use crate::managed_fields::ObjectPart;
use crate::nulls;
use crate::writer::noop::is_converged;
use crate::writer::pass::Pass;
use crate::writer::send::{ApiResponse, WriteRequest};
use crate::writer::{ErasedKind, LiveObjects};

/// The effect of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyEffect {
    /// The object was created.
    Created,
    /// It was changed.
    Changed,
    /// It was equal already.
    Unchanged,
}

/// The result of an apply.
#[derive(Clone, Debug)]
pub struct ApplyResult<K> {
    /// The object with all fields that the server added.
    pub object: K,
    /// The effect.
    pub effect: ApplyEffect,
}

/// The relation between the owner and the applied object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The object is a child of the owner.
    Child,
    /// The object becomes a child of the owner, unless another object controls it.
    Adopted,
    /// The object belongs to others; only the applied fields are ours.
    Unowned,
}

/// A requested apply.
struct ApplyRequest<'a> {
    kind: ErasedKind,
    object: ObjectRef,
    desired: DesiredObject,
    role: Role,
    /// Whether the object has the owner as its controller.
    controlled: bool,
    known: Option<&'a dyn LiveObjects>,
}

/// A version that no object has: the first write of a server is the second version. An apply with it fails
/// with a conflict if the object exists, and creates it otherwise.
const IMPOSSIBLE_VERSION: &str = "1";

impl Pass {
    /// Creates or updates a child of the owner so that it has every field of `desired`.
    ///
    /// `known` is the cache of its kind; without one, the object is read first. A child that was
    /// deleted in the meantime is not recreated: that is a conflict, and the next pass decides.
    ///
    /// If an object of that name exists that this manager has not written and that is not owned by the owner, the
    /// error has class `Exists`, whether `known` shows it or not; see [`Self::adopt`].
    pub async fn apply<K>(&self, desired: &K, known: Option<&dyn LiveObjects>) -> Result<ApplyResult<K>>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        self.apply_as(desired, known, Role::Child).await
    }

    /// Like [`Self::apply`], but an object that `known` shows becomes a child of the owner unless
    /// another object controls it: for callers that have checked it.
    pub async fn adopt<K>(&self, desired: &K, known: Option<&dyn LiveObjects>) -> Result<ApplyResult<K>>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        self.apply_as(desired, known, Role::Adopted).await
    }

    /// Applies the few fields in `desired` to an object that is not a child of the owner: no owner
    /// reference is added and it is never pruned.
    pub async fn apply_unowned<K>(&self, desired: &K, known: Option<&dyn LiveObjects>) -> Result<ApplyResult<K>>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        self.apply_as(desired, known, Role::Unowned).await
    }

    async fn apply_as<K>(&self, desired: &K, known: Option<&dyn LiveObjects>, role: Role) -> Result<ApplyResult<K>>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let mut desired = DesiredObject::new(desired, &kind, self.owner.id.key.namespace.as_deref())?;
        let object = kind.object_ref(desired.key.clone());
        let mut controlled = false;
        if role != Role::Unowned {
            // Before anything can fail: a child that could not be written is still wanted.
            self.state().desired.insert(object.clone());
            self.check_owner_not_deleting(&object)?;
            controlled = desired.set_controller(&self.owner.controller());
        }
        let mut wanted = ApplyRequest {
            kind,
            object,
            desired,
            role,
            controlled,
            known,
        };
        let live = self.read_live(&wanted.kind, &wanted.object, known).await?;
        let absent = live.is_none();
        let mut done = self.write_if_changed(&wanted, live).await;
        if absent && done.as_ref().is_err_and(|error| wanted.is_already_exists(error)) {
            // The caller has not seen it, so it cannot have intended to adopt it.
            wanted.role = Role::Child;
            if let Some(live) = self.read_live(&wanted.kind, &wanted.object, None).await? {
                done = self.write_if_changed(&wanted, Some(live)).await;
            }
        }
        let (object, effect) = done?;
        Ok(ApplyResult {
            object: nulls::read(&object)?,
            effect,
        })
    }

    async fn write_if_changed(&self, wanted: &ApplyRequest<'_>, live: Option<Value>) -> Result<(Value, ApplyEffect)> {
        let (object, desired) = (&wanted.object, &wanted.desired);
        self.check_target(wanted, live.as_ref())?;
        if let Some(live) = &live
            && self.is_noop(object, None, &desired.body, live)
        {
            self.record_suppressed("apply", object);
            self.record_child(wanted);
            return Ok((live.clone(), ApplyEffect::Unchanged));
        }
        if wanted.role != Role::Unowned {
            let again = match &live {
                Some(live) => wanted.controlled && !self.has_owner_reference(live),
                None => self.had_child(object),
            };
            self.require_owner(object, again).await?;
        }
        let write = WriteRequest {
            verb: "apply",
            object,
            part: ObjectPart::Main,
            live: live.as_ref(),
            lock: live.is_none().then_some(IMPOSSIBLE_VERSION),
            known: wanted.known,
        };
        let answer = self.send_apply(&wanted.kind, &desired.body, &write).await;
        // A write whose response was lost may have created the child.
        if !matches!(&answer, Err(error) if error.class() != ErrorClass::Unavailable) {
            self.record_child(wanted);
        }
        let answer = answer?;
        let effect = effect(&answer, live.as_ref());
        Ok((answer.body, effect))
    }

    fn record_child(&self, wanted: &ApplyRequest<'_>) {
        if wanted.role != Role::Unowned {
            let (owner, children) = (&self.owner, &self.writer.0.children);
            children.record(&owner.id.key, &owner.uid, &wanted.object);
        }
    }

    fn had_child(&self, object: &ObjectRef) -> bool {
        let (owner, children) = (&self.owner, &self.writer.0.children);
        children.may_have_existed(&owner.id.key, &owner.uid, object)
    }

    /// Whether the existing or missing object may be written in this role.
    fn check_target(&self, wanted: &ApplyRequest<'_>, live: Option<&Value>) -> Result<()> {
        let object = &wanted.object;
        match (wanted.role, live) {
            (Role::Child, Some(live)) => {
                self.check_single_controller(object, live)?;
                self.check_controller(object, live, wanted.controlled)
            }
            (Role::Adopted, Some(live)) => self.check_single_controller(object, live),
            (Role::Unowned, None) => {
                let what = format!("{object} does not exist; cannot apply part of it");
                Err(Error::new(ErrorClass::Missing, what).with_object(object.clone(), None))
            }
            (Role::Child | Role::Adopted, None) | (Role::Unowned, Some(_)) => Ok(()),
        }
    }

    async fn send_apply(&self, kind: &ErasedKind, desired: &Value, write: &WriteRequest<'_>) -> Result<ApiResponse> {
        let key = &write.object.key;
        let parameters = PatchParams::apply(self.writer.manager()).force();
        let request = kind
            .request(key.namespace.as_deref())
            .patch(&key.name, &parameters, &Patch::Apply(pin_to_live(desired, write)))
            .map_err(Error::fault)?;
        let answer = self.send(write, request).await?;
        if answer.is_success() {
            self.memoize(write.object, None, desired, (write.live, &answer.body));
            return Ok(answer);
        }
        let error = self.record_refused(write, &answer);
        if is_second_controller(&answer) {
            let what = format!("{} is already controlled by another object", write.object);
            return Err(Error::new(ErrorClass::Exists, what).with_object(write.object.clone(), None));
        }
        Err(error)
    }

    /// The object as far as known; read from the server if no cache holds all of it.
    pub(super) async fn read_live(
        &self,
        kind: &ErasedKind,
        object: &ObjectRef,
        known: Option<&dyn LiveObjects>,
    ) -> Result<Option<Value>> {
        if let Some(known) = known {
            match known.live(&object.key) {
                None => return Ok(None),
                // Without managedFields nothing can be compared.
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
        let answer = ApiResponse::fetch(&self.writer.0.client, request).await?;
        if answer.is_success() {
            return Ok(Some(answer.body));
        }
        if answer.is_object_not_found() {
            return Ok(None);
        }
        Err(answer.to_error("read", object))
    }

    /// Whether writing `desired` would change nothing.
    pub(super) fn is_noop(
        &self,
        object: &ObjectRef,
        subresource: Option<&'static str>,
        desired: &Value,
        live: &Value,
    ) -> bool {
        let inner = &self.writer.0;
        is_converged(desired, live, &inner.manager, subresource)
            || inner
                .memory
                .is_current(object, subresource, &inner.manager, desired, live)
    }

    /// Records the result of a write, if nothing else will show that it need not be repeated.
    pub(super) fn memoize(
        &self,
        object: &ObjectRef,
        subresource: Option<&'static str>,
        desired: &Value,
        change: (Option<&Value>, &Value),
    ) {
        let inner = &self.writer.0;
        if !is_converged(desired, change.1, &inner.manager, subresource) {
            inner
                .memory
                .memoize(object, subresource, &inner.manager, desired, change);
        }
    }
}

impl ApplyRequest<'_> {
    /// Whether `error` means that the object to create exists.
    fn is_already_exists(&self, error: &Error) -> bool {
        let on = error.object().is_some_and(|(on, _)| *on == self.object);
        on && matches!(error.class(), ErrorClass::Conflict | ErrorClass::Exists)
    }
}

/// The body of an apply: bound to the UID that was read, so that it cannot recreate a deleted
/// object, and to a version that no object has if it must create the object.
fn pin_to_live(desired: &Value, write: &WriteRequest<'_>) -> Value {
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

/// The server rejects a second controller, which a lagging cache may not show.
fn is_second_controller(answer: &ApiResponse) -> bool {
    let causes = answer.body["details"]["causes"].as_array();
    let mut fields = causes.into_iter().flatten().map(|cause| &cause["field"]);
    answer.code == http::StatusCode::UNPROCESSABLE_ENTITY && fields.any(|field| *field == "metadata.ownerReferences")
}

fn effect(answer: &ApiResponse, live: Option<&Value>) -> ApplyEffect {
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    match live {
        _ if answer.code == http::StatusCode::CREATED => ApplyEffect::Created,
        Some(live) if version(live) == version(&answer.body) => ApplyEffect::Unchanged,
        _ => ApplyEffect::Changed,
    }
}

/// Fields of the metadata that the server sets.
const SERVER_FIELDS: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
];

/// The owner of a child, as in its owner reference.
#[derive(Clone, Debug)]
pub(crate) struct OwnerRef<'a> {
    pub(crate) kind: &'a ErasedKind,
    pub(crate) key: &'a ObjectKey,
    pub(crate) uid: &'a str,
}

/// An object to apply, and its key.
#[derive(Clone, Debug)]
pub(crate) struct DesiredObject {
    pub(crate) key: ObjectKey,
    pub(crate) body: Value,
}

impl DesiredObject {
    /// An apply of `object`. Absent values are not sent, the status is written elsewhere,
    /// and a namespaced object without a namespace goes to the namespace of its owner.
    pub(crate) fn new<K: Serialize>(object: &K, kind: &ErasedKind, beside: Option<&str>) -> Result<Self> {
        let mut body = serde_json::to_value(object)?;
        drop_nulls(&mut body);
        let Value::Object(fields) = &mut body else {
            return Err(invalid_error(kind, "is not an object"));
        };
        fields.remove("status");
        fields.insert("apiVersion".to_owned(), json!(kind.api_version()));
        fields.insert("kind".to_owned(), json!(kind.name()));
        let meta = fields
            .entry("metadata")
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .ok_or_else(|| invalid_error(kind, "has invalid metadata"))?;
        SERVER_FIELDS.iter().for_each(|field| drop(meta.remove(*field)));
        let key = take_key(meta, kind, beside)?;
        Ok(Self { key, body })
    }

    /// Makes `owner` the controller, if the API allows a reference: within a namespace,
    /// or from a cluster-scoped owner. Returns whether it did.
    pub(crate) fn set_controller(&mut self, owner: &OwnerRef<'_>) -> bool {
        if owner.key.namespace.is_some() && owner.key.namespace != self.key.namespace {
            return false;
        }
        let references = self.body["metadata"]
            .as_object_mut()
            .expect("metadata is an object by construction")
            .entry("ownerReferences")
            .or_insert_with(|| json!([]));
        if let Value::Array(references) = references {
            references.retain(|other| other["uid"] != owner.uid);
            references.push(json!({
                "apiVersion": owner.kind.api_version(),
                "kind": owner.kind.name(),
                "name": &*owner.key.name,
                "uid": owner.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }));
        }
        true
    }
}

fn take_key(meta: &mut Map<String, Value>, kind: &ErasedKind, beside: Option<&str>) -> Result<ObjectKey> {
    let text = |meta: &Map<String, Value>, field: &str| meta.get(field).and_then(Value::as_str).map(str::to_owned);
    let Some(name) = text(meta, "name").filter(|name| !name.is_empty()) else {
        return Err(invalid_error(kind, "has no metadata.name"));
    };
    if kind.is_cluster_scoped() {
        meta.remove("namespace");
        return Ok(ObjectKey::new(None, &name));
    }
    let namespace = text(meta, "namespace").or_else(|| beside.map(str::to_owned));
    let Some(namespace) = namespace else {
        return Err(invalid_error(kind, "has no metadata.namespace and its owner has none"));
    };
    meta.insert("namespace".to_owned(), json!(namespace));
    Ok(ObjectKey::new(Some(&namespace), &name))
}

fn invalid_error(kind: &ErasedKind, what: &str) -> Error {
    Error::new(ErrorClass::Invalid, format!("desired {} {what}", kind.name()))
}

/// `None` in a Rust type means an unset field, but JSON null would be a value.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, inner| !inner.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    fn config_map(metadata: &Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": metadata})).expect("a ConfigMap")
    }

    #[test]
    fn only_declared_fields_are_sent() {
        let read = config_map(&json!({
            "name": "a", "uid": "u", "resourceVersion": "7", "creationTimestamp": null,
            "managedFields": [], "labels": {"x": "y"},
        }));
        let desired = DesiredObject::new(&read, &ErasedKind::for_resource::<ConfigMap>(), Some("team")).expect("fine");
        let sent = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "team", "labels": {"x": "y"}},
        });
        assert_eq!(desired.body, sent);
        assert_eq!(desired.key, ObjectKey::new(Some("team"), "a"));
    }

    #[test]
    fn an_object_without_a_name_or_namespace_is_refused() {
        let kind = ErasedKind::for_resource::<ConfigMap>();
        let nameless = DesiredObject::new(&config_map(&json!({})), &kind, Some("team"));
        assert_eq!(nameless.expect_err("refused").class(), ErrorClass::Invalid);
        let homeless = DesiredObject::new(&config_map(&json!({"name": "a"})), &kind, None);
        assert_eq!(homeless.expect_err("refused").class(), ErrorClass::Invalid);
    }

    #[test]
    fn a_reference_is_set_only_where_the_api_allows_one() {
        let kind = ErasedKind::for_resource::<ConfigMap>();
        let key = ObjectKey::new(Some("team"), "owner");
        let owner = OwnerRef {
            kind: &kind,
            key: &key,
            uid: "u1",
        };
        let mut child = DesiredObject::new(&config_map(&json!({"name": "a"})), &kind, Some("team")).expect("fine");
        assert!(child.set_controller(&owner));
        assert!(child.set_controller(&owner));
        assert_eq!(
            child.body["metadata"]["ownerReferences"].as_array().map(Vec::len),
            Some(1)
        );
        let space: Namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).expect("one");
        let mut space =
            DesiredObject::new(&space, &ErasedKind::for_resource::<Namespace>(), Some("team")).expect("fine");
        assert!(!space.set_controller(&owner));
    }
}
