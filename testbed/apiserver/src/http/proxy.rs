//! Proxies to Pods, Services and nodes, as far as a server that can reach none of them can answer:
//! what is wrong with the request, and that nobody listens.

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use http::Method;
use serde_json::Value;

use super::filters::Context;
use super::response::Reply;
use super::router::not_allowed;

/// Where a node's kubelet listens unless the node says otherwise.
const KUBELET_PORT: u64 = 10250;

/// Whether a request is one of these.
pub(super) fn concerns(context: &Context<'_>) -> bool {
    let info = &context.info;
    let proxied = match info.resource.as_str() {
        "pods" | "services" => !info.namespace.is_empty(),
        "nodes" => info.namespace.is_empty(),
        _ => false,
    };
    proxied && info.group.is_empty() && info.parts.len() > 2 && info.subresource == "proxy"
}

pub(super) fn answer(context: &Context<'_>) -> Result<Reply, ApiError> {
    if context.info.legacy_watch || context.method == Method::CONNECT {
        return Err(not_allowed());
    }
    let id = context.info.name.as_str();
    let singular = context.info.resource.trim_end_matches('s');
    let Some((name, port)) = name_and_port(id) else {
        let id = aplomb_apimachinery::field::go_quote(id);
        let message = format!("invalid {singular} request {id}");
        return Err(ApiError::bad_request(message));
    };
    Err(match singular {
        "pod" => pod(context, name, port),
        "service" => service(context, id, name, port),
        _ => node(context, name),
    })
}

/// `name`, `name:port` or `scheme:name:port`.
fn name_and_port(id: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => return None,
    };
    let valid = !name.is_empty() && matches!(scheme, "" | "http" | "https");
    valid.then_some((name, port))
}

/// What is missing is told as if it were what the request is about.
fn missing(context: &Context<'_>, name: &str) -> ApiError {
    ApiError::not_found(&GroupResource::new("", &context.info.resource), name)
}

fn pod(context: &Context<'_>, name: &str, port: &str) -> ApiError {
    let server = &context.shared.server;
    let Some(pod) = server.get("", "pods", &context.info.namespace, name) else {
        return missing(context, name);
    };
    let address = object::text(&pod["status"], "podIP");
    let usable = address
        .parse::<std::net::IpAddr>()
        .is_ok_and(|address| !(address.is_loopback() || address.is_unspecified() || address.is_multicast()));
    if !usable {
        return ApiError::bad_request("address not allowed");
    }
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let first = containers
        .filter_map(|container| container.pointer("/ports/0/containerPort")?.as_u64())
        .next()
        .unwrap_or(80);
    let port = if port.is_empty() {
        first.to_string()
    } else {
        port.to_owned()
    };
    let message = format!("error trying to reach service: dial tcp {address}:{port}: connect: connection refused");
    ApiError::new(503, "ServiceUnavailable", message)
}

fn service(context: &Context<'_>, id: &str, name: &str, port: &str) -> ApiError {
    let server = &context.shared.server;
    let namespace = &context.info.namespace;
    let unavailable = |message| ApiError::new(503, "ServiceUnavailable", message);
    let quoted = aplomb_apimachinery::field::go_quote(name);
    if let Ok(number) = port.parse::<i64>() {
        let Some(service) = server.get("", "services", namespace, name) else {
            return missing(context, name);
        };
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        if !ports.any(|port| port["port"] == number) {
            let message = format!("no service port {number} found for service {quoted}");
            return unavailable(message);
        }
    }
    let Some(endpoints) = server.get("", "endpoints", namespace, name) else {
        return missing(context, name);
    };
    let none = endpoints["subsets"].as_array().is_none_or(Vec::is_empty);
    let quoted = if none {
        quoted
    } else {
        aplomb_apimachinery::field::go_quote(id)
    };
    unavailable(format!("no endpoints available for service {quoted}"))
}

fn node(context: &Context<'_>, name: &str) -> ApiError {
    match kubelet(context, name) {
        Ok(address) => ApiError::new(
            503,
            "ServiceUnavailable",
            format!("error trying to reach service: dial tcp {address}: connect: connection refused"),
        ),
        Err(error) => error,
    }
}

/// Where the kubelet of a node would listen.
///
/// # Errors
/// What the server answers where there is no such node, or one without an address.
pub(super) fn kubelet(context: &Context<'_>, name: &str) -> Result<String, ApiError> {
    let node = context.shared.server.get("", "nodes", "", name);
    let node = node.ok_or_else(|| missing(context, name))?;
    let addresses = node["status"]["addresses"].as_array();
    let address_of = |kind: &&str| -> Option<&str> {
        let mut all = addresses.into_iter().flatten();
        all.find(|address| address["type"] == **kind)
            .and_then(|address| address["address"].as_str())
    };
    let preferred = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
    let Some(address) = preferred.iter().find_map(address_of) else {
        let message = "no preferred addresses found; known addresses: []";
        return Err(ApiError::new(500, "", message));
    };
    let port = node.pointer("/status/daemonEndpoints/kubeletEndpoint/Port");
    let port = port.and_then(Value::as_u64).filter(|port| *port > 0);
    Ok(format!("{address}:{}", port.unwrap_or(KUBELET_PORT)))
}
