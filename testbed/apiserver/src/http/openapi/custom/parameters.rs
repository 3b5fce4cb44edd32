//! The parameters of operations on custom resources, and the schemas their documents share: the
//! same as those of the built-in kinds, from whose documents they are taken.

use std::sync::LazyLock;

use aplomb_builtin_kinds::{self as kinds, published};
use serde_json::{Map, Value, json};

use super::super::{builtin, raw};
use crate::http::openapi::proto::Edition;

const MODEL_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// What every document of custom resources has of `meta/v1`.
const META_KINDS: [&str; 13] = [
    "DeleteOptions",
    "FieldsV1",
    "ListMeta",
    "ManagedFieldsEntry",
    "ObjectMeta",
    "OwnerReference",
    "Patch",
    "Preconditions",
    "ShardInfo",
    "Status",
    "StatusCause",
    "StatusDetails",
    "Time",
];
const SCALE_KINDS: [&str; 3] = ["Scale", "ScaleSpec", "ScaleStatus"];
/// Groups whose options the part of the server that serves custom resources does not know.
const UNKNOWN_GROUPS: [&str; 4] = [
    "admission.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "imagepolicy.k8s.io",
];

/// The parameters of a built-in kind's operations, to take those of custom ones from.
pub(super) struct Pool {
    collection: Value,
    item: Value,
    /// The path parameter of everything in a namespace.
    pub(super) namespace: Value,
}

static V3: LazyLock<Pool> = LazyLock::new(|| {
    let document = builtin::frame("apis/apiextensions.k8s.io/v1");
    let namespace = json!({
        "name": "namespace",
        "in": "path",
        "description": "object name and auth scope, such as for teams and projects",
        "required": true,
        "schema": { "type": "string", "uniqueItems": true },
    });
    Pool::of(document.unwrap_or_default(), namespace)
});

static V2: LazyLock<Pool> = LazyLock::new(|| {
    let parameters = raw::member(published::swagger(), "parameters").unwrap_or_default();
    let mut names = raw::members(parameters).into_iter().map(|(name, _)| name);
    let name = names.find(|name| name.starts_with("namespace-"));
    let target = format!("#/parameters/{}", name.unwrap_or_default());
    Pool::of(published::swagger(), json!({ "$ref": target }))
});

/// The pool of an edition.
pub(super) fn pool(edition: Edition) -> &'static Pool {
    match edition {
        Edition::V3 => &V3,
        Edition::V2 => &V2,
    }
}

impl Pool {
    fn of(document: &str, namespace: Value) -> Self {
        let paths = raw::member(document, "paths").unwrap_or_default();
        let path = |path: &str| {
            let text = raw::member(paths, path).unwrap_or_default();
            serde_json::from_str(text).unwrap_or_default()
        };
        Self {
            collection: path(MODEL_PATH),
            item: path(&format!("{MODEL_PATH}/{{name}}")),
            namespace,
        }
    }

    /// `pretty`, which every operation has.
    pub(super) fn pretty(&self) -> Value {
        self.collection["parameters"][0].clone()
    }

    /// The parameters of an action, those of its path and a body of the kind itself left out.
    pub(super) fn of_action(&self, action: &str) -> Vec<Value> {
        let operation = match action {
            "get" | "list" | "deletecollection" => &self.collection["get"],
            "post" => &self.collection["post"],
            method => &self.item[method],
        };
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters
            .filter(|parameter| match action {
                "get" => name(parameter) == "resourceVersion",
                _ => parameter["name"] != "body",
            })
            .cloned()
            .collect()
    }
}

/// The name of a parameter, which a reference has before eight characters of a hash.
fn name(parameter: &Value) -> &str {
    if let Some(name) = parameter["name"].as_str() {
        return name;
    }
    let target = parameter["$ref"].as_str().unwrap_or_default();
    let target = target.rsplit('/').next().unwrap_or_default();
    target.get(..target.len().saturating_sub(9)).unwrap_or_default()
}

/// The schemas documents of custom resources share, those of Scale among them if one has it.
pub(in crate::http::openapi) fn components(scale: bool) -> Map<String, Value> {
    let meta = META_KINDS.iter().map(|kind| format!("{META}{kind}"));
    let scales = SCALE_KINDS.iter().filter(|_| scale);
    let scales = scales.map(|kind| format!("io.k8s.api.autoscaling.v1.{kind}"));
    let mut found: Map<String, Value> = meta
        .chain(scales)
        .filter_map(|name| {
            let schema = kinds::components().get(&name)?.clone();
            Some((name, schema))
        })
        .collect();
    if let Some(options) = found.get_mut(DELETE_OPTIONS) {
        options["x-kubernetes-group-version-kind"] = DELETE_GROUPS.clone();
    }
    found
}

static DELETE_GROUPS: LazyLock<Value> = LazyLock::new(|| {
    let definitions = raw::member(published::swagger(), "definitions").unwrap_or_default();
    let options = raw::member(definitions, DELETE_OPTIONS).unwrap_or_default();
    let options: Value = serde_json::from_str(options).unwrap_or_default();
    let groups = options["x-kubernetes-group-version-kind"].as_array();
    let known = groups.into_iter().flatten().filter(|kind| {
        let group = kind["group"].as_str().unwrap_or_default();
        !UNKNOWN_GROUPS.contains(&group)
    });
    known.cloned().collect()
});
