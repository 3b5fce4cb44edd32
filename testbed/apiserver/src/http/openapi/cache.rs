//! All published documents of one server, kept until a definition changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::GroupResource;
use aplomb_builtin_kinds::published;
use serde_json::{Map, Value, json};

use super::custom::{self, Version};
use super::document::{Document, Form};
use super::proto::Edition;
use super::{builtin, swagger};
use crate::crd::is_true_condition;
use crate::http::discovery::sha512;
use crate::server::ApiServer;

/// A definition and which edition of it this is.
type Definition = (String, Arc<Value>);

/// What has been made, each with the editions it was made from.
#[derive(Debug, Default)]
pub(in crate::http) struct OpenApiCache {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    documents: BTreeMap<String, (Vec<String>, Arc<Document>)>,
    additions: BTreeMap<String, Arc<swagger::Addition>>,
    swagger: Option<(Vec<String>, Arc<Document>)>,
}

impl OpenApiCache {
    /// Every document of OpenAPI v3 by path, with the hash of its content.
    pub(super) fn hashes(&self, server: &ApiServer) -> BTreeMap<String, String> {
        let mut hashes = published::index().clone();
        for (path, definitions) in by_document(server) {
            let document = self.custom(&path, &definitions);
            hashes.insert(path, document.hash.clone());
        }
        hashes
    }

    /// One document of OpenAPI v3.
    pub(super) fn document(&self, server: &ApiServer, path: &str) -> Option<Arc<Document>> {
        builtin::document(path).or_else(|| {
            let definitions = by_document(server).remove(path)?;
            Some(self.custom(path, &definitions))
        })
    }

    /// The document of OpenAPI v2.
    pub(super) fn swagger(&self, server: &ApiServer) -> Arc<Document> {
        let definitions = established(server);
        let editions: Vec<String> = definitions.iter().map(|(id, _)| id.clone()).collect();
        let mut kept = self.kept();
        if let Some((from, document)) = &kept.swagger
            && *from == editions
        {
            return document.clone();
        }
        kept.additions.retain(|id, _| editions.contains(id));
        for (id, crd) in &definitions {
            let addition = kept.additions.entry(id.clone());
            addition.or_insert_with(|| Arc::new(addition_of(crd)));
        }
        let document = Arc::new(swagger::build(kept.additions.values().cloned().collect()));
        kept.swagger = Some((editions, document.clone()));
        document
    }

    fn custom(&self, path: &str, definitions: &[Definition]) -> Arc<Document> {
        let editions: Vec<String> = definitions.iter().map(|(id, _)| id.clone()).collect();
        let mut kept = self.kept();
        match kept.documents.get(path) {
            Some((from, document)) if *from == editions => document.clone(),
            _ => {
                let document = Arc::new(build(path, definitions));
                let entry = (editions, document.clone());
                kept.documents.insert(path.to_owned(), entry);
                document
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The definitions that are published, in the order of their names.
fn established(server: &ApiServer) -> Vec<Definition> {
    let resource = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
    let all = server.store().snapshot(&resource).objects;
    all.into_values()
        .filter(|crd| is_true_condition(crd, "Established"))
        .map(|crd| {
            let id = format!("{} {}", object::uid(&crd), object::generation(&crd));
            (id, crd)
        })
        .collect()
}

fn by_document(server: &ApiServer) -> BTreeMap<String, Vec<Definition>> {
    let mut found: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
    for (id, crd) in established(server) {
        for version in Version::of(&crd) {
            let definitions = found.entry(version.document_path()).or_default();
            definitions.push((id.clone(), crd.clone()));
        }
    }
    found
}

fn addition_of(crd: &Value) -> swagger::Addition {
    let mut addition = swagger::Addition::default();
    for version in Version::of(crd) {
        let fragment = version.fragment(Edition::V2);
        addition.definitions.extend(fragment.schemas);
        addition.paths.extend(fragment.paths);
    }
    addition
}

fn build(path: &str, definitions: &[Definition]) -> Document {
    let (mut schemas, mut paths, mut scale) = (Map::new(), Map::new(), false);
    for (_, crd) in definitions {
        let versions = Version::of(crd).into_iter();
        for version in versions.filter(|version| version.document_path() == path) {
            let fragment = version.fragment(Edition::V3);
            schemas.extend(fragment.schemas);
            paths.extend(fragment.paths);
            scale |= version.has("scale");
        }
    }
    schemas.extend(custom::components(scale));
    let document = json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes CRD Swagger", "version": "v0.1.0" },
        "paths": paths,
        "components": { "schemas": schemas },
    });
    let text = document.to_string();
    Document::new(Form::V3, sha512(text.as_bytes()), text)
}
