//! Warnings of custom resource versions that their definition calls deprecated.

use serde_json::Value;

use super::builtin::version_key;
use crate::resource::Resource;
use crate::server::ApiServer;

/// The warning every request for a version carries, if its definition says so.
pub(super) fn warning(server: &ApiServer, resource: &Resource) -> Option<String> {
    let name = format!("{}.{}", resource.plural, resource.group);
    let definition = server.get(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "",
        &name,
    )?;
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)?;
    let name_of = |version: &Value| version["name"].as_str().unwrap_or_default().to_owned();
    let deprecated = |version: &Value| version["deprecated"] == true;
    let this = versions
        .iter()
        .find(|version| name_of(version) == resource.version)?;
    if !deprecated(this) {
        return None;
    }
    if let Some(words) = this["deprecationWarning"].as_str() {
        return Some(words.to_owned());
    }
    let Resource {
        group,
        version,
        kind,
        ..
    } = resource;
    let mut words = format!("{group}/{version} {kind} is deprecated");
    let better = versions
        .iter()
        .filter(|other| other["served"] == true && !deprecated(other))
        .map(name_of)
        .filter(|other| version_key(other) < version_key(version))
        .min_by_key(|other| version_key(other));
    if let Some(better) = better {
        words.push_str(&format!("; use {group}/{better} {kind}"));
    }
    Some(words)
}
