//! How CustomResourceDefinition objects behave.

use std::sync::OnceLock;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::{Column, Decoded, Part, PatchMeta, Strategy};
use aplomb_apimachinery::status::ApiError;
use aplomb_apimachinery::validation::custom::dns_subdomain;
use aplomb_builtin_kinds as kinds;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{default, spec, text, versions};
use crate::crd::columns;
use crate::crd::structural::Structural;
use crate::crd::validate::formats;

/// The strategy of `customresourcedefinitions`.
#[derive(Debug, Default)]
pub struct DefinitionStrategy {
    schema: OnceLock<Value>,
}

impl Strategy for DefinitionStrategy {
    fn decode(&self, body: Value) -> Result<Decoded, ApiError> {
        kinds::decode_custom_resource_definition(body)
    }

    fn patch_meta(&self) -> Option<Box<dyn PatchMeta + '_>> {
        Some(kinds::custom_resource_definition_patch_meta(self.openapi()))
    }

    fn convert_patched(&self, merged: Value) -> Result<Decoded, String> {
        kinds::convert_patched_custom_resource_definition(merged)
    }

    fn default(&self, object: &mut Value) {
        default::default(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        default::reset_status(object);
        object["metadata"]["generation"] = 1.into();
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        match part {
            Part::Main => {
                object["status"] = old["status"].clone();
                let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
                let step = i64::from(object["spec"] != old["spec"]);
                object["metadata"]["generation"] = (generation + step).into();
                default::remember_storage_version(object);
            }
            Part::Status => object["spec"] = old["spec"].clone(),
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors: Vec<FieldError> = validate_own_name(object).into_iter().collect();
        errors.extend(spec::validate(object, None));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        match part {
            Part::Main => spec::validate(object, Some(old)),
            Part::Status => spec::validate_status(object),
        }
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn bare_list_items(&self) -> bool {
        true
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        dns_subdomain(name, prefix)
    }

    fn openapi(&self) -> &Value {
        self.schema.get_or_init(kinds::custom_resource_definition_openapi)
    }

    fn reset_fields(&self, part: Part) -> Vec<Vec<String>> {
        match part {
            Part::Main => vec![vec!["status".to_owned()]],
            Part::Status => vec![vec!["spec".to_owned()]],
        }
    }

    fn selectable_fields(&self, _object: &Value) -> Vec<(String, String)> {
        Vec::new()
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let mut found = Vec::new();
        for version in versions(object) {
            if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
                unrecognized_formats(&Structural::parse(schema), &mut found);
            }
        }
        found
            .iter()
            .map(|format| format!("unrecognized format \"{format}\""))
            .collect()
    }

    fn update_warnings(&self, object: &Value, old: &Value) -> Vec<String> {
        let known = self.warnings(old);
        self.warnings(object)
            .into_iter()
            .filter(|warning| !known.contains(warning))
            .collect()
    }

    fn columns(&self) -> Vec<Column> {
        columns::of_definitions()
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        let empty = Map::new();
        let metadata = object["metadata"].as_object().unwrap_or(&empty);
        let cell = |key: &str| metadata.get(key).cloned().unwrap_or_default();
        vec![cell("name"), cell("creationTimestamp")]
    }
}

/// A definition is named after what it defines.
fn validate_own_name(object: &Value) -> Option<FieldError> {
    let name = text(&object["metadata"], "name");
    let names = &object["spec"]["names"];
    let wanted = format!("{}.{}", text(names, "plural"), text(&object["spec"], "group"));
    let detail = "must be spec.names.plural+\".\"+spec.group";
    (name != wanted).then(|| FieldError::invalid("metadata.name", name, detail))
}

fn unrecognized_formats(schema: &Structural, found: &mut Vec<String>) {
    if !schema.format.is_empty() && formats::supported(schema).is_empty() {
        found.push(schema.format.clone());
    }
    schema.items.iter().for_each(|items| unrecognized_formats(items, found));
    let nested = schema
        .all_of
        .iter()
        .chain(&schema.any_of)
        .chain(&schema.one_of)
        .chain(schema.not.as_deref());
    nested.for_each(|nested| unrecognized_formats(nested, found));
    schema
        .properties
        .values()
        .for_each(|property| unrecognized_formats(property, found));
    schema
        .additional_schema()
        .into_iter()
        .for_each(|additional| unrecognized_formats(additional, found));
}
