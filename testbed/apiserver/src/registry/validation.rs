//! What is wrong with a change: by the rules for all objects and by those of the kind, in the order
//! in which the server tells it, and where built-in kinds differ from the rule. Nothing is changed
//! here.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Part, Resource};
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::{metadata, options};
use crate::call::Call;

/// Refuses a change of `live` to `object` that breaks a rule.
pub(super) fn validate(call: &Call, object: &Value, live: &Value) -> Result<(), ApiError> {
    let resource = &call.resource;
    let mut errors = metadata::validate_any(resource, object);
    errors.extend(metadata::validate_update(object, live));
    let clean = errors.is_empty();
    if clean {
        options::check_type_meta(resource, object)?;
    }
    errors.extend(kind_errors(call, object, live, clean));
    errors.extend(options::unchecked_rules(resource, &errors));
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(
        &resource.group_kind_of(object),
        object::name(object),
        &errors,
    ))
}

/// What the kind itself finds: in its metadata as a change and as a new object, and in the rest, in
/// the kind's own order. Metadata that is `clean` by the rules for all objects is not gone through
/// again.
fn kind_errors(call: &Call, object: &Value, live: &Value, clean: bool) -> Vec<FieldError> {
    let resource = &call.resource;
    let row = ResourceQuirk::of(resource);
    if call.part == Part::Status && row.unchecked_status {
        return Vec::new();
    }
    let as_new = row.checks.1 > 1 && call.part == Part::Main;
    let found = resource.strategy.validate_update(object, live, call.part);
    let mut changed = Vec::new();
    if row.checks.0 > 1 {
        if !clean {
            changed.extend(metadata::validate_update(object, live));
        }
        changed.extend(options::finalizer_errors(resource, object));
    }
    if call.part == Part::Status && row.status_first {
        let own = resource.strategy.validate_update(object, object, call.part);
        let moved = found.strip_prefix(&own[..]).unwrap_or_default();
        return [&own[..], &changed, moved].concat();
    }
    if !as_new {
        return [changed, found].concat();
    }
    let rest = if found.is_empty() {
        Vec::new()
    } else {
        resource.strategy.validate_create(object)
    };
    let mut new = if clean {
        metadata::validate_names(resource, object)
    } else {
        metadata::validate_create(resource, object)
    };
    new.extend(options::finalizer_errors(resource, object));
    merged(&row, changed, new, &found, &rest)
}

/// One list of what was found in the metadata as a change, in the metadata as a new object, and in
/// the rest: `found` by the rules for changes, which repeat `rest`, what the rules for new objects
/// found.
fn merged(
    row: &ResourceQuirk,
    mut changed: Vec<FieldError>,
    mut new: Vec<FieldError>,
    found: &[FieldError],
    rest: &[FieldError],
) -> Vec<FieldError> {
    if row.new_first {
        let own = found.strip_suffix(rest).or_else(|| found.strip_prefix(rest));
        new.extend_from_slice(if own.is_some() { rest } else { found });
        changed.extend_from_slice(own.unwrap_or_default());
        return [new, changed].concat();
    }
    // A kind that looks at the new object first has what it found there at the start.
    let last = row.change_last || (!rest.is_empty() && found.starts_with(rest));
    let own = (!last).then(|| found.strip_suffix(rest)).flatten();
    changed.extend_from_slice(own.unwrap_or_default());
    new.extend_from_slice(if own.is_some() { rest } else { found });
    [changed, new].concat()
}

/// What is peculiar about one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourceQuirk {
    /// Group of the resource.
    group: &'static str,
    /// Plural of the resource.
    plural: &'static str,
    /// Where etcd keeps it, below `/registry/`; error messages show it. Empty: the plural.
    path: &'static str,
    /// How often an update's metadata is checked by the rules for changes, and for new objects.
    pub(super) checks: (usize, usize),
    /// An update is checked as a new object before it is checked as a change.
    pub(super) new_first: bool,
    /// What is wrong with a change comes after what is wrong with the object.
    pub(super) change_last: bool,
    /// A change of the status is not checked by the kind at all.
    pub(super) unchecked_status: bool,
    /// What is wrong with a status comes before what is wrong with the metadata beside it, and what
    /// is wrong with its change after both.
    pub(super) status_first: bool,
    /// Its strategy gives out what must be unique among all of its objects.
    pub(super) allocates: bool,
    /// A deletion answers with the object and not with a Status.
    pub(super) returns_deleted: bool,
    /// A deletion that does not say otherwise leaves the dependents behind.
    pub(super) orphans: bool,
}

const fn row(
    group: &'static str,
    plural: &'static str,
    path: &'static str,
    checks: (usize, usize),
    returns_deleted: bool,
) -> ResourceQuirk {
    ResourceQuirk {
        group,
        plural,
        path,
        checks,
        returns_deleted,
        allocates: false,
        new_first: false,
        change_last: false,
        unchecked_status: false,
        status_first: false,
        orphans: false,
    }
}

const fn orphaning(row: ResourceQuirk) -> ResourceQuirk {
    ResourceQuirk { orphans: true, ..row }
}

const fn returned(group: &'static str, plural: &'static str) -> ResourceQuirk {
    row(group, plural, "", (2, 1), true)
}

const fn new_first(row: ResourceQuirk) -> ResourceQuirk {
    ResourceQuirk { new_first: true, ..row }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The server checks metadata in its generic code and again in most kinds; each finding is a cause
/// of its own, so the number of times is part of the answer.
const TABLE: [ResourceQuirk; 36] = [
    row("", "configmaps", "", (2, 2), false),
    row("", "secrets", "", (2, 2), false),
    new_first(row("", "namespaces", "", (2, 2), true)),
    new_first(row("", "nodes", "minions", (2, 2), false)),
    row("", "serviceaccounts", "", (2, 2), true),
    ResourceQuirk {
        allocates: true,
        ..row("", "services", "services/specs", (2, 1), true)
    },
    ResourceQuirk {
        change_last: true,
        ..row("", "pods", "", (2, 2), true)
    },
    row("", "events", "", (1, 1), false),
    new_first(row(RBAC, "roles", "", (2, 2), false)),
    new_first(row(RBAC, "clusterroles", "", (2, 2), false)),
    new_first(row(RBAC, "rolebindings", "", (2, 2), false)),
    new_first(row(RBAC, "clusterrolebindings", "", (2, 2), false)),
    new_first(row("discovery.k8s.io", "endpointslices", "", (1, 2), false)),
    new_first(row(ADMISSION, "validatingadmissionpolicies", "", (1, 2), false)),
    new_first(row(ADMISSION, "validatingadmissionpolicybindings", "", (1, 2), false)),
    row("policy", "poddisruptionbudgets", "", (1, 1), false),
    new_first(orphaning(row("batch", "jobs", "", (2, 2), false))),
    ResourceQuirk {
        unchecked_status: true,
        ..row("batch", "cronjobs", "", (2, 1), false)
    },
    ResourceQuirk {
        status_first: true,
        ..row("apps", "statefulsets", "", (2, 1), false)
    },
    row("networking.k8s.io", "ingresses", "ingress", (2, 2), false),
    orphaning(row("", "replicationcontrollers", "controllers", (2, 1), false)),
    row("", "endpoints", "services/endpoints", (2, 1), false),
    returned("", "persistentvolumes"),
    returned("", "persistentvolumeclaims"),
    returned("", "podtemplates"),
    returned("", "resourcequotas"),
    returned(RESOURCE, "deviceclasses"),
    returned(RESOURCE, "resourceclaims"),
    returned(RESOURCE, "resourceclaimtemplates"),
    returned(RESOURCE, "resourceslices"),
    returned(STORAGE, "csidrivers"),
    returned(STORAGE, "csinodes"),
    returned(STORAGE, "storageclasses"),
    returned(STORAGE, "volumeattachments"),
    returned(STORAGE, "volumeattributesclasses"),
    row("", "", "", (2, 1), false),
];

impl ResourceQuirk {
    /// Whether the kind checks metadata itself, besides what the generic code does.
    pub(super) fn checks_metadata(&self) -> bool {
        self.checks.0 > 1 || self.checks.1 > 1
    }

    pub(super) fn of(resource: &Resource) -> Self {
        let found = TABLE
            .iter()
            .find(|row| row.group == resource.group && row.plural == resource.plural);
        *found.unwrap_or(&TABLE[TABLE.len() - 1])
    }
}

/// Whether a change that took away the last finalizer removes an object whose deletion has begun:
/// a namespace also waits for the finalizers in its specification.
pub(super) fn removes_when_finalized(resource: &Resource, object: &Value) -> bool {
    let waiting = object.pointer("/spec/finalizers").and_then(Value::as_array);
    resource.kind != "Namespace" || waiting.is_none_or(Vec::is_empty)
}

/// The key in etcd, which a few messages show.
pub(super) fn etcd_key(resource: &Resource, namespace: &str, name: &str) -> String {
    let row = ResourceQuirk::of(resource);
    let place = if resource.strategy.is_custom() || resource.group == "apiextensions.k8s.io" {
        format!("{}/{}", resource.group, resource.plural)
    } else if row.path.is_empty() {
        resource.plural.clone()
    } else {
        row.path.to_owned()
    };
    let namespace = if namespace.is_empty() {
        String::new()
    } else {
        format!("{namespace}/")
    };
    format!("/registry/{place}/{namespace}{name}")
}
