//! Rules of a schema (`x-kubernetes-validations`), and their evaluation over an object.

mod convert;
mod declared;
mod program;
mod types;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_cel::{COST_EXCEEDED, NO_OVERLOAD, Val};

use crate::crd::ratchet::{Correlated, find_by_keys};
use crate::crd::structural::{Rule, Structural};
use program::Scope;

pub(super) use program::Compiled;

/// The rules of a schema node and of those below it that have any.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    own: Vec<Compiled>,
    all_of: Vec<Rules>,
    properties: BTreeMap<String, Rules>,
    additional: Option<Box<Rules>>,
    items: Option<Box<Rules>>,
    is_resource: bool,
}

impl Rules {
    /// Compiles every rule of `schema`.
    pub(crate) fn compile(schema: &Structural, is_resource: bool) -> Self {
        Self::compile_for(schema, schema, is_resource)
    }

    /// `values` has the rules and `spine` the types; they differ below `allOf`.
    fn compile_for(values: &Structural, spine: &Structural, is_resource: bool) -> Self {
        let below = |values: &Structural, spine: &Structural| {
            let rules = Self::compile_for(values, spine, spine.extensions.embedded_resource);
            (!rules.is_empty()).then_some(rules)
        };
        let pair = |values: Option<&Structural>, spine: Option<&Structural>| {
            values
                .zip(spine)
                .and_then(|(values, spine)| below(values, spine))
                .map(Box::new)
        };
        let properties = values.properties.iter().filter_map(|(name, property)| {
            let rules = below(property, spine.properties.get(name)?)?;
            Some((name.clone(), rules))
        });
        Self {
            own: values
                .rules
                .iter()
                .map(|rule| Compiled::new(rule, spine, is_resource))
                .collect(),
            all_of: values
                .all_of
                .iter()
                .map(|part| Self::compile_for(part, spine, is_resource))
                .collect(),
            properties: properties.collect(),
            additional: pair(values.additional_schema(), spine.additional_schema()),
            items: pair(values.items.as_deref(), spine.items.as_deref()),
            is_resource,
        }
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty()
            && self.all_of.iter().all(Self::is_empty)
            && self.properties.is_empty()
            && self.additional.is_none()
            && self.items.is_none()
    }

    /// Every rule `value` breaks. `pair` is for updates: what did not change is let through.
    pub(crate) fn validate(
        &self,
        schema: &Structural,
        value: &Value,
        old: Option<&Value>,
        pair: Option<Correlated<'_>>,
    ) -> Found {
        let mut found = Found::default();
        let ratchet = Ratchet {
            current: pair,
            above: None,
        };
        self.walk(
            &Place {
                schema,
                path: "",
                ratchet,
            },
            value,
            old,
            &mut found,
        );
        found
    }

    fn walk(&self, place: &Place<'_>, value: &Value, old: Option<&Value>, found: &mut Found) {
        if value.is_null() || found.stopped {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.evaluate(place, value, old, found);
        for part in &self.all_of {
            let ratchet = Ratchet {
                current: None,
                above: place.ratchet.above,
            };
            part.walk(&Place { ratchet, ..*place }, value, old, found);
        }
        match value {
            Value::Array(items) => self.walk_items(place, items, old, found),
            Value::Object(map) => self.walk_members(place, map, old, found),
            _ => {}
        }
    }

    fn walk_items(&self, place: &Place<'_>, items: &[Value], old: Option<&Value>, found: &mut Found) {
        let (Some(rules), Some(schema)) = (&self.items, place.schema.items.as_deref()) else {
            return;
        };
        let old_items = old.and_then(Value::as_array);
        for (index, item) in items.iter().enumerate() {
            let old_item = old_items.and_then(|old| find_by_keys(place.schema, old, item));
            let path = format!("{}[{index}]", place.path);
            let below = Place {
                schema,
                path: &path,
                ratchet: place.ratchet.index(index),
            };
            rules.walk(&below, item, old_item, found);
        }
    }

    fn walk_members(&self, place: &Place<'_>, map: &Map<String, Value>, old: Option<&Value>, found: &mut Found) {
        let (schema, path) = (place.schema, place.path);
        for (name, member) in map {
            let old_member = old.and_then(|old| old.get(name));
            let ratchet = place.ratchet.key(name);
            let walk = |rules: &Self, schema, path: &str, found: &mut Found| {
                let below = Place { schema, path, ratchet };
                rules.walk(&below, member, old_member, found);
            };
            let any = self.additional.as_ref().zip(schema.additional_schema());
            if let Some((rules, schema)) = any {
                walk(rules, schema, &format!("{path}[{name}]"), found);
            }
            let this = self.properties.get(name);
            if let Some((rules, schema)) = this.zip(schema.properties.get(name)) {
                walk(rules, schema, &child(path, name), found);
            }
        }
    }

    fn evaluate(&self, place: &Place<'_>, value: &Value, old: Option<&Value>, found: &mut Found) {
        if self.own.is_empty() {
            return;
        }
        let scope = if self.is_resource {
            let visible = old.map(visible_part);
            Scope::new(&visible_part(value), visible.as_ref(), place.schema)
        } else {
            Scope::new(value, old, place.schema)
        };
        let optional = scope.with_optional_old();
        for compiled in &self.own {
            if found.stopped {
                return;
            }
            let scope = if compiled.rule.optional_old_self {
                &optional
            } else {
                &scope
            };
            evaluate_one(compiled, scope, place, value, found);
        }
    }
}

/// What rules found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) errors: Vec<FieldError>,
    /// Failures an update may keep because it does not touch them; clients are warned.
    pub(crate) kept: Vec<FieldError>,
    /// A rule took too long, so no other is tried.
    stopped: bool,
}

/// Where in an object and its schema a walk is.
#[derive(Clone, Copy)]
struct Place<'a> {
    schema: &'a Structural,
    path: &'a str,
    ratchet: Ratchet<'a>,
}

impl Place<'_> {
    /// An error about a rule rather than the value, which is shown by its type only.
    fn trouble(&self, detail: String) -> FieldError {
        let at = if self.path.is_empty() { "<nil>" } else { self.path };
        FieldError::invalid(at, self.schema.type_name.as_str(), detail)
    }
}

/// What the value was before, or what the nearest value above that can be told was.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    current: Option<Correlated<'a>>,
    above: Option<Correlated<'a>>,
}

impl Ratchet<'_> {
    fn key(&self, name: &str) -> Self {
        match self.current {
            None => *self,
            // A change of version is not visible here, so these two are always checked.
            Some(_) if self.above.is_none() && matches!(name, "apiVersion" | "kind") => Self {
                current: None,
                above: None,
            },
            Some(pair) => Self {
                current: pair.key(name),
                above: self.current,
            },
        }
    }

    fn index(&self, index: usize) -> Self {
        match self.current {
            None => *self,
            Some(pair) => Self {
                current: pair.index(index),
                above: self.current,
            },
        }
    }

    fn unchanged(&self) -> bool {
        self.current.or(self.above).is_some_and(|pair| pair.unchanged())
    }
}

fn evaluate_one(compiled: &Compiled, scope: &Scope, place: &Place<'_>, value: &Value, found: &mut Found) {
    let outcome = match &compiled.program {
        Ok(None) => return,
        Ok(Some(program)) if program.uses_old_self && scope.old.is_none() => return,
        Ok(Some(program)) => program.run(scope).map(|value| (value, program.uses_old_self)),
        Err(why) => {
            return found.errors.push(place.trouble(format!("rule compile error: {why}")));
        }
    };
    match outcome {
        Ok((Val::Bool(true), _)) => {}
        Ok((_, false)) if place.ratchet.unchanged() => {
            found.kept.push(failure(compiled, scope, place, value));
        }
        Ok(_) => found.errors.push(failure(compiled, scope, place, value)),
        Err(why) => {
            found.stopped = why == COST_EXCEEDED;
            found.errors.push(place.trouble(explain(&why, compiled.name())));
        }
    }
}

/// A runtime error as the server words it.
fn explain(why: &str, name: &str) -> String {
    let reason = match why {
        COST_EXCEEDED => "no further validation rules will be run due to call cost exceeds limit",
        why if why.starts_with(NO_OVERLOAD) => {
            "call arguments did not match a supported operator, function or macro signature"
        }
        why => return format!("{why} evaluating rule: {name}"),
    };
    format!("'{why}': {reason} for rule: {name}")
}

fn failure(compiled: &Compiled, scope: &Scope, place: &Place<'_>, value: &Value) -> FieldError {
    let Rule { reason, .. } = &compiled.rule;
    let field = match (place.path, compiled.field.as_str()) {
        ("", "") => "<nil>".to_owned(),
        (path, "") => path.to_owned(),
        (path, field) => child(path, field),
    };
    let shown = !matches!(place.schema.type_name.as_str(), "object" | "array");
    let (kind, detail) = match reason.as_deref() {
        Some("FieldValueForbidden") => (ErrorType::Forbidden, compiled.detail(scope)),
        Some("FieldValueRequired") => (ErrorType::Required, compiled.detail(scope)),
        Some("FieldValueDuplicate") => (ErrorType::Duplicate, String::new()),
        _ => (ErrorType::Invalid, compiled.detail(scope)),
    };
    FieldError {
        kind,
        field,
        value: shown.then(|| value.clone()),
        detail,
    }
}

/// Of a resource's metadata rules see only its name.
fn visible_part(object: &Value) -> Value {
    let mut visible = object.clone();
    if let Some(metadata) = visible.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| matches!(key.as_str(), "name" | "generateName"));
    }
    visible
}

fn child(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_owned(),
        (path, name) if name.starts_with('[') => format!("{path}{name}"),
        (path, name) => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Compiled, Rules};
    use crate::crd::structural::{Rule, Structural};

    #[test]
    fn expressions_compile_or_fail_as_on_the_real_server() {
        let data: Value = serde_json::from_str(include_str!("testdata/expressions.json")).expect("test data is JSON");
        let schema = Structural::parse(&data["schema"]);
        let mut wrong = Vec::new();
        for case in data["cases"].as_array().expect("cases") {
            let source = case["rule"].as_str().expect("a rule");
            let rule = Rule {
                rule: source.to_owned(),
                ..Rule::default()
            };
            let error = Compiled::new(&rule, &schema, false).program.err();
            if error.as_deref() != case["error"].as_str() {
                wrong.push(format!(
                    "{source}\n  real: {:?}\n  ours: {error:?}",
                    case["error"].as_str()
                ));
            }
        }
        assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn rules_evaluate_as_on_the_real_server() {
        let data: Value = serde_json::from_str(include_str!("testdata/evaluations.json")).expect("test data is JSON");
        let mut wrong = Vec::new();
        for case in data["cases"].as_array().expect("cases") {
            let schema = Structural::parse(&json!({ "type": "object", "properties": { "spec": {
                "type": "object", "properties": data["properties"],
                "x-kubernetes-validations": [{ "rule": case["rule"], "message": "m" }]
            }}}));
            let errors = Rules::compile(&schema, true)
                .validate(&schema, &data["object"], None, None)
                .errors;
            let causes: Vec<Value> = errors
                .iter()
                .map(aplomb_apimachinery::field::FieldError::cause)
                .collect();
            if Value::from(causes.clone()) != case["causes"] {
                wrong.push(format!(
                    "{}\n  real: {}\n  ours: {}",
                    case["rule"],
                    case["causes"],
                    Value::from(causes)
                ));
            }
        }
        assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn a_rule_that_takes_too_long_is_stopped() {
        let rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))";
        let schema = Structural::parse(&json!({
            "type": "array", "items": { "type": "integer" }, "x-kubernetes-validations": [{ "rule": rule }, { "rule": "false" }]
        }));
        let list: Vec<i64> = (0..100).collect();
        let found = Rules::compile(&schema, false).validate(&schema, &json!(list), None, None);
        let messages: Vec<String> = found
            .errors
            .iter()
            .map(aplomb_apimachinery::field::FieldError::body)
            .collect();
        let expected = format!(
            "Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
        );
        assert_eq!(messages, [expected]);
    }
}
