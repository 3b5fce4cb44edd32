//! Which form of answer a request wants and which form of body it brought.
//!
//! JSON and YAML are for every kind. Protobuf is for those the server brings with it and for the
//! metadata of all; a Table has no protobuf form.

use aplomb_apimachinery::query::Query;
use aplomb_apimachinery::status::ApiError;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};

use crate::call::PatchType;

/// What the server says it can do.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// What an object is turned into before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Shape {
    /// As it is.
    #[default]
    Object,
    /// `meta.k8s.io` Table.
    Table,
    /// Only the metadata of an object.
    Partial,
    /// Only the metadata of each item of a list.
    PartialList,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub(super) enum Form {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

impl Form {
    /// In the order the server tries them.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// The part of its media type after `application/`.
    const fn subtype(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Protobuf => "vnd.kubernetes.protobuf",
        }
    }
}

/// The form of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Output {
    /// JSON, YAML or protobuf.
    pub form: Form,
    /// Indented.
    pub pretty: bool,
    /// Conversion asked for.
    pub shape: Shape,
    /// `v1` or `v1beta1` of the conversion.
    pub shape_version: &'static str,
}

/// What conversions an endpoint offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// None: errors, discovery, reviews.
    Plain,
    /// Table and metadata.
    Conversions,
    /// The same for custom resources, which only as metadata have a protobuf form.
    Custom,
    /// Aggregated discovery, in the versions the server still speaks.
    Discovery,
}

/// One clause of an Accept header.
#[derive(Debug)]
struct Clause {
    kind: String,
    subtype: String,
    quality: f64,
    params: Vec<(String, String)>,
}

impl Clause {
    fn param(&self, name: &str) -> Option<&str> {
        self.params
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    fn matches(&self, subtype: &str) -> bool {
        (self.kind == "application" && (self.subtype == subtype || self.subtype == "*"))
            || (self.kind == "*" && self.subtype == "*")
    }
}

/// Chooses the form of the answer.
///
/// # Errors
/// 406 when nothing the client accepts can be written.
pub(super) fn output(headers: &HeaderMap, query: &Query, offer: Offer) -> Result<Output, ApiError> {
    choose(headers, query, offer).ok_or_else(|| not_acceptable(MEDIA_TYPES))
}

/// Whether a watch can be written in the form that was chosen: YAML is not streamed.
///
/// # Errors
/// 406 when it cannot.
pub(super) fn stream(output: &Output) -> Result<(), ApiError> {
    if output.form == Form::Yaml {
        Err(not_acceptable(STREAM_TYPES))
    } else {
        Ok(())
    }
}

/// The form of an error; `None` when the client accepts none, and then it is raw JSON.
#[must_use]
pub(super) fn for_error(headers: &HeaderMap, query: &Query) -> Option<Output> {
    choose(headers, query, Offer::Plain)
}

fn choose(headers: &HeaderMap, query: &Query, offer: Offer) -> Option<Output> {
    let accept = header(headers, ACCEPT.as_str());
    let pretty = is_pretty(headers, query);
    if accept.is_empty() {
        return Some(Output {
            pretty,
            ..Output::default()
        });
    }
    let clauses = parse_accept(accept);
    clauses.iter().find_map(|clause| {
        Form::ALL.into_iter().find_map(|form| {
            let (shape, shape_version) = if clause.matches(form.subtype()) {
                convert(clause, offer)?
            } else {
                return None;
            };
            (form != Form::Protobuf || has_protobuf(shape, offer)).then_some(Output {
                form,
                pretty,
                shape,
                shape_version,
            })
        })
    })
}

/// Whether a shape can be written as protobuf.
fn has_protobuf(shape: Shape, offer: Offer) -> bool {
    match shape {
        Shape::Object => offer != Offer::Custom,
        Shape::Table => offer == Offer::Discovery,
        Shape::Partial | Shape::PartialList => true,
    }
}

/// The conversion a clause asks for, if the endpoint offers it.
fn convert(clause: &Clause, offer: Offer) -> Option<(Shape, &'static str)> {
    if clause
        .param("stream")
        .is_some_and(|stream| !stream.is_empty() && stream != "watch")
    {
        return None;
    }
    if clause.param("sv").is_some() {
        return None;
    }
    let Some(kind) = clause.param("as") else {
        let bare = clause.param("g").is_none() && clause.param("v").is_none();
        return bare.then_some((Shape::Object, "v1"));
    };
    let group = clause.param("g").unwrap_or_default();
    let version = clause.param("v").unwrap_or_default();
    match (offer, group, version, kind) {
        (Offer::Discovery, "apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") => Some((Shape::Table, "v2")),
        (Offer::Conversions | Offer::Custom, "meta.k8s.io", "v1" | "v1beta1", kind) => {
            let version = if version == "v1" { "v1" } else { "v1beta1" };
            let shape = match kind {
                "Table" => Shape::Table,
                "PartialObjectMetadata" => Shape::Partial,
                "PartialObjectMetadataList" => Shape::PartialList,
                _ => return None,
            };
            Some((shape, version))
        }
        _ => None,
    }
}

fn parse_accept(header: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = header.split(',').filter_map(parse_clause).collect();
    let rank = |c: &Clause| (c.kind == "*", c.subtype == "*");
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(rank(a).cmp(&rank(b))));
    clauses
}

fn parse_clause(text: &str) -> Option<Clause> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().filter(|media| !media.is_empty())?;
    let (kind, subtype) = media.split_once('/').unwrap_or((media, "*"));
    let mut clause = Clause {
        kind: kind.trim().to_owned(),
        subtype: subtype.trim().to_owned(),
        quality: 1.0,
        params: Vec::new(),
    };
    for param in parts {
        let (key, value) = param.split_once('=').unwrap_or((param, ""));
        if key == "q" {
            clause.quality = value.parse().unwrap_or(1.0);
        } else {
            clause.params.push((key.to_owned(), value.to_owned()));
        }
    }
    Some(clause)
}

/// Whether the router lets a request through at all: it compares media types word for word before
/// any negotiation, so `application/*` is refused here.
#[must_use]
pub(super) fn produces(headers: &HeaderMap, types: &[&str]) -> bool {
    let accept = header(headers, ACCEPT.as_str());
    accept.is_empty()
        || accept.split(',').any(|clause| {
            let media = clause.split(';').next().unwrap_or_default().trim();
            media == "*/*" || types.contains(&media)
        })
}

/// Which of these subtypes of `application` a client likes best; the first when it does not say.
#[must_use]
pub(super) fn accepts(headers: &HeaderMap, subtypes: &[&str]) -> Option<usize> {
    let accept = header(headers, ACCEPT.as_str());
    let clauses = parse_accept(if accept.is_empty() { "*/*" } else { accept });
    clauses.iter().find_map(|clause| {
        let fits = |subtype: &&str| {
            (clause.kind == "application" || clause.kind == "*")
                && (clause.subtype == **subtype || clause.subtype == "*")
        };
        subtypes.iter().position(fits)
    })
}

fn is_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.first("pretty").filter(|value| !value.is_empty()) {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => {
            let agent = header(headers, USER_AGENT.as_str());
            ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|tool| agent.starts_with(tool))
        }
    }
}

/// The form of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Input {
    Json,
    Yaml,
    Protobuf,
}

/// Reads the Content-Type of a POST, PUT or DELETE.
///
/// # Errors
/// 415 for a form the box does not read.
pub(super) fn input(headers: &HeaderMap) -> Result<Input, ApiError> {
    let given = header(headers, CONTENT_TYPE.as_str());
    match media_type(headers) {
        "" if given.is_empty() => Ok(Input::Json),
        "application/json" if params_are_sound(given) => Ok(Input::Json),
        "application/yaml" if params_are_sound(given) => Ok(Input::Yaml),
        "application/vnd.kubernetes.protobuf" if params_are_sound(given) => Ok(Input::Protobuf),
        _ => Err(unsupported(MEDIA_TYPES)),
    }
}

/// Whether the parameters of a media type are all `key=value`.
fn params_are_sound(media: &str) -> bool {
    let mut params = media
        .split(';')
        .skip(1)
        .map(str::trim)
        .filter(|param| !param.is_empty());
    params.all(|param| {
        param
            .split_once('=')
            .is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
    })
}

/// The patch type of a Content-Type, if it is one.
#[must_use]
pub(super) fn patch_type(headers: &HeaderMap) -> Option<PatchType> {
    match media_type(headers) {
        "application/json-patch+json" => Some(PatchType::Json),
        "application/merge-patch+json" => Some(PatchType::Merge),
        "application/strategic-merge-patch+json" => Some(PatchType::StrategicMerge),
        "application/apply-patch+yaml" => Some(PatchType::Apply),
        _ => None,
    }
}

fn media_type(headers: &HeaderMap) -> &str {
    header(headers, CONTENT_TYPE.as_str())
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
}

/// A header as text; empty when absent or not text.
#[must_use]
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn not_acceptable(types: &str) -> ApiError {
    let message = format!("only the following media types are accepted: {types}");
    ApiError::new(406, "NotAcceptable", message)
}

/// 415 in the words of a handler.
#[must_use]
pub(super) fn unsupported(types: &str) -> ApiError {
    let message = format!("the body of the request was in an unknown format - accepted media types include: {types}");
    ApiError::new(415, "UnsupportedMediaType", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, value.parse().expect("a header value"));
        headers
    }

    fn chosen(value: &str) -> Option<Output> {
        output(&accept(value), &Query::default(), Offer::Conversions).ok()
    }

    #[test]
    fn the_first_clause_that_can_be_written_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(chosen(kubectl).map(|o| o.shape), Some(Shape::Table));
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(
            chosen(typed).map(|o| (o.shape, o.form)),
            Some((Shape::Object, Form::Protobuf))
        );
        let custom = output(&accept(typed), &Query::default(), Offer::Custom);
        assert_eq!(custom.map(|o| o.form), Ok(Form::Json));
        let weighed = "application/json;q=0.5, application/yaml";
        assert_eq!(chosen(weighed).map(|o| o.form), Some(Form::Yaml));
    }

    #[test]
    fn unknown_conversions_and_media_types_are_not_acceptable() {
        for value in [
            "application/xml",
            "application/cbor",
            "application/json;as=Table;v=v9;g=meta.k8s.io",
            "application/json;as=Nope;v=v1;g=meta.k8s.io",
            "application/json;as=Table;v=v1;g=foo",
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        ] {
            assert!(chosen(value).is_none(), "{value}");
        }
    }

    #[test]
    fn errors_are_never_tables() {
        let headers = accept("application/json;as=Table;v=v1;g=meta.k8s.io");
        assert!(for_error(&headers, &Query::default()).is_none());
    }
}
