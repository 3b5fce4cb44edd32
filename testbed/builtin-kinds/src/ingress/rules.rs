//! What is wrong with the rules, backends and addresses of an ingress.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::value::{at, has, list, number, text};
use super::super::{check, require};
use super::object_reference;

/// What a path that is matched literally may not contain or end with.
const SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const SUFFIXES: [&str; 2] = ["/..", "/."];

/// The spec of an ingress.
pub(super) fn spec(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if list(spec, &["rules"]).is_empty() && !has(spec, &["defaultBackend"]) {
        let why = "either `defaultBackend` or `rules` must be specified";
        let rules = at(spec, &["rules"]).clone();
        errors.push(FieldError::invalid("spec", rules, why));
    }
    let fallback = at(spec, &["defaultBackend"]);
    if !fallback.is_null() {
        errors.extend(backend(fallback, "spec.defaultBackend"));
    }
    errors.extend(require::each(spec, "rules", "spec", validate_rule));
    errors.extend(require::each(spec, "tls", "spec", validate_tls));
    let rule = |class: &str| validation::dns_subdomain(class, false);
    errors.extend(require::spelled(spec, "ingressClassName", "spec", rule));
    errors
}

fn validate_tls(tls: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = require::each(tls, "hosts", field, |host, field| {
        dns_name(host.as_str().unwrap_or(""), field)
    });
    let secret = text(tls, &["secretName"]);
    if !secret.is_empty() {
        let (field, wrong) = (format!("{field}.secretName"), validation::dns_subdomain(secret, false));
        errors.extend(check::invalid(&field, secret, wrong));
    }
    errors
}

fn dns_name(host: &str, field: &str) -> Vec<FieldError> {
    let wrong = if host.contains('*') {
        validation::wildcard_subdomain(host)
    } else {
        validation::dns_subdomain(host, false)
    };
    check::invalid(field, host, wrong)
}

fn validate_rule(rule: &Value, field: &str) -> Vec<FieldError> {
    let host = text(rule, &["host"]);
    let mut errors = Vec::new();
    if !host.is_empty() {
        let field = format!("{field}.host");
        errors.extend(not_an_ip(host, &field));
        errors.extend(dns_name(host, &field));
    }
    let http = at(rule, &["http"]);
    if http.is_null() {
        return errors;
    }
    let field = format!("{field}.http");
    if list(http, &["paths"]).is_empty() {
        errors.push(FieldError::required(format!("{field}.paths"), ""));
    }
    errors.extend(require::each(http, "paths", &field, validate_path));
    errors
}

fn not_an_ip(host: &str, field: &str) -> Option<FieldError> {
    let why = "must be a DNS name, not an IP address";
    host.parse::<std::net::IpAddr>()
        .is_ok()
        .then(|| FieldError::invalid(field, host, why))
}

fn validate_path(path: &Value, field: &str) -> Vec<FieldError> {
    let given = text(path, &["path"]);
    let refused = |why: String| FieldError::invalid(format!("{field}.path"), given, why);
    let relative = || (!given.starts_with('/')).then(|| refused("must be an absolute path".to_owned()));
    let mut errors = Vec::new();
    match at(path, &["pathType"]).as_str() {
        None => {
            let why = "pathType must be specified";
            return vec![FieldError::required(format!("{field}.pathType"), why)];
        }
        Some("Exact" | "Prefix") => {
            errors.extend(relative());
            let within = SEQUENCES.iter().filter(|part| given.contains(**part));
            errors.extend(within.map(|part| refused(format!("must not contain '{part}'"))));
            let ends = SUFFIXES.iter().filter(|part| given.ends_with(**part));
            errors.extend(ends.map(|part| refused(format!("cannot end with '{part}'"))));
        }
        Some("ImplementationSpecific") if given.is_empty() => {}
        Some("ImplementationSpecific") => errors.extend(relative()),
        Some(other) => {
            let allowed = &["Exact", "ImplementationSpecific", "Prefix"];
            errors.extend(check::one_of(&format!("{field}.pathType"), other, allowed));
        }
    }
    errors.extend(backend(at(path, &["backend"]), &format!("{field}.backend")));
    errors
}

fn backend(backend: &Value, field: &str) -> Vec<FieldError> {
    let (resource, service) = (at(backend, &["resource"]), at(backend, &["service"]));
    match (resource.is_null(), service.is_null()) {
        (false, false) => {
            let why = "cannot set both resource and service backends";
            vec![FieldError::invalid(field, "", why)]
        }
        (false, true) => object_reference(resource, &format!("{field}.resource")),
        (true, false) => service_backend(service, field),
        (true, true) => {
            let why = "resource or service backend is required";
            vec![FieldError::invalid(field, "", why)]
        }
    }
}

fn service_backend(service: &Value, field: &str) -> Vec<FieldError> {
    let name = text(service, &["name"]);
    let mut errors = match name {
        "" => vec![FieldError::required(format!("{field}.service.name"), "")],
        name => {
            let wrong = validation::dns_label(name, false);
            check::invalid(&format!("{field}.service.name"), name, wrong)
        }
    };
    let port_name = text(service, &["port", "name"]);
    let port = number(service, &["port", "number"]).unwrap_or(0);
    match (port_name, port) {
        ("", 0) => errors.push(FieldError::required(field, "port name or number is required")),
        ("", port) => {
            let field = format!("{field}.service.port.number");
            errors.extend(check::port_number(port).map(|why| FieldError::invalid(field, port, why)));
        }
        (named, 0) => {
            let field = format!("{field}.service.port.name");
            errors.extend(check::invalid(&field, named, validation::port_name(named)));
        }
        _ => {
            let why = "cannot set both port name & port number";
            errors.push(FieldError::invalid(field, "", why));
        }
    }
    errors
}

/// The addresses in the status of an ingress.
pub(super) fn addresses(ingress: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let points = list(ingress, &["status", "loadBalancer", "ingress"]);
    for (index, point) in points.iter().enumerate() {
        let field = format!("status.loadBalancer.ingress[{index}]");
        let (ip, host) = (text(point, &["ip"]), text(point, &["hostname"]));
        if !ip.is_empty() {
            errors.extend(check::ip(ip, &format!("{field}.ip")));
        }
        if !host.is_empty() {
            let field = format!("{field}.hostname");
            errors.extend(check::invalid(&field, host, validation::dns_subdomain(host, false)));
            errors.extend(not_an_ip(host, &field));
        }
    }
    errors
}
