//! The expressions of a policy: whether they compile, and what stands beside them.

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_apimachinery::validation;
use aplomb_cel::{Expression, Mistake, RESERVED};
use serde_json::Value;

use super::super::value::{at, list, text};
use super::super::{check, require};
use crate::admission::compiler::{Compiler, Wanted};

const MAX_CONDITIONS: usize = 64;
const MAX_ANNOTATIONS: usize = 20;
const MAX_VALUE_BYTES: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Everything wrong with the expressions of the policy called `name`.
pub(super) fn validate(name: &str, spec: &Value) -> Vec<FieldError> {
    let has_params = at(spec, &["paramKind"]).is_object();
    let mut errors = conditions(list(spec, &["matchConditions"]), has_params);
    let declared = list(spec, &["variables"]);
    let mut compiler = match declared.is_empty() {
        true => Compiler::new(has_params),
        false => Compiler::composing(has_params),
    };
    let declare = |one: &Value, field: &str| variable(&mut compiler, one, field);
    errors.extend(require::each(spec, "variables", "spec", declare));
    let validations = list(spec, &["validations"]);
    let annotations = list(spec, &["auditAnnotations"]);
    if validations.is_empty() && annotations.is_empty() {
        for key in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(format!("spec.{key}"), why));
        }
        return errors;
    }
    let check = |one: &Value, field: &str| validation(&compiler, one, field);
    errors.extend(require::each(spec, "validations", "spec", check));
    errors.extend(audit_annotations(&compiler, name, annotations));
    errors
}

fn audit_annotations(compiler: &Compiler, policy: &str, annotations: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if annotations.len() > MAX_ANNOTATIONS {
        let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        let field = "spec.auditAnnotations";
        errors.push(FieldError::invalid(field, annotations.to_vec(), why));
    }
    for (index, one) in annotations.iter().enumerate() {
        let field = format!("spec.auditAnnotations[{index}]");
        errors.extend(annotation(compiler, policy, one, &field));
        let key = text(one, &["key"]);
        if annotations[..index]
            .iter()
            .any(|earlier| text(earlier, &["key"]) == key)
        {
            errors.push(FieldError::duplicate(format!("{field}.key"), key));
        }
    }
    errors
}

fn conditions(conditions: &[Value], has_params: bool) -> Vec<FieldError> {
    let compiler = Compiler::new(has_params);
    let mut errors = Vec::new();
    if conditions.len() > MAX_CONDITIONS {
        let (field, count) = ("spec.matchConditions", conditions.len());
        errors.push(FieldError::too_many(field, count, MAX_CONDITIONS));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let field = format!("spec.matchConditions[{index}]");
        let at_expression = format!("{field}.expression");
        match text(condition, &["expression"]).trim() {
            "" => errors.push(FieldError::required(at_expression, "")),
            source => {
                let compiled = compiler.compile(source, Wanted::Bool, true);
                errors.extend(mistake(compiled, &at_expression, source));
            }
        }
        let (name, at_name) = (text(condition, &["name"]), format!("{field}.name"));
        if name.is_empty() {
            errors.push(FieldError::required(at_name, ""));
            continue;
        }
        errors.extend(check::invalid(&at_name, name, validation::label_key(name)));
        if conditions[..index]
            .iter()
            .any(|earlier| text(earlier, &["name"]) == name)
        {
            errors.push(FieldError::duplicate(at_name, name));
        }
    }
    errors
}

/// What the server says about an expression that does not compile.
fn mistake(compiled: Result<Expression, Mistake>, field: &str, source: &str) -> Option<FieldError> {
    match compiled {
        Ok(_) => None,
        Err(Mistake::Invalid(why)) => Some(FieldError::invalid(field, source, why)),
        Err(Mistake::Internal(why)) => Some(FieldError {
            kind: ErrorType::Internal,
            field: field.to_owned(),
            value: None,
            detail: why,
        }),
    }
}

fn variable(compiler: &mut Compiler, variable: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, at_name) = (text(variable, &["name"]), format!("{field}.name"));
    if name.trim().is_empty() {
        errors.push(FieldError::required(at_name, "name is not specified"));
    } else if !is_identifier(name) {
        let why = "must be a valid CEL identifier";
        errors.push(FieldError::invalid(at_name, name, why));
    }
    let source = text(variable, &["expression"]);
    let at_expression = format!("{field}.expression");
    if source.trim().is_empty() {
        let why = "expression is not specified";
        errors.push(FieldError::required(at_expression, why));
        return errors;
    }
    let compiled = compiler.add_variable(name, source);
    errors.extend(mistake(compiled, &at_expression, source));
    errors
}

fn is_identifier(name: &str) -> bool {
    let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.chars().all(word)
        && !RESERVED.contains(&name)
}

fn validation(compiler: &Compiler, validation: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let source = text(validation, &["expression"]);
    let at_expression = format!("{field}.expression");
    if source.trim().is_empty() {
        let why = "expression is not specified";
        errors.push(FieldError::required(at_expression, why));
    } else {
        let compiled = compiler.compile(source, Wanted::Bool, true);
        errors.extend(mistake(compiled, &at_expression, source));
    }
    let source = text(validation, &["messageExpression"]);
    let at_message = format!("{field}.messageExpression");
    if !source.is_empty() && source.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid(at_message, source, why));
    } else if !source.is_empty() {
        let compiled = compiler.compile(source, Wanted::Text, false);
        errors.extend(mistake(compiled, &at_message, source));
    }
    let message = text(validation, &["message"]);
    let wrong = match message.trim() {
        "" if !message.is_empty() => Some("must be non-empty if specified"),
        trimmed if trimmed.contains(['\n', '\r']) => Some("must not contain line breaks"),
        _ => None,
    };
    errors.extend(wrong.map(|why| FieldError::invalid(format!("{field}.message"), message, why)));
    let reason = text(validation, &["reason"]);
    if !reason.is_empty() {
        errors.extend(check::one_of(&format!("{field}.reason"), reason, &REASONS));
    }
    errors
}

fn annotation(compiler: &Compiler, policy: &str, annotation: &Value, field: &str) -> Vec<FieldError> {
    let (key, at_key) = (text(annotation, &["key"]), format!("{field}.key"));
    let mut errors = if policy.is_empty() {
        let why = "requires metadata.name be non-empty";
        vec![FieldError::invalid(at_key, key, why)]
    } else {
        let full = format!("{policy}/{key}");
        check::invalid(&at_key, &full, validation::label_key(&full))
    };
    let stated = text(annotation, &["valueExpression"]);
    let at_value = format!("{field}.valueExpression");
    let source = stated.trim();
    if source.is_empty() {
        let why = "valueExpression is not specified";
        errors.push(FieldError::required(at_value, why));
    } else if source.len() > MAX_VALUE_BYTES {
        let why = format!("must not exceed {MAX_VALUE_BYTES} bytes in length");
        errors.push(FieldError::required(at_value, why));
    } else {
        let compiled = compiler.compile(source, Wanted::TextOrNull, true);
        errors.extend(mistake(compiled, &at_value, stated));
    }
    errors
}
