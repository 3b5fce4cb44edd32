//! Paths into a schema, as selectable fields and rules' `fieldPath` name them.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::FieldError;
use serde_json::Value;

use super::text;
use crate::crd::structural::{Additional, Structural};

const MAX_SELECTABLE: usize = 8;

/// Follows `.a.b['c']` through a schema: the field's path as messages print it, and its schema.
///
/// # Errors
/// Why the path leads nowhere.
pub(crate) fn resolve<'a>(
    path: &str,
    schema: &'a Structural,
    brackets: bool,
) -> Result<(String, Option<&'a Structural>), String> {
    let mut tokens = tokenize(path).into_iter();
    let (mut printed, mut current) = (String::new(), Some(schema));
    let unexpected = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token.as_str() {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(unexpected)?;
                let name = unquote(&quoted)?;
                match tokens.next().ok_or_else(unexpected)?.as_str() {
                    "]" => name,
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => tokens.next().ok_or_else(unexpected)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        (printed, current) = step(&printed, current, &name)?;
    }
    Ok((printed, current))
}

fn step<'a>(
    printed: &str,
    schema: Option<&'a Structural>,
    name: &str,
) -> Result<(String, Option<&'a Structural>), String> {
    let lost = || "does not refer to a valid field".to_owned();
    let schema = schema.ok_or_else(lost)?;
    if !schema.properties.is_empty() {
        let next = schema.properties.get(name).ok_or_else(lost)?;
        let printed = if printed.is_empty() {
            name.to_owned()
        } else {
            format!("{printed}.{name}")
        };
        return Ok((printed, Some(next)));
    }
    match &schema.additional {
        Some(Additional::Schema(next)) => Ok((format!("{printed}[{name}]"), Some(next))),
        Some(Additional::Allowed(_)) => Ok((format!("{printed}[{name}]"), None)),
        None => Err(lost()),
    }
}

/// Splits at `.`, `[` and `]`; quoted text stays whole.
fn tokenize(path: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut previous = ' ';
    for c in path.chars() {
        let quoted = word.starts_with('\'');
        match c {
            '.' | '[' | ']' if !quoted => {
                if !word.is_empty() {
                    tokens.push(std::mem::take(&mut word));
                }
                tokens.push(c.to_string());
            }
            '\'' if quoted && previous != '\\' => {
                word.push(c);
                tokens.push(std::mem::take(&mut word));
            }
            _ => word.push(c),
        }
        previous = c;
    }
    if !word.is_empty() {
        tokens.push(word);
    }
    tokens
}

fn unquote(token: &str) -> Result<String, String> {
    let inner = token
        .strip_prefix('\'')
        .and_then(|t| t.strip_suffix('\''))
        .filter(|_| token.len() >= 2);
    let inner = inner.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some(escape @ ('\'' | '\\'))) => out.push(escape),
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some(other)) => {
                return Err(format!("invalid string literal: invalid escape char \\{other}"));
            }
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

/// Everything wrong with `selectableFields`.
pub(super) fn validate(fields: &[Value], schema: &Structural, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let at = format!("{path}[{index}].jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        match resolve(json_path, schema, false) {
            Err(why) => errors.push(FieldError::invalid(at, json_path, format!("is an invalid path: {why}"))),
            Ok((printed, found)) => {
                errors.extend(validate_one(&at, json_path, &printed, found));
                if !seen.insert(printed) {
                    errors.push(FieldError::duplicate(at, json_path));
                }
            }
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE));
    }
    errors
}

fn validate_one(at: &str, json_path: &str, printed: &str, found: Option<&Structural>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if printed.split(['.', '[']).next() == Some("metadata") {
        errors.push(FieldError::invalid(
            at,
            json_path,
            "must not point to fields in metadata",
        ));
    }
    if !found.is_some_and(|s| matches!(s.type_name.as_str(), "string" | "boolean" | "integer")) {
        let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
        errors.push(FieldError::invalid(at, json_path, detail));
    }
    errors
}
