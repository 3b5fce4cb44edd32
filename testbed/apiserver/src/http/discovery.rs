//! Discovery: which groups, versions and resources there are, in the legacy documents and in the
//! aggregated one.
//!
//! The built-in kinds are listed as the real server lists them, custom ones from the definitions
//! served at the moment of the request. Nothing that is not served is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use aplomb_apimachinery::resource::Resource;
use aplomb_builtin_kinds::published;
use base64::Engine as _;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};

use super::builtin::{rank, version_key};
use crate::server::ApiServer;
use crate::subresource::scale;

/// The resources of a version, each as the legacy list shows it.
type Version = (String, Vec<Value>);

/// Served resources by group and version, groups in their order.
type Groups = Vec<(String, Vec<Version>)>;

/// The same before it is in order.
type Found = BTreeMap<String, BTreeMap<String, Vec<Value>>>;

/// Group, version and plural.
type Id<'a> = (&'a str, &'a str, &'a str);

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const VIEW_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Group and version of a resource list.
fn version_of(list: &Value) -> (&str, &str) {
    let group_version = text(&list["groupVersion"]);
    group_version.split_once('/').unwrap_or(("", group_version))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items_of(list: &Value) -> impl Iterator<Item = &Value> {
    list["resources"].as_array().into_iter().flatten()
}

/// The resource an entry of a list belongs to, and the subresource it is.
fn split(item: &Value) -> (&str, Option<&str>) {
    let name = text(&item["name"]);
    name.split_once('/')
        .map_or((name, None), |(plural, part)| (plural, Some(part)))
}

fn groups(server: &ApiServer) -> Groups {
    let resources = server.resources();
    let served: BTreeSet<Id<'_>> = resources
        .iter()
        .map(|r| (r.group.as_str(), r.version.as_str(), r.plural.as_str()))
        .collect();
    let mut found = Found::new();
    let mut add = |group: &str, version: &str, items: Vec<Value>| {
        if !items.is_empty() {
            let versions = found.entry(group.to_owned()).or_default();
            versions.entry(version.to_owned()).or_default().extend(items);
        }
    };
    let mut listed: BTreeSet<Id<'_>> = BTreeSet::new();
    for list in published::discovery() {
        let (group, version) = version_of(list);
        add(group, version, shown(list, &served));
        listed.extend(items_of(list).map(|item| (group, version, split(item).0)));
    }
    for resource in &resources {
        let Resource {
            group, version, plural, ..
        } = resource.as_ref();
        if !listed.contains(&(group.as_str(), version.as_str(), plural.as_str())) {
            add(group, version, custom_items(server, resource));
        }
    }
    in_order(found)
}

/// Groups by rank, and the versions of each as clients shall prefer them.
fn in_order(found: Found) -> Groups {
    let mut groups: Groups = found
        .into_iter()
        .map(|(group, versions)| {
            let mut versions: Vec<Version> = versions.into_iter().collect();
            versions.sort_by_key(|(version, _)| version_key(version));
            (group, versions)
        })
        .collect();
    groups.sort_by_key(|(group, _)| (rank(group), group.clone()));
    groups
}

/// The entries of a built-in list whose resource is served; what cannot be read is not kept
/// anywhere, and always there.
fn shown(list: &Value, served: &BTreeSet<Id<'_>>) -> Vec<Value> {
    let (group, version) = version_of(list);
    let mut here: BTreeSet<&str> = BTreeSet::new();
    for item in items_of(list) {
        let (plural, part) = split(item);
        if part.is_none() && (!can_be_read(item) || served.contains(&(group, version, plural))) {
            here.insert(plural);
        }
    }
    items_of(list)
        .filter(|item| here.contains(split(item).0))
        .cloned()
        .collect()
}

/// A custom resource and its subresources.
fn custom_items(server: &ApiServer, resource: &Resource) -> Vec<Value> {
    let mut item = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": VERBS,
        "storageVersionHash": storage_hash(&resource.group, &stored_as(resource), &resource.kind),
    });
    for (key, names) in [
        ("shortNames", &resource.short_names),
        ("categories", &resource.categories),
    ] {
        if !names.is_empty() {
            item[key] = names.clone().into();
        }
    }
    let part = |name: &str, kind: &str| {
        json!({
            "name": format!("{}/{name}", resource.plural),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": VIEW_VERBS,
        })
    };
    let mut items = vec![item];
    if resource.has_status {
        items.push(part("status", &resource.kind));
    }
    if scale::Paths::of(server, resource).is_some() {
        let mut item = part("scale", "Scale");
        item["group"] = "autoscaling".into();
        item["version"] = "v1".into();
        items.push(item);
    }
    items
}

/// Versions of a custom resource are kept as one of them.
fn stored_as(resource: &Resource) -> String {
    if !resource.strategy.is_custom() {
        return resource.version.clone();
    }
    let stored = resource.strategy.to_storage(json!({}));
    let api_version = text(&stored["apiVersion"]);
    api_version.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Whether anything of a group is served.
#[must_use]
pub(super) fn serves_group(server: &ApiServer, group: &str) -> bool {
    server.serves_group(group) || UNKEPT.contains(group)
}

/// Groups with kinds that are not kept anywhere and so always there.
static UNKEPT: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let lists = published::discovery().iter();
    let unkept = lists.filter(|list| items_of(list).any(|item| !can_be_read(item)));
    unkept.map(|list| version_of(list).0).collect()
});

fn can_be_read(item: &Value) -> bool {
    let verbs = item["verbs"].as_array().into_iter().flatten();
    split(item).1.is_some() || verbs.into_iter().any(|verb| verb == "get")
}

/// `/apis` in the legacy form.
#[must_use]
pub(super) fn group_list(server: &ApiServer) -> Value {
    let mut named = groups(server);
    named.retain(|(group, _)| !group.is_empty());
    // Custom groups stand in the order of their versions' full names here.
    named.sort_by_key(|(group, versions)| (rank(group), first_name(group, versions)));
    let items: Vec<Value> = named
        .iter()
        .map(|(group, versions)| group_item(group, versions))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": items })
}

/// The first of a group's versions in the order of their full names, `v1.example.com`.
fn first_name(group: &str, versions: &[Version]) -> Option<String> {
    let names = versions.iter().map(|(version, _)| format!("{version}.{group}"));
    names.min()
}

/// `/apis/<group>`.
#[must_use]
pub(super) fn group(server: &ApiServer, name: &str) -> Option<Value> {
    let (group, versions) = groups(server).into_iter().find(|(group, _)| group == name)?;
    let mut document = group_item(&group, &versions);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

fn group_item(group: &str, versions: &[Version]) -> Value {
    let version = |(version, _): &Version| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({ "name": group, "versions": all, "preferredVersion": all.first() })
}

/// `/api/v1` or `/apis/<group>/<version>`.
#[must_use]
pub(super) fn resource_list(server: &ApiServer, group: &str, version: &str) -> Option<Value> {
    let (_, versions) = groups(server).into_iter().find(|(name, _)| name == group)?;
    let (_, resources) = versions.into_iter().find(|(name, _)| name == version)?;
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

fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// The aggregated document of `/api` (core group only) or `/apis` (all others).
#[must_use]
pub(super) fn aggregated(server: &ApiServer, core: bool) -> Value {
    let chosen = groups(server).into_iter().filter(|(group, _)| group.is_empty() == core);
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

fn aggregated_group(group: &str, versions: &[Version]) -> Value {
    let mut metadata = Map::new();
    if !group.is_empty() {
        metadata.insert("name".into(), group.into());
    }
    // Built-in kinds leave out what is that of the list around them.
    let builtin = published::discovery().iter().any(|list| version_of(list).0 == group);
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, items)| {
            let (group, version_shown) = if builtin { ("", "") } else { (group, version.as_str()) };
            let resources = aggregated_resources(group, version_shown, items);
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    json!({ "metadata": metadata, "versions": versions })
}

/// The entries of a legacy list, subresources inside their resource.
fn aggregated_resources(group: &str, version: &str, items: &[Value]) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for item in items {
        let own = |key: &str, or: &str| item[key].as_str().unwrap_or(or).to_owned();
        let kind = json!({
            "group": own("group", group),
            "version": own("version", version),
            "kind": item["kind"],
        });
        let (plural, part) = split(item);
        if let Some(part) = part {
            let view = json!({ "subresource": part, "responseKind": kind, "verbs": item["verbs"] });
            let parent = resources.iter_mut().find(|r| r["resource"] == plural);
            if let Some(parent) = parent {
                push(parent, view);
            }
            continue;
        }
        let scope = if item["namespaced"] == true {
            "Namespaced"
        } else {
            "Cluster"
        };
        let mut resource = json!({
            "resource": plural,
            "responseKind": kind,
            "scope": scope,
            "singularResource": item["singularName"],
            "verbs": item["verbs"],
        });
        for key in ["shortNames", "categories"] {
            if let Some(names) = item.get(key) {
                resource[key] = names.clone();
            }
        }
        resources.push(resource);
    }
    resources
}

fn push(resource: &mut Value, view: Value) {
    match &mut resource["subresources"] {
        Value::Array(views) => views.push(view),
        none => *none = json!([view]),
    }
}

/// The ETag of a document, quoted.
#[must_use]
pub(super) fn etag(document: &Value) -> String {
    format!("\"{}\"", sha512(document.to_string().as_bytes()))
}

/// SHA-512 in the upper-case hexadecimal the server prints.
#[must_use]
pub(super) fn sha512(bytes: &[u8]) -> String {
    Sha512::digest(bytes).iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_hashes_are_those_of_the_server() {
        assert_eq!(storage_hash("apps", "v1", "ControllerRevision"), "85nkx63pcBU=");
        assert_eq!(storage_hash("example.com", "v1", "Widget"), "gIwvi5rymmg=");
    }
}
