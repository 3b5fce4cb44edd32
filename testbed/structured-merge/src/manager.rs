//! Field management of one resource: the way from a request to `metadata.managedFields`.
//!
//! # When to call what
//!
//! The order is the server's; ownership depends on it.
//!
//! * **create**: decode, default, wipe the system fields of metadata, set the namespace, fold
//!   duplicate owner references, [`FieldManager::update`] with no live object, and only then name
//!   generation, `prepare_create` and validation. The status a client sends is therefore still
//!   there; the reset fields keep it from being owned.
//! * **update, JSON patch, merge patch**: decode, default, fold duplicate owner references,
//!   [`FieldManager::update`] with the stored object, then `prepare_update`, then
//!   [`FieldManager::ignore_timestamps`], then validation.
//! * **apply**: [`FieldManager::apply`] on the body as parsed (no defaulting, no pruning; `live`
//!   is `None` where there is no object), then decode and default the result, check namespace,
//!   name and uid, then as for an update: `prepare_*`, [`FieldManager::ignore_timestamps`],
//!   validation. Defaults filled in after the merge belong to nobody.
//!
//! What is then equal to what is stored must not be written. `live` is always in the version of
//! the request.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::conflict::{self, Conflict};
use super::last_applied;
use super::managed::{self, Managed, ManagerId};
use super::object::{as_decoded, bare, described, same_but, same_but_owners, text_at, type_text};
use super::openapi::Components;
use super::set::Set;
use super::types::{Convert, Types, plain_set};
use super::update::{UpdateError, Updater, VersionedSet, borrowed};

/// Who owned everything before the first apply, where nobody kept book.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// One version of a resource.
#[derive(Clone, Debug)]
pub struct Version<'a> {
    /// `group/version`, or `v1`.
    pub api_version: &'a str,
    /// Its schema, with `x-kubernetes-*` extensions.
    pub openapi: &'a Value,
    /// An object of the kind with nothing set, as the server's `New()` makes it: `apiVersion` and
    /// `kind` for a custom resource, the fields Go never leaves out for a built-in kind.
    pub empty: Value,
    /// Fields nobody can own through the object itself.
    pub reset_main: Vec<Vec<String>>,
    /// Fields nobody can own through `/status`.
    pub reset_status: Vec<Vec<String>>,
}

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// `fieldManager`, or the user agent up to the first slash.
    pub manager: &'a str,
    /// The version of the request.
    pub api_version: &'a str,
    /// `status`, or empty.
    pub subresource: &'a str,
    /// Now, RFC 3339 in UTC.
    pub time: &'a str,
}

/// Why an apply was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// 409.
    Conflicts(Vec<Conflict>),
    /// 400.
    BadRequest(String),
    /// 500 without a reason.
    Internal(String),
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflicts(conflicts) => f.write_str(&conflict::message(conflicts)),
            Self::BadRequest(why) | Self::Internal(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for MergeError {}

impl From<UpdateError> for MergeError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Conflicts(conflicts) => Self::Conflicts(conflicts),
            UpdateError::Other(why) => Self::Internal(why),
        }
    }
}

/// Field management of one resource, all its versions.
#[derive(Clone, Debug)]
pub struct FieldManager {
    kind: String,
    custom: bool,
    types: Types,
    empty: BTreeMap<String, Value>,
    /// Through the object itself only the version of the request is filtered.
    ignored_main: BTreeMap<String, BTreeMap<String, Set>>,
    ignored_status: BTreeMap<String, Set>,
    never_tracked: Set,
}

impl FieldManager {
    /// For a kind in all its versions; `$ref`s of their schemas lead to `components`. `custom` is for custom resources, which refuse versions
    /// they do not know where built-in kinds forget them.
    #[must_use]
    pub fn new(kind: &str, versions: &[Version<'_>], components: &Components, custom: bool) -> Self {
        let mut ignored_main = BTreeMap::new();
        let mut ignored_status = BTreeMap::new();
        for version in versions {
            let name = version.api_version.to_owned();
            let own = BTreeMap::from([(name.clone(), plain_set(&version.reset_main))]);
            ignored_main.insert(name.clone(), own);
            ignored_status.insert(name, plain_set(&version.reset_status));
        }
        Self {
            kind: kind.to_owned(),
            custom,
            types: Types::new(versions.iter().map(|v| (v.api_version, v.openapi)), components, custom),
            empty: versions
                .iter()
                .map(|v| (v.api_version.to_owned(), v.empty.clone()))
                .collect(),
            ignored_main,
            ignored_status,
            never_tracked: never_tracked(),
        }
    }

    /// Uses `convert` between versions instead of only changing `apiVersion`.
    #[must_use]
    pub fn with_conversion(mut self, convert: Convert) -> Self {
        self.types = self.types.with_conversion(convert);
        self
    }

    /// The owners after a create, update or patch: `new` with its `managedFields`.
    ///
    /// Never refuses a write: where ownership cannot be computed the list is left out, as the
    /// server does.
    #[must_use]
    pub fn update(&self, live: Option<&Value>, mut new: Value, writer: &Writer<'_>) -> Value {
        let live = live.map_or_else(|| Cow::Owned(self.empty(writer)), Cow::Borrowed);
        if !new.get("metadata").is_some_and(Value::is_object) {
            return new;
        }
        let managed = self.live_or_new(&live, &new, writer);
        managed::clear(&mut new);
        if let Ok(managed) = self.updated(&live, &new, managed, writer) {
            managed::encode(&managed, &mut new);
        }
        new
    }

    /// Server-side apply: `applied` merged over `live`, with its `managedFields`.
    ///
    /// # Errors
    /// Conflicts unless `force`; a body that is not of this kind, names owners, or does not fit
    /// the schema.
    pub fn apply(
        &self,
        live: Option<&Value>,
        applied: &Value,
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<Value, MergeError> {
        let live = live.map_or_else(|| Cow::Owned(self.empty(writer)), Cow::Borrowed);
        self.check_kind(applied, writer)?;
        let managed = managed::decode(&live)
            .map_err(|why| MergeError::Internal(format!("failed to decode managed fields: {why}")))?;
        let (live, applied) = (&bare(&live), &*as_decoded(applied));
        let (mut object, managed) = if writer.manager == last_applied::KUBECTL {
            let result = self.applied(live, applied, managed.clone(), writer, force);
            let (mut object, managed) = self.take_over_client_side(result, live, applied, managed, writer)?;
            last_applied::refresh(&mut object, applied);
            (object, managed)
        } else {
            self.applied(live, applied, managed, writer, force)?
        };
        managed::encode(&managed, &mut object);
        Ok(object)
    }

    /// Sets the times of `managedFields` back where nothing else changed, so that a write that
    /// says nothing new is not written.
    pub fn ignore_timestamps(live: &Value, new: &mut Value) {
        let (Some(old), Some(now)) = (managed::entries(live), managed::entries(new)) else {
            return;
        };
        let same_owners = old.len() == now.len() && old.iter().zip(now).all(|(a, b)| same_but(a, b, "time"));
        if !same_owners || old == now {
            return;
        }
        if same_but_owners(live, new) {
            *new = live.clone();
        }
    }

    fn empty(&self, writer: &Writer<'_>) -> Value {
        let mut empty = self.empty.get(writer.api_version).cloned().unwrap_or_else(|| json!({}));
        if let Value::Object(map) = &mut empty {
            map.insert("apiVersion".to_owned(), writer.api_version.into());
            map.insert("kind".to_owned(), self.kind.as_str().into());
        }
        empty
    }

    /// The owners to start from: those the client sends, unless it sends none it could mean.
    fn live_or_new(&self, live: &Value, new: &Value, writer: &Writer<'_>) -> Managed {
        let from_live = || managed::decode(live).unwrap_or_default();
        if !writer.subresource.is_empty() {
            return from_live();
        }
        if managed::is_reset(new, self.custom) {
            return Managed::default();
        }
        match managed::decode(new) {
            Ok(managed) if !managed.fields.is_empty() => managed,
            _ => from_live(),
        }
    }

    fn updater(&self, writer: &Writer<'_>) -> Updater<'_> {
        static NOTHING: BTreeMap<String, Set> = BTreeMap::new();
        let ignored = if writer.subresource.is_empty() {
            self.ignored_main.get(writer.api_version).unwrap_or(&NOTHING)
        } else if writer.subresource == "status" {
            &self.ignored_status
        } else {
            &NOTHING
        };
        Updater {
            types: &self.types,
            ignored,
        }
    }

    fn updated(
        &self,
        live: &Value,
        new: &Value,
        mut managed: Managed,
        writer: &Writer<'_>,
    ) -> Result<Managed, MergeError> {
        if managed.fields.is_empty() && !text_at(live, "/metadata/uid").is_empty() {
            return Ok(managed);
        }
        for (object, which) in [(new, "new"), (live, "live")] {
            self.types.check(writer.api_version, object, true).map_err(|why| {
                let name = described(object);
                MergeError::Internal(format!("failed to convert {which} object ({name}) to smd typed: {why}"))
            })?;
        }
        let current = ManagerId {
            manager: "current-operation".to_owned(),
            ..ManagerId::default()
        };
        let (live, new) = (borrowed(writer.api_version, live), borrowed(writer.api_version, new));
        managed.fields = self.updater(writer).update(&live, &new, managed.fields, &current)?;
        self.strip(&mut managed, &current);
        if let Some(owned) = managed.fields.remove(&current) {
            credit(&mut managed, owned, writer);
        }
        managed.cap_updates();
        Ok(managed)
    }

    fn applied(
        &self,
        live: &Value,
        applied: &Value,
        mut managed: Managed,
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<(Value, Managed), MergeError> {
        if managed.fields.is_empty() {
            managed = self.owned_before(live, managed, writer)?;
        }
        if managed::entries(applied).is_some() {
            let why = "metadata.managedFields must be nil";
            return Err(MergeError::BadRequest(why.to_owned()));
        }
        let version = writer.api_version;
        for (object, which, duplicates) in [(applied, "patch", false), (live, "live", true)] {
            self.types.check(version, object, duplicates).map_err(|why| {
                let name = described(object);
                MergeError::Internal(format!("failed to create typed {which} object ({name}): {why}"))
            })?;
        }
        let id = ManagerId::applier(writer.manager, writer.subresource);
        let (old, config) = (borrowed(version, live), borrowed(version, applied));
        let (object, fields) = self.updater(writer).apply(&old, &config, managed.fields, &id, force)?;
        managed.fields = fields;
        self.strip(&mut managed, &id);
        if object.is_some() {
            managed.times.insert(id, writer.time.to_owned());
        }
        Ok((object.unwrap_or_else(|| live.clone()), managed))
    }

    /// The owner of everything that is there when the first apply comes.
    fn owned_before(&self, live: &Value, managed: Managed, writer: &Writer<'_>) -> Result<Managed, MergeError> {
        let before = Writer {
            manager: BEFORE_FIRST_APPLY,
            ..*writer
        };
        let owned = self.updated(&self.empty(writer), live, managed, &before);
        owned.map_err(|why| match why {
            MergeError::Internal(why) => {
                let what = "failed to create manager for existing fields";
                MergeError::Internal(format!("{what}: {why}"))
            }
            other => other,
        })
    }

    /// kubectl's own fields from before it applied on the server are no conflict for it.
    fn take_over_client_side(
        &self,
        result: Result<(Value, Managed), MergeError>,
        live: &Value,
        applied: &Value,
        managed: Managed,
        writer: &Writer<'_>,
    ) -> Result<(Value, Managed), MergeError> {
        let conflicts = match result {
            Err(MergeError::Conflicts(conflicts)) => conflicts,
            other => return other,
        };
        let Some(allowed) = last_applied::allowed_conflicts(&self.types, writer.api_version, live) else {
            return Err(MergeError::Conflicts(conflicts));
        };
        let left: Vec<_> = conflicts.into_iter().filter(|c| !allowed.has(&c.path)).collect();
        if !left.is_empty() {
            return Err(MergeError::Conflicts(left));
        }
        self.applied(live, applied, managed, writer, true)
    }

    fn strip(&self, managed: &mut Managed, id: &ManagerId) {
        let Some(owned) = managed.fields.get_mut(id) else {
            return;
        };
        owned.set = owned.set.difference(&self.never_tracked);
        if owned.set.is_empty() {
            managed.fields.remove(id);
        }
    }

    fn check_kind(&self, applied: &Value, writer: &Writer<'_>) -> Result<(), MergeError> {
        let (version, kind) = (text_at(applied, "/apiVersion"), text_at(applied, "/kind"));
        if version == writer.api_version && kind == self.kind {
            return Ok(());
        }
        Err(MergeError::BadRequest(format!(
            "invalid object type: {}",
            type_text(version, kind)
        )))
    }
}

/// Adds what an update set to what its writer owns.
fn credit(managed: &mut Managed, mut owned: VersionedSet, writer: &Writer<'_>) {
    let id = ManagerId::updater(writer.manager, writer.api_version, writer.subresource);
    if let Some(previous) = managed.fields.get(&id) {
        owned.set = owned.set.union(&previous.set);
    }
    managed.times.insert(id.clone(), writer.time.to_owned());
    managed.fields.insert(id, owned);
}

fn never_tracked() -> Set {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut paths: Vec<Vec<String>> = ["apiVersion", "kind", "metadata"]
        .iter()
        .map(|name| vec![(*name).to_owned()])
        .collect();
    paths.extend(
        metadata
            .iter()
            .map(|name| vec!["metadata".to_owned(), (*name).to_owned()]),
    );
    plain_set(&paths)
}
