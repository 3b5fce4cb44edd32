//! The document of OpenAPI v2: that of the built-in kinds with what custom resources add to it.
//!
//! It is megabytes, and each change of a definition makes a new one: what is vendored is cut and
//! encoded once, and what definitions add is put between.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use aplomb_builtin_kinds::published;
use serde_json::{Map, Value};

use super::document::{Document, Form};
use super::proto;
use super::raw;
use crate::http::discovery::sha512;

/// What one custom resource adds.
#[derive(Debug, Default)]
pub(super) struct Addition {
    pub(super) definitions: Map<String, Value>,
    pub(super) paths: Map<String, Value>,
}

/// Texts or messages by name.
type Entries<T> = BTreeMap<String, T>;

struct Base {
    hash: String,
    definitions: Vec<(&'static str, &'static str)>,
    paths: Vec<(&'static str, &'static str)>,
    /// The rest of the document.
    frame: Vec<(&'static str, &'static str)>,
}

struct Messages {
    definitions: Entries<Vec<u8>>,
    paths: Entries<Vec<u8>>,
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    let text = published::swagger();
    let (mut definitions, mut paths, mut frame) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value) in raw::members(text) {
        match name {
            "definitions" => definitions = raw::members(value),
            "paths" => paths = raw::members(value),
            _ => frame.push((name, value)),
        }
    }
    Base {
        hash: sha512(text.as_bytes()),
        definitions,
        paths,
        frame,
    }
});

/// The vendored definitions and paths, each as it stands in the message of all of them.
static MESSAGES: LazyLock<Messages> = LazyLock::new(|| {
    let encode = |part: &str, members: &[(&str, &str)]| {
        let entry = |(name, text): &(&str, &str)| {
            let value = serde_json::from_str(text).unwrap_or_default();
            ((*name).to_owned(), proto::swagger_entry(part, name, &value))
        };
        members.iter().map(entry).collect()
    };
    Messages {
        definitions: encode("definitions", &BASE.definitions),
        paths: encode("paths", &BASE.paths),
    }
});

/// The document with all additions. What is built in is never replaced.
pub(super) fn build(additions: Vec<Arc<Addition>>) -> Document {
    if additions.is_empty() {
        let text = published::swagger().as_bytes();
        return Document::new(Form::Swagger(additions), BASE.hash.clone(), text);
    }
    let definitions = texts(additions.iter().map(|one| &one.definitions));
    let paths = texts(additions.iter().map(|one| &one.paths));
    let added = |entries: &Entries<String>| raw::object(borrowed(entries));
    let content = format!("{} {}{}", BASE.hash, added(&definitions), added(&paths));
    let hash = sha512(content.as_bytes());
    let definitions = merged(&definitions, &BASE.definitions);
    let paths = merged(&paths, &BASE.paths);
    let rest = BASE.frame.iter().copied();
    let own = [("definitions", definitions.as_str()), ("paths", &paths)];
    Document::new(Form::Swagger(additions), hash, raw::object(rest.chain(own)))
}

fn texts<'a>(parts: impl Iterator<Item = &'a Map<String, Value>>) -> Entries<String> {
    parts
        .flatten()
        .map(|(name, value)| (name.clone(), value.to_string()))
        .collect()
}

fn borrowed(entries: &Entries<String>) -> impl Iterator<Item = (&str, &str)> {
    let entries = entries.iter();
    entries.map(|(name, text)| (name.as_str(), text.as_str()))
}

fn merged(added: &Entries<String>, base: &[(&str, &str)]) -> String {
    let mut all: BTreeMap<&str, &str> = borrowed(added).collect();
    all.extend(base.iter().copied());
    raw::object(all)
}

/// The same as gnostic's message.
pub(super) fn message(additions: &[Arc<Addition>]) -> Vec<u8> {
    let frame = raw::object(BASE.frame.iter().copied());
    let frame = serde_json::from_str(&frame).unwrap_or_default();
    let Messages { definitions, paths } = &*MESSAGES;
    let added = additions.iter().map(|one| &one.definitions);
    let definitions = messages("definitions", added, definitions);
    let added = additions.iter().map(|one| &one.paths);
    let paths = messages("paths", added, paths);
    proto::swagger(&frame, &paths, &definitions)
}

fn messages<'a>(part: &str, added: impl Iterator<Item = &'a Map<String, Value>>, base: &Entries<Vec<u8>>) -> Vec<u8> {
    let added: Entries<Vec<u8>> = added
        .flatten()
        .map(|(name, value)| (name.clone(), proto::swagger_entry(part, name, value)))
        .collect();
    let mut all: BTreeMap<&str, &[u8]> = BTreeMap::new();
    for (name, message) in added.iter().chain(base) {
        all.insert(name, message);
    }
    all.into_values().flatten().copied().collect()
}
