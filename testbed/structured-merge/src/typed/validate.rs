//! Does a value fit its type?

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Form, Mismatches, check_scalar, form, item_element};
use crate::path::PathElement;
use crate::schema::{ListRelationship, ListType, MapType, Schema, TypeId};
use crate::value::go_value;

/// Checks a value. Stored objects may hold duplicates in associative lists, applied ones may not.
///
/// # Errors
/// Everything that does not fit.
pub fn validate(schema: &Schema, kind: TypeId, value: &Value, allow_duplicates: bool) -> Result<(), Mismatches> {
    let mut found = Mismatches(Vec::new());
    Walk {
        schema,
        allow_duplicates,
    }
    .visit(kind, value, &mut found);
    if found.0.is_empty() { Ok(()) } else { Err(found) }
}

struct Walk<'s> {
    schema: &'s Schema,
    allow_duplicates: bool,
}

impl Walk<'_> {
    fn visit(&self, kind: TypeId, value: &Value, found: &mut Mismatches) {
        let result = match form(self.schema.atom(kind), value) {
            Some(Form::Map(map)) => match value {
                Value::Null => Ok(()),
                Value::Object(fields) => return self.map(map, fields, found),
                other => Err(Mismatches::new(format!("expected map, got &{{{}}}", go_value(other)))),
            },
            Some(Form::Scalar(scalar)) => check_scalar(scalar, Some(value), ""),
            Some(Form::List(list)) => match value {
                Value::Null => Ok(()),
                Value::Array(items) => return self.list(list, items, found),
                other => Err(Mismatches::new(format!("expected list, got &{{{}}}", go_value(other)))),
            },
            None => Err(Mismatches::new("schema error: invalid atom: inlined")),
        };
        if let Err(mismatches) = result {
            found.0.extend(mismatches.0);
        }
    }

    fn below(&self, kind: TypeId, value: &Value, element: &PathElement, found: &mut Mismatches) {
        let mut inner = Mismatches(Vec::new());
        self.visit(kind, value, &mut inner);
        if !inner.0.is_empty() {
            found.0.extend(inner.below(element).0);
        }
    }

    fn map(&self, map: &MapType, fields: &Map<String, Value>, found: &mut Mismatches) {
        for (name, value) in fields {
            let mut inner = Mismatches(Vec::new());
            let Some(kind) = map.field(name) else {
                let undeclared = Mismatches::new("field not declared in schema");
                found.0.extend(undeclared.below(&PathElement::field(name.as_str())).0);
                return;
            };
            self.visit(kind, value, &mut inner);
            if !inner.0.is_empty() {
                found.0.extend(inner.below(&PathElement::field(name.as_str())).0);
            }
        }
    }

    fn list(&self, list: &ListType, items: &[Value], found: &mut Mismatches) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if list.relationship == ListRelationship::Atomic {
                let element = PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX));
                self.below(list.element, item, &element, found);
                continue;
            }
            let element = match item_element(self.schema, list, item) {
                Ok(element) => element,
                Err(why) => {
                    found.0.extend(Mismatches::new(format!("element {index}: {why}")).0);
                    return;
                }
            };
            if seen.contains(&element) && !self.allow_duplicates {
                found
                    .0
                    .extend(Mismatches::new(format!("duplicate entries for key {element}")).0);
            }
            self.below(list.element, item, &element, found);
            seen.insert(element);
        }
    }
}
