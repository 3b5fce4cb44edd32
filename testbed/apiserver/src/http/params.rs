//! Query parameters (and the body of a DELETE) as options of a call, with the server's validation.
//!
//! Selectors are handed on as text; `registry` parses them.

use aplomb_apimachinery::field::{ErrorType, FieldError, go_quote};
use aplomb_apimachinery::query::Query;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use serde_json::{Value, json};

use crate::call::{DeleteOptions, FieldValidation, Options, PatchType, Verb};

const MAX_FIELD_MANAGER: usize = 128;
const FIELD_VALIDATION: [&str; 4] = ["", "Ignore", "Strict", "Warn"];
const PROPAGATION: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];

/// Options of a read or a deletion of a collection.
///
/// # Errors
/// 400 for a bad number, 422 for options that do not go together.
pub(super) fn list(query: &Query, verb: Verb) -> Result<Options, ApiError> {
    let options = Options {
        label_selector: text(query, "labelSelector"),
        field_selector: text(query, "fieldSelector"),
        allow_watch_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
        resource_version: text(query, "resourceVersion"),
        resource_version_match: text(query, "resourceVersionMatch"),
        timeout_seconds: number(query, "timeoutSeconds")?,
        limit: number(query, "limit")?,
        continue_token: text(query, "continue"),
        send_initial_events: query.flag("sendInitialEvents"),
        ..Options::default()
    };
    // Whether the options of a list go together is looked at after its selectors are parsed.
    if verb == Verb::Watch {
        refuse("ListOptions", &watch_errors(&options))?;
    }
    Ok(options)
}

fn watch_errors(options: &Options) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rule = |why: &str| FieldError::forbidden("resourceVersionMatch", why);
    // A watch from "any version" is given initial events by default, and is then judged by them.
    let from_any = matches!(options.resource_version.as_deref(), None | Some("0"));
    let unset = options.send_initial_events.is_none() && options.resource_version_match.is_none();
    let given = match &options.resource_version_match {
        None if from_any && unset => "NotOlderThan",
        given => given.as_deref().unwrap_or_default(),
    };
    let initial = options.send_initial_events.is_some() || (from_any && unset);
    if initial && given != "NotOlderThan" {
        errors.push(rule(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if given.is_empty() {
        return errors;
    }
    if !initial {
        errors.push(rule(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    if given != "NotOlderThan" {
        errors.push(FieldError::not_supported(
            "resourceVersionMatch",
            given,
            &["NotOlderThan"],
        ));
    }
    if options.continue_token.is_some() {
        errors.push(rule("resourceVersionMatch is forbidden when continue is provided"));
    }
    errors
}

/// Options of a GET of one object.
///
/// # Errors
/// 500, as the server has it, for a version no store can reach.
pub(super) fn get(query: &Query) -> Result<Options, ApiError> {
    let options = Options {
        resource_version: text(query, "resourceVersion"),
        ..Options::default()
    };
    check_range(&options, Verb::Get)?;
    Ok(options)
}

/// Refuses versions that are numbers, but larger than any version can be.
fn check_range(options: &Options, verb: Verb) -> Result<(), ApiError> {
    let given = options.resource_version.as_deref().unwrap_or_default();
    let digits = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || given.parse::<u64>().is_ok() {
        return Ok(());
    }
    let quoted = go_quote(given);
    let why =
        format!("resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: value out of range");
    Err(match verb {
        Verb::Get | Verb::Watch => ApiError::new(500, "", why),
        _ => ApiError::bad_request(format!("invalid resource version: {why}")),
    })
}

/// Options of a POST (`CreateOptions`) or a PUT (`UpdateOptions`).
///
/// # Errors
/// 422 for values that are not supported.
pub(super) fn write(query: &Query, kind: &str) -> Result<Options, ApiError> {
    let mut errors = Vec::new();
    let options = write_options(query, &mut errors);
    refuse(kind, &errors)?;
    Ok(options)
}

/// Options of a PATCH.
///
/// # Errors
/// 422 for values that are not supported or missing.
pub(super) fn patch(query: &Query, patch_type: PatchType) -> Result<Options, ApiError> {
    let mut errors = Vec::new();
    let force = query.flag("force");
    if patch_type == PatchType::Apply {
        if query.first("fieldManager").unwrap_or_default().is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
    } else if force.is_some() {
        errors.push(FieldError::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    let options = Options {
        force,
        ..write_options(query, &mut errors)
    };
    refuse("PatchOptions", &errors)?;
    Ok(options)
}

fn write_options(query: &Query, errors: &mut Vec<FieldError>) -> Options {
    let manager = query.first("fieldManager").unwrap_or_default();
    errors.extend(field_manager_errors(manager));
    let dry_run = dry_run(&query.all("dryRun").collect::<Vec<_>>(), errors);
    let directive = query.first("fieldValidation").unwrap_or_default();
    if !FIELD_VALIDATION.contains(&directive) {
        errors.push(FieldError::not_supported(
            "fieldValidation",
            directive,
            &FIELD_VALIDATION,
        ));
    }
    let field_validation = match directive {
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        _ => FieldValidation::Warn,
    };
    let field_manager = (!manager.is_empty()).then(|| manager.to_owned());
    Options {
        dry_run,
        field_manager,
        field_validation,
        ..Options::default()
    }
}

fn field_manager_errors(manager: &str) -> Option<FieldError> {
    if manager.len() > MAX_FIELD_MANAGER {
        return Some(FieldError::too_long("fieldManager", MAX_FIELD_MANAGER));
    }
    let (at, c) = manager
        .char_indices()
        .find(|(_, c)| c.is_control() || *c == '\u{fffd}')?;
    let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
    Some(FieldError::invalid("fieldManager", manager, detail))
}

fn dry_run(given: &[&str], errors: &mut Vec<FieldError>) -> bool {
    if given.iter().any(|value| *value != "All") {
        let value = Value::from(given.to_vec());
        let detail = format!("supported values: {}", go_quote("All"));
        errors.push(FieldError::new(ErrorType::NotSupported, "dryRun", value, detail));
    }
    !given.is_empty()
}

/// Options of a DELETE: the body says everything if there is one, else the query.
///
/// # Errors
/// 400 for a bad number, 422 for values that are not supported.
pub(super) fn delete(query: &Query, body: Option<&Value>) -> Result<Options, ApiError> {
    let (delete, dry) = match body {
        Some(body) => from_body(body)?,
        None => (from_query(query)?, query.all("dryRun").map(str::to_owned).collect()),
    };
    let mut errors = Vec::new();
    if let Some(policy) = &delete.propagation_policy {
        if delete.orphan_dependents.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy.as_str(), why));
        } else if !PROPAGATION[..3].contains(&policy.as_str()) {
            let field = "propagationPolicy";
            errors.push(FieldError::not_supported(field, policy.as_str(), &PROPAGATION));
        }
    }
    let dry: Vec<&str> = dry.iter().map(String::as_str).collect();
    let dry_run = dry_run(&dry, &mut errors);
    refuse("DeleteOptions", &errors)?;
    Ok(Options {
        dry_run,
        delete,
        ..Options::default()
    })
}

fn from_query(query: &Query) -> Result<DeleteOptions, ApiError> {
    Ok(DeleteOptions {
        grace_period_seconds: number(query, "gracePeriodSeconds")?,
        propagation_policy: text(query, "propagationPolicy"),
        orphan_dependents: query.flag("orphanDependents"),
        uid: None,
        resource_version: None,
    })
}

fn from_body(body: &Value) -> Result<(DeleteOptions, Vec<String>), ApiError> {
    let typed = |field: &str, want: &str, ok: fn(&Value) -> bool| match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) if ok(value) => Ok(Some(value)),
        Some(value) => Err(type_error(field, value, want)),
    };
    let preconditions = typed("preconditions", "v1.Preconditions", Value::is_object)?;
    let precondition = |field: &str| {
        preconditions
            .and_then(|p| p.get(field))
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let string = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let dry = typed("dryRun", "[]string", Value::is_array)?.and_then(Value::as_array);
    let dry = dry
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let options = DeleteOptions {
        grace_period_seconds: typed("gracePeriodSeconds", "int64", Value::is_i64)?.and_then(Value::as_i64),
        propagation_policy: string(typed("propagationPolicy", "v1.DeletionPropagation", Value::is_string)?),
        orphan_dependents: typed("orphanDependents", "bool", Value::is_boolean)?.and_then(Value::as_bool),
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
    };
    Ok((options, dry))
}

fn type_error(field: &str, value: &Value, want: &str) -> ApiError {
    let got = match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        _ => "object",
    };
    ApiError::bad_request(format!(
        "json: cannot unmarshal {got} into Go struct field DeleteOptions.{field} of type {want}"
    ))
}

/// The manager a write is booked to: the parameter, or the client's name.
#[must_use]
pub(super) fn manager(query: &Query, user_agent: &str) -> String {
    let given = query.first("fieldManager").filter(|given| !given.is_empty());
    given
        .unwrap_or_else(|| user_agent.split('/').next().unwrap_or_default())
        .to_owned()
}

fn text(query: &Query, name: &str) -> Option<String> {
    query.first(name).filter(|value| !value.is_empty()).map(str::to_owned)
}

fn number(query: &Query, name: &str) -> Result<Option<i64>, ApiError> {
    let Some(given) = query.first(name) else {
        return Ok(None);
    };
    parse_int(given)
        .map(Some)
        .map_err(|why| ApiError::bad_request(format!("strconv.ParseInt: parsing {}: {why}", go_quote(given))))
}

fn parse_int(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}

fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let mut error = ApiError::invalid(&GroupResource::new("meta.k8s.io", kind), "", errors);
    if error.details.is_none() {
        error.details = Some(json!({}));
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(result: Result<Options, ApiError>) -> String {
        result.expect_err("refused").message
    }

    #[test]
    fn numbers_are_refused_in_gos_words() {
        let list = |raw: &str| refused(list(&Query::parse(raw), Verb::List));
        assert_eq!(list("limit=x"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(
            list("limit=99999999999999999999"),
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"
        );
    }

    #[test]
    fn a_watch_with_a_continue_token_is_judged_by_its_implied_initial_events() {
        let query = Query::parse("watch=1&continue=abc");
        let message = refused(list(&query, Verb::Watch));
        assert!(message.ends_with("resourceVersionMatch is forbidden when continue is provided"));
        let pinned = Query::parse("watch=1&continue=abc&resourceVersion=5");
        assert!(list(&pinned, Verb::Watch).is_ok());
    }

    #[test]
    fn every_unsupported_write_option_is_named() {
        let query = Query::parse("dryRun=no&force=true&fieldValidation=no");
        assert_eq!(
            refused(patch(&query, PatchType::Merge)),
            "PatchOptions.meta.k8s.io \"\" is invalid: [force: Forbidden: may not be specified for \
             non-apply patch, dryRun: Unsupported value: [\"no\"]: supported values: \"All\", \
             fieldValidation: Unsupported value: \"no\": supported values: \"\", \"Ignore\", \
             \"Strict\", \"Warn\"]"
        );
    }

    #[test]
    fn a_delete_body_overrides_the_query() {
        let query = Query::parse("propagationPolicy=Orphan");
        let body = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}});
        let options = delete(&query, Some(&body)).expect("accepted");
        assert_eq!(options.delete.propagation_policy.as_deref(), Some("Foreground"));
        assert_eq!(options.delete.uid.as_deref(), Some("u"));
        let bad = delete(&query, Some(&json!({"gracePeriodSeconds": "x"})));
        assert_eq!(
            refused(bad),
            "json: cannot unmarshal string into Go struct field \
             DeleteOptions.gracePeriodSeconds of type int64"
        );
    }
}
