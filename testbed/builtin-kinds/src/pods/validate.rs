//! What is wrong with a pod, a pod template, or a change of a pod.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::check;
use super::super::require;
use super::super::shown;
use super::super::value::{at, has, list, number, set, text};
use super::{containers, scheduling, security, volumes};

/// The fields of a running pod that may change.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

const POLICIES: [(&str, &[&str]); 2] = [
    ("restartPolicy", &["Always", "OnFailure", "Never"]),
    (
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    ),
];
/// What a taint does to pods that do not tolerate it.
pub(crate) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const MAX_SECONDS: i64 = i32::MAX as i64;

/// A new pod.
pub(super) fn pod(pod: &Value) -> Vec<FieldError> {
    let mut errors = pod_and_spec(pod);
    if !list(pod, &["spec", "ephemeralContainers"]).is_empty() {
        errors.push(FieldError::forbidden(
            "spec.ephemeralContainers",
            "cannot be set on create",
        ));
    }
    let gated = !list(pod, &["spec", "schedulingGates"]).is_empty();
    if gated && !text(pod, &["spec", "nodeName"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", why));
    }
    errors
}

/// The template of a kind whose Pods run until they are deleted.
pub(crate) fn running_template(template: &Value, field: &str, kind: &str) -> Vec<FieldError> {
    let mut errors = self::template(template, field);
    let spec = at(template, &["spec"]);
    errors.extend(check::one_of(
        &format!("{field}.spec.restartPolicy"),
        text(spec, &["restartPolicy"]),
        &["Always"],
    ));
    if has(spec, &["activeDeadlineSeconds"]) {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        let field = format!("{field}.spec.activeDeadlineSeconds");
        errors.push(FieldError::forbidden(field, why));
    }
    errors
}

/// The template of Pods of any kind.
pub(crate) fn template(template: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = check::labels(template, &["metadata", "labels"], &format!("{field}.labels"));
    let spec = at(template, &["spec"]);
    errors.extend(pod_spec(spec, &format!("{field}.spec"), false));
    if !list(spec, &["ephemeralContainers"]).is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(format!("{field}.spec.ephemeralContainers"), why));
    }
    errors
}

/// A change of a pod.
pub(super) fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Status {
        return status_update(new, old);
    }
    let mut errors = pod_and_spec(new);
    for key in ["containers", "initContainers"] {
        let (after, before) = (list(new, &["spec", key]), list(old, &["spec", key]));
        if after.len() != before.len() {
            let why = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{key}"), why));
            return errors;
        }
        for (index, container) in after.iter().enumerate() {
            if text(container, &["image"]).is_empty() {
                errors.push(FieldError::required(format!("spec.{key}[{index}].image"), ""));
            }
        }
    }
    let (after, stop) = deadline(new, old);
    errors.extend(after);
    if stop {
        return errors;
    }
    errors.extend(tolerations_only_grow(new, old));
    if changes_more(new, old) {
        let why = format!("pod updates may not change fields other than {CHANGEABLE}");
        errors.push(FieldError::forbidden("spec", why));
    }
    errors
}

fn pod_and_spec(pod: &Value) -> Vec<FieldError> {
    let mut errors = pod_spec(at(pod, &["spec"]), "spec", true);
    for key in ["containers", "initContainers"] {
        for (index, container) in list(pod, &["spec", key]).iter().enumerate() {
            let image = text(container, &["image"]);
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                errors.push(FieldError::invalid(format!("spec.{key}[{index}].image"), image, why));
            }
        }
    }
    errors
}

fn pod_spec(spec: &Value, field: &str, is_pod: bool) -> Vec<FieldError> {
    let mut errors = volumes::all(spec, &format!("{field}.volumes"));
    errors.extend(containers::regular(spec, field));
    errors.extend(containers::init(spec, field));
    if at(spec, &["hostNetwork"]) == true {
        errors.extend(host_network_ports(spec, field, is_pod));
    }
    for (key, allowed) in POLICIES {
        let field = format!("{field}.{key}");
        errors.extend(check::one_of(&field, text(spec, &[key]), allowed));
    }
    let selector = format!("{field}.nodeSelector");
    errors.extend(check::labels(spec, &["nodeSelector"], &selector));
    let context = format!("{field}.securityContext");
    errors.extend(security::of_pod(at(spec, &["securityContext"]), &context));
    let affinity = at(spec, &["affinity"]);
    errors.extend(scheduling::affinity(affinity, &format!("{field}.affinity")));
    errors.extend(security::dns(spec, field));
    errors.extend(gates(spec, "readinessGates", "conditionType", field));
    errors.extend(gates(spec, "schedulingGates", "name", field));
    errors.extend(scheduling::spread(spec, field));
    errors.extend(named(spec, field));
    let key = "activeDeadlineSeconds";
    let why = "must be between 1 and 2147483647, inclusive";
    let in_time = |seconds| (1..=MAX_SECONDS).contains(&seconds);
    errors.extend(require::holds(spec, key, field, in_time, why));
    errors.extend(tolerations(spec, &format!("{field}.tolerations")));
    errors.extend(host_aliases(spec, field));
    let policies = &["PreemptLowerPriority", "Never"];
    errors.extend(require::known(spec, "preemptionPolicy", field, policies));
    errors
}

/// Fields that hold the name of something.
fn named(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, rule) in [
        (
            "serviceAccountName",
            validation::dns_subdomain as fn(&str, bool) -> Vec<String>,
        ),
        ("nodeName", validation::dns_subdomain),
        ("hostname", validation::dns_label),
        ("subdomain", validation::dns_label),
        ("priorityClassName", validation::dns_subdomain),
        ("runtimeClassName", validation::dns_subdomain),
    ] {
        let name = text(spec, &[key]);
        if !name.is_empty() {
            errors.extend(check::invalid(&format!("{field}.{key}"), name, rule(name, false)));
        }
    }
    errors
}

fn gates(spec: &Value, key: &str, member: &str, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let gates = list(spec, &[key]);
    for (index, gate) in gates.iter().enumerate() {
        let mut field = format!("{field}.{key}[{index}]");
        let name = text(gate, &[member]);
        if key == "readinessGates" {
            field.push_str(".conditionType");
        }
        errors.extend(check::invalid(&field, name, validation::label_key(name)));
        if key == "schedulingGates" && gates[..index].contains(gate) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
    errors
}

fn host_network_ports(spec: &Value, field: &str, is_pod: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, container) in list(spec, &["containers"]).iter().enumerate() {
        for (position, port) in list(container, &["ports"]).iter().enumerate() {
            let host = number(port, &["hostPort"]).unwrap_or(0);
            let own = number(port, &["containerPort"]).unwrap_or(0);
            if (is_pod || host != 0) && host != own {
                let field = format!("{field}.containers[{index}].ports[{position}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(field, host, why));
            }
        }
    }
    errors
}

/// Tolerations of a pod, or of what has them for one.
pub(crate) fn tolerations(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        errors.extend(validate_toleration(toleration, &format!("{field}[{index}]")));
    }
    errors
}

fn validate_toleration(toleration: &Value, field: &str) -> Vec<FieldError> {
    let part = |key: &str| text(toleration, &[key]);
    let (key, operator, value, effect) = (part("key"), part("operator"), part("value"), part("effect"));
    let operator_field = format!("{field}.operator");
    let mut errors = Vec::new();
    if !key.is_empty() {
        let field = format!("{field}.key");
        errors.extend(check::invalid(&field, key, validation::label_key(key)));
    } else if operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&operator_field, operator, why));
    }
    if has(toleration, &["tolerationSeconds"]) && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(format!("{field}.effect"), effect, why));
    }
    match operator {
        "Equal" | "" => errors.extend(check::label_value(value, &operator_field)),
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(operator_field, value, why));
        }
        "Exists" => {}
        "Lt" | "Gt" => errors.push(FieldError::not_supported(
            operator_field,
            operator,
            &["Equal", "Exists", "Lt", "Gt"],
        )),
        other => errors.extend(check::one_of(&operator_field, other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() {
        let field = format!("{field}.effect");
        errors.extend(check::one_of(&field, effect, &TAINT_EFFECTS));
    }
    errors
}

fn host_aliases(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, alias) in list(spec, &["hostAliases"]).iter().enumerate() {
        let field = format!("{field}.hostAliases[{index}]");
        errors.extend(check::ip(text(alias, &["ip"]), &format!("{field}.ip")));
        for (position, host) in list(alias, &["hostnames"]).iter().enumerate() {
            let host = host.as_str().unwrap_or("");
            let field = format!("{field}.hostnames[{position}]");
            errors.extend(check::invalid(&field, host, validation::dns_subdomain(host, false)));
        }
    }
    errors
}

/// A deadline may be set or shortened. The flag says that nothing else is worth checking.
fn deadline(new: &Value, old: &Value) -> (Vec<FieldError>, bool) {
    let field = "spec.activeDeadlineSeconds";
    let value = |pod: &Value| number(pod, &["spec", "activeDeadlineSeconds"]);
    match (value(new), value(old)) {
        (Some(after), _) if !(0..=MAX_SECONDS).contains(&after) => {
            let why = "must be between 0 and 2147483647, inclusive";
            (vec![FieldError::invalid(field, after, why)], true)
        }
        (Some(after), Some(before)) if before < after => {
            let why = "must be less than or equal to previous value";
            (vec![FieldError::invalid(field, after, why)], true)
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            (vec![shown::invalid(field, "null", why)], false)
        }
        _ => (Vec::new(), false),
    }
}

fn tolerations_only_grow(new: &Value, old: &Value) -> Vec<FieldError> {
    let field = "spec.tolerations";
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        set(&mut toleration, &["tolerationSeconds"], Value::Null);
        toleration
    };
    let after: Vec<Value> = list(new, &["spec", "tolerations"]).iter().map(timeless).collect();
    let kept = list(old, &["spec", "tolerations"])
        .iter()
        .all(|old| after.contains(&timeless(old)));
    if !kept {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        return vec![FieldError::forbidden(field, why)];
    }
    tolerations(at(new, &["spec"]), field)
}

/// Whether anything differs that may not.
fn changes_more(new: &Value, old: &Value) -> bool {
    let fixed = |pod: &Value| {
        let mut spec = at(pod, &["spec"]).clone();
        for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
            set(&mut spec, &[key], Value::Null);
        }
        for key in ["containers", "initContainers"] {
            for container in super::super::value::items_mut(&mut spec, &[key]) {
                set(container, &["image"], Value::Null);
            }
        }
        let negative = number(old, &["spec", "terminationGracePeriodSeconds"]).is_some_and(|s| s < 0);
        if negative && number(&spec, &["terminationGracePeriodSeconds"]).is_some_and(|s| s == 1 || s < 0) {
            set(&mut spec, &["terminationGracePeriodSeconds"], Value::Null);
        }
        spec
    };
    fixed(new) != fixed(old)
}

fn status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nominated = text(new, &["status", "nominatedNodeName"]);
    if !nominated.is_empty() && nominated != text(old, &["status", "nominatedNodeName"]) {
        let field = "status.nominatedNodeName";
        errors.extend(check::invalid(
            field,
            nominated,
            validation::dns_subdomain(nominated, false),
        ));
        if !text(old, &["spec", "nodeName"]).is_empty() {
            let why = "may not be set on pods that are already bound to a node";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    errors.extend(check::immutable(new, old, &["status", "qosClass"]));
    for (list_key, single) in [("podIPs", "ip"), ("hostIPs", "ip")] {
        for (index, entry) in list(new, &["status", list_key]).iter().enumerate() {
            let field = format!("status.{list_key}[{index}]");
            errors.extend(check::ip(text(entry, &[single]), &field));
        }
    }
    errors
}
