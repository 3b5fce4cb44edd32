//! Services: defaults, what changes with the type, and columns.

mod addresses;
pub(super) mod allocate;
mod ports;
mod validate;

use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::print::{NONE, age, labels, name, or};
use super::value::{at, default_to, items_mut, list, number, restore, set, text};

/// How services behave.
pub(super) const SERVICE: KindBehavior = KindBehavior {
    default,
    prepare_update,
    validate: validate::service,
    validate_update: validate::update,
    validates_updates: false,
    name: validation::dns_label,
    create_on_update: true,
    selectable: |service| {
        let field = |key: &str| text(service, &["spec", key]).to_owned();
        vec![
            ("spec.clusterIP".into(), field("clusterIP")),
            ("spec.type".into(), field("type")),
        ]
    },
    cells,
    warnings: validate::warnings,
    update_warnings: |service, _| validate::warnings(service),
    ..KindBehavior::PLAIN
};

/// An address that was only given in the old form is kept so and shown in both.
fn both_forms(service: &mut Value) {
    let address = text(service, &["spec", "clusterIP"]).to_owned();
    if !address.is_empty() && list(service, &["spec", "clusterIPs"]).is_empty() {
        set(service, &["spec", "clusterIPs"], json!([address]));
    }
}

/// A policy inside the cluster means nothing to a service outside of it: it is kept but not shown.
pub(super) fn shown(service: &mut Value) {
    both_forms(service);
    if !needs_cluster_ip(service) {
        set(service, &["spec", "internalTrafficPolicy"], Value::Null);
    }
}

/// Whether the service has a type that is given node ports.
fn needs_node_ports(service: &Value) -> bool {
    matches!(text(service, &["spec", "type"]), "NodePort" | "LoadBalancer")
}

fn needs_cluster_ip(service: &Value) -> bool {
    text(service, &["spec", "type"]) != "ExternalName"
}

fn is_balanced(service: &Value) -> bool {
    text(service, &["spec", "type"]) == "LoadBalancer"
}

fn needs_health_check(service: &Value) -> bool {
    is_balanced(service) && text(service, &["spec", "externalTrafficPolicy"]) == "Local"
}

/// Whether traffic from outside can reach the service.
fn externally_accessible(service: &Value) -> bool {
    needs_node_ports(service)
        || (text(service, &["spec", "type"]) == "ClusterIP" && !list(service, &["spec", "externalIPs"]).is_empty())
}

fn default(service: &mut Value) {
    let Some(spec) = service.get_mut("spec") else {
        return;
    };
    default_affinity(spec);
    default_to(spec, "type", "ClusterIP");
    for port in items_mut(spec, &["ports"]) {
        default_to(port, "protocol", "TCP");
        if *at(port, &["targetPort"]) == 0 || *at(port, &["targetPort"]) == "" {
            port["targetPort"] = at(port, &["port"]).clone();
        }
    }
    if externally_accessible(service) {
        default_to(&mut service["spec"], "externalTrafficPolicy", "Cluster");
    }
    if needs_cluster_ip(service) {
        default_to(&mut service["spec"], "internalTrafficPolicy", "Cluster");
    }
    if is_balanced(service) {
        default_to(&mut service["spec"], "allocateLoadBalancerNodePorts", true);
        for ingress in items_mut(service, &["status", "loadBalancer", "ingress"]) {
            if !text(ingress, &["ip"]).is_empty() {
                default_to(ingress, "ipMode", "VIP");
            }
        }
    }
}

fn default_affinity(spec: &mut Value) {
    default_to(spec, "sessionAffinity", "None");
    let config = ["sessionAffinityConfig"];
    let timeout = ["sessionAffinityConfig", "clientIP", "timeoutSeconds"];
    match text(spec, &["sessionAffinity"]) {
        "None" => set(spec, &config, Value::Null),
        "ClientIP" if at(spec, &timeout).is_null() => {
            let three_hours = json!({ "clientIP": { "timeoutSeconds": 10800 } });
            set(spec, &config, three_hours);
        }
        _ => {}
    }
}

/// Whether a service is one of those who need something.
type Need = fn(&Value) -> bool;

/// Fields that only some services need.
const NEEDED: [(Need, &str); 4] = [
    (needs_health_check, "healthCheckNodePort"),
    (is_balanced, "allocateLoadBalancerNodePorts"),
    (is_balanced, "loadBalancerClass"),
    (externally_accessible, "externalTrafficPolicy"),
];

/// A change of type takes along what only the old type needed, unless the client changed it too.
fn prepare_update(service: &mut Value, old: &Value, part: Part) {
    if part != Part::Main {
        return;
    }
    let same = |new: &Value, key: &str| at(new, &["spec", key]) == at(old, &["spec", key]);
    let drop = |new: &mut Value, key: &str| set(new, &["spec", key], Value::Null);
    // A change that leaves the address alone is judged by what readers see of it.
    if same(service, "clusterIP") && !needs_cluster_ip(old) {
        both_forms(service);
    }
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if same(service, "clusterIP") && same(service, "clusterIPs") {
            drop(service, "clusterIP");
            drop(service, "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if same(service, key) {
                drop(service, key);
            }
        }
    }
    if needs_node_ports(old) && !needs_node_ports(service) && keeps_node_ports(service, old) {
        items_mut(service, &["spec", "ports"]).for_each(|port| set(port, &["nodePort"], Value::Null));
    }
    for (needed, key) in NEEDED {
        if needed(old) && !needed(service) && same(service, key) {
            drop(service, key);
        }
    }
    if !is_balanced(service) {
        set(service, &["status", "loadBalancer"], json!({}));
    }
}

/// Whether every node port of the service is one it had.
fn keeps_node_ports(service: &Value, old: &Value) -> bool {
    let had: Vec<i64> = node_ports(old).collect();
    node_ports(service).all(|port| had.contains(&port))
}

/// The node ports a service has been given.
fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| number(port, &["nodePort"]))
        .filter(|port| *port != 0)
}

/// Puts back what the server once gave and the client left out.
fn keep_allocated(service: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(service) {
        if text(service, &["spec", "clusterIP"]).is_empty() {
            restore(service, old, &["spec", "clusterIP"]);
        }
        if list(service, &["spec", "clusterIPs"]).is_empty() {
            restore(service, old, &["spec", "clusterIPs"]);
        }
    }
    if needs_node_ports(old) && needs_node_ports(service) {
        let still_used: Vec<i64> = node_ports(old)
            .filter(|port| node_ports(service).any(|p| p == *port))
            .collect();
        for port in items_mut(service, &["spec", "ports"]) {
            let before = list(old, &["spec", "ports"])
                .iter()
                .rfind(|p| text(p, &["name"]) == text(port, &["name"]));
            let before = before.and_then(|p| number(p, &["nodePort"])).unwrap_or(0);
            if number(port, &["nodePort"]).unwrap_or(0) == 0 && before != 0 && !still_used.contains(&before) {
                set(port, &["nodePort"], before.into());
            }
        }
    }
    let unset = number(service, &["spec", "healthCheckNodePort"]).unwrap_or(0) == 0;
    if needs_health_check(old) && needs_health_check(service) && unset {
        restore(service, old, &["spec", "healthCheckNodePort"]);
    }
}

fn cells(service: &Value, now: Timestamp) -> Vec<Value> {
    let cluster_ip = list(service, &["spec", "clusterIPs"])
        .first()
        .and_then(Value::as_str)
        .unwrap_or("");
    let port = |port: &Value| {
        let (number, node) = (number(port, &["port"]).unwrap_or(0), number(port, &["nodePort"]));
        match node.filter(|node| *node > 0) {
            Some(node) => format!("{number}:{node}/{}", text(port, &["protocol"])),
            None => format!("{number}/{}", text(port, &["protocol"])),
        }
    };
    let ports: Vec<String> = list(service, &["spec", "ports"]).iter().map(port).collect();
    vec![
        name(service),
        text(service, &["spec", "type"]).into(),
        or(cluster_ip, NONE).into(),
        external_ip(service).into(),
        or(&ports.join(","), NONE).into(),
        age(service, now),
        labels(service, &["spec", "selector"]).into(),
    ]
}

fn external_ip(service: &Value) -> String {
    let own: Vec<&str> = list(service, &["spec", "externalIPs"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    match text(service, &["spec", "type"]) {
        "ClusterIP" | "NodePort" => or(&own.join(","), NONE),
        "ExternalName" => text(service, &["spec", "externalName"]).to_owned(),
        "LoadBalancer" => {
            let mut given: Vec<&str> = list(service, &["status", "loadBalancer", "ingress"])
                .iter()
                .map(|ingress| match text(ingress, &["ip"]) {
                    "" => text(ingress, &["hostname"]),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect();
            given.sort_unstable();
            given.dedup();
            given.extend(own);
            or(&given.join(","), "<pending>")
        }
        _ => "<unknown>".to_owned(),
    }
}
