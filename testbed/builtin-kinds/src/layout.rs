//! The order in which the server writes the members of an object: that of the fields of its Go types.
//!
//! Objects of built-in kinds are laid out here; custom resources are maps to the server, and maps are
//! sorted. What is in an object is decided elsewhere.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::data;
use super::gotype::{self, Field, GoType, Shape};

const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
const SCHEMA: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps";

/// A value and the order of what is in it.
#[derive(Clone, Copy, Debug)]
pub struct LaidOut<'a> {
    value: &'a Value,
    layout: &'static Layout,
    /// An item of a list does not say what it is.
    bare: bool,
}

/// How a value is written.
#[derive(Debug)]
enum Layout {
    /// As it is: it has no members, or they are data and sorted.
    Plain,
    List(usize),
    Map(usize),
    Struct(Vec<Member>),
    /// An object that says itself what it is.
    Itself,
}

#[derive(Debug)]
struct Member {
    name: String,
    layout: usize,
}

/// Layouts refer to each other by their place; the first is `Plain`.
struct Layouts {
    all: Vec<Layout>,
    /// By `apiVersion` and `kind`.
    kinds: BTreeMap<String, BTreeMap<String, usize>>,
    /// The metadata of a list.
    list_meta: usize,
}

const PLAIN: usize = 0;

static LAYOUTS: LazyLock<Layouts> = LazyLock::new(Layouts::build);

/// An object as the server writes it.
pub fn laid_out(object: &Value) -> LaidOut<'_> {
    let said = |member: &str| object.get(member).and_then(Value::as_str);
    let kind = said("kind").unwrap_or_default();
    let layout = LAYOUTS.of(said("apiVersion").unwrap_or_default(), kind);
    LaidOut::new(object, layout)
}

/// The metadata of a list of built-in kinds.
pub fn list_meta(metadata: &Value) -> LaidOut<'_> {
    LaidOut::new(metadata, LAYOUTS.list_meta)
}

impl<'a> LaidOut<'a> {
    fn new(value: &'a Value, layout: usize) -> Self {
        let layout = &LAYOUTS.all[layout];
        let bare = false;
        Self { value, layout, bare }
    }

    /// The same as an item of a list, which does not say what it is.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    fn members<S: Serializer>(
        &self,
        members: &'a Map<String, Value>,
        fields: &'static [Member],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut left = members.len();
        for field in fields {
            if left == 0 {
                break;
            }
            if let Some(value) = members.get(&field.name) {
                left -= 1;
                if !self.hides(&field.name) {
                    map.serialize_entry(&field.name, &LaidOut::new(value, field.layout))?;
                }
            }
        }
        if left > 0 {
            let known = |name: &str| fields.iter().any(|field| field.name == name);
            for (name, value) in members.iter().filter(|(name, _)| !known(name)) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }

    fn hides(&self, member: &str) -> bool {
        self.bare && matches!(member, "apiVersion" | "kind")
    }
}

impl Serialize for LaidOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.value, self.layout) {
            (Value::Object(members), Layout::Struct(fields)) => self.members(members, fields, serializer),
            (Value::Object(members), Layout::Map(of)) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, LaidOut::new(value, *of))))
            }
            (Value::Array(items), Layout::List(of)) => {
                serializer.collect_seq(items.iter().map(|item| LaidOut::new(item, *of)))
            }
            (Value::Object(_), Layout::Itself) => laid_out(self.value).serialize(serializer),
            (value, _) => value.serialize(serializer),
        }
    }
}

impl Layouts {
    fn of(&self, api_version: &str, kind: &str) -> usize {
        let kinds = self.kinds.get(api_version);
        *kinds.and_then(|kinds| kinds.get(kind)).unwrap_or(&PLAIN)
    }

    fn build() -> Self {
        let mut builder = Builder {
            all: vec![Layout::Plain],
            named: BTreeMap::new(),
        };
        let mut kinds: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for (api_version, package) in packages() {
            for (kind, name) in gotype::kinds_of(&package) {
                let layout = builder.named(name);
                let place = kinds.entry(api_version.clone()).or_default();
                place.entry(kind.to_owned()).or_insert(layout);
            }
        }
        let list_meta = builder.named(&format!("{META}.ListMeta"));
        Self {
            all: builder.all,
            kinds,
            list_meta,
        }
    }
}

/// The Go package of each version that is served. What is common to all of them is said to be of the
/// first version of the first group, or of none.
fn packages() -> Vec<(String, String)> {
    let package = |go_type: &str| {
        let package = go_type.rsplit_once('.').map(|(package, _)| package);
        package.unwrap_or_default().to_owned()
    };
    let stored = data::KINDS.iter();
    let mut packages: Vec<(String, String)> = stored
        .map(|entry| (entry.api_version(), package(&entry.go_type())))
        .collect();
    packages.sort();
    packages.dedup();
    let more = [
        ("authentication.k8s.io/v1", "k8s.io/api/authentication/v1"),
        ("authorization.k8s.io/v1", "k8s.io/api/authorization/v1"),
        ("apidiscovery.k8s.io/v2", "k8s.io/api/apidiscovery/v2"),
        ("meta.k8s.io/v1", META),
        ("v1", META),
        ("", META),
    ];
    packages.extend(more.map(|(version, package)| (version.to_owned(), package.to_owned())));
    packages
}

struct Builder {
    all: Vec<Layout>,
    named: BTreeMap<String, usize>,
}

impl Builder {
    fn add(&mut self, layout: Layout) -> usize {
        self.all.push(layout);
        self.all.len() - 1
    }

    fn named(&mut self, name: &str) -> usize {
        if let Some(known) = self.named.get(name) {
            return *known;
        }
        match &gotype::named(name).shape {
            Shape::Alias(of) => self.kind(of),
            // They write the schema they hold.
            Shape::Custom if name.starts_with(SCHEMA) => self.named(SCHEMA),
            Shape::Custom => PLAIN,
            Shape::Struct(fields) => {
                // A type may be within itself: it has its place before it is known.
                let place = self.add(Layout::Plain);
                self.named.insert(name.to_owned(), place);
                let mut members = Vec::new();
                self.fields(name, fields, &mut members);
                self.all[place] = Layout::Struct(members);
                place
            }
        }
    }

    fn fields(&mut self, of: &str, fields: &'static [Field], members: &mut Vec<Member>) {
        for field in fields {
            match (&field.kind, field.name.as_str()) {
                (GoType::Named(inner), "") => {
                    if let Shape::Struct(inlined) = &gotype::named(inner).shape {
                        self.fields(inner, inlined, members);
                    }
                }
                (kind, name) => {
                    let row = of.ends_with("v1.TableRow") && name == "object";
                    let layout = if row { self.add(Layout::Itself) } else { self.kind(kind) };
                    let name = name.to_owned();
                    members.push(Member { name, layout });
                }
            }
        }
    }

    fn kind(&mut self, kind: &GoType) -> usize {
        let (GoType::Slice(inner) | GoType::Map(inner)) = kind else {
            return match kind {
                GoType::Pointer(inner) => self.kind(inner),
                GoType::Named(name) => self.named(name),
                _ => PLAIN,
            };
        };
        match (self.kind(inner), kind) {
            (PLAIN, _) => PLAIN,
            (of, GoType::Slice(_)) => self.add(Layout::List(of)),
            (of, _) => self.add(Layout::Map(of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(object: &Value) -> String {
        serde_json::to_string(&laid_out(object)).expect("written")
    }

    #[test]
    fn members_stand_in_the_order_of_the_go_types() {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "status": {}, "metadata":
            { "uid": "u", "name": "a", "labels": { "b": "1", "a": "2" } }, "spec": { "volumes":
            [{ "emptyDir": {}, "name": "v" }], "containers": [{ "image": "i", "name": "c" }] } });
        let wanted = concat!(
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","#,
            r#""labels":{"a":"2","b":"1"}},"spec":{"volumes":[{"name":"v","emptyDir":{}}],"#,
            r#""containers":[{"name":"c","image":"i"}]},"status":{}}"#
        );
        assert_eq!(written(&pod), wanted);
    }

    #[test]
    fn nothing_is_lost_and_custom_resources_stay_sorted() {
        let strange = json!({ "apiVersion": "v1", "kind": "ConfigMap", "unheard": 1, "data": {} });
        assert_eq!(
            written(&strange),
            r#"{"kind":"ConfigMap","apiVersion":"v1","data":{},"unheard":1}"#
        );
        let custom = json!({ "apiVersion": "apps.example.com/v1", "kind": "Deployment", "a": 1 });
        assert_eq!(written(&custom), custom.to_string());
    }

    #[test]
    fn a_row_of_a_table_holds_an_object_that_says_what_it_is() {
        let partial = json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": { "namespace": "n", "name": "a" } });
        let table = json!({ "apiVersion": "meta.k8s.io/v1", "kind": "Table",
            "rows": [{ "object": partial, "cells": [{ "b": 1, "a": 2 }] }] });
        let wanted = concat!(
            r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":[{"a":2,"b":1}],"#,
            r#""object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#,
            r#""metadata":{"name":"a","namespace":"n"}}}]}"#
        );
        assert_eq!(written(&table), wanted);
    }

    #[test]
    fn a_schema_is_laid_out_however_deep_it_is() {
        let inner = json!({ "properties": { "a": { "type": "string", "description": "d" } },
            "type": "object" });
        let schema = json!({ "type": "object", "additionalProperties": inner });
        let names = json!({ "plural": "as" });
        let versions = json!([{ "schema": { "openAPIV3Schema": schema }, "name": "v1" }]);
        let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "spec": { "versions": versions, "names": names } });
        let wanted = concat!(
            r#""spec":{"names":{"plural":"as"},"versions":[{"name":"v1","schema":{"#,
            r#""openAPIV3Schema":{"type":"object","additionalProperties":{"type":"object","#,
            r#""properties":{"a":{"description":"d","type":"string"}}}}}}]}"#
        );
        assert!(written(&definition).contains(wanted));
    }
}
