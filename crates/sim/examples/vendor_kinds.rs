//! Writes `src/kinds/data` anew from a real API server and the Go types behind it.
//!
//! Needs KUBECONFIG to name a server with nothing special about it, and the Go types on stdin:
//!
//! ```sh
//! go -C tools/controlplane/build/kubernetes run -mod=readonly ./gotypes \
//!     | cargo run -p aplomb-sim --example vendor_kinds
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Read;
use std::path::PathBuf;

use http::Request;
use http::header::ACCEPT;
use kube::Client;
use serde_json::{Value, json};

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// What the box serves, by group, in discovery order.
const SERVED: [(&str, &[&str]); 10] = [
    (
        "",
        &[
            "configmaps",
            "endpoints",
            "events",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "pods",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    ("apps", &["deployments", "replicasets"]),
    ("events.k8s.io", &["events"]),
    ("networking.k8s.io", &["networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
    (
        "rbac.authorization.k8s.io",
        &[
            "clusterrolebindings",
            "clusterroles",
            "rolebindings",
            "roles",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
    ),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("coordination.k8s.io", &["leases"]),
    ("discovery.k8s.io", &["endpointslices"]),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::try_default().await?;
    let mut kinds = Vec::new();
    let mut components = BTreeMap::new();
    for (group, plurals) in SERVED {
        let path = if group.is_empty() {
            "/api/v1".to_owned()
        } else {
            format!("/apis/{group}/v1")
        };
        let document = fetch(&client, &format!("/openapi/v3{path}"), "application/json").await?;
        let schemas = document["components"]["schemas"]
            .as_object()
            .ok_or("no schemas")?;
        components.extend(schemas.clone());
        for resource in resources(&client, group).await? {
            if plurals.iter().any(|plural| resource["resource"] == *plural) {
                let schema = schema_of(schemas, group, &resource).ok_or("no schema")?;
                kinds.push(kind(&client, group, &path, &resource, schema).await?);
            }
        }
    }
    let named = kinds
        .iter()
        .filter_map(|kind| kind["schema"].as_str().map(str::to_owned));
    let needed = closure(named.collect(), &components);
    components.retain(|name, _| needed.contains(name));
    let mut types = String::new();
    std::io::stdin().read_to_string(&mut types)?;
    let types: BTreeMap<String, Value> = serde_json::from_str(&types)?;
    write("openapi.json", &serde_json::to_string(&components)?)?;
    write(
        "kinds.json",
        &lines('[', kinds.iter().map(Value::to_string), ']'),
    )?;
    let members = types
        .iter()
        .map(|(name, named)| format!("{}:{named}", json!(name)));
    write("gotypes.json", &lines('{', members, '}'))
}

async fn fetch(client: &Client, path: &str, accept: &str) -> Result<Value, Box<dyn Error>> {
    let request = Request::get(path).header(ACCEPT, accept).body(Vec::new())?;
    Ok(serde_json::from_str(&client.request_text(request).await?)?)
}

/// The resources of `group`/v1 as aggregated discovery lists them.
async fn resources(client: &Client, group: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let root = if group.is_empty() { "/api" } else { "/apis" };
    let all = fetch(client, root, DISCOVERY).await?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let groups = list(&all["items"]);
    let found = groups
        .iter()
        .find(|item| item["metadata"]["name"].as_str().unwrap_or("") == group);
    let versions = found
        .map(|group| list(&group["versions"]))
        .unwrap_or_default();
    let version = versions
        .iter()
        .find(|version| version["version"] == "v1")
        .ok_or("no v1")?;
    Ok(list(&version["resources"]))
}

fn schema_of<'a>(
    schemas: &'a serde_json::Map<String, Value>,
    group: &str,
    resource: &Value,
) -> Option<&'a str> {
    let kind = json!({ "group": group, "kind": resource["responseKind"]["kind"], "version": "v1" });
    let is_of = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.contains(&kind))
    };
    schemas
        .iter()
        .find(|(_, schema)| is_of(schema))
        .map(|(name, _)| name.as_str())
}

async fn kind(
    client: &Client,
    group: &str,
    path: &str,
    resource: &Value,
    schema: &str,
) -> Result<Value, Box<dyn Error>> {
    let plural = resource["resource"].as_str().unwrap_or("");
    let table = fetch(client, &format!("{path}/{plural}?limit=1"), TABLE).await?;
    let or_none = |value: &Value| {
        if value.is_null() {
            json!([])
        } else {
            value.clone()
        }
    };
    let subresources: Vec<Value> = resource["subresources"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|sub| {
            json!({ "name": sub["subresource"], "kind": sub["responseKind"]["kind"], "verbs": sub["verbs"] })
        })
        .collect();
    Ok(json!({
        "group": group,
        "version": "v1",
        "plural": plural,
        "singular": resource["singularResource"],
        "kind": resource["responseKind"]["kind"],
        "shortNames": or_none(&resource["shortNames"]),
        "categories": or_none(&resource["categories"]),
        "namespaced": resource["scope"] == "Namespaced",
        "verbs": resource["verbs"],
        "subresources": subresources,
        "schema": schema,
        "columns": table["columnDefinitions"],
    }))
}

/// The components called `names`, and all they refer to.
fn closure(names: Vec<String>, components: &BTreeMap<String, Value>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = names;
    while let Some(name) = open.pop() {
        if let Some(component) = components.get(&name).filter(|_| found.insert(name.clone())) {
            references(component, &mut open);
        }
    }
    found
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            found.extend(
                target
                    .and_then(|target| target.rsplit('/').next())
                    .map(str::to_owned),
            );
            members
                .values()
                .for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn lines(open: char, items: impl Iterator<Item = String>, close: char) -> String {
    format!(
        "{open}\n{}\n{close}\n",
        items.collect::<Vec<_>>().join(",\n")
    )
}

fn write(name: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/kinds/data");
    Ok(std::fs::write(data.join(name), text)?)
}
