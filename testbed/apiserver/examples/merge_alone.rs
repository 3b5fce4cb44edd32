//! Structured merge without the rest of the box: this program is built from the folder
//! `src/merge` and nothing else of the crate, so it no longer builds when that folder leans on its
//! neighbours.
//!
//! Reads two manifests, applies them one after the other by two managers and prints the object:
//!
//! ```sh
//! cargo run -p aplomb-apiserver --example merge_alone
//! ```
#![allow(
    dead_code,
    unreachable_pub,
    reason = "a library folder in a program that uses a part of it"
)]

#[path = "../src/merge/mod.rs"]
mod merge;

use std::error::Error;

use merge::{FieldManager, MergeError, Version, Writer};
use serde_json::{Value, json};

const VERSION: &str = "example.com/v1";

fn main() -> Result<(), Box<dyn Error>> {
    let text = json!({ "type": "string" });
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "additionalProperties": text },
    }});
    let version = Version {
        api_version: VERSION,
        openapi: &schema,
        empty: json!({}),
        reset_main: Vec::new(),
        reset_status: Vec::new(),
    };
    let widgets = FieldManager::new(
        "Widget",
        &[version],
        &merge::openapi::Components::new(),
        true,
    );
    let live = apply(
        &widgets,
        None,
        "first",
        &json!({ "colour": "red", "size": "s" }),
    )?;
    let live = apply(
        &widgets,
        Some(&live),
        "second",
        &json!({ "shape": "round" }),
    )?;
    println!("{}", serde_json::to_string_pretty(&live)?);
    let rival = json!({ "colour": "blue" });
    if let Err(refused) = apply(&widgets, Some(&live), "second", &rival) {
        println!("{refused}");
    }
    Ok(())
}

fn apply(
    widgets: &FieldManager,
    live: Option<&Value>,
    manager: &str,
    spec: &Value,
) -> Result<Value, MergeError> {
    let writer = Writer {
        manager,
        api_version: VERSION,
        subresource: "",
        time: "2026-01-01T00:00:00Z",
    };
    let applied = json!({
        "apiVersion": VERSION, "kind": "Widget", "metadata": { "name": "w" }, "spec": spec,
    });
    widgets.apply(live, &applied, &writer, false)
}
