//! Objects and lists in the shape a client asked for: as they are, as a Table, or only metadata.
//!
//! Cells come from the kind's strategy; this file knows only the frames around them.

use std::borrow::Cow;
use std::sync::Arc;

use aplomb_apimachinery::query::Query;
use aplomb_apimachinery::resource::{Column, Resource};
use aplomb_apimachinery::status::ApiError;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::list_encoding::{Listing, Objects};
use super::negotiate::{Form, Output, Shape};

/// What a row of a Table carries of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    Metadata,
    Object,
    Nothing,
}

/// Turns the objects of one request into what its client asked for.
#[derive(Clone, Debug)]
pub(super) struct Converter {
    resource: Arc<Resource>,
    shape: Shape,
    version: &'static str,
    include: Include,
}

/// The frame of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct ListMeta {
    /// `resourceVersion`; 0 for a list of what is not stored, which has none.
    pub resource_version: u64,
    /// `continue`.
    pub continue_token: Option<String>,
    /// `remainingItemCount`.
    pub remaining: Option<i64>,
}

impl Converter {
    /// A converter for one request.
    ///
    /// # Errors
    /// 400 for a bad `includeObject`.
    pub(super) fn new(resource: Arc<Resource>, output: &Output, query: &Query) -> Result<Self, ApiError> {
        let include = match query.first("includeObject").unwrap_or_default() {
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            "None" => Include::Nothing,
            other if output.shape == Shape::Table => {
                let quoted = aplomb_apimachinery::field::go_quote(other);
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {quoted}: \
                     must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
            _ => Include::Metadata,
        };
        let (shape, version) = (output.shape, output.shape_version);
        Ok(Self {
            resource,
            shape,
            version,
            include,
        })
    }

    /// One object; a Status passes unchanged.
    ///
    /// # Errors
    /// 406 when a list was asked for.
    pub(super) fn object(&self, object: Arc<Value>, now: Timestamp) -> Result<Arc<Value>, ApiError> {
        if object.get("kind").and_then(Value::as_str) == Some("Status") {
            return Ok(object);
        }
        match self.shape {
            Shape::Object => Ok(object),
            Shape::Partial => Ok(self.partial(&object).into()),
            Shape::PartialList => Err(self.wrong_number("PartialObjectMetadataList", false)),
            Shape::Table => {
                let meta = object_meta(&object);
                Ok(self.table(&[&object], &meta, true, now).into())
            }
        }
    }

    /// A list.
    ///
    /// # Errors
    /// 406 when one object was asked for.
    pub(super) fn list(&self, items: Vec<Arc<Value>>, meta: &ListMeta, now: Timestamp) -> Result<Listing, ApiError> {
        match self.shape {
            Shape::Object => Ok(Listing::Objects(Objects {
                kind: self.resource.list_kind.clone(),
                api_version: self.resource.api_version(),
                metadata: list_meta(meta, true),
                items,
                bare: self.resource.strategy.bare_list_items(),
            })),
            Shape::Partial => Err(self.wrong_number("PartialObjectMetadata", true)),
            Shape::PartialList => Ok(Listing::Shaped(json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": self.api_version(),
                "metadata": list_meta(meta, false),
                // A Go list nothing was put into.
                "items": (!items.is_empty())
                    .then(|| items.iter().map(|item| self.partial(item)).collect::<Vec<_>>()),
            }))),
            Shape::Table => {
                let items: Vec<&Value> = items.iter().map(|item| &**item).collect();
                let table = self.table(&items, &list_meta(meta, false), true, now);
                Ok(Listing::Shaped(table))
            }
        }
    }

    /// The name of a form in which every watcher gets the same bytes. Tables depend on the moment.
    pub(super) fn shared_form(&self, form: Form) -> Option<&'static str> {
        match (self.shape, self.version, form) {
            (Shape::Object, _, Form::Protobuf) => Some("protobuf"),
            (Shape::Object, _, _) => Some("json"),
            (Shape::Partial, "v1", Form::Protobuf) => Some("protobuf metadata v1"),
            (Shape::Partial, "v1", _) => Some("json metadata v1"),
            _ => None,
        }
    }

    /// The object of one watch event; `first` says whether a Table still has to name its columns.
    /// `None` when the shape does not fit a watch, which ends it.
    #[must_use]
    pub(super) fn event<'a>(&self, object: &'a Value, first: bool, now: Timestamp) -> Option<Cow<'a, Value>> {
        match self.shape {
            Shape::Object => Some(Cow::Borrowed(object)),
            Shape::Partial => Some(Cow::Owned(self.partial(object))),
            Shape::PartialList => None,
            Shape::Table => Some(Cow::Owned(self.table(&[object], &object_meta(object), first, now))),
        }
    }

    fn api_version(&self) -> String {
        format!("meta.k8s.io/{}", self.version)
    }

    fn partial(&self, object: &Value) -> Value {
        let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
        for name in self.resource.strategy.versioned_annotations() {
            let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
            let emptied = annotations.is_some_and(|all| all.remove(*name).is_some() && all.is_empty());
            if let Some(metadata) = metadata.as_object_mut().filter(|_| emptied) {
                metadata.remove("annotations");
            }
        }
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": self.api_version(),
            "metadata": metadata,
        })
    }

    fn table(&self, objects: &[&Value], metadata: &Value, columns: bool, now: Timestamp) -> Value {
        let columns = columns.then(|| {
            self.resource
                .strategy
                .columns()
                .iter()
                .map(column_definition)
                .collect::<Vec<_>>()
        });
        let mut objects: Vec<&Value> = objects.to_vec();
        if let Some(order) = self.resource.strategy.row_order() {
            objects.sort_by(|one, other| order(one, other));
        }
        let rows: Vec<Value> = objects.into_iter().map(|object| self.row(object, now)).collect();
        json!({
            "kind": "Table",
            "apiVersion": self.api_version(),
            "metadata": metadata,
            "columnDefinitions": columns,
            // A kind nobody made columns for has a Go list nothing was put into.
            "rows": (!rows.is_empty() || !self.has_plain_columns()).then_some(rows),
        })
    }

    fn has_plain_columns(&self) -> bool {
        let strategy = &self.resource.strategy;
        let mut columns = strategy.columns().into_iter();
        !strategy.is_custom() && columns.any(|column| column.name == "Created At")
    }

    fn row(&self, object: &Value, now: Timestamp) -> Value {
        let included = match self.include {
            Include::Metadata => self.partial(object),
            Include::Object => object.clone(),
            Include::Nothing => Value::Null,
        };
        let strategy = &self.resource.strategy;
        let mut row = json!({ "cells": strategy.cells(object, now), "object": included });
        if let Some(conditions) = strategy.row_conditions(object) {
            row["conditions"] = conditions;
        }
        row
    }

    fn wrong_number(&self, asked: &str, is_list: bool) -> ApiError {
        let what = if is_list { "a list" } else { "not a list" };
        let kind = if is_list {
            &self.resource.list_kind
        } else {
            &self.resource.kind
        };
        let go_type = go_type(&self.resource.group, kind, is_list);
        let message = format!("you requested {asked}, but the requested object is {what} ({go_type})");
        ApiError::new(406, "NotAcceptable", message)
    }
}

/// The Go type the server holds a kind in, which one of its messages shows.
fn go_type(group: &str, kind: &str, is_list: bool) -> String {
    if !super::builtin::is_builtin(group) {
        return format!("*unstructured.Unstructured{}", if is_list { "List" } else { "" });
    }
    let package = if group.is_empty() {
        "core"
    } else {
        group.split('.').next().unwrap_or(group)
    };
    format!("*{package}.{kind}")
}

fn column_definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

fn object_meta(object: &Value) -> Value {
    let version = object.pointer("/metadata/resourceVersion").cloned();
    version.map_or_else(|| json!({}), |version| json!({ "resourceVersion": version }))
}

/// Lists of custom resources show an empty token where others leave it out, but only as they are.
fn list_meta(meta: &ListMeta, bare: bool) -> Value {
    let mut members = Map::new();
    if meta.resource_version > 0 {
        members.insert("resourceVersion".into(), meta.resource_version.to_string().into());
    }
    if let Some(token) = &meta.continue_token
        && (bare || !token.is_empty())
    {
        members.insert("continue".into(), token.as_str().into());
    }
    if let Some(remaining) = meta.remaining {
        members.insert("remainingItemCount".into(), remaining.into());
    }
    Value::Object(members)
}
