//! Defaults of pods and pod templates.

use serde_json::{Map, Value, json};

use super::super::quantity::Quantity;
use super::super::value::{at, default_to, has, items_mut, list, number, object_mut, set, text};

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Defaults of a pod, which are more than those of its spec.
pub(crate) fn pod(object: &mut Value) {
    both_addresses(object);
    let Some(spec) = object.get_mut("spec") else {
        return;
    };
    for key in ["containers", "initContainers"] {
        for container in items_mut(spec, &[key]) {
            requests_from_limits(container);
        }
    }
    default_to(spec, "enableServiceLinks", true);
    if number(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = json!(1);
    }
    if at(spec, &["hostNetwork"]) == true {
        for key in ["containers", "initContainers"] {
            items_mut(spec, &[key]).for_each(host_ports);
        }
    }
    pod_spec(spec);
}

/// `podIP` is the old form of `podIPs`: the server keeps its first alike, and trusts the old one.
fn both_addresses(object: &mut Value) {
    let old = text(object, &["status", "podIP"]).to_owned();
    let first = list(object, &["status", "podIPs"])
        .first()
        .map(|address| text(address, &["ip"]).to_owned());
    match first {
        Some(first) if old.is_empty() => set(object, &["status", "podIP"], json!(first)),
        Some(first) if first == old => {}
        None if old.is_empty() => {}
        _ => set(object, &["status", "podIPs"], json!([{ "ip": old }])),
    }
}

/// Defaults of a pod spec, in a pod or in a template.
pub(crate) fn pod_spec(spec: &mut Value) {
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "securityContext", json!({}));
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "schedulerName", "default-scheduler");
    both_service_account_names(spec);
    items_mut(spec, &["volumes"]).for_each(volume);
    for key in CONTAINERS {
        items_mut(spec, &[key]).for_each(container);
    }
    resource_list(spec, &["overhead"]);
    resource_list(spec, &["resources", "limits"]);
    resource_list(spec, &["resources", "requests"]);
}

/// `serviceAccount` is the old name of `serviceAccountName`; the server keeps both alike.
fn both_service_account_names(spec: &mut Value) {
    let name = match text(spec, &["serviceAccountName"]) {
        "" => text(spec, &["serviceAccount"]).to_owned(),
        name => name.to_owned(),
    };
    let Value::Object(map) = spec else { return };
    for key in ["serviceAccountName", "serviceAccount"] {
        if name.is_empty() {
            map.remove(key);
        } else {
            map.insert(key.to_owned(), name.clone().into());
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let limits = at(container, &["resources", "limits"])
        .as_object()
        .cloned()
        .unwrap_or_default();
    let Some(resources) = object_mut(container, &["resources"]) else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Value::Object(requests) = requests {
        for (key, value) in limits {
            requests.entry(key).or_insert(value);
        }
    }
}

fn host_ports(container: &mut Value) {
    for port in items_mut(container, &["ports"]) {
        let number = at(port, &["containerPort"]).clone();
        if !has(port, &["hostPort"]) && number != 0 {
            port["hostPort"] = number;
        }
    }
}

fn container(container: &mut Value) {
    let policy = if is_latest(text(container, &["image"])) {
        "Always"
    } else {
        "IfNotPresent"
    };
    default_to(container, "imagePullPolicy", policy);
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, &["ports"]) {
        default_to(port, "protocol", "TCP");
    }
    for env in items_mut(container, &["env"]) {
        field_ref(env, &["valueFrom"]);
        if let Some(file) = env.pointer_mut("/valueFrom/fileKeyRef") {
            default_to(file, "optional", false);
        }
    }
    resource_list(container, &["resources", "limits"]);
    resource_list(container, &["resources", "requests"]);
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = container.get_mut(key) {
            probe(value);
        }
    }
    for hook in ["/lifecycle/postStart", "/lifecycle/preStop"] {
        if let Some(action) = container.pointer_mut(hook).and_then(|hook| hook.get_mut("httpGet")) {
            http_get(action);
        }
    }
}

fn probe(probe: &mut Value) {
    for (key, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        default_to(probe, key, value);
    }
    if let Some(action) = probe.get_mut("httpGet") {
        http_get(action);
    }
    if let Some(grpc) = probe.get_mut("grpc") {
        default_to(grpc, "service", "");
    }
}

fn http_get(action: &mut Value) {
    default_to(action, "path", "/");
    default_to(action, "scheme", "HTTP");
}

fn field_ref(holder: &mut Value, path: &[&str]) {
    let holder = path.iter().try_fold(holder, |value, key| value.get_mut(key));
    if let Some(selector) = holder.and_then(|holder| holder.get_mut("fieldRef")) {
        default_to(selector, "apiVersion", "v1");
    }
}

fn volume(volume: &mut Value) {
    let sourceless = volume
        .as_object()
        .is_some_and(|members| members.keys().all(|key| key == "name"));
    if sourceless {
        volume["emptyDir"] = json!({});
    }
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(key) {
            default_to(source, "defaultMode", 0o644);
        }
    }
    if let Some(host_path) = volume.get_mut("hostPath") {
        default_to(host_path, "type", "");
    }
    if let Some(image) = volume.get_mut("image") {
        let policy = if is_latest(text(image, &["reference"])) {
            "Always"
        } else {
            "IfNotPresent"
        };
        default_to(image, "pullPolicy", policy);
    }
    for item in items_mut(volume, &["downwardAPI", "items"]) {
        field_ref(item, &[]);
    }
    for source in items_mut(volume, &["projected", "sources"]) {
        for item in items_mut(source, &["downwardAPI", "items"]) {
            field_ref(item, &[]);
        }
        if let Some(token) = source.get_mut("serviceAccountToken") {
            default_to(token, "expirationSeconds", 3600);
        }
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        default_to(claim, "volumeMode", "Filesystem");
    }
    old_drivers(volume);
}

/// Drivers few still use, with fixed defaults.
fn old_drivers(volume: &mut Value) {
    for (driver, key, value) in [
        ("iscsi", "iscsiInterface", json!("default")),
        ("rbd", "pool", json!("rbd")),
        ("rbd", "user", json!("admin")),
        ("rbd", "keyring", json!("/etc/ceph/keyring")),
        ("azureDisk", "cachingMode", json!("ReadWrite")),
        ("azureDisk", "fsType", json!("ext4")),
        ("azureDisk", "readOnly", json!(false)),
        ("azureDisk", "kind", json!("Shared")),
        ("scaleIO", "storageMode", json!("ThinProvisioned")),
        ("scaleIO", "fsType", json!("xfs")),
    ] {
        if let Some(source) = volume.get_mut(driver) {
            default_to(source, key, value);
        }
    }
}

/// Amounts finer than a thousandth are rounded up.
pub(crate) fn resource_list(holder: &mut Value, path: &[&str]) {
    let Some(resources) = object_mut(holder, path) else {
        return;
    };
    for amount in resources.values_mut() {
        let parsed = amount.as_str().and_then(|text| Quantity::parse(text).ok());
        if let Some(rounded) = parsed.and_then(|quantity| quantity.rounded_to_milli()) {
            *amount = rounded.to_string().into();
        }
    }
}

/// Whether an image reference means the tag `latest`.
fn is_latest(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => digest.is_none() && is_repository(name),
    }
}

/// Whether a name can be read as a repository: if not, no tag is assumed.
fn is_repository(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/:".contains(c);
    !name.is_empty() && name.chars().all(allowed)
}

/// What admission adds to every new pod.
pub(crate) fn admitted(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        default_to(spec, "priority", 0);
        default_to(spec, "preemptionPolicy", "PreemptLowerPriority");
    }
    tolerate_node_failure(object);
}

/// How long a pod stays on a node that is gone, unless it says so itself.
pub(crate) fn tolerate_node_failure(object: &mut Value) {
    let Some(spec) = object.get_mut("spec") else {
        return;
    };
    let missing: Vec<Value> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .iter()
        .filter(|key| {
            !list(spec, &["tolerations"])
                .iter()
                .any(|toleration| tolerates(toleration, key))
        })
        .map(|key| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }))
        .collect();
    if missing.is_empty() {
        return;
    }
    let Value::Object(spec) = spec else { return };
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if let Value::Array(tolerations) = tolerations {
        tolerations.extend(missing);
    }
}

fn tolerates(toleration: &Value, key: &str) -> bool {
    let wanted = text(toleration, &["key"]);
    let effect = text(toleration, &["effect"]);
    (wanted == key || wanted.is_empty()) && (effect == "NoExecute" || effect.is_empty())
}

/// The quality-of-service class of a new pod.
pub fn qos_class(spec: &Value) -> &'static str {
    let mut guaranteed = true;
    let mut any = false;
    for key in ["containers", "initContainers"] {
        for container in list(spec, &[key]) {
            let amounts = |which: &str| compute(at(container, &["resources", which]));
            let (requests, limits) = (amounts("requests"), amounts("limits"));
            any |= !requests.is_empty() || !limits.is_empty();
            guaranteed &= limits.len() == 2 && (requests.is_empty() || requests == limits);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn compute(resources: &Value) -> Map<String, Value> {
    let counts = |amount: &Value| {
        amount
            .as_str()
            .and_then(|text| Quantity::parse(text).ok())
            .is_some_and(|q| !q.is_zero())
    };
    ["cpu", "memory"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), resources.get(name)?.clone())))
        .filter(|(_, amount)| counts(amount))
        .collect()
}
