//! Builds the children of a tunnel: Gateway, HTTPRoute and EndpointSlices, complete on their first write.
//!
//! Pure. Everything is derived from the HTTPProxy and its hostnames, never from the live objects, so that the
//! field manager owns only fields that the spec requires.

use std::collections::BTreeMap;

use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{Backend, CLASS, HttpProxy, ListenerTls, ProxyRule, annotations, labels};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[derive(Clone, Debug)]
pub(crate) struct ChildObjects {
    pub(crate) gateway: Gateway,
    pub(crate) route: HttpRoute,
    /// Backends: one slice for each rule with an endpoint URL.
    pub(crate) slices: Vec<EndpointSlice>,
}

/// The children that serve `hostnames`, or an error if the spec is invalid.
pub(crate) fn build_children(proxy: &HttpProxy, hostnames: &[String]) -> Result<ChildObjects, String> {
    let mut slices = Vec::new();
    let mut rules = Vec::new();
    for (index, rule) in proxy.spec.rules.iter().enumerate() {
        let reference = match rule.backends.first() {
            Some(backend) => Some(backend_reference(proxy, index, backend, &mut slices)?),
            None => None,
        };
        rules.push(route_rule(rule, reference));
    }
    Ok(ChildObjects {
        gateway: build_gateway(proxy, hostnames)?,
        route: build_route(proxy, hostnames, &rules)?,
        slices,
    })
}

/// The name of a rule's EndpointSlice. The dot prevents collisions with slices of other HTTPProxies, whose
/// names cannot contain dots.
pub(crate) fn slice_name(proxy: &str, rule: usize) -> String {
    match rule {
        0 => proxy.to_owned(),
        rule => format!("{proxy}.{rule}"),
    }
}

/// A short, deterministic digest of the desired object.
pub(crate) fn spec_digest(asked: &Value) -> String {
    let digest = Sha256::digest(asked.to_string().as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn metadata(proxy: &HttpProxy, name: &str, annotations: BTreeMap<String, String>) -> ObjectMeta {
    let owner = proxy.metadata.name.clone().unwrap_or_default();
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: proxy.metadata.namespace.clone(),
        labels: Some([(labels::PROXY.to_owned(), owner)].into()),
        annotations: Some(annotations).filter(|all| !all.is_empty()),
        ..ObjectMeta::default()
    }
}

fn name(proxy: &HttpProxy) -> &str {
    proxy.metadata.name.as_deref().unwrap_or_default()
}

/// The certificate of a hostname. If the spec has custom hostnames, the certificate is for those and not for
/// the platform hostname.
pub(crate) fn certificate_ref<'a>(proxy: &'a HttpProxy, hostname: &str) -> Option<&'a ListenerTls> {
    let own = &proxy.spec.hostnames;
    let covered = own.is_empty() || own.iter().any(|it| it == hostname);
    proxy.spec.tls.as_ref().filter(|_| covered)
}

fn build_gateway(proxy: &HttpProxy, hostnames: &[String]) -> Result<Gateway, String> {
    let mut listeners = Vec::new();
    for hostname in hostnames {
        // Named after the hostname, not its index: removing the first entry must not rename the others.
        let tag = &spec_digest(&json!(hostname))[..8];
        listeners.push(json!({
            "name": format!("http-{tag}"), "hostname": hostname, "port": 80, "protocol": "HTTP",
        }));
        if let Some(tls) = certificate_ref(proxy, hostname) {
            listeners.push(json!({
                "name": format!("https-{tag}"), "hostname": hostname, "port": 443, "protocol": "HTTPS",
                "tls": {"mode": "Terminate", "certificateRefs": [{
                    "group": "", "kind": "Secret", "name": tls.secret_name,
                }]},
            }));
        }
    }
    let class = Some(&proxy.spec.connector_class_name).filter(|it| *it != CLASS);
    let class = class.map(|class| (annotations::CLASS.to_owned(), class.clone()));
    from_json(json!({
        "metadata": metadata(proxy, name(proxy), class.into_iter().collect()),
        "spec": {"gatewayClassName": CLASS, "listeners": listeners},
    }))
}

fn build_route(proxy: &HttpProxy, hostnames: &[String], rules: &[Value]) -> Result<HttpRoute, String> {
    let generation = proxy.metadata.generation.unwrap_or_default().to_string();
    let generation = [(annotations::GENERATION.to_owned(), generation)].into();
    from_json(json!({
        "metadata": metadata(proxy, name(proxy), generation),
        "spec": {
            "parentRefs": [{
                "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name(proxy),
            }],
            "hostnames": hostnames,
            "rules": rules,
        },
    }))
}

fn route_rule(rule: &ProxyRule, backend: Option<Value>) -> Value {
    let mut made = json!({});
    if let Some(name) = &rule.name {
        made["name"] = json!(name);
    }
    if !rule.matches.is_empty() {
        made["matches"] = json!(rule.matches);
    }
    if !rule.filters.is_empty() {
        made["filters"] = json!(rule.filters);
    }
    if let Some(backend) = backend {
        made["backendRefs"] = json!([backend]);
    }
    if let Some(timeout) = &rule.timeout {
        made["timeouts"] = json!({"request": timeout});
    }
    made
}

/// The reference to a backend. An EndpointSlice is generated unless the spec names one.
fn backend_reference(
    proxy: &HttpProxy,
    rule: usize,
    backend: &Backend,
    slices: &mut Vec<EndpointSlice>,
) -> Result<Value, String> {
    let (name, port) = match &backend.instance {
        Some(instance) => (instance.name.clone(), instance.port),
        None => {
            let endpoint = BackendUrl::parse(rule, backend)?;
            let name = slice_name(name(proxy), rule);
            slices.push(build_slice(proxy, &name, backend, &endpoint));
            (name, endpoint.port)
        }
    };
    let mut made = json!({
        "group": "discovery.k8s.io", "kind": "EndpointSlice",
        "name": name, "port": port, "weight": 1,
    });
    if !backend.filters.is_empty() {
        made["filters"] = json!(backend.filters);
    }
    Ok(made)
}

struct BackendUrl {
    url: String,
    host: String,
    port: u16,
}

impl BackendUrl {
    fn parse(rule: usize, backend: &Backend) -> Result<Self, String> {
        let field = format!("spec.rules[{rule}].backends[0].endpoint");
        let Some(url) = &backend.endpoint else {
            return Err(format!("{field} is missing: write http://host:port"));
        };
        let wrong = || format!("{field} is {url:?}: write http://host:port or https://host:port");
        let uri: http::Uri = url.parse().map_err(|_| wrong())?;
        let port = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return Err(wrong()),
        };
        let host = uri.host().ok_or_else(wrong)?;
        Ok(Self {
            url: url.clone(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(port),
        })
    }

    /// The host and port that the agent must expose, in the form gateways request.
    fn target(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The address to put in the EndpointSlice. Agents dial by the annotation alone, because the API accepts
    /// neither loopback addresses nor bare names such as `localhost` here.
    fn slice_address(&self, connector: Option<&str>) -> (&'static str, String) {
        match (connector, self.host.parse::<std::net::IpAddr>()) {
            (Some(connector), _) => ("FQDN", format!("{connector}.connector.internal")),
            (None, Ok(std::net::IpAddr::V4(_))) => ("IPv4", self.host.clone()),
            (None, Ok(std::net::IpAddr::V6(_))) => ("IPv6", self.host.clone()),
            (None, Err(_)) => ("FQDN", self.host.clone()),
        }
    }
}

/// The target that the backend's agent must expose, in the format of `--expose`.
pub(crate) fn target(backend: &Backend) -> Option<String> {
    let address = BackendUrl::parse(0, backend).ok()?;
    Some(address.target())
}

fn build_slice(proxy: &HttpProxy, name: &str, backend: &Backend, at: &BackendUrl) -> EndpointSlice {
    let connector = backend.connector.as_ref().map(|it| it.name.as_str());
    let mut notes = BTreeMap::from([(annotations::ENDPOINT.to_owned(), at.url.clone())]);
    if let Some(connector) = connector {
        notes.insert(annotations::CONNECTOR.to_owned(), connector.to_owned());
    }
    if let Some(hostname) = backend.tls.as_ref().and_then(|tls| tls.hostname.clone()) {
        notes.insert(annotations::TLS_HOSTNAME.to_owned(), hostname);
    }
    let (address_type, address) = at.slice_address(connector);
    let mut metadata = metadata(proxy, name, notes);
    let label = (labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned());
    metadata.labels.get_or_insert_default().extend([label]);
    EndpointSlice {
        metadata,
        address_type: address_type.to_owned(),
        endpoints: Some(vec![Endpoint {
            addresses: vec![address],
            ..Endpoint::default()
        }]),
        ports: Some(vec![EndpointPort {
            name: Some(String::new()),
            port: Some(i32::from(at.port)),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    }
}

/// Converts to the generated type. The spec was already validated by the schema of HTTPProxy.
fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}
