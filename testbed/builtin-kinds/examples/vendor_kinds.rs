//! Writes `src/data` anew from a real API server and the Go types behind it.
//!
//! Needs KUBECONFIG to name a server with nothing special about it, and the Go types on stdin:
//!
//! ```sh
//! go -C testbed/controlplane/build/kubernetes run -mod=readonly ./gotypes \
//!     | cargo run -p aplomb-builtin-kinds --example vendor_kinds
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write};
use std::path::PathBuf;

use flate2::{Compression, GzBuilder};
use http::Request;
use http::header::ACCEPT;
use kube::Client;
use serde_json::{Map, Value, json};

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::try_default().await?;
    let mut books = Books::default();
    let index = fetch(&client, "/openapi/v3", "application/json").await?;
    let mut hashes = Vec::new();
    for (path, item) in index["paths"].as_object().ok_or("no paths")? {
        let url = item["serverRelativeURL"].as_str().unwrap_or_default();
        let hash = url.rsplit('=').next().unwrap_or_default();
        hashes.push(format!("{}:{}", json!(path), json!(hash)));
        let document = fetch(&client, &format!("/openapi/v3/{path}"), "application/json").await?;
        books.add(path, document);
    }
    let mut kinds = Vec::new();
    for (group, version, resource) in served(&client).await? {
        if resource["verbs"]
            .as_array()
            .is_some_and(|verbs| verbs.contains(&json!("get")))
        {
            let schema = schema_of(&books.components, &group, &version, &resource);
            let schema = schema.ok_or("no schema")?;
            kinds.push(kind(&client, &group, &version, &resource, schema).await?);
        }
    }
    let mut types = String::new();
    std::io::stdin().read_to_string(&mut types)?;
    let types: BTreeMap<String, Value> = serde_json::from_str(&types)?;
    let swagger = fetch(&client, "/openapi/v2", "application/json").await?;
    write("index.json", &lines('{', hashes.into_iter(), '}'))?;
    let lists = resource_lists(&client).await?;
    write("discovery.json", &lines('[', lists.into_iter(), ']'))?;
    pack("components.json.gz", &json!(books.components))?;
    pack("documents.json.gz", &json!(books.documents))?;
    pack("swagger.json.gz", &swagger)?;
    write("kinds.json", &lines('[', kinds.iter().map(Value::to_string), ']'))?;
    let members = types.iter().map(|(name, named)| format!("{}:{named}", json!(name)));
    write("gotypes.json", &lines('{', members, '}'))
}

/// The documents of OpenAPI v3, the schemas they share kept apart.
#[derive(Default)]
struct Books {
    components: BTreeMap<String, Value>,
    /// Each without its schemas: the names of those it shares, and those it has another edition of.
    documents: BTreeMap<String, Value>,
}

impl Books {
    fn add(&mut self, path: &str, mut document: Value) {
        let schemas = document.pointer_mut("/components/schemas");
        let schemas = schemas.map(Value::take).unwrap_or_default();
        let (mut shared, mut own) = (Vec::new(), Map::new());
        for (name, schema) in schemas.as_object().into_iter().flatten() {
            let known = self.components.entry(name.clone());
            if known.or_insert_with(|| schema.clone()) == schema {
                shared.push(name.clone());
            } else {
                own.insert(name.clone(), schema.clone());
            }
        }
        let entry = json!({ "shared": shared, "own": own, "document": document });
        self.documents.insert(path.to_owned(), entry);
    }
}

async fn fetch(client: &Client, path: &str, accept: &str) -> Result<Value, Box<dyn Error>> {
    let request = Request::get(path).header(ACCEPT, accept).body(Vec::new())?;
    Ok(serde_json::from_str(&client.request_text(request).await?)?)
}

/// Every resource with its group and version, as aggregated discovery lists them.
async fn served(client: &Client) -> Result<Vec<(String, String, Value)>, Box<dyn Error>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for root in ["/api", "/apis"] {
        let all = fetch(client, root, DISCOVERY).await?;
        for group in list(&all["items"]) {
            for version in list(&group["versions"]) {
                for resource in list(&version["resources"]) {
                    let name = text(&group["metadata"]["name"]);
                    found.push((name, text(&version["version"]), resource));
                }
            }
        }
    }
    Ok(found)
}

/// The legacy list of each group version in discovery order, a line for each resource.
async fn resource_lists(client: &Client) -> Result<Vec<String>, Box<dyn Error>> {
    let mut paths = vec!["/api/v1".to_owned()];
    let groups = fetch(client, "/apis", "application/json").await?;
    for group in groups["groups"].as_array().into_iter().flatten() {
        for version in group["versions"].as_array().into_iter().flatten() {
            let version = version["groupVersion"].as_str().unwrap_or_default();
            paths.push(format!("/apis/{version}"));
        }
    }
    let mut lists = Vec::new();
    for path in paths {
        let list = fetch(client, &path, "application/json").await?;
        let resources = list["resources"].as_array().into_iter().flatten();
        let resources = lines('[', resources.map(Value::to_string), ']');
        let group_version = &list["groupVersion"];
        lists.push(format!(
            "{{\"groupVersion\":{group_version},\"resources\":{}}}",
            resources.trim_end()
        ));
    }
    Ok(lists)
}

fn schema_of<'a>(
    schemas: &'a BTreeMap<String, Value>,
    group: &str,
    version: &str,
    resource: &Value,
) -> Option<&'a str> {
    let kind = json!({ "group": group, "kind": resource["responseKind"]["kind"], "version": version });
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
    version: &str,
    resource: &Value,
    schema: &str,
) -> Result<Value, Box<dyn Error>> {
    let plural = resource["resource"].as_str().unwrap_or("");
    let path = if group.is_empty() {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{group}/{version}")
    };
    let table = fetch(client, &format!("{path}/{plural}?limit=1"), TABLE).await?;
    let or_none = |value: &Value| {
        if value.is_null() { json!([]) } else { value.clone() }
    };
    let subresources: Vec<Value> = resource["subresources"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|sub| json!({ "name": sub["subresource"], "kind": sub["responseKind"], "verbs": sub["verbs"] }))
        .collect();
    Ok(json!({
        "group": group,
        "version": version,
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

fn lines(open: char, items: impl Iterator<Item = String>, close: char) -> String {
    format!("{open}\n{}\n{close}\n", items.collect::<Vec<_>>().join(",\n"))
}

fn pack(name: &str, value: &Value) -> Result<(), Box<dyn Error>> {
    let mut packed = GzBuilder::new().write(Vec::new(), Compression::best());
    packed.write_all(value.to_string().as_bytes())?;
    Ok(std::fs::write(data(name), packed.finish()?)?)
}

fn write(name: &str, text: &str) -> Result<(), Box<dyn Error>> {
    Ok(std::fs::write(data(name), text)?)
}

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/data").join(name)
}
