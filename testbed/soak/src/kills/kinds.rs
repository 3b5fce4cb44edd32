//! The kinds that are written: three built in, a custom one, and definitions themselves.
//!
//! Every write carries a number of its own in an annotation, by which it is known again.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::wire::Connection;

/// The annotation that tells one write from another.
pub(super) const NUMBER: &str = "example.com/number";

/// A kind and where it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// Path of the collection.
    pub(super) path: &'static str,
}

const fn kind(api_version: &'static str, kind: &'static str, path: &'static str) -> Kind {
    Kind {
        api_version,
        kind,
        path,
    }
}

const CONFIG_MAPS: Kind = kind("v1", "ConfigMap", "/api/v1/namespaces/default/configmaps");
const SECRETS: Kind = kind("v1", "Secret", "/api/v1/namespaces/default/secrets");
const ACCOUNTS: Kind = kind("v1", "ServiceAccount", "/api/v1/namespaces/default/serviceaccounts");
const THINGS: Kind = kind(
    "example.com/v1",
    "Thing",
    "/apis/example.com/v1/namespaces/default/things",
);
const DEFINITIONS: Kind = kind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
);

pub(super) const KINDS: [Kind; 5] = [CONFIG_MAPS, SECRETS, ACCOUNTS, THINGS, DEFINITIONS];
/// Those that are watched.
pub(super) const FOLLOWED: [Kind; 2] = [CONFIG_MAPS, THINGS];

/// An object as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) number: u64,
    pub(super) version: u64,
    pub(super) uid: String,
}

/// A list: its version and the objects that carry a number.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) version: u64,
    pub(super) objects: BTreeMap<String, Known>,
}

impl Kind {
    /// Whether the server writes such objects too: their conditions, and their end after a deletion.
    pub(super) fn has_a_life(self) -> bool {
        self == DEFINITIONS
    }

    /// What is written as one object.
    pub(super) fn body(self, name: &str, number: u64) -> Value {
        let mut body = json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": { "name": name, "annotations": { NUMBER: number.to_string() } },
        });
        match self {
            CONFIG_MAPS => body["data"] = json!({ "text": "x".repeat(200) }),
            THINGS => body["spec"] = json!({ "text": "x".repeat(200) }),
            DEFINITIONS => {
                let plural = name.split('.').next().unwrap_or(name);
                body["spec"] = definition(plural, &format!("K{plural}"), "kills.example.com");
            }
            _ => {}
        }
        body
    }

    /// A name of a kind: definitions are named after what they define.
    pub(super) fn name(self, number: u64) -> String {
        match self {
            DEFINITIONS => format!("k{number}.kills.example.com"),
            _ => format!("k{number}"),
        }
    }

    pub(super) async fn list(self, client: &Connection) -> Result<Listed> {
        let list = client.get(self.path).await?;
        let items = list["items"].as_array().context("a list has items")?;
        let objects = items.iter().filter_map(|item| Some((name(item), known(item)?)));
        Ok(Listed {
            version: version(&list)?,
            objects: objects.collect(),
        })
    }
}

fn name(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

/// What is known of an object. One that is being deleted counts as gone.
pub(super) fn known(object: &Value) -> Option<Known> {
    let metadata = &object["metadata"];
    if metadata["deletionTimestamp"].is_string() {
        return None;
    }
    Some(Known {
        number: metadata["annotations"][NUMBER].as_str()?.parse().ok()?,
        version: version(object).ok()?,
        uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
    })
}

pub(super) fn version(object: &Value) -> Result<u64> {
    let version = object["metadata"]["resourceVersion"].as_str();
    Ok(version.context("no resourceVersion")?.parse()?)
}

fn definition(plural: &str, kind: &str, group: &str) -> Value {
    json!({
        "group": group,
        "scope": "Namespaced",
        "names": { "plural": plural, "kind": kind },
        "versions": [{
            "name": "v1",
            "served": true,
            "storage": true,
            "schema": { "openAPIV3Schema": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
            } },
        }],
    })
}

/// Makes the custom kind and waits until it is served.
pub(super) async fn install(client: &Connection) -> Result<()> {
    let body = json!({
        "apiVersion": DEFINITIONS.api_version,
        "kind": DEFINITIONS.kind,
        "metadata": { "name": "things.example.com" },
        "spec": definition("things", "Thing", "example.com"),
    });
    let body = serde_json::to_vec(&body)?;
    let answer = client.ask(Method::POST, DEFINITIONS.path, "application/json", body);
    ensure!(answer.await?.code == 201, "the definition was refused");
    for _ in 0..200 {
        if THINGS.list(client).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    bail!("the custom kind is not served")
}
