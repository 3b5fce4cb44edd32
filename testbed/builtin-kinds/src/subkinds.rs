//! The kinds that exist only as bodies of subresources: Scale, Eviction, Binding, TokenRequest.
//!
//! Described like the kinds that are stored, so that they are read, patched and printed the same way;
//! what they do is the business of `subresource`.

use std::sync::{Arc, LazyLock};

use aplomb_apimachinery::resource::Resource;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::data::Entry;
use super::encode;
use super::gotype::GoType;
use super::print;
use super::strategy::BuiltinStrategy;
use super::value::{at, set, text};

/// A kind of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Subkind {
    Scale,
    Eviction,
    Binding,
    TokenRequest,
}

const BEHAVIOUR: KindBehavior = KindBehavior {
    fixed_by_status: &[],
    ..KindBehavior::PLAIN
};

static TOKEN_REQUEST: KindBehavior = KindBehavior {
    default: |request| {
        if at(request, &["spec", "expirationSeconds"]).is_null() {
            set(request, &["spec", "expirationSeconds"], json!(3600));
        }
    },
    ..BEHAVIOUR
};

static SCALE: KindBehavior = KindBehavior {
    fixed_by_status: &[],
    cells: |scale, now| {
        vec![
            text(scale, &["metadata", "name"]).into(),
            at(scale, &["spec", "replicas"]).as_i64().unwrap_or(0).into(),
            at(scale, &["status", "replicas"]).as_i64().unwrap_or(0).into(),
            print::age(scale, now),
        ]
    },
    ..KindBehavior::PLAIN
};

static POSTED: KindBehavior = BEHAVIOUR;

static RESOURCES: LazyLock<[Arc<Resource>; 4]> = LazyLock::new(|| {
    [
        made("autoscaling", "Scale", "io.k8s.api.autoscaling.v1.Scale", &SCALE),
        made("policy", "Eviction", "io.k8s.api.policy.v1.Eviction", &POSTED),
        made("", "Binding", "io.k8s.api.core.v1.Binding", &POSTED),
        made(
            "authentication.k8s.io",
            "TokenRequest",
            "io.k8s.api.authentication.v1.TokenRequest",
            &TOKEN_REQUEST,
        ),
    ]
});

/// The kind as if it were a resource of its own.
#[must_use]
pub fn subkind(kind: Subkind) -> Arc<Resource> {
    RESOURCES[kind as usize].clone()
}

/// An object of such a kind with nothing set, as Go makes it.
pub(super) fn empty_object(resource: &Resource) -> Value {
    let path = match resource.kind.as_str() {
        "Scale" => "autoscaling/v1.Scale",
        "Eviction" => "policy/v1.Eviction",
        "Binding" => "core/v1.Binding",
        "TokenRequest" => "authentication/v1.TokenRequest",
        _ => return json!({}),
    };
    encode::zero(&GoType::Named(format!("k8s.io/api/{path}")))
}

/// A label selector of an object in the syntax of the `labelSelector` parameter.
#[must_use]
pub fn label_selector_text(selector: &Value) -> String {
    print::selector(selector)
}

fn made(group: &str, kind: &str, schema: &str, behaviour: &'static KindBehavior) -> Arc<Resource> {
    let plural = format!("{}s", kind.to_lowercase());
    let entry = json!({
        "group": group, "version": "v1", "kind": kind, "plural": plural,
        "singular": kind.to_lowercase(), "shortNames": [], "categories": [],
        "namespaced": true, "verbs": [], "subresources": [], "schema": schema,
        "columns": if kind == "Scale" { scale_columns() } else { name_and_age() },
    });
    let entry: Entry = serde_json::from_value(entry).expect("the entry has every member");
    // Made once for each kind, and as long-lived as the vendored table.
    let entry: &'static Entry = Box::leak(Box::new(entry));
    let strategy = Arc::new(BuiltinStrategy::new(entry, behaviour));
    Arc::new(super::resource(entry, strategy))
}

fn column(name: &str, kind: &str, description: &str) -> Value {
    json!({
        "name": name, "type": kind, "format": "", "description": description, "priority": 0,
    })
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

fn scale_columns() -> Value {
    let desired = "replicas is the desired number of instances for the scaled object.";
    let available = "replicas is the actual number of observed instances of the scaled object.";
    json!([
        column("Name", "string", NAME),
        column("Desired", "integer", desired),
        column("Available", "integer", available),
        column("Age", "string", AGE),
    ])
}

fn name_and_age() -> Value {
    json!([column("Name", "string", NAME), column("Age", "string", AGE)])
}
