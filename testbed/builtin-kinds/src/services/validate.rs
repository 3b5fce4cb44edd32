//! What is wrong with a service.

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use serde_json::{Value, json};

use super::super::check;
use super::super::require;
use super::super::shown;
use super::super::value::{at, has, list, number, text};
use super::{addresses, externally_accessible, needs_health_check};

const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// A change.
pub(super) fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Status {
        return load_balancer_status(new);
    }
    let mut errors = addresses::stay(new, old);
    let class = ["spec", "loadBalancerClass"];
    if is(new, "LoadBalancer") && is(old, "LoadBalancer") && at(new, &class) != at(old, &class) {
        let why = "may not change once set";
        errors.push(shown::invalid(
            "spec.loadBalancerClass",
            &at(new, &class).to_string(),
            why,
        ));
    }
    let port = ["spec", "healthCheckNodePort"];
    if needs_health_check(new) && needs_health_check(old) && at(new, &port) != at(old, &port) {
        errors.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    errors.extend(service(new));
    errors
}

fn is(service: &Value, kind: &str) -> bool {
    text(service, &["spec", "type"]) == kind
}

/// A service, new or changed.
pub(super) fn service(service: &Value) -> Vec<FieldError> {
    let mut errors = by_type(service);
    let ports = list(service, &["spec", "ports"]);
    for (index, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{index}]");
        errors.extend(validate_port(port, &ports[..index], ports.len() > 1, &field));
    }
    errors.extend(check::labels(service, &["spec", "selector"], "spec.selector"));
    errors.extend(affinity(service));
    errors.extend(addresses::cluster_ips(service));
    errors.extend(external_ips(service));
    let kind = text(service, &["spec", "type"]);
    errors.extend(check::one_of("spec.type", kind, &TYPES));
    errors.extend(node_ports(service, ports));
    errors.extend(duplicates(ports));
    errors.extend(source_ranges(service));
    if has(service, &["spec", "allocateLoadBalancerNodePorts"]) && kind != "LoadBalancer" {
        let field = "spec.allocateLoadBalancerNodePorts";
        errors.push(FieldError::forbidden(field, ONLY_BALANCED));
    }
    errors.extend(balancer_class(service));
    errors.extend(external_policy(service));
    errors.extend(other_policies(service));
    errors
}

fn external_ips(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, ip) in list(service, &["spec", "externalIPs"]).iter().enumerate() {
        let (ip, field) = (ip.as_str().unwrap_or(""), format!("spec.externalIPs[{index}]"));
        let wrong = check::ip(ip, &field);
        let unusable = || check::endpoint_ip(ip, &field);
        errors.extend(if wrong.is_empty() { unusable() } else { wrong });
    }
    errors
}

fn by_type(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let headless = addresses::is_headless(service);
    if list(service, &["spec", "ports"]).is_empty() && !headless && !is(service, "ExternalName") {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match text(service, &["spec", "type"]) {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid("spec.clusterIPs[0]", "None", why));
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if has(service, &["spec", key]) {
                    let why = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(format!("spec.{key}"), why));
                }
            }
            let name = text(service, &["spec", "externalName"]);
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.push(FieldError::required("spec.externalName", "")),
                name => errors.extend(check::invalid(
                    "spec.externalName",
                    name,
                    validation::dns_subdomain(name, false),
                )),
            }
        }
        _ => {}
    }
    errors
}

fn validate_port(port: &Value, earlier: &[Value], require_name: bool, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(port, &["name"]);
    let name_field = format!("{field}.name");
    if name.is_empty() && require_name {
        errors.push(FieldError::required(&name_field, ""));
    } else if !name.is_empty() {
        errors.extend(check::invalid(&name_field, name, validation::dns_label(name, false)));
        if earlier.iter().any(|other| text(other, &["name"]) == name) {
            errors.push(FieldError::duplicate(&name_field, name));
        }
    }
    let own = number(port, &["port"]).unwrap_or(0);
    errors.extend(check::port_number(own).map(|why| FieldError::invalid(format!("{field}.port"), own, why)));
    let protocol = text(port, &["protocol"]);
    errors.extend(check::one_of(
        &format!("{field}.protocol"),
        protocol,
        &["SCTP", "TCP", "UDP"],
    ));
    errors.extend(check::port_number_or_name(
        at(port, &["targetPort"]),
        &format!("{field}.targetPort"),
    ));
    let rule = validation::label_key;
    errors.extend(require::spelled(port, "appProtocol", field, rule));
    errors
}

fn affinity(service: &Value) -> Vec<FieldError> {
    let kind = text(service, &["spec", "sessionAffinity"]);
    let mut errors = check::one_of("spec.sessionAffinity", kind, &["ClientIP", "None"]);
    let timeout = number(
        service,
        &["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"],
    );
    if let Some(timeout) = timeout.filter(|timeout| kind == "ClientIP" && !(1..=86400).contains(timeout)) {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        errors.push(FieldError::invalid(
            field,
            timeout,
            "must be greater than 0 and less than 86400",
        ));
    }
    errors
}

fn node_ports(service: &Value, ports: &[Value]) -> Vec<FieldError> {
    if !is(service, "ClusterIP") {
        return Vec::new();
    }
    let taken = ports
        .iter()
        .enumerate()
        .filter(|(_, port)| number(port, &["nodePort"]).unwrap_or(0) != 0);
    taken
        .map(|(index, _)| {
            let why = "may not be used when `type` is 'ClusterIP'";
            FieldError::forbidden(format!("spec.ports[{index}].nodePort"), why)
        })
        .collect()
}

/// No two ports may share a protocol and a number, on the service or on the nodes.
fn duplicates(ports: &[Value]) -> Vec<FieldError> {
    let repeated = |index: usize, key: &str| {
        let (value, protocol) = (at(&ports[index], &[key]), text(&ports[index], &["protocol"]));
        let same = |port: &Value| at(port, &[key]) == value && text(port, &["protocol"]) == protocol;
        !value.is_null() && *value != 0 && ports[..index].iter().any(same)
    };
    let mut errors = Vec::new();
    for index in (0..ports.len()).filter(|index| repeated(*index, "nodePort")) {
        let field = format!("spec.ports[{index}].nodePort");
        let value = at(&ports[index], &["nodePort"]).clone();
        errors.push(FieldError::new(ErrorType::Duplicate, field, value, ""));
    }
    for index in (0..ports.len()).filter(|index| repeated(*index, "port")) {
        let raw = shown::object(&[
            ("Name", json!("").to_string()),
            ("Protocol", at(&ports[index], &["protocol"]).to_string()),
            ("AppProtocol", json!(null).to_string()),
            ("Port", at(&ports[index], &["port"]).to_string()),
            ("TargetPort", json!(0).to_string()),
            ("NodePort", json!(0).to_string()),
        ]);
        errors.push(shown::duplicate(format!("spec.ports[{index}]"), &raw, ""));
    }
    errors
}

fn source_ranges(service: &Value) -> Vec<FieldError> {
    let ranges = list(service, &["spec", "loadBalancerSourceRanges"]);
    let mut errors = Vec::new();
    // The server spells this field with a capital.
    let field = "spec.LoadBalancerSourceRanges";
    if !ranges.is_empty() && !is(service, "LoadBalancer") {
        errors.push(FieldError::forbidden(field, ONLY_BALANCED));
    }
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or("").trim();
        errors.extend(check::cidr(range, &format!("{field}[{index}]")));
    }
    errors
}

fn balancer_class(service: &Value) -> Vec<FieldError> {
    let field = "spec.loadBalancerClass";
    match at(service, &["spec", "loadBalancerClass"]).as_str() {
        None => Vec::new(),
        Some(class) if is(service, "LoadBalancer") => check::invalid(field, class, validation::label_key(class)),
        Some(_) => vec![FieldError::forbidden(field, ONLY_BALANCED)],
    }
}

fn external_policy(service: &Value) -> Vec<FieldError> {
    let field = "spec.externalTrafficPolicy";
    let policy = text(service, &["spec", "externalTrafficPolicy"]);
    let mut errors = match (externally_accessible(service), policy) {
        (false, "") => Vec::new(),
        (false, policy) => {
            let why = "may only be set for externally-accessible services";
            vec![FieldError::invalid(field, policy, why)]
        }
        (true, policy) => check::one_of(field, policy, &["Cluster", "Local"]),
    };
    let port = number(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
    if port != 0 && !needs_health_check(service) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid("spec.healthCheckNodePort", port, why));
    }
    errors
}

fn other_policies(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, allowed) in [
        ("internalTrafficPolicy", ["Cluster", "Local"].as_slice()),
        (
            "trafficDistribution",
            &["PreferClose", "PreferSameZone", "PreferSameNode"],
        ),
    ] {
        if let Some(policy) = at(service, &["spec", key]).as_str() {
            errors.extend(check::one_of(&format!("spec.{key}"), policy, allowed));
        }
    }
    errors
}

fn load_balancer_status(service: &Value) -> Vec<FieldError> {
    let field = "status.loadBalancer.ingress";
    let ingresses = list(service, &["status", "loadBalancer", "ingress"]);
    if !is(service, "LoadBalancer") && !ingresses.is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return vec![FieldError::forbidden(field, why)];
    }
    let items = ingresses.iter().enumerate();
    items
        .flat_map(|(index, ingress)| ingress_point(ingress, &format!("{field}[{index}]")))
        .collect()
}

fn ingress_point(ingress: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (ip, host) = (text(ingress, &["ip"]), text(ingress, &["hostname"]));
    if !ip.is_empty() {
        errors.extend(check::ip(ip, &format!("{field}.ip")));
    }
    let mode_field = format!("{field}.ipMode");
    match at(ingress, &["ipMode"]).as_str() {
        Some(_) if ip.is_empty() => {
            let why = "may not be specified when `ip` is not set";
            errors.push(FieldError::forbidden(mode_field, why));
        }
        Some(mode) => errors.extend(check::one_of(&mode_field, mode, &["Proxy", "VIP"])),
        None if !ip.is_empty() => {
            let why = "must be specified when `ip` is set";
            errors.push(FieldError::required(mode_field, why));
        }
        None => {}
    }
    if !host.is_empty() {
        let field = format!("{field}.hostname");
        errors.extend(check::invalid(&field, host, validation::dns_subdomain(host, false)));
        if host.parse::<std::net::IpAddr>().is_ok() {
            let why = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(field, host, why));
        }
    }
    errors
}

/// Warnings for a write.
pub(super) fn warnings(service: &Value) -> Vec<String> {
    let headless = addresses::is_headless(service);
    let external_name = is(service, "ExternalName");
    let external_ips = !list(service, &["spec", "externalIPs"]).is_empty();
    let set = |key: &str| !text(service, &["spec", key]).is_empty();
    [
        (
            headless && set("loadBalancerIP"),
            "spec.loadBalancerIP is ignored for headless services",
        ),
        (
            headless && external_ips,
            "spec.externalIPs is ignored for headless services",
        ),
        (
            headless && text(service, &["spec", "sessionAffinity"]) != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            external_ips && !headless && !external_name,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (
            external_name && external_ips,
            "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
        ),
        (
            !external_name && set("externalName"),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            text(service, &["spec", "trafficDistribution"]) == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ]
    .into_iter()
    .filter(|(applies, _)| *applies)
    .map(|(_, warning)| warning.to_owned())
    .collect()
}
