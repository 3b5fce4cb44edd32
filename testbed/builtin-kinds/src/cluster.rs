//! Namespaces and nodes.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::check;
use super::pods::TAINT_EFFECTS;
use super::print::{NONE, UNKNOWN, age, name, or};
use super::quantity::Quantity;
use super::require;
use super::shown;
use super::value::{at, default_to, has, list, members, restore, set, text};

/// How namespaces behave.
pub(super) const NAMESPACE: KindBehavior = KindBehavior {
    default: default_namespace,
    prepare_create: prepare_namespace,
    prepare_update: |namespace, old, part| {
        if part == Part::Main {
            restore(namespace, old, &["spec", "finalizers"]);
        }
        label(namespace);
    },
    validate: validate_namespace,
    validate_update: validate_namespace_status,
    name: validation::dns_label,
    selectable: |namespace| {
        vec![
            (
                "status.phase".to_owned(),
                text(namespace, &["status", "phase"]).to_owned(),
            ),
            // Not a field, but it always could be selected by.
            ("name".to_owned(), text(namespace, &["metadata", "name"]).to_owned()),
        ]
    },
    cells: |namespace, now| {
        vec![
            name(namespace),
            text(namespace, &["status", "phase"]).into(),
            age(namespace, now),
        ]
    },
    ..KindBehavior::PLAIN
};

/// How nodes behave.
pub(super) const NODE: KindBehavior = KindBehavior {
    default: default_node,
    prepare_create: prepare_node,
    validate: validate_node,
    validate_update: validate_node_update,
    validates_updates: false,
    keeps_status: true,
    selectable: |node| {
        let unschedulable = at(node, &["spec", "unschedulable"]) == true;
        vec![("spec.unschedulable".to_owned(), unschedulable.to_string())]
    },
    cells: node_cells,
    ..KindBehavior::PLAIN
};

fn default_namespace(namespace: &mut Value) {
    label(namespace);
    if let Some(status) = namespace.get_mut("status") {
        default_to(status, "phase", "Active");
    }
}

/// Every namespace carries its name as a label, so that selectors can pick it by name.
fn label(namespace: &mut Value) {
    let name = text(namespace, &["metadata", "name"]).to_owned();
    if !name.is_empty() {
        set(
            namespace,
            &["metadata", "labels", "kubernetes.io/metadata.name"],
            name.into(),
        );
    }
}

fn prepare_namespace(namespace: &mut Value) {
    label(namespace);
    set(namespace, &["status"], json!({ "phase": "Active" }));
    let mut finalizers = list(namespace, &["spec", "finalizers"]).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        finalizers.push(json!("kubernetes"));
    }
    set(namespace, &["spec", "finalizers"], finalizers.into());
}

fn validate_namespace(namespace: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for finalizer in list(namespace, &["spec", "finalizers"]) {
        let finalizer = finalizer.as_str().unwrap_or("");
        errors.extend(check::invalid(
            "spec.finalizers",
            finalizer,
            validation::label_key(finalizer),
        ));
        if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid("spec.finalizers", finalizer, why));
        }
    }
    errors
}

fn validate_namespace_status(namespace: &Value, _old: &Value, part: Part) -> Vec<FieldError> {
    if part != Part::Status {
        return Vec::new();
    }
    let phase = text(namespace, &["status", "phase"]);
    let (expected, when) = if has(namespace, &["metadata", "deletionTimestamp"]) {
        ("Terminating", "not empty")
    } else {
        ("Active", "empty")
    };
    if phase == expected {
        return Vec::new();
    }
    let why = format!("may only be '{expected}' if `deletionTimestamp` is {when}");
    vec![FieldError::invalid("status.Phase", phase, why)]
}

/// A node is not ready until its kubelet says so.
fn prepare_node(node: &mut Value) {
    let key = "node.kubernetes.io/not-ready";
    let mut taints = list(node, &["spec", "taints"]).to_vec();
    if !taints
        .iter()
        .any(|taint| text(taint, &["key"]) == key && text(taint, &["effect"]) == "NoSchedule")
    {
        taints.push(json!({ "key": key, "effect": "NoSchedule" }));
    }
    set(node, &["spec", "taints"], taints.into());
}

fn default_node(node: &mut Value) {
    // `podCIDR` is the old form of `podCIDRs`; the server keeps both alike.
    let first = list(node, &["spec", "podCIDRs"]).first().cloned();
    match (first, at(node, &["spec", "podCIDR"]).clone()) {
        (Some(first), _) => set(node, &["spec", "podCIDR"], first),
        (None, Value::String(only)) => set(node, &["spec", "podCIDRs"], json!([only])),
        _ => {}
    }
    if !has(node, &["status", "allocatable"]) {
        let capacity = at(node, &["status", "capacity"]).clone();
        set(node, &["status", "allocatable"], capacity);
    }
}

fn validate_node(node: &Value) -> Vec<FieldError> {
    let mut errors = validate_taints(node);
    errors.extend(validate_resources(node));
    let spec = at(node, &["spec"]);
    errors.extend(require::each(spec, "podCIDRs", "spec", |cidr, field| {
        check::cidr(cidr.as_str().unwrap_or(""), field)
    }));
    errors
}

fn validate_taints(node: &Value) -> Vec<FieldError> {
    let taints = list(node, &["spec", "taints"]);
    let mut errors = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        // The server names them so, though they are in the spec.
        let field = format!("metadata.taints[{index}]");
        errors.extend(validate_taint(taint, &field));
        let (key, effect) = (text(taint, &["key"]), text(taint, &["effect"]));
        let same = |earlier: &Value| text(earlier, &["key"]) == key && text(earlier, &["effect"]) == effect;
        if taints[..index].iter().any(same) {
            let why = "taints must be unique by key and effect pair";
            errors.push(shown::duplicate(field, &shown_taint(taint), why));
        }
    }
    errors
}

fn validate_taint(taint: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (key, value) = (text(taint, &["key"]), text(taint, &["value"]));
    let at_key = format!("{field}.key");
    errors.extend(check::invalid(&at_key, key, validation::label_key(key)));
    errors.extend(check::label_value(value, &format!("{field}.value")));
    let at_effect = format!("{field}.effect");
    match text(taint, &["effect"]) {
        "" => errors.push(FieldError::required(at_effect, "")),
        effect => errors.extend(check::one_of(&at_effect, effect, &TAINT_EFFECTS)),
    }
    errors
}

/// A taint as Go prints it.
fn shown_taint(taint: &Value) -> String {
    let word = |key: &str| Value::from(text(taint, &[key])).to_string();
    shown::object(&[
        ("Key", word("key")),
        ("Value", word("value")),
        ("Effect", word("effect")),
        ("TimeAdded", at(taint, &["timeAdded"]).to_string()),
    ])
}

fn validate_resources(node: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["capacity", "allocatable"] {
        for (resource, amount) in members(node, &["status", key]) {
            let amount = amount.as_str().unwrap_or("");
            let Ok(quantity) = Quantity::parse(amount) else {
                continue;
            };
            let field = format!("status.{key}.{resource}");
            if quantity.is_negative() {
                errors.push(FieldError::invalid(
                    &field,
                    amount,
                    "must be greater than or equal to 0",
                ));
            }
            if is_integer(resource) && !quantity.is_whole() {
                errors.push(FieldError::invalid(&field, amount, "must be an integer"));
            }
        }
    }
    errors
}

/// Resources that come in whole pieces.
fn is_integer(resource: &str) -> bool {
    let native = !resource.contains('/') || resource.split('/').next().is_some_and(|d| d.ends_with("kubernetes.io"));
    !native
        || matches!(
            resource,
            "pods" | "services" | "secrets" | "configmaps" | "replicationcontrollers"
        )
}

fn validate_node_update(node: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    let mut errors = validate_resources(node);
    let addresses = list(node, &["status", "addresses"]);
    for (index, address) in addresses.iter().enumerate() {
        if addresses[..index].contains(address) {
            let raw = shown::object(&[
                ("Type", at(address, &["type"]).to_string()),
                ("Address", at(address, &["address"]).to_string()),
            ]);
            errors.push(shown::duplicate(format!("status.addresses[{index}]"), &raw, ""));
        }
    }
    for key in ["podCIDRs", "providerID"] {
        let before = at(old, &["spec", key]);
        if !before.is_null() && before != at(node, &["spec", key]) {
            let what = if key == "podCIDRs" { "podCIDR" } else { key };
            let why = format!("node updates may not change {what} except from \"\" to valid");
            errors.push(FieldError::forbidden(format!("spec.{key}"), why));
        }
    }
    errors.extend(validate_taints(node));
    if at(node, &["spec", "externalID"]) != at(old, &["spec", "externalID"]) {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
    if part == Part::Main {
        // The server runs both the change's and the object's own checks.
        errors.extend(validate_node(node));
    }
    errors
}

fn node_cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let info = |key: &str| text(node, &["status", "nodeInfo", key]);
    let address = |kind: &str| {
        let found = list(node, &["status", "addresses"])
            .iter()
            .find(|a| text(a, &["type"]) == kind);
        found.map_or(NONE, |found| text(found, &["address"])).to_owned()
    };
    let mut kernel = or(info("kernelVersion"), UNKNOWN);
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    vec![
        name(node),
        node_status(node).into(),
        roles(node).into(),
        age(node, now),
        info("kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        or(info("osImage"), UNKNOWN).into(),
        kernel.into(),
        or(info("containerRuntimeVersion"), UNKNOWN).into(),
    ]
}

fn node_status(node: &Value) -> String {
    let ready = list(node, &["status", "conditions"])
        .iter()
        .rfind(|c| text(c, &["type"]) == "Ready");
    let state = match ready.map(|condition| text(condition, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match at(node, &["spec", "unschedulable"]) == true {
        true => format!("{state},SchedulingDisabled"),
        false => state.to_owned(),
    }
}

fn roles(node: &Value) -> String {
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let mut roles: Vec<String> = members(node, &["metadata", "labels"])
        .filter_map(role)
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort();
    roles.dedup();
    or(&roles.join(","), NONE)
}
