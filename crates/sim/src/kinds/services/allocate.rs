//! Gives services their cluster addresses and node ports.
//!
//! What is taken is read from the services that exist, so nothing has to be given back.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::shown;
use super::super::value::{at, items_mut, list, number, set, text};
use super::{
    addresses, keep_allocated, needs_cluster_ip, needs_health_check, needs_node_ports, node_ports,
};
use crate::field::FieldError;
use crate::status::{ApiError, GroupResource};

/// Network, first and last address that services get: 10.0.0.0/24 without its ends.
const RANGE: (u32, u32) = (0x0a00_0001, 0x0a00_00fe);
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;
/// The lower ports are left to those who ask for one.
const FIRST_DYNAMIC_PORT: i64 = 30086;

/// Completes `service`, new or in place of `old`, among its `peers`.
pub(crate) fn service(
    service: &mut Value,
    old: Option<&Value>,
    peers: &[Arc<Value>],
) -> Result<(), ApiError> {
    if let Some(old) = old {
        keep_allocated(service, old);
    }
    align_cluster_ips(service, old);
    ip_families(service, old)?;
    let others: Vec<&Value> = peers
        .iter()
        .map(Arc::as_ref)
        .filter(|peer| !is_same(peer, service))
        .collect();
    cluster_ip(service, old, &others)?;
    if needs_node_ports(service) {
        ports(service, old, &others)?;
    }
    Ok(())
}

fn is_same(a: &Value, b: &Value) -> bool {
    ["namespace", "name"]
        .iter()
        .all(|key| at(a, &["metadata", key]) == at(b, &["metadata", key]))
}

fn refuse(service: &Value, error: FieldError) -> ApiError {
    ApiError::invalid(
        &GroupResource::new("", "Service"),
        text(service, &["metadata", "name"]),
        &[error],
    )
}

/// `clusterIP` is the old form of `clusterIPs`; clients may set only the former.
fn align_cluster_ips(service: &mut Value, old: Option<&Value>) {
    let single = text(service, &["spec", "clusterIP"]).to_owned();
    let plural = at(service, &["spec", "clusterIPs"]).clone();
    let Some(old) = old else {
        if !single.is_empty() && plural.is_null() {
            set(service, &["spec", "clusterIPs"], json!([single]));
        }
        return;
    };
    let before = text(old, &["spec", "clusterIP"]);
    let same_plural = plural == *at(old, &["spec", "clusterIPs"]);
    if plural.is_null() && before == single {
        set(
            service,
            &["spec", "clusterIPs"],
            at(old, &["spec", "clusterIPs"]).clone(),
        );
    }
    if before != single && same_plural {
        let cleared = !before.is_empty() && single.is_empty();
        set(
            service,
            &["spec", "clusterIPs"],
            if cleared {
                Value::Null
            } else {
                json!([single])
            },
        );
    }
}

/// This cluster has IPv4 services only; headless services without a selector may still be of both
/// families.
fn ip_families(service: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
    if !needs_cluster_ip(service) {
        return Ok(());
    }
    let selectorless = at(service, &["spec", "selector"])
        .as_object()
        .is_none_or(Map::is_empty);
    let free = text(service, &["spec", "clusterIP"]) == "None" && selectorless;
    default_policy(service, old, free);
    let errors = addresses::cluster_ips(service);
    if !errors.is_empty() {
        let name = text(service, &["metadata", "name"]);
        return Err(ApiError::invalid(
            &GroupResource::new("", "Service"),
            name,
            &errors,
        ));
    }
    let policy = text(service, &["spec", "ipFamilyPolicy"]).to_owned();
    let mut families = families(service);
    if let Some(error) = unserved(&policy, &families, free) {
        return Err(refuse(service, error));
    }
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    if free && families.len() < 2 && policy != "SingleStack" {
        let other = if families[0] == "IPv4" {
            "IPv6"
        } else {
            "IPv4"
        };
        families.push(other.to_owned());
    }
    set(service, &["spec", "ipFamilies"], json!(families));
    Ok(())
}

fn default_policy(service: &mut Value, old: Option<&Value>, free: bool) {
    let path = ["spec", "ipFamilyPolicy"];
    if !at(service, &path).is_null() {
        return;
    }
    let policy = match old.map_or(&Value::Null, |old| at(old, &path)) {
        Value::Null if free => json!("RequireDualStack"),
        Value::Null => json!("SingleStack"),
        before => before.clone(),
    };
    set(service, &path, policy);
}

/// What a cluster of one family cannot give.
fn unserved(policy: &str, families: &[String], free: bool) -> Option<FieldError> {
    let wrong = |why: &str| Some(FieldError::invalid("spec.ipFamilyPolicy", policy, why));
    if policy == "SingleStack" && families.len() == 2 {
        return wrong(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        );
    }
    if free {
        return None;
    }
    if policy == "RequireDualStack" {
        return wrong("this cluster is not configured for dual-stack services");
    }
    let index = families.iter().position(|family| family == "IPv6")?;
    let field = format!("spec.ipFamilies[{index}]");
    Some(FieldError::invalid(
        field,
        "IPv6",
        "not configured on this cluster",
    ))
}

/// The families a service asks for, by name or by its addresses.
fn families(service: &Value) -> Vec<String> {
    let mut families: Vec<String> = list(service, &["spec", "ipFamilies"])
        .iter()
        .map(|family| family.as_str().unwrap_or("").to_owned())
        .collect();
    for ip in list(service, &["spec", "clusterIPs"])
        .iter()
        .skip(families.len())
    {
        match ip.as_str().unwrap_or("") {
            "None" => break,
            ip => families.push(if ip.contains(':') { "IPv6" } else { "IPv4" }.to_owned()),
        }
    }
    families
}

fn cluster_ip(service: &mut Value, old: Option<&Value>, others: &[&Value]) -> Result<(), ApiError> {
    let wanted = text(service, &["spec", "clusterIP"]).to_owned();
    let had = old.map_or("", |old| text(old, &["spec", "clusterIP"]));
    if !needs_cluster_ip(service) || wanted == "None" || (!wanted.is_empty() && wanted == had) {
        return Ok(());
    }
    let taken: BTreeSet<&str> = others
        .iter()
        .map(|other| text(other, &["spec", "clusterIP"]))
        .collect();
    if wanted.is_empty() {
        // The lower addresses are left to those who ask for one.
        let (dynamic, reserved) = (RANGE.0 + 16..=RANGE.1, RANGE.0..=RANGE.0 + 15);
        let free = dynamic
            .chain(reserved)
            .map(|bits| Ipv4Addr::from_bits(bits).to_string())
            .find(|ip| !taken.contains(ip.as_str()));
        let Some(ip) = free else {
            let name = text(service, &["metadata", "name"]);
            return Err(ApiError::internal(&format!(
                "failed to allocate a serviceIP for Service {name:?}: range is full"
            )));
        };
        set(service, &["spec", "clusterIP"], ip.clone().into());
        set(service, &["spec", "clusterIPs"], json!([ip]));
        return Ok(());
    }
    let inside = wanted
        .parse::<Ipv4Addr>()
        .is_ok_and(|ip| (RANGE.0..=RANGE.1).contains(&ip.to_bits()));
    let why = if !inside {
        "the provided network does not match the current range"
    } else if taken.contains(wanted.as_str()) {
        "provided IP is already allocated"
    } else {
        return Ok(());
    };
    Err(taken_ip(service, &wanted, why))
}

fn taken_ip(service: &Value, wanted: &str, why: &str) -> ApiError {
    let raw = at(service, &["spec", "clusterIPs"]).to_string();
    let why = format!("failed to allocate IP {wanted}: {why}");
    refuse(service, shown::invalid("spec.clusterIPs", &raw, &why))
}

fn ports(service: &mut Value, old: Option<&Value>, others: &[&Value]) -> Result<(), ApiError> {
    let mut taken: BTreeSet<i64> = others
        .iter()
        .flat_map(|other| node_ports(other).chain(number(other, &["spec", "healthCheckNodePort"])))
        .collect();
    let had: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    if let Some(error) = refused_port(list(service, &["spec", "ports"]), &had, &taken) {
        return Err(refuse(service, error));
    }
    taken.extend(node_ports(service));
    let wanted = at(service, &["spec", "allocateLoadBalancerNodePorts"]) != false;
    if wanted || text(service, &["spec", "type"]) == "NodePort" {
        assign(service, &mut taken);
    }
    let path = ["spec", "healthCheckNodePort"];
    if needs_health_check(service) && number(service, &path).unwrap_or(0) == 0 {
        let free = NODE_PORTS
            .rev()
            .find(|port| !taken.contains(port))
            .unwrap_or(0);
        set(service, &path, free.into());
    }
    Ok(())
}

/// The first node port that was asked for and cannot be had.
fn refused_port(ports: &[Value], had: &BTreeSet<i64>, taken: &BTreeSet<i64>) -> Option<FieldError> {
    for (index, port) in ports.iter().enumerate() {
        let wanted =
            number(port, &["nodePort"]).filter(|wanted| *wanted != 0 && !had.contains(wanted));
        let Some(wanted) = wanted else { continue };
        let repeats = |other: &Value| {
            number(other, &["nodePort"]) == Some(wanted)
                && at(other, &["port"]) != at(port, &["port"])
        };
        let why = if !NODE_PORTS.contains(&wanted) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if taken.contains(&wanted) || ports[..index].iter().any(repeats) {
            "provided port is already allocated"
        } else {
            continue;
        };
        return Some(FieldError::invalid(
            format!("spec.ports[{index}].nodePort"),
            wanted,
            why,
        ));
    }
    None
}

/// Ports of one number (a port for TCP and one for UDP) share a node port.
fn assign(service: &mut Value, taken: &mut BTreeSet<i64>) {
    let mut given: Vec<(i64, i64)> = list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| {
            Some((
                number(port, &["port"])?,
                number(port, &["nodePort"]).filter(|n| *n != 0)?,
            ))
        })
        .collect();
    for port in items_mut(service, &["spec", "ports"]) {
        let own = number(port, &["port"]).unwrap_or(0);
        if number(port, &["nodePort"]).unwrap_or(0) != 0 {
            continue;
        }
        let shared = given
            .iter()
            .find(|(port, _)| *port == own)
            .map(|(_, node)| *node);
        let node = shared
            .or_else(|| (FIRST_DYNAMIC_PORT..=*NODE_PORTS.end()).find(|port| !taken.contains(port)))
            .unwrap_or(0);
        taken.insert(node);
        given.push((own, node));
        set(port, &["nodePort"], node.into());
    }
}
