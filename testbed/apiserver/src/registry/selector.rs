//! What a list or a watch selects: a label selector, a field selector and a namespace.
//!
//! Field selectors know only the fields a kind offers; everything else is refused as the server
//! refuses it.

use aplomb_apimachinery::labels::LabelSelector;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use crate::call::Call;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

/// Which objects of a resource are wanted.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: Vec<Term>,
}

/// What an index of the server is asked for: it has only the objects with this value, so nothing else
/// is seen behind the end of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index<'a>(&'a Term);

impl Index<'_> {
    /// Whether the object is in it.
    pub(super) fn holds(self, resource: &Resource, object: &Value) -> bool {
        let offered = resource.strategy.selectable_fields(object);
        let value = offered.iter().find(|(name, _)| *name == self.0.field);
        value.is_some_and(|(_, value)| *value == self.0.value)
    }
}

impl Selection {
    /// The index the server has for it: of Pods and ResourceSlices, by their node.
    pub(super) fn index(&self, resource: &Resource) -> Option<Index<'_>> {
        const INDEXED: [&str; 2] = ["pods", "resourceslices"];
        let by_node = |term: &&Term| term.field == "spec.nodeName" && term.equal;
        let term = self.fields.iter().find(by_node)?;
        let indexed = !resource.strategy.is_custom() && INDEXED.contains(&resource.plural.as_str());
        indexed.then_some(Index(term))
    }

    /// The selection of a list or a watch. A selector that cannot be parsed is noticed before
    /// `options` are checked, a field that cannot be selected by after them.
    ///
    /// # Errors
    /// Both of these, and what `options` says.
    pub(super) fn of(call: &Call, options: impl FnOnce() -> Result<(), ApiError>) -> Result<Self, ApiError> {
        let label_text = call.options.label_selector.as_deref().unwrap_or_default();
        let labels = LabelSelector::parse(label_text).map_err(ApiError::bad_request)?;
        let field_text = call.options.field_selector.as_deref().unwrap_or_default();
        let mut fields = parse_fields(field_text).map_err(ApiError::bad_request)?;
        options()?;
        for term in &fields {
            check_field(&call.resource, &term.field)?;
        }
        if let Some(name) = &call.name {
            require_name(&mut fields, name)?;
        }
        Ok(Self {
            namespace: call.namespace.clone(),
            labels,
            fields,
        })
    }

    /// Whether nothing but the namespace is selected by.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The one name it asks for, if it asks for one.
    #[must_use]
    pub(super) fn single_name(&self) -> Option<&str> {
        let term = self
            .fields
            .iter()
            .find(|term| term.field == "metadata.name" && term.equal);
        term.map(|term| term.value.as_str())
    }

    /// The one namespace it looks at: the path's, or the one a field selector asks for.
    #[must_use]
    pub(super) fn namespace(&self) -> Option<&str> {
        let asked = || {
            self.fields
                .iter()
                .find(|term| term.field == "metadata.namespace" && term.equal)
        };
        self.namespace
            .as_deref()
            .or_else(|| asked().map(|term| term.value.as_str()))
    }

    /// Whether objects of this namespace are in view.
    #[must_use]
    pub(super) fn covers(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
    }

    /// Whether an object (in the served version) is selected.
    #[must_use]
    pub(super) fn matches(&self, resource: &Resource, object: &Value) -> bool {
        if !self.labels.is_empty() && !self.labels.matches(object) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        let offered = resource.strategy.selectable_fields(object);
        self.fields.iter().all(|term| {
            let value = match term.field.as_str() {
                "metadata.name" => object::name(object),
                "metadata.namespace" => object::namespace(object),
                field => offered
                    .iter()
                    .find(|(name, _)| name == field)
                    .map_or("", |(_, value)| value),
            };
            (value == term.value) == term.equal
        })
    }
}

fn require_name(fields: &mut Vec<Term>, name: &str) -> Result<(), ApiError> {
    let selected = fields.iter().find(|term| term.field == "metadata.name" && term.equal);
    match selected {
        Some(term) if term.value == name => Ok(()),
        None if fields.is_empty() => {
            fields.push(Term {
                field: "metadata.name".into(),
                value: name.into(),
                equal: true,
            });
            Ok(())
        }
        _ => Err(ApiError::bad_request(
            "fieldSelector metadata.name doesn't match requested name",
        )),
    }
}

fn check_field(resource: &Resource, field: &str) -> Result<(), ApiError> {
    // A built-in kind that names its fields names all of them.
    let names_none = resource.strategy.selectable_fields(&Value::Null).is_empty();
    let everywhere = resource.namespaced || (!resource.strategy.is_custom() && names_none);
    if field == "metadata.name" || (field == "metadata.namespace" && everywhere) {
        return Ok(());
    }
    let offered = resource.strategy.selectable_fields(&Value::Null);
    if offered.iter().any(|(name, _)| name == field) {
        return Ok(());
    }
    Err(ApiError::bad_request(resource.strategy.unknown_field_label(field)))
}

fn parse_fields(text: &str) -> Result<Vec<Term>, String> {
    let mut parts = split_terms(text);
    parts.sort_unstable();
    let mut terms = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let Some((field, equal, value)) = split_term(part) else {
            return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
        };
        let value = unescape(value)?;
        terms.push(Term {
            field: field.to_owned(),
            value,
            equal,
        });
    }
    Ok(terms)
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == ',' {
            terms.push(&text[start..at]);
            start = at + 1;
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term
        .char_indices()
        .find(|(at, _)| term[*at..].starts_with("!=") || term[*at..].starts_with('='))?;
    let (field, rest) = term.split_at(at.0);
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(value) = rest.strip_prefix(operator) {
            return Some((field, equal, value));
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => {
                let code = u32::from(c);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            c => text.push(c),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_terms_are_parsed_with_the_servers_errors() {
        let cases = [
            (
                "metadata.name",
                "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            ),
            (
                "metadata.name===a",
                "invalid field selector: unescaped character in value: 61",
            ),
            (
                "metadata.name!=a\\b",
                "invalid field selector: invalid escape sequence: \\b",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_fields(text).expect_err(text), expected);
        }
        let terms = parse_fields("a=b\\,c,d!=e").expect("well formed");
        assert_eq!(
            terms[0],
            Term {
                field: "a".into(),
                value: "b,c".into(),
                equal: true
            }
        );
        assert_eq!(
            terms[1],
            Term {
                field: "d".into(),
                value: "e".into(),
                equal: false
            }
        );
    }
}
