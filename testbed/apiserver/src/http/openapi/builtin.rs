//! The published documents of the built-in kinds: vendored text, put together when first asked for.
//!
//! They are the same for every server of the process and are kept once.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use aplomb_builtin_kinds::published;

use super::document::{Document, Form};
use super::raw;

/// The vendored parts of each document, by path.
static STORED: LazyLock<BTreeMap<&str, &str>> =
    LazyLock::new(|| raw::members(published::documents()).into_iter().collect());

type Kept = BTreeMap<String, Arc<Document>>;

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(|| Mutex::new(Kept::new()));

/// One document of OpenAPI v3.
#[must_use]
pub(super) fn document(path: &str) -> Option<Arc<Document>> {
    let hash = published::index().get(path)?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(document) = kept.get(path) {
        return Some(document.clone());
    }
    let text = assemble(STORED.get(path)?);
    let document = Arc::new(Document::new(Form::V3, hash.clone(), text));
    kept.insert(path.to_owned(), document.clone());
    Some(document)
}

/// A document with its schemas back in it.
fn assemble(stored: &str) -> String {
    let part = |name| raw::member(stored, name).unwrap_or("{}");
    let schemas = schemas(part("shared"), part("own"));
    let frame = part("document");
    let components = raw::member(frame, "components").map(|components| {
        let members = raw::members(components).into_iter();
        raw::object(members.map(|(name, value)| match name {
            "schemas" => (name, schemas.as_str()),
            _ => (name, value),
        }))
    });
    let members = raw::members(frame).into_iter();
    raw::object(members.map(|(name, value)| match (name, &components) {
        ("components", Some(components)) => (name, components.as_str()),
        _ => (name, value),
    }))
}

fn schemas(shared: &str, own: &str) -> String {
    static COMPONENTS: LazyLock<BTreeMap<&str, &str>> =
        LazyLock::new(|| raw::members(published::components()).into_iter().collect());
    let names: Vec<String> = serde_json::from_str(shared).unwrap_or_default();
    let mut schemas: BTreeMap<&str, &str> = raw::members(own).into_iter().collect();
    for name in &names {
        if let Some((name, schema)) = COMPONENTS.get_key_value(name.as_str()) {
            schemas.insert(name, schema);
        }
    }
    raw::object(schemas)
}

/// The vendored document without its schemas.
#[must_use]
pub(super) fn frame(path: &str) -> Option<&'static str> {
    raw::member(STORED.get(path)?, "document")
}
