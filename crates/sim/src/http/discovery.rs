//! Discovery: which groups, versions and resources there are, in the legacy documents and in the
//! aggregated one.
//!
//! Everything is made from the resources the server serves at the moment of the request.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};

use super::builtin::{is_builtin, rank, version_key};
use crate::auth::review;
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::subresource::scale;

/// One resource as discovery sees it.
struct Entry {
    plural: String,
    singular: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    /// Name, verbs, and whether it shows a Scale instead of the kind.
    subresources: Vec<(&'static str, &'static [&'static str], bool)>,
    /// The version objects are kept in; none for what is not kept.
    stored_as: Option<String>,
}

/// Served resources by group and version, groups in their order.
type Groups = Vec<(String, Vec<(String, Vec<Entry>)>)>;

const ALL_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

const VIEW_VERBS: &[&str] = &["get", "patch", "update"];

fn subresources(
    server: &ApiServer,
    resource: &Resource,
) -> Vec<(&'static str, &'static [&'static str], bool)> {
    let mut found = Vec::new();
    if resource.group.is_empty() && resource.plural == "namespaces" {
        found.push(("finalize", &["update"] as &[&str], false));
    }
    if resource.has_status {
        found.push(("status", VIEW_VERBS, false));
    }
    if !is_builtin(&resource.group) && scale::Paths::of(server, resource).is_some() {
        found.push(("scale", VIEW_VERBS, true));
    }
    found
}

fn entry(server: &ApiServer, resource: &Arc<Resource>) -> Entry {
    let verbs = match (resource.verbs.is_empty(), is_builtin(&resource.group)) {
        (false, _) => resource.verbs.clone(),
        (true, true) => words(&ALL_VERBS),
        (true, false) => words(&CUSTOM_VERBS),
    };
    Entry {
        plural: resource.plural.clone(),
        singular: resource.singular.clone(),
        kind: resource.kind.clone(),
        namespaced: resource.namespaced,
        verbs,
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        subresources: subresources(server, resource),
        stored_as: Some(stored_as(resource)),
    }
}

/// Versions of a custom resource are kept as one of them.
fn stored_as(resource: &Resource) -> String {
    if !resource.strategy.is_custom() {
        return resource.version.clone();
    }
    let stored = resource.strategy.to_storage(json!({}));
    let api_version = stored["apiVersion"].as_str().unwrap_or_default();
    api_version
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn review_entry(kind: review::Kind, name: &str, plural: &str) -> Entry {
    Entry {
        plural: plural.to_owned(),
        singular: name.to_lowercase(),
        kind: name.to_owned(),
        namespaced: kind.namespaced(),
        verbs: words(&["create"]),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        stored_as: None,
    }
}

fn groups(server: &ApiServer) -> Groups {
    let mut found: BTreeMap<String, BTreeMap<String, Vec<Entry>>> = BTreeMap::new();
    let mut add = |group: &str, version: &str, entry: Entry| {
        let versions = found.entry(group.to_owned()).or_default();
        versions.entry(version.to_owned()).or_default().push(entry);
    };
    for resource in server.resources() {
        add(&resource.group, &resource.version, entry(server, &resource));
    }
    for (kind, group, name, plural) in review::KINDS {
        add(group, "v1", review_entry(kind, name, plural));
    }
    let mut groups: Groups = found
        .into_iter()
        .map(|(group, versions)| {
            let mut versions: Vec<_> = versions.into_iter().collect();
            versions.sort_by_key(|(version, _)| version_key(version));
            for (_, entries) in &mut versions {
                entries.sort_by(|a, b| a.plural.cmp(&b.plural));
            }
            (group, versions)
        })
        .collect();
    groups.sort_by_key(|(group, _)| (rank(group), group.clone()));
    groups
}

/// Whether anything of a group is served.
#[must_use]
pub(super) fn serves_group(server: &ApiServer, group: &str) -> bool {
    review::KINDS.iter().any(|(_, g, ..)| *g == group)
        || server
            .resources()
            .iter()
            .any(|resource| resource.group == group)
}

/// `/apis` in the legacy form.
#[must_use]
pub(super) fn group_list(server: &ApiServer) -> Value {
    let named = groups(server)
        .into_iter()
        .filter(|(group, _)| !group.is_empty());
    let items: Vec<Value> = named
        .map(|(group, versions)| group_item(&group, &versions))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": items })
}

/// `/apis/<group>`.
#[must_use]
pub(super) fn group(server: &ApiServer, name: &str) -> Option<Value> {
    let (group, versions) = groups(server)
        .into_iter()
        .find(|(group, _)| group == name)?;
    let mut document = group_item(&group, &versions);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

fn group_item(group: &str, versions: &[(String, Vec<Entry>)]) -> Value {
    let version = |(version, _): &(String, Vec<Entry>)| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({ "name": group, "versions": all, "preferredVersion": all.first() })
}

/// `/api/v1` or `/apis/<group>/<version>`.
#[must_use]
pub(super) fn resource_list(server: &ApiServer, group: &str, version: &str) -> Option<Value> {
    let (_, versions) = groups(server).into_iter().find(|(name, _)| name == group)?;
    let (_, entries) = versions.into_iter().find(|(name, _)| name == version)?;
    let resources: Vec<Value> = entries
        .iter()
        .flat_map(|entry| legacy_items(group, entry))
        .collect();
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let mut list = json!({
        "kind": "APIResourceList", "groupVersion": group_version, "resources": resources,
    });
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn legacy_items(group: &str, entry: &Entry) -> Vec<Value> {
    let mut item = json!({
        "name": entry.plural,
        "singularName": entry.singular,
        "namespaced": entry.namespaced,
        "kind": entry.kind,
        "verbs": entry.verbs,
    });
    with_names(&mut item, entry);
    if let Some(version) = &entry.stored_as {
        item["storageVersionHash"] = storage_hash(group, version, &entry.kind).into();
    }
    let mut items = vec![item];
    for (name, verbs, scale) in &entry.subresources {
        let mut item = json!({
            "name": format!("{}/{name}", entry.plural),
            "singularName": "",
            "namespaced": entry.namespaced,
            "kind": if *scale { "Scale" } else { &entry.kind },
            "verbs": verbs,
        });
        if *scale {
            item["group"] = "autoscaling".into();
            item["version"] = "v1".into();
        }
        items.push(item);
    }
    items
}

fn with_names(item: &mut Value, entry: &Entry) {
    if !entry.short_names.is_empty() {
        item["shortNames"] = entry.short_names.clone().into();
    }
    if !entry.categories.is_empty() {
        item["categories"] = entry.categories.clone().into();
    }
}

fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// The aggregated document of `/api` (core group only) or `/apis` (all others).
#[must_use]
pub(super) fn aggregated(server: &ApiServer, core: bool) -> Value {
    let chosen = groups(server)
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = chosen
        .map(|(group, versions)| aggregated_group(&group, &versions))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_group(group: &str, versions: &[(String, Vec<Entry>)]) -> Value {
    let mut metadata = Map::new();
    if !group.is_empty() {
        metadata.insert("name".into(), group.into());
    }
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, entries)| {
            let resources: Vec<Value> = entries
                .iter()
                .map(|entry| aggregated_resource(group, version, entry))
                .collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(group: &str, version: &str, entry: &Entry) -> Value {
    // Built-in kinds leave out what is that of the list around them.
    let (group, version) = if is_builtin(group) {
        ("", "")
    } else {
        (group, version)
    };
    let kind = json!({ "group": group, "version": version, "kind": entry.kind });
    let mut item = json!({
        "resource": entry.plural,
        "responseKind": kind,
        "scope": if entry.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": entry.singular,
        "verbs": entry.verbs,
    });
    with_names(&mut item, entry);
    let views: Vec<Value> = entry
        .subresources
        .iter()
        .map(|(name, verbs, scale)| {
            let scale_kind = json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" });
            let kind = if *scale { scale_kind } else { kind.clone() };
            json!({ "subresource": name, "responseKind": kind, "verbs": verbs })
        })
        .collect();
    if !views.is_empty() {
        item["subresources"] = views.into();
    }
    item
}

/// The ETag of a document, quoted.
#[must_use]
pub(super) fn etag(document: &Value) -> String {
    format!("\"{}\"", sha512(document.to_string().as_bytes()))
}

/// SHA-512 in the upper-case hexadecimal the server prints.
#[must_use]
pub(super) fn sha512(bytes: &[u8]) -> String {
    Sha512::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_hashes_are_those_of_the_server() {
        assert_eq!(
            storage_hash("apps", "v1", "ControllerRevision"),
            "85nkx63pcBU="
        );
        assert_eq!(storage_hash("example.com", "v1", "Widget"), "gIwvi5rymmg=");
    }
}
