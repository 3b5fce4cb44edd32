//! What is wrong with the containers of a pod.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::check;
use super::super::require;
use super::super::value::{at, has, list, number, text};
use super::{environment, resources, security, volumes};

const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];

/// The regular containers.
pub(super) fn regular(spec: &Value, field: &str) -> Vec<FieldError> {
    let field = format!("{field}.containers");
    let containers = list(spec, &["containers"]);
    if containers.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let field = format!("{field}[{index}]");
        errors.extend(common(container, spec, &field));
        let name = text(container, &["name"]);
        if containers[..index]
            .iter()
            .any(|earlier| text(earlier, &["name"]) == name)
        {
            errors.push(FieldError::duplicate(format!("{field}.name"), name));
        }
        errors.extend(running(container, spec, &field));
        let policies = &RESTART_POLICIES;
        errors.extend(require::known(container, "restartPolicy", &field, policies));
    }
    errors.extend(host_ports(containers, &field));
    errors
}

/// The init containers.
pub(super) fn init(spec: &Value, field: &str) -> Vec<FieldError> {
    let field = format!("{field}.initContainers");
    let containers = list(spec, &["initContainers"]);
    let mut errors = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let item = format!("{field}[{index}]");
        errors.extend(common(container, spec, &item));
        let policies = &RESTART_POLICIES;
        errors.extend(require::known(container, "restartPolicy", &item, policies));
        let name = text(container, &["name"]);
        let mut others = list(spec, &["containers"]).iter().chain(&containers[..index]);
        if others.any(|other| text(other, &["name"]) == name && !name.is_empty()) {
            errors.push(FieldError::duplicate(format!("{item}.name"), name));
        }
        // Init containers run one by one, so each is looked at alone (and named as the first).
        errors.extend(host_ports(std::slice::from_ref(container), &field));
        if text(container, &["restartPolicy"]) == "Always" {
            errors.extend(running(container, spec, &item));
            continue;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(container, &[key]) {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(format!("{item}.{key}"), why));
            }
        }
    }
    errors
}

fn common(container: &Value, spec: &Value, field: &str) -> Vec<FieldError> {
    let below = |key: &str| format!("{field}.{key}");
    let word = |key: &str, allowed: &[&str]| check::one_of(&below(key), text(container, &[key]), allowed);
    let label = |name: &str| validation::dns_label(name, false);
    let mut errors = require::named(container, "name", field, label);
    errors.extend(require::given(container, "image", field, ""));
    let policies = ["File", "FallbackToLogsOnError"];
    errors.extend(word("terminationMessagePolicy", &policies));
    errors.extend(ports(container, &below("ports")));
    errors.extend(environment::env(container, &below("env")));
    errors.extend(environment::env_from(container, &below("envFrom")));
    errors.extend(volumes::mounts(container, spec, &below("volumeMounts")));
    let policies = ["Always", "IfNotPresent", "Never"];
    errors.extend(word("imagePullPolicy", &policies));
    let resources = at(container, &["resources"]);
    errors.extend(resources::requirements(resources, &below("resources")));
    let context = at(container, &["securityContext"]);
    errors.extend(security::of_container(context, &below("securityContext")));
    errors
}

/// Probes and hooks of containers that keep running.
fn running(container: &Value, spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let grace = number(spec, &["terminationGracePeriodSeconds"]).unwrap_or(0);
    for hook in ["postStart", "preStop"] {
        let handler = at(container, &["lifecycle", hook]);
        if !handler.is_null() {
            errors.extend(validate_handler(handler, grace, &format!("{field}.lifecycle.{hook}")));
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = at(container, &[key]);
        if !probe.is_null() {
            errors.extend(validate_probe(probe, key, grace, &format!("{field}.{key}")));
        }
    }
    errors
}

fn validate_probe(probe: &Value, kind: &str, grace: i64, field: &str) -> Vec<FieldError> {
    let mut errors = validate_handler(probe, grace, field);
    for key in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errors.extend(check::nonnegative(probe, &[key], &format!("{field}.{key}")));
    }
    let grace_field = format!("{field}.terminationGracePeriodSeconds");
    if let Some(seconds) = number(probe, &["terminationGracePeriodSeconds"]) {
        if seconds <= 0 {
            errors.push(FieldError::invalid(&grace_field, seconds, "must be greater than 0"));
        }
        if kind == "readinessProbe" {
            errors.push(FieldError::invalid(
                grace_field,
                seconds,
                "must not be set for readinessProbes",
            ));
        }
    }
    let successes = number(probe, &["successThreshold"]).unwrap_or(0);
    if kind != "readinessProbe" && successes != 1 {
        errors.push(FieldError::invalid(
            format!("{field}.successThreshold"),
            successes,
            "must be 1",
        ));
    }
    errors
}

fn validate_handler(handler: &Value, grace: i64, field: &str) -> Vec<FieldError> {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let mut given = kinds.iter().filter(|kind| has(handler, &[kind]));
    let Some(first) = given.next() else {
        return vec![FieldError::required(field, "must specify a handler type")];
    };
    let mut errors = validate_action(at(handler, &[first]), first, grace, &format!("{field}.{first}"));
    errors.extend(
        given.map(|kind| FieldError::forbidden(format!("{field}.{kind}"), "may not specify more than 1 handler type")),
    );
    errors
}

fn validate_action(action: &Value, kind: &str, grace: i64, field: &str) -> Vec<FieldError> {
    let port = || check::port_number_or_name(at(action, &["port"]), &format!("{field}.port"));
    match kind {
        "exec" if list(action, &["command"]).is_empty() => {
            vec![FieldError::required(format!("{field}.command"), "")]
        }
        "httpGet" => {
            let mut errors = port();
            let scheme = text(action, &["scheme"]);
            errors.extend(check::one_of(&format!("{field}.scheme"), scheme, &["HTTP", "HTTPS"]));
            for header in list(action, &["httpHeaders"]) {
                let name = text(header, &["name"]);
                errors.extend(check::invalid(
                    &format!("{field}.httpHeaders"),
                    name,
                    validation::http_header(name),
                ));
            }
            errors
        }
        "tcpSocket" | "grpc" => port(),
        "sleep" => {
            let seconds = number(action, &["seconds"]).unwrap_or(0);
            if (0..=grace).contains(&seconds) {
                return Vec::new();
            }
            let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            vec![FieldError::invalid(field, seconds, why)]
        }
        _ => Vec::new(),
    }
}

fn ports(container: &Value, field: &str) -> Vec<FieldError> {
    let ports = list(container, &["ports"]);
    let mut errors = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name = text(port, &["name"]);
        if !name.is_empty() {
            let wrong = validation::port_name(name);
            let repeated = ports[..index].iter().any(|earlier| text(earlier, &["name"]) == name);
            if wrong.is_empty() && repeated {
                errors.push(FieldError::duplicate(format!("{field}.name"), name));
            }
            errors.extend(check::invalid(&format!("{field}.name"), name, wrong));
        }
        let number_at = |key: &str| number(port, &[key]).unwrap_or(0);
        match number_at("containerPort") {
            0 => errors.push(FieldError::required(format!("{field}.containerPort"), "")),
            own => errors.extend(range(own, &format!("{field}.containerPort"))),
        }
        if number_at("hostPort") != 0 {
            errors.extend(range(number_at("hostPort"), &format!("{field}.hostPort")));
        }
        let protocol = text(port, &["protocol"]);
        errors.extend(check::one_of(
            &format!("{field}.protocol"),
            protocol,
            &["SCTP", "TCP", "UDP"],
        ));
    }
    errors
}

fn range(port: i64, field: &str) -> Option<FieldError> {
    check::port_number(port).map(|why| FieldError::invalid(field, port, why))
}

/// No two ports may claim the same port of the host.
fn host_ports(containers: &[Value], field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut claimed: Vec<String> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        for (position, port) in list(container, &["ports"]).iter().enumerate() {
            let Some(host) = number(port, &["hostPort"]).filter(|host| *host != 0) else {
                continue;
            };
            let claim = format!("{}/{}/{host}", text(port, &["protocol"]), text(port, &["hostIP"]));
            if claimed.contains(&claim) {
                let field = format!("{field}[{index}].ports[{position}].hostPort");
                errors.push(FieldError::duplicate(field, claim.as_str()));
            }
            claimed.push(claim);
        }
    }
    errors
}
