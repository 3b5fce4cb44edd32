//! `x-kubernetes-validations` in a definition: their form, and whether they compile.

use aplomb_apimachinery::field::FieldError;
use serde_json::Value;

use super::costs::{self, Costs};
use super::spec::printed;
use super::{dump, selectable, text};
use crate::crd::rules::Compiled;
use crate::crd::structural::Structural;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Everything wrong with the members of a node's rules, short of compiling them.
pub(super) fn validate_form(schema: &Value, path: &str) -> Vec<FieldError> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    let mut errors = Vec::new();
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let at = format!("{path}.x-kubernetes-validations[{index}]");
        errors.extend(validate_texts(rule, &at));
        errors.extend(validate_reason(rule, &at));
        errors.extend(validate_field_path(rule, schema, &at));
    }
    errors
}

fn validate_texts(rule: &Value, at: &str) -> Vec<FieldError> {
    let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
    let message_at = format!("{at}.message");
    let mut errors = Vec::new();
    if expression.is_empty() {
        errors.push(FieldError::required(format!("{at}.rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(
            message_at,
            message,
            "must be non-empty if specified",
        ));
    } else if has_line_breaks(message.trim()) {
        errors.push(FieldError::invalid(message_at, message, "must not contain line breaks"));
    } else if has_line_breaks(expression) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(message_at, detail));
    }
    let expression = text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(format!("{at}.messageExpression"), detail));
    }
    errors
}

fn validate_reason(rule: &Value, at: &str) -> Option<FieldError> {
    let reason = rule.get("reason").and_then(Value::as_str)?;
    (!REASONS.contains(&reason)).then(|| FieldError::not_supported(format!("{at}.reason"), reason, &REASONS))
}

fn validate_field_path(rule: &Value, schema: &Value, at: &str) -> Vec<FieldError> {
    let field_path = text(rule, "fieldPath");
    let at = format!("{at}.fieldPath");
    let mut errors = Vec::new();
    if field_path.is_empty() {
        return errors;
    }
    if field_path.trim().is_empty() {
        errors.push(FieldError::invalid(
            at.clone(),
            field_path,
            "must be non-empty if specified",
        ));
    }
    if has_line_breaks(field_path) {
        errors.push(FieldError::invalid(
            at.clone(),
            field_path,
            "must not contain line breaks",
        ));
    }
    if selectable::resolve(field_path, &Structural::parse(schema), true).is_err() {
        errors.push(FieldError::invalid(at, field_path, "must be a valid path"));
    }
    errors
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Everything wrong with the expressions of a schema. Nodes at or above a schema error are passed
/// over: their types are not known.
pub(super) fn validate_expressions(
    raw: &Value,
    schema: &Structural,
    path: &str,
    known: &[FieldError],
) -> Vec<FieldError> {
    let mut walk = Walk {
        known,
        errors: Vec::new(),
        costs: Costs::default(),
    };
    walk.node(&Place {
        raw,
        schema,
        path,
        is_resource: true,
        lost: None,
        cardinality: Some(1),
    });
    let mut errors = walk.errors;
    errors.extend(walk.costs.judge(path));
    errors
}

struct Walk<'a> {
    known: &'a [FieldError],
    errors: Vec<FieldError>,
    costs: Costs,
}

/// A node of the schema and what its ancestors say about it.
struct Place<'a> {
    raw: &'a Value,
    schema: &'a Structural,
    path: &'a str,
    is_resource: bool,
    /// The first ancestor whose children have no counterpart in an old object.
    lost: Option<&'a str>,
    /// How many values of the node there may be; unknown below a list or map without a limit.
    cardinality: Option<u64>,
}

impl Walk<'_> {
    fn node(&mut self, place: &Place<'_>) {
        let Place { raw, schema, .. } = *place;
        if let Some(additional) = schema.additional_schema() {
            let raw = &raw["additionalProperties"];
            self.below(place, raw, additional, "additionalProperties", None);
        }
        for (name, property) in &schema.properties {
            let raw = &raw["properties"][name];
            self.below(place, raw, property, &format!("properties[{name}]"), None);
        }
        if let Some(items) = schema.items.as_deref() {
            let is_map = schema.extensions.list_type.as_deref() == Some("map");
            let lost = if is_map { None } else { Some(place.path) };
            self.below(place, &raw["items"], items, "items", lost);
        }
        let is_wrong = |error: &FieldError| error.field.starts_with(place.path);
        if self.known.iter().any(is_wrong) {
            return;
        }
        for (index, rule) in schema.rules.iter().enumerate() {
            let compiled = Compiled::new(rule, schema, place.is_resource);
            let at = format!("{}.x-kubernetes-validations[{index}]", place.path);
            let costs = compiled.costs(schema, place.is_resource, place.cardinality);
            self.errors.extend(self.costs.observe(&at, costs.0));
            let raw = &raw["x-kubernetes-validations"][index];
            self.rule(&compiled, raw, &at, place.lost, costs.1);
        }
    }

    fn below(&mut self, above: &Place<'_>, raw: &Value, schema: &Structural, step: &str, lost: Option<&str>) {
        let path = format!("{}.{step}", above.path);
        let most = costs::most_elements(above.schema);
        let cardinality = above
            .cardinality
            .zip(most)
            .map(|(above, most)| above.saturating_mul(most));
        self.node(&Place {
            raw,
            schema,
            path: &path,
            is_resource: schema.extensions.embedded_resource,
            lost: above.lost.or(lost),
            cardinality,
        });
    }

    fn rule(&mut self, compiled: &Compiled, raw: &Value, at: &str, lost: Option<&str>, message_cost: Option<u64>) {
        let shown = dump::rule(raw);
        if let Err(why) = &compiled.program {
            self.errors.push(printed(&format!("{at}.rule"), &shown, why));
        }
        if let Some(why) = &compiled.message_error {
            self.errors
                .push(printed(&format!("{at}.messageExpression"), &shown, why));
        } else if let Some(cost) = message_cost {
            self.errors.extend(self.costs.observe_message(at, cost));
        }
        let uses_old_self = matches!(&compiled.program, Ok(Some(program)) if program.uses_old_self);
        if let (true, Some(lost)) = (uses_old_self, lost) {
            let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {lost}");
            self.errors
                .push(FieldError::invalid(format!("{at}.rule"), text(raw, "rule"), detail));
        }
        if let (false, Some(optional)) = (uses_old_self, raw.get("optionalOldSelf")) {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(
                format!("{at}.optionalOldSelf"),
                optional.clone(),
                detail,
            ));
        }
    }
}
