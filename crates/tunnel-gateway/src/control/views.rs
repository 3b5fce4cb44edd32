//! Views of the objects behind the routing table. Other fields are skipped when decoding, so that nothing can
//! come to depend on them. An invalid rule is kept as an error and affects only its own route.

use std::collections::BTreeMap;
use std::fmt;

use aplomb::{MetaRef, MetadataOnly, View};
use aplomb_api::HttpProxy;
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{ConnectionDetails, Connector, RouteFilter, RouteMatch};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use serde_json::Value;

use crate::routing::{self, CompiledMatch};

/// Metadata with annotations and the time of creation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMetaView {
    pub(crate) name: Box<str>,
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) uid: Box<str>,
    resource_version: Box<str>,
    pub(crate) generation: Option<i64>,
    pub(crate) creation_timestamp: Option<Box<str>>,
    deletion_timestamp: Option<Box<str>>,
    finalizers: Vec<String>,
    owner_references: Vec<OwnerReference>,
    labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl ObjectMetaView {
    fn as_ref(&self) -> MetaRef<'_> {
        MetaRef {
            namespace: self.namespace.as_deref(),
            name: &self.name,
            uid: &self.uid,
            version: &self.resource_version,
            generation: self.generation,
            deleting: self.deletion_timestamp.is_some(),
            finalizers: &self.finalizers,
            owners: &self.owner_references,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Whether labels and annotations are equal to those of `other`.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        self.labels == other.labels && self.annotations == other.annotations
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct GatewayView {
    pub(crate) metadata: ObjectMetaView,
    pub(crate) spec: GatewaySpecView,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GatewaySpecView {
    pub(crate) gateway_class_name: Box<str>,
    pub(crate) listeners: Vec<ListenerView>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ListenerView {
    pub(crate) name: Box<str>,
    pub(crate) hostname: Option<Box<str>>,
    pub(crate) port: i32,
    pub(crate) protocol: Box<str>,
    pub(crate) tls: Option<ListenerTlsView>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListenerTlsView {
    pub(crate) certificate_refs: Vec<ObjectReference>,
}

/// A reference to another object, of any purpose.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectReference {
    pub(crate) group: Option<Box<str>>,
    pub(crate) kind: Option<Box<str>>,
    pub(crate) name: Box<str>,
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) section_name: Option<Box<str>>,
    pub(crate) port: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct RouteView {
    pub(crate) metadata: ObjectMetaView,
    pub(crate) spec: RouteSpecView,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RouteSpecView {
    pub(crate) hostnames: Vec<String>,
    pub(crate) parent_refs: Vec<ObjectReference>,
    pub(crate) rules: Vec<ParsedRule>,
}

/// A rule, or why it is invalid.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Value")]
pub(crate) struct ParsedRule(pub(crate) Result<RouteRule, String>);

impl From<Value> for ParsedRule {
    fn from(rule: Value) -> Self {
        Self(parse_rule(&rule))
    }
}

/// Parses a rule and compiles its matches, once instead of for every table.
fn parse_rule(rule: &Value) -> Result<RouteRule, String> {
    let rule: Result<RouteRule, _> = aplomb::nulls::read(rule);
    let mut rule = rule.map_err(|error| error.to_string())?;
    if rule.matches.is_empty() {
        rule.matches.push(RouteMatch::default());
    }
    let matchers = rule.matches.iter().map(routing::compile_match);
    rule.matchers = CompiledMatches(matchers.collect::<Result<_, _>>()?);
    Ok(rule)
}

#[derive(Clone, Debug, Default)]
pub(crate) struct CompiledMatches(pub(crate) Vec<CompiledMatch>);

impl PartialEq for CompiledMatches {
    /// They are derived from the matches of the rule, which are compared instead.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RouteRule {
    pub(crate) matches: Vec<RouteMatch>,
    #[serde(skip)]
    pub(crate) matchers: CompiledMatches,
    pub(crate) filters: Vec<RouteFilter>,
    pub(crate) backend_refs: Vec<BackendRef>,
    pub(crate) timeouts: RouteTimeouts,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct RouteTimeouts {
    pub(crate) request: Option<aplomb_api::DurationString>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct BackendRef {
    #[serde(flatten)]
    pub(crate) to: ObjectReference,
    pub(crate) weight: Option<i32>,
    pub(crate) filters: Vec<RouteFilter>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceView {
    pub(crate) metadata: ObjectMetaView,
    pub(crate) address_type: Box<str>,
    pub(crate) endpoints: Vec<EndpointView>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointView {
    pub(crate) addresses: Vec<String>,
    pub(crate) conditions: EndpointConditionsView,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointConditionsView {
    pub(crate) ready: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GatewayConnectorView {
    pub(crate) metadata: ObjectMetaView,
    pub(crate) status: ConnectorStatusView,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConnectorStatusView {
    pub(crate) connection_details: Option<ConnectionDetails>,
    pub(crate) gateways: Option<Vec<String>>,
    conditions: Vec<ConditionView>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ConditionView {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
    reason: Box<str>,
}

impl GatewayConnectorView {
    /// Whether the operator reports that its agent shut down gracefully.
    pub(crate) fn is_released(&self) -> bool {
        use aplomb_api::tunnel::{conditions::ONLINE, reasons::RELEASED};
        let mut all = self.status.conditions.iter();
        all.any(|it| &*it.kind == ONLINE && &*it.status == "False" && &*it.reason == RELEASED)
    }

    /// Whether its agent was told to accept the gateway `id`.
    pub(crate) fn lists_gateway(&self, id: &str) -> bool {
        let listed = self.status.gateways.as_deref().unwrap_or_default();
        listed.iter().any(|it| it == id)
    }
}

/// A Secret of type kubernetes.io/tls.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TlsSecretView {
    pub(crate) metadata: ObjectMetaView,
    pub(crate) data: BTreeMap<String, k8s_openapi::ByteString>,
}

impl fmt::Debug for TlsSecretView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretView").field(&self.metadata).finish()
    }
}

pub type ProxyView = MetadataOnly<HttpProxy>;

impl View for GatewayView {
    type Kind = Gateway;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl View for RouteView {
    type Kind = HttpRoute;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl View for SliceView {
    type Kind = EndpointSlice;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl View for GatewayConnectorView {
    type Kind = Connector;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl View for TlsSecretView {
    type Kind = Secret;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn route(rule: &Value) -> RouteView {
        let route = json!({ "metadata": { "name": "x" }, "spec": { "rules": [rule] } });
        serde_json::from_value(route).expect("the route can be decoded")
    }

    #[test]
    fn a_rule_of_the_gateway_api_is_read() {
        let route = route(&json!({
            "matches": [{ "path": { "type": "PathPrefix", "value": "/" }, "method": "GET" }],
            "filters": [{ "type": "URLRewrite", "urlRewrite": { "hostname": "app" } }],
            "backendRefs": [{ "group": "discovery.k8s.io", "kind": "EndpointSlice",
                "name": "x", "port": 80, "weight": 1 }],
            "timeouts": { "request": "10s" },
        }));
        let rule = route.spec.rules[0].0.as_ref().expect("readable");
        assert_eq!(&*rule.backend_refs[0].to.name, "x");
        assert_eq!(rule.filters.len(), 1);
    }

    #[test]
    fn a_filter_that_is_not_known_costs_its_rule_and_no_more() {
        let route = route(&json!({ "filters": [{ "type": "RequestMirror" }] }));
        let error = route.spec.rules[0].0.as_ref().expect_err("unknown match type");
        assert!(error.contains("RequestMirror"), "{error}");
    }

    fn metadata() -> Value {
        json!({ "name": "x", "namespace": "y", "finalizers": ["f"], "labels": { "a": "b" },
            "annotations": { "a": "b" }, "ownerReferences": [{ "apiVersion": "v1", "kind": "K",
                "name": "o", "uid": "u" }] })
    }

    /// Decodes `object` with each of its lists and maps set to null in turn.
    fn reads_nulls<V: View>(mut object: Value) {
        object["metadata"] = metadata();
        let nulled = aplomb::nulls::null_variants(&object).into_iter();
        // A route needs a spec, and connection details need a key.
        let needed = |path: &str| path == "/spec" || path.ends_with("/publicKey");
        for (path, object) in nulled.filter(|it| !needed(&it.0)) {
            let read = aplomb::nulls::read::<V>(&object);
            assert!(read.is_ok_and(|it| it.meta().name == "x"), "{path}");
        }
    }

    #[test]
    fn a_list_or_map_that_is_null_is_empty_in_every_view() {
        let reference = json!({ "name": "x" });
        reads_nulls::<GatewayView>(json!({ "spec": { "listeners": [{ "name": "a",
            "tls": { "certificateRefs": [reference] } }] } }));
        let filters = json!([{ "type": "RequestHeaderModifier", "requestHeaderModifier": {
            "set": [{ "name": "a", "value": "b" }], "add": [{ "name": "a", "value": "b" }],
            "remove": ["c"] } }]);
        let rule = json!({ "matches": [{ "headers": [{ "name": "a", "value": "b" }],
                "queryParams": [{ "name": "a", "value": "b" }] }],
            "filters": filters, "timeouts": { "request": "1s" },
            "backendRefs": [{ "name": "x", "filters": filters }] });
        reads_nulls::<RouteView>(json!({ "spec": { "hostnames": ["a"],
            "parentRefs": [reference], "rules": [rule] } }));
        let nulled = aplomb::nulls::null_variants(&rule);
        for (path, rule) in nulled {
            // A filter needs the field of its type.
            if path.ends_with("/requestHeaderModifier") {
                continue;
            }
            let rule = &route(&rule).spec.rules[0];
            assert!(rule.0.is_ok(), "{path}: {rule:?}");
        }
        reads_nulls::<SliceView>(json!({ "addressType": "IPv4",
            "endpoints": [{ "addresses": ["192.0.2.1"], "conditions": { "ready": true } }] }));
        reads_nulls::<GatewayConnectorView>(json!({ "status": { "gateways": ["a"],
            "connectionDetails": { "publicKey": { "id": "ab",
                "addresses": [{ "address": "192.0.2.1", "port": 1 }] }, "session": "s" },
            "conditions": [{ "type": "Online" }] } }));
        reads_nulls::<TlsSecretView>(json!({ "data": { "tls.crt": "YQ==" } }));
        reads_nulls::<ProxyView>(json!({}));
    }
}
