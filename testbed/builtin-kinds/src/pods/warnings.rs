//! What the server warns about in a pod or a pod template.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value::{at, has, list, number, text};
use super::annotated;

/// Warnings for a new pod.
pub(super) fn pod(pod: &Value) -> Vec<String> {
    let purpose =
        "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended";
    let mut warnings: Vec<String> = name(pod, purpose).into_iter().collect();
    warnings.extend(holder(pod, ""));
    warnings
}

/// Warnings for a new deployment or replica set.
pub(crate) fn workload(workload: &Value) -> Vec<String> {
    let mut warnings: Vec<String> = name_of_pods(workload).into_iter().collect();
    warnings.extend(template(workload));
    warnings
}

/// Warnings for the template of a deployment or replica set.
pub(crate) fn template(workload: &Value) -> Vec<String> {
    template_at(workload, &["spec", "template"])
}

/// Warnings for the template at `path` of an object.
pub(crate) fn template_at(object: &Value, path: &[&str]) -> Vec<String> {
    holder(at(object, path), &path.join("."))
}

/// What is said of a name that Pods are called after.
pub(crate) fn name_of_pods(object: &Value) -> Option<String> {
    let purpose =
        "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended";
    name(object, purpose)
}

fn name(object: &Value, purpose: &str) -> Option<String> {
    let wrong = validation::dns_label(text(object, &["metadata", "name"]), false);
    (!wrong.is_empty()).then(|| format!("metadata.name: {purpose}: [{}]", wrong.join(" ")))
}

/// Warnings for a pod, or for the template at `path`.
fn holder(holder: &Value, path: &str) -> Vec<String> {
    let spec = at(holder, &["spec"]);
    let field = match path {
        "" => "spec",
        path => &format!("{path}.spec"),
    };
    let mut warnings = repeated(spec, "hostAliases", "ip", field);
    warnings.extend(repeated(spec, "imagePullSecrets", "name", field));
    for (index, secret) in list(spec, &["imagePullSecrets"]).iter().enumerate() {
        if text(secret, &["name"]).is_empty() {
            warnings.push(format!(
                "{field}.imagePullSecrets[{index}].name: invalid empty name \"\""
            ));
        }
    }
    warnings.extend(annotated::of_pod(holder, path));
    let containers = containers(spec, field);
    for (container, field) in &containers {
        warnings.extend(annotated::of_container(holder, path, container));
        warnings.extend(fractions(container, field));
        warnings.extend(variables(container, field));
    }
    warnings.extend(ports(&containers));
    warnings.extend(port_names(&containers));
    if number(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{field}.terminationGracePeriodSeconds: {why}"));
    }
    warnings
}

/// All containers with their fields, in the order in which the server visits them.
fn containers<'a>(spec: &'a Value, field: &str) -> Vec<(&'a Value, String)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|key| {
            let items = list(spec, &[key]).iter().enumerate();
            items.map(move |(index, container)| (container, format!("{field}.{key}[{index}]")))
        })
        .collect()
}

fn repeated(spec: &Value, key: &str, member: &str, field: &str) -> Vec<String> {
    let items = list(spec, &[key]);
    let value = |index: usize| text(&items[index], &[member]);
    (0..items.len())
        .filter(|index| (0..*index).any(|earlier| value(earlier) == value(*index)))
        .map(|index| {
            format!(
                "{field}.{key}[{index}].{member}: duplicate {member} {}",
                go_quote(value(index))
            )
        })
        .collect()
}

fn fractions(container: &Value, field: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for resource in ["memory", "ephemeral-storage"] {
        for which in ["limits", "requests"] {
            let amount = text(container, &["resources", which, resource]);
            if Quantity::parse(amount).is_ok_and(|quantity| !quantity.is_whole()) {
                let why = format!(
                    "fractional byte value {} is invalid, must be an integer",
                    go_quote(amount)
                );
                warnings.push(format!("{field}.resources.{which}[{resource}]: {why}"));
            }
        }
    }
    warnings
}

fn variables(container: &Value, field: &str) -> Vec<String> {
    let variables = list(container, &["env"]);
    let mut warnings = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let (name, value) = (text(variable, &["name"]), text(variable, &["value"]));
        let reference = format!("$({name})");
        let extends = value.contains(&reference) && value != reference && !has(variable, &["valueFrom"]);
        let known = variables[..index]
            .iter()
            .any(|earlier| text(earlier, &["name"]) == name);
        if known && !extends {
            let why = "which may be dropped when using apply";
            warnings.push(format!(
                "{field}.env[{index}]: hides previous definition of {}, {why}",
                go_quote(name)
            ));
        }
    }
    warnings
}

fn ports(containers: &[(&Value, String)]) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen: Vec<(&Value, String)> = Vec::new();
    for (port, field) in all_ports(containers) {
        let same = |other: &Value, key: &str| at(other, &[key]) == at(port, &[key]);
        let host = |port: &Value| number(port, &["hostPort"]).unwrap_or(0);
        for (other, earlier) in &seen {
            if !same(other, "containerPort") || !same(other, "protocol") {
                continue;
            }
            let (mine, theirs) = (text(port, &["hostIP"]), text(other, &["hostIP"]));
            if mine == theirs && host(port) == host(other) {
                warnings.push(format!("{field}: duplicate port definition with {earlier}"));
            } else if host(port) == 0 || host(other) == 0 {
                warnings.push(format!("{field}: overlapping port definition with {earlier}"));
            } else if host(port) == host(other) && mine.is_empty() != theirs.is_empty() {
                warnings.push(format!("{field}: dangerously ambiguous port definition with {earlier}"));
            }
        }
        seen.push((port, field));
    }
    warnings
}

fn port_names(containers: &[(&Value, String)]) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen: Vec<(&str, String)> = Vec::new();
    for (port, field) in all_ports(containers) {
        let name = text(port, &["name"]);
        match seen.iter().find(|(other, _)| *other == name) {
            _ if name.is_empty() => {}
            Some((_, first)) => warnings.push(format!(
                "{field}: duplicate port name {} with {first}, services and probes that select ports by name will use {first}",
                go_quote(name)
            )),
            None => seen.push((name, field)),
        }
    }
    warnings
}

fn all_ports<'a>(containers: &[(&'a Value, String)]) -> Vec<(&'a Value, String)> {
    let ports = |(container, field): &(&'a Value, String)| {
        let field = field.clone();
        let items = list(container, &["ports"]).iter().enumerate();
        items
            .map(move |(index, port)| (port, format!("{field}.ports[{index}]")))
            .collect::<Vec<_>>()
    };
    containers.iter().flat_map(ports).collect()
}
