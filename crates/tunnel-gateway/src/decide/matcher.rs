//! A match with its regular expressions compiled, or why it cannot be one.

use std::collections::BTreeMap;

use aplomb_api::tunnel::{PathMatchType, RouteMatch, ValueMatchType};
use http::HeaderName;
use regex::{Regex, RegexBuilder};

use crate::table::CompiledMatch;

/// How much memory one expression may take when compiled: a tenant writes it, all pay for it.
const MAX_REGEX_BYTES: usize = 256 * 1024;

pub(crate) fn compile_match(wanted: &RouteMatch) -> Result<CompiledMatch, String> {
    let mut wanted = wanted.clone();
    let path = match &mut wanted.path {
        Some(path) if path.kind == PathMatchType::RegularExpression => Some(anchored_regex(&path.value)?),
        Some(path) => {
            path.value = normalize_path(&path.value)?;
            None
        }
        None => None,
    };
    for header in &wanted.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        name.map_err(|_| format!("{:?} is not a header name", header.name))?;
    }
    let headers = wanted.headers.iter().map(|it| (it.kind, &it.value));
    let query = wanted.query_params.iter().map(|it| (it.kind, &it.value));
    Ok(CompiledMatch {
        path,
        headers: compile_expressions(headers)?,
        query: compile_expressions(query)?,
        wanted,
    })
}

/// A path in the form that requests have when they are compared with it.
fn normalize_path(value: &str) -> Result<String, String> {
    let wrong = |why| format!("the path {value:?} {why}");
    if value.is_empty() {
        return Err(wrong("is empty"));
    }
    // Resolved, it would serve more than a reader of the rule expects.
    let segment = |it: &str| it.replace("%2e", ".").replace("%2E", ".");
    if value.split('/').any(|it| matches!(&*segment(it), "." | "..")) {
        return Err(wrong("has a dot segment"));
    }
    let normal = crate::path::normalize(value).map_err(wrong)?;
    Ok(normal.into_owned())
}

fn compile_expressions<'a>(
    values: impl Iterator<Item = (ValueMatchType, &'a String)>,
) -> Result<BTreeMap<usize, Regex>, String> {
    let all = values.enumerate();
    all.filter(|(_, (kind, _))| *kind == ValueMatchType::RegularExpression)
        .map(|(number, (_, value))| Ok((number, anchored_regex(value)?)))
        .collect()
}

/// An expression over a whole value.
fn anchored_regex(expression: &str) -> Result<Regex, String> {
    RegexBuilder::new(&format!("^(?:{expression})$"))
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("the regular expression {expression:?} is too large")
            }
            _ => format!("{expression:?} is not a regular expression"),
        })
}
