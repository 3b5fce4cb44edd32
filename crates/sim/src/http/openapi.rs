//! OpenAPI v3 documents, one per group version, made from the schemas that validate and merge.
//!
//! As much as kubectl asks for: the schema of each kind, and for each kind the PATCH operation with
//! the parameters it looks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::discovery::sha512;
use crate::resource::Resource;
use crate::server::ApiServer;

/// The parameters of a write, as kubectl looks them up.
const WRITE_PARAMETERS: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "pretty"];

/// `/openapi/v3`: every document with the hash of its content.
#[must_use]
pub(super) fn index(server: &ApiServer) -> Value {
    let paths: Map<String, Value> = by_version(server)
        .into_iter()
        .map(|(path, resources)| {
            let hash = sha512(build(&resources).to_string().as_bytes());
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// One document, `api/v1` or `apis/<group>/<version>`.
#[must_use]
pub(super) fn document(server: &ApiServer, path: &str) -> Option<Value> {
    by_version(server)
        .remove(path)
        .map(|resources| build(&resources))
}

/// A Swagger document with nothing but its frame: clients of today read v3, and ask for this one
/// only about kinds that are in neither.
#[must_use]
pub(super) fn swagger() -> Value {
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.36.4" },
        "paths": {},
        "definitions": {},
    })
}

/// The same as protobuf: `swagger` (1), `info` (2) with `title` (1) and `version` (2), `paths` (8),
/// `definitions` (9).
pub(super) const SWAGGER_PROTOBUF: &[u8] =
    b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.4\x42\x00\x4a\x00";

fn by_version(server: &ApiServer) -> BTreeMap<String, Vec<Arc<Resource>>> {
    let mut found: BTreeMap<String, Vec<Arc<Resource>>> = BTreeMap::new();
    for resource in server.resources() {
        let prefix = if resource.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        let path = format!("{prefix}/{}", resource.api_version());
        found.entry(path).or_default().push(resource);
    }
    found
}

fn build(resources: &[Arc<Resource>]) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in resources {
        schemas.insert(schema_name(resource), schema(resource));
        let collection = collection_path(resource);
        let write = |verb: &str| operation(resource, verb);
        paths.insert(
            collection.clone(),
            json!({ "get": write("list"), "post": write("post") }),
        );
        let item = json!({
            "get": write("get"),
            "put": write("put"),
            "patch": write("patch"),
            "delete": write("delete"),
        });
        paths.insert(format!("{collection}/{{name}}"), item);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "1.36" },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn collection_path(resource: &Resource) -> String {
    let prefix = if resource.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let namespace = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    format!(
        "{prefix}/{}{namespace}/{}",
        resource.api_version(),
        resource.plural
    )
}

fn schema(resource: &Resource) -> Value {
    let mut schema = resource.strategy.openapi().clone();
    if !schema.is_object() {
        schema = json!({ "type": "object" });
    }
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(resource)]);
    schema
}

fn group_version_kind(resource: &Resource) -> Value {
    json!({ "group": resource.group, "kind": resource.kind, "version": resource.version })
}

/// `com.example.v1.Widget`, or `io.k8s.api.apps.v1.Deployment`.
fn schema_name(resource: &Resource) -> String {
    let Resource {
        group,
        version,
        kind,
        ..
    } = resource;
    if super::builtin::is_builtin(group) {
        let package = if group.is_empty() {
            "core"
        } else {
            group.split('.').next().unwrap_or(group)
        };
        return format!("io.k8s.api.{package}.{version}.{kind}");
    }
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

fn operation(resource: &Resource, verb: &str) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{}", schema_name(resource)) });
    let mut operation = json!({
        "operationId": format!("{verb}{}{}", resource.version, resource.kind),
        "responses": {
            "200": { "description": "OK", "content": { "application/json": { "schema": schema } } },
        },
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": group_version_kind(resource),
    });
    if matches!(verb, "post" | "put" | "patch") {
        let parameter = |name: &&str| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } });
        operation["parameters"] = WRITE_PARAMETERS.iter().map(parameter).collect();
        let media = if verb == "patch" {
            "application/apply-patch+yaml"
        } else {
            "application/json"
        };
        operation["requestBody"] = json!({ "content": { media: { "schema": schema } } });
    }
    operation
}
