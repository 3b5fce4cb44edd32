//! What the server says to a body of another kind or version than the one it asked for.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::data::{Entry, KINDS};
use super::value::text;

/// Refuses a body that names another kind or version. What a body does not name is taken from the
/// path.
pub(super) fn check(entry: &Entry, body: &Value) -> Result<(), ApiError> {
    let expected = entry.api_version();
    let version = match text(body, &["apiVersion"]) {
        "" => expected.as_str(),
        stated => stated,
    };
    let kind = match text(body, &["kind"]) {
        "" => entry.kind.as_str(),
        stated => stated,
    };
    if version == expected && kind == entry.kind {
        return Ok(());
    }
    let known = KINDS
        .iter()
        .find(|known| known.api_version() == version && known.kind == kind);
    let why = match known {
        Some(known) if internal(known) == internal(entry) => {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        Some(known) => format!(
            "converting ({}.{}) to ({}): unknown conversion",
            known.version,
            known.kind,
            internal(entry)
        ),
        None => format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            go_quote(kind),
            go_quote(version)
        ),
    };
    let short = version.rsplit('/').next().unwrap_or(version);
    Err(unhandled(kind, short, entry, &why))
}

/// 400: the body cannot be read as an object of the resource.
pub(super) fn unhandled(kind: &str, version: &str, entry: &Entry, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{kind} in version {} cannot be handled as a {}: {why}",
        go_quote(version),
        entry.kind
    ))
}

/// 500: what an apply merged cannot be turned into the kind's Go type.
pub(super) fn unconverted(entry: &Entry, (namespace, name): (&str, &str), why: &str) -> ApiError {
    let kind = format!("{}/{}, Kind={}", entry.group, entry.version, entry.kind);
    let message = format!(
        "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable to convert unstructured object to {kind}: {why}"
    );
    ApiError::new(500, "", message)
}

/// The Go type all versions of a kind are turned into.
fn internal(entry: &Entry) -> String {
    let package = match entry.group.as_str() {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("{package}.{}", entry.kind)
}
