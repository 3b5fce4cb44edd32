//! Gives services their cluster addresses and node ports.
//!
//! What is taken is read from the services that exist, so nothing has to be given back.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use serde_json::{Map, Value, json};

use super::super::shown;
use super::super::value::{at, list, set, text};
use super::{addresses, keep_allocated, needs_cluster_ip, needs_node_ports, ports};

/// Network, first and last address that services get: 10.0.0.0/24 without its ends.
const RANGE: (u32, u32) = (0x0a00_0001, 0x0a00_00fe);

/// Completes `service`, new or in place of `old`, among its `peers`. A dry run shows numbers that
/// nothing was asked for.
pub(crate) fn service(
    service: &mut Value,
    old: Option<&Value>,
    peers: &[Arc<Value>],
    dry_run: bool,
) -> Result<(), ApiError> {
    if let Some(old) = old {
        keep_allocated(service, old);
    }
    align_cluster_ips(service, old);
    ip_families(service, old)?;
    let others: Vec<&Value> = peers
        .iter()
        .map(Arc::as_ref)
        .filter(|peer| old.is_none() || !is_same(peer, service))
        .collect();
    // Once a service has an address only a change of its type can cost it that.
    if needs_cluster_ip(service) && !old.is_some_and(needs_cluster_ip) {
        cluster_ip(service, &others, dry_run)?;
    }
    if needs_node_ports(service) {
        let refused = if dry_run {
            ports::guess(service, old, &others)
        } else {
            ports::take(service, old, &others)
        };
        refused.map_err(|error| refuse(service, &[error]))?;
    }
    Ok(())
}

fn is_same(a: &Value, b: &Value) -> bool {
    ["namespace", "name"]
        .iter()
        .all(|key| at(a, &["metadata", key]) == at(b, &["metadata", key]))
}

fn refuse(service: &Value, errors: &[FieldError]) -> ApiError {
    let name = text(service, &["metadata", "name"]);
    ApiError::invalid(&GroupResource::new("", "Service"), name, errors)
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
    // What was only given in the old form is seen in both.
    let plural_before = match at(old, &["spec", "clusterIPs"]) {
        Value::Null if !before.is_empty() => json!([before]),
        given => given.clone(),
    };
    let aligned = if before == single && plural.is_null() {
        plural_before
    } else if before == single || plural != plural_before {
        return;
    } else if single.is_empty() {
        Value::Null
    } else {
        json!([single])
    };
    set(service, &["spec", "clusterIPs"], aligned);
}

/// This cluster has IPv4 services only; headless services without a selector may still be of both
/// families.
fn ip_families(service: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
    if !needs_cluster_ip(service) {
        return Ok(());
    }
    let selectorless = at(service, &["spec", "selector"]).as_object().is_none_or(Map::is_empty);
    let free = text(service, &["spec", "clusterIP"]) == "None" && selectorless;
    default_policy(service, old, free);
    let errors = addresses::cluster_ips(service);
    if !errors.is_empty() {
        return Err(refuse(service, &errors));
    }
    let policy = text(service, &["spec", "ipFamilyPolicy"]).to_owned();
    let mut families = families(service);
    let errors = unserved(&policy, &families, free);
    if !errors.is_empty() {
        return Err(refuse(service, &errors));
    }
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    if free && families.len() < 2 && policy != "SingleStack" {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
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
fn unserved(policy: &str, families: &[String], free: bool) -> Vec<FieldError> {
    let wrong = |why: &str| FieldError::invalid("spec.ipFamilyPolicy", policy, why);
    if policy == "SingleStack" && families.len() == 2 {
        let why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        return vec![wrong(why)];
    }
    if free {
        return Vec::new();
    }
    let dual = (policy == "RequireDualStack").then(|| wrong("this cluster is not configured for dual-stack services"));
    let other = families.iter().position(|family| family == "IPv6").map(|index| {
        let why = "not configured on this cluster";
        FieldError::invalid(format!("spec.ipFamilies[{index}]"), "IPv6", why)
    });
    dual.into_iter().chain(other).collect()
}

/// The families a service asks for, by name or by its addresses.
fn families(service: &Value) -> Vec<String> {
    let mut families: Vec<String> = list(service, &["spec", "ipFamilies"])
        .iter()
        .map(|family| family.as_str().unwrap_or("").to_owned())
        .collect();
    for ip in list(service, &["spec", "clusterIPs"]).iter().skip(families.len()) {
        match ip.as_str().unwrap_or("") {
            "None" => break,
            ip => families.push(if ip.contains(':') { "IPv6" } else { "IPv4" }.to_owned()),
        }
    }
    families
}

fn cluster_ip(service: &mut Value, others: &[&Value], dry_run: bool) -> Result<(), ApiError> {
    let wanted = text(service, &["spec", "clusterIP"]).to_owned();
    if wanted == "None" {
        return Ok(());
    }
    // A service outside of the cluster may name an address without holding it.
    let taken: BTreeSet<&str> = others
        .iter()
        .filter(|other| needs_cluster_ip(other))
        .map(|other| text(other, &["spec", "clusterIP"]))
        .collect();
    if wanted.is_empty() {
        return give_ip(service, &taken, dry_run);
    }
    let inside = wanted
        .parse::<Ipv4Addr>()
        .is_ok_and(|ip| (RANGE.0..=RANGE.1).contains(&ip.to_bits()));
    if text(service, &["metadata", "name"]).is_empty() && inside && !dry_run {
        let given = at(service, &["spec", "clusterIPs"]).to_string();
        return Err(nobodys(service, &given, &format!(" {wanted}"), &wanted));
    }
    let why = match (inside, dry_run) {
        (false, true) => {
            format!("the provided IP ({wanted}) is not in the valid range. The range of valid IPs is 10.0.0.0/24")
        }
        (false, false) => "the provided network does not match the current range".to_owned(),
        (true, false) if taken.contains(wanted.as_str()) => "provided IP is already allocated".to_owned(),
        _ => return Ok(()),
    };
    let raw = at(service, &["spec", "clusterIPs"]).to_string();
    let why = format!("failed to allocate IP {wanted}: {why}");
    let error = shown::invalid("spec.clusterIPs", &raw, &why);
    Err(refuse(service, &[error]))
}

fn give_ip(service: &mut Value, taken: &BTreeSet<&str>, dry_run: bool) -> Result<(), ApiError> {
    let name = text(service, &["metadata", "name"]);
    let Some(ip) = free_ip(taken, dry_run) else {
        let why = format!("failed to allocate a serviceIP for Service {name:?}: range is full");
        return Err(ApiError::internal(&why));
    };
    if name.is_empty() && !dry_run {
        return Err(nobodys(service, "[\"\"]", "", &ip));
    }
    set(service, &["spec", "clusterIP"], ip.clone().into());
    set(service, &["spec", "clusterIPs"], json!([ip]));
    Ok(())
}

/// An address is an object that names its service, and this service has no name.
fn nobodys(service: &Value, given: &str, wanted: &str, ip: &str) -> ApiError {
    let why = format!(
        "failed to allocate IP{wanted}: IPAddress.networking.k8s.io \"{ip}\" is invalid: spec.parentRef.name: Required value"
    );
    refuse(service, &[shown::invalid("spec.clusterIPs", given, &why)])
}

/// The lower addresses are left to those who ask for one.
fn free_ip(taken: &BTreeSet<&str>, dry_run: bool) -> Option<String> {
    if dry_run {
        return Some("10.0.0.0".to_owned());
    }
    let (dynamic, reserved) = (RANGE.0 + 16..=RANGE.1, RANGE.0..=RANGE.0 + 15);
    let mut addresses = dynamic
        .chain(reserved)
        .map(|bits| Ipv4Addr::from_bits(bits).to_string());
    addresses.find(|ip| !taken.contains(ip.as_str()))
}
