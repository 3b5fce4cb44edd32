//! Matches and filters, with the names and meanings of the Gateway API's HTTPRoute.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{schema, validation};

/// The requests that a rule matches. All given fields must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteMatch {
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// Headers that must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub headers: Vec<HeaderMatch>,
    /// Query parameters that must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub query_params: Vec<QueryMatch>,
    /// The method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<HttpMethod>,
}

/// A path, compared as a whole, by prefix of its segments, or by a regular expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = validation::PATH, validation = validation::PATH_NORMAL, validation = validation::PATH_REGEX)]
#[serde(rename_all = "camelCase")]
pub struct PathMatch {
    /// How the path is compared.
    #[serde(rename = "type", default)]
    pub kind: PathMatchType,
    /// The value to compare with.
    #[serde(default = "default_value")]
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
}

fn default_value() -> String {
    "/".to_owned()
}

/// How a path is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PathMatchType {
    /// As a whole.
    Exact,
    /// By its leading segments.
    #[default]
    PathPrefix,
    /// By a regular expression over the whole path.
    RegularExpression,
}

/// A header that must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = validation::VALUE_REGEX)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMatch {
    /// How the value is compared.
    #[serde(rename = "type", default)]
    pub kind: ValueMatchType,
    /// Its name.
    #[schemars(schema_with = "schema::token")]
    pub name: String,
    /// The value to compare with.
    #[schemars(length(min = 1, max = 512))]
    pub value: String,
}

/// A query parameter that must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = validation::VALUE_REGEX)]
#[serde(rename_all = "camelCase")]
pub struct QueryMatch {
    /// How the value is compared.
    #[serde(rename = "type", default)]
    pub kind: ValueMatchType,
    /// Its name.
    #[schemars(schema_with = "schema::token")]
    pub name: String,
    /// The value to compare with.
    #[schemars(length(min = 1, max = 512))]
    pub value: String,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ValueMatchType {
    /// As a whole.
    #[default]
    Exact,
    /// By a regular expression over the whole value.
    RegularExpression,
}

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the names of HTTP methods need no explanation")]
pub enum HttpMethod {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
}

/// A change to a request or its response. The field that the type names must be set, and no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = validation::FILTER_MEMBER)]
#[serde(rename_all = "camelCase")]
pub struct RouteFilter {
    /// The type of the filter.
    #[serde(rename = "type")]
    pub kind: RouteFilterType,
    /// Changes headers of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = validation::NO_HOST)]
    pub request_header_modifier: Option<HeaderModifier>,
    /// Changes headers of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<HeaderModifier>,
    /// Responds with a redirect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<RequestRedirect>,
    /// Changes the host and path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<UrlRewrite>,
}

/// The type of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the fields of a filter document them")]
pub enum RouteFilterType {
    RequestHeaderModifier,
    ResponseHeaderModifier,
    RequestRedirect,
    #[serde(rename = "URLRewrite")]
    UrlRewrite,
}

/// Changes of headers: set, then add, then remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = validation::MODIFIER_EMPTY, validation = validation::MODIFIER_FRAMING)]
#[serde(rename_all = "camelCase")]
pub struct HeaderModifier {
    /// Headers to set. They replace existing values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub set: Vec<HeaderValue>,
    /// Headers to add. Existing values are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub add: Vec<HeaderValue>,
    /// Headers to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tokens")]
    pub remove: Vec<String>,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct HeaderValue {
    /// Its name.
    #[schemars(schema_with = "schema::token")]
    pub name: String,
    /// Its value.
    #[schemars(schema_with = "schema::header_value")]
    pub value: String,
}

/// A redirect. Parts that are left out are taken from the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirect {
    /// http or https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::scheme")]
    pub scheme: Option<String>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::host")]
    pub hostname: Option<String>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
    /// The port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// The status code. Default: 302.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::redirect_code")]
    pub status_code: Option<i32>,
}

/// A change to the request before it is sent to the origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UrlRewrite {
    /// The Host header that the origin receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::host")]
    pub hostname: Option<String>,
    /// The path that the origin receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
}

/// A new path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = validation::PATH_MEMBER)]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// The type of the change.
    #[serde(rename = "type")]
    pub kind: PathModifierType,
    /// Replaces the whole path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::full_path")]
    pub replace_full_path: Option<String>,
    /// Replaces the prefix that matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::prefix")]
    pub replace_prefix_match: Option<String>,
}

/// The part of a path that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the fields of a modifier document them")]
pub enum PathModifierType {
    ReplaceFullPath,
    ReplacePrefixMatch,
}
