//! Objects and lists in the shape a client asked for: as they are, as a Table, or only metadata.
//!
//! Cells come from the kind's strategy; this file knows only the frames around them.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::negotiate::{Output, Shape};
use super::query::Query;
use crate::resource::{Column, Resource};
use crate::status::ApiError;

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
    /// `resourceVersion`.
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
    pub(super) fn new(
        resource: Arc<Resource>,
        output: &Output,
        query: &Query,
    ) -> Result<Self, ApiError> {
        let include = match query.first("includeObject").unwrap_or_default() {
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            "None" => Include::Nothing,
            other if output.shape == Shape::Table => {
                let quoted = crate::field::go_quote(other);
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
    pub(super) fn object(&self, object: &Value, now: Timestamp) -> Result<Value, ApiError> {
        if object.get("kind").and_then(Value::as_str) == Some("Status") {
            return Ok(object.clone());
        }
        match self.shape {
            Shape::Object => Ok(object.clone()),
            Shape::Partial => Ok(self.partial(object)),
            Shape::PartialList => Err(self.wrong_number("PartialObjectMetadataList", false)),
            Shape::Table => Ok(self.table(
                std::slice::from_ref(object),
                &object_meta(object),
                true,
                now,
            )),
        }
    }

    /// A list.
    ///
    /// # Errors
    /// 406 when one object was asked for.
    pub(super) fn list(
        &self,
        items: &[Arc<Value>],
        meta: &ListMeta,
        now: Timestamp,
    ) -> Result<Value, ApiError> {
        match self.shape {
            Shape::Object => Ok(json!({
                "kind": self.resource.list_kind,
                "apiVersion": self.resource.api_version(),
                "metadata": list_meta(meta, true),
                "items": items.iter().map(|item| item.as_ref().clone()).collect::<Vec<_>>(),
            })),
            Shape::Partial => Err(self.wrong_number("PartialObjectMetadata", true)),
            Shape::PartialList => Ok(json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": self.api_version(),
                "metadata": list_meta(meta, false),
                // A Go list nothing was put into.
                "items": (!items.is_empty())
                    .then(|| items.iter().map(|item| self.partial(item)).collect::<Vec<_>>()),
            })),
            Shape::Table => {
                let items: Vec<Value> = items.iter().map(|item| item.as_ref().clone()).collect();
                Ok(self.table(&items, &list_meta(meta, false), true, now))
            }
        }
    }

    /// The object of one watch event; `first` says whether a Table still has to name its columns.
    /// `None` when the shape does not fit a watch, which ends it.
    #[must_use]
    pub(super) fn event<'a>(
        &self,
        object: &'a Value,
        first: bool,
        now: Timestamp,
    ) -> Option<Cow<'a, Value>> {
        match self.shape {
            Shape::Object => Some(Cow::Borrowed(object)),
            Shape::Partial => Some(Cow::Owned(self.partial(object))),
            Shape::PartialList => None,
            Shape::Table => Some(Cow::Owned(self.table(
                std::slice::from_ref(object),
                &object_meta(object),
                first,
                now,
            ))),
        }
    }

    fn api_version(&self) -> String {
        format!("meta.k8s.io/{}", self.version)
    }

    fn partial(&self, object: &Value) -> Value {
        let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": self.api_version(),
            "metadata": metadata,
        })
    }

    fn table(&self, objects: &[Value], metadata: &Value, columns: bool, now: Timestamp) -> Value {
        let columns = columns.then(|| {
            self.resource
                .strategy
                .columns()
                .iter()
                .map(column_definition)
                .collect::<Vec<_>>()
        });
        let rows: Vec<Value> = objects.iter().map(|object| self.row(object, now)).collect();
        json!({
            "kind": "Table",
            "apiVersion": self.api_version(),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    fn row(&self, object: &Value, now: Timestamp) -> Value {
        let included = match self.include {
            Include::Metadata => self.partial(object),
            Include::Object => self.typed(object),
            Include::Nothing => Value::Null,
        };
        json!({ "cells": self.resource.strategy.cells(object, now), "object": included })
    }

    /// Items of built-in lists do not say what they are; rows do.
    fn typed(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(members) = object.as_object_mut() {
            members
                .entry("kind")
                .or_insert_with(|| self.resource.kind.as_str().into());
            members
                .entry("apiVersion")
                .or_insert_with(|| self.resource.api_version().into());
        }
        object
    }

    fn wrong_number(&self, asked: &str, is_list: bool) -> ApiError {
        let what = if is_list { "a list" } else { "not a list" };
        let kind = if is_list {
            &self.resource.list_kind
        } else {
            &self.resource.kind
        };
        let go_type = go_type(&self.resource.group, kind, is_list);
        let message =
            format!("you requested {asked}, but the requested object is {what} ({go_type})");
        ApiError::new(406, "NotAcceptable", message)
    }
}

/// The Go type the server holds a kind in, which one of its messages shows.
fn go_type(group: &str, kind: &str, is_list: bool) -> String {
    if !super::builtin::is_builtin(group) {
        return format!(
            "*unstructured.Unstructured{}",
            if is_list { "List" } else { "" }
        );
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
    version.map_or_else(
        || json!({}),
        |version| json!({ "resourceVersion": version }),
    )
}

/// Lists of custom resources show an empty token where others leave it out, but only as they are.
fn list_meta(meta: &ListMeta, bare: bool) -> Value {
    let mut members = Map::new();
    members.insert(
        "resourceVersion".into(),
        meta.resource_version.to_string().into(),
    );
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
