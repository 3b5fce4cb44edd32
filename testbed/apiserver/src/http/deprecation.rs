//! Warnings of versions that are deprecated: two of the built-in kinds, and those custom resources
//! whose definition says so.

use aplomb_apimachinery::resource::Resource;
use serde_json::Value;

use super::builtin::version_key;
use crate::server::ApiServer;

/// The warning every request for a version carries, if it is deprecated.
pub(super) fn warning(server: &ApiServer, resource: &Resource) -> Option<String> {
    if !resource.strategy.is_custom() {
        return builtin(resource).map(str::to_owned);
    }
    let name = format!("{}.{}", resource.plural, resource.group);
    let definition = server.get("apiextensions.k8s.io", "customresourcedefinitions", "", &name)?;
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array)?;
    let this = versions.iter().find(|version| name_of(version) == resource.version)?;
    if !is_deprecated(this) {
        return None;
    }
    if let Some(words) = this["deprecationWarning"].as_str() {
        return Some(words.to_owned());
    }
    let Resource {
        group, version, kind, ..
    } = resource;
    let mut words = format!("{group}/{version} {kind} is deprecated");
    if let Some(better) = better_than(version, versions) {
        words.push_str(&format!("; use {group}/{better} {kind}"));
    }
    Some(words)
}

fn name_of(version: &Value) -> &str {
    version["name"].as_str().unwrap_or_default()
}

fn is_deprecated(version: &Value) -> bool {
    version["deprecated"] == true
}

/// The best version to use instead.
fn better_than<'a>(version: &str, versions: &'a [Value]) -> Option<&'a str> {
    versions
        .iter()
        .filter(|other| other["served"] == true && !is_deprecated(other))
        .map(name_of)
        .filter(|other| version_key(other) < version_key(version))
        .min_by_key(|other| version_key(other))
}

fn builtin(resource: &Resource) -> Option<&'static str> {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        ("", "endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        _ => None,
    }
}
