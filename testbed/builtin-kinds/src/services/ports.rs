//! Gives services their node ports.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use aplomb_apimachinery::field::FieldError;
use serde_json::Value;

use super::super::value::{at, items_mut, list, number, set, text};
use super::{needs_health_check, node_ports};

const NODE_PORTS: RangeInclusive<i64> = 30000..=32767;
/// The lower ports are left to those who ask for one.
const FIRST_DYNAMIC: i64 = 30086;
/// A dry run counts up from here.
const FIRST_GUESS: i64 = 32769;

/// Checks the ports asked for and takes free ones for the rest.
pub(super) fn take(service: &mut Value, old: Option<&Value>, others: &[&Value]) -> Result<(), FieldError> {
    let mut taken = taken_by(others);
    let refused = refused(service, old, |port, repeated| {
        if !NODE_PORTS.contains(&port) {
            Some("provided port is not in the valid range. The range of valid ports is 30000-32767")
        } else if taken.contains(&port) || repeated {
            Some("provided port is already allocated")
        } else {
            None
        }
    });
    refused.map_or(Ok(()), Err)?;
    taken.extend(node_ports(service));
    fill(service, || {
        let free = (FIRST_DYNAMIC..=*NODE_PORTS.end()).find(|port| !taken.contains(port));
        taken.extend(free);
        free.unwrap_or(0)
    });
    Ok(())
}

/// What a dry run shows: numbers no service will get.
pub(super) fn guess(service: &mut Value, old: Option<&Value>, others: &[&Value]) -> Result<(), FieldError> {
    let taken = taken_by(others);
    let refused = refused(service, old, |port, repeated| {
        (taken.contains(&port) || repeated).then_some("provided port is already allocated")
    });
    refused.map_or(Ok(()), Err)?;
    let had: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    let asked = node_ports(service).filter(|port| !had.contains(port)).max();
    let mut next = asked.map_or(FIRST_GUESS, |last| last + 1);
    fill(service, || {
        next += 1;
        next - 1
    });
    Ok(())
}

fn taken_by(others: &[&Value]) -> BTreeSet<i64> {
    let health = |other: &Value| number(other, &["spec", "healthCheckNodePort"]);
    others
        .iter()
        .flat_map(|other| node_ports(other).chain(health(other)))
        .collect()
}

/// The first node port that was asked for and cannot be had. The judge is told the port and whether
/// another port of the service asks for it too.
fn refused(
    service: &Value,
    old: Option<&Value>,
    judge: impl Fn(i64, bool) -> Option<&'static str>,
) -> Option<FieldError> {
    let had: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    let ports = list(service, &["spec", "ports"]);
    for (index, port) in ports.iter().enumerate() {
        let wanted = number(port, &["nodePort"]).unwrap_or(0);
        if wanted == 0 || had.contains(&wanted) {
            continue;
        }
        let repeats =
            |other: &Value| number(other, &["nodePort"]) == Some(wanted) && at(other, &["port"]) != at(port, &["port"]);
        if let Some(why) = judge(wanted, ports[..index].iter().any(repeats)) {
            return Some(FieldError::invalid(
                format!("spec.ports[{index}].nodePort"),
                wanted,
                why,
            ));
        }
    }
    None
}

/// Gives a node port to each port without one, and one for health checks where they are needed.
fn fill(service: &mut Value, mut next: impl FnMut() -> i64) {
    let wanted = at(service, &["spec", "allocateLoadBalancerNodePorts"]) != false;
    if wanted || text(service, &["spec", "type"]) == "NodePort" {
        assign(service, &mut next);
    }
    let path = ["spec", "healthCheckNodePort"];
    if needs_health_check(service) && number(service, &path).unwrap_or(0) == 0 {
        set(service, &path, next().into());
    }
}

/// Ports of one number (a port for TCP and one for UDP) share a node port.
fn assign(service: &mut Value, next: &mut impl FnMut() -> i64) {
    let node_port = |port: &Value| number(port, &["nodePort"]).filter(|node| *node != 0);
    let mut given: Vec<(i64, i64)> = list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| Some((number(port, &["port"])?, node_port(port)?)))
        .collect();
    for port in items_mut(service, &["spec", "ports"]) {
        if node_port(port).is_some() {
            continue;
        }
        let own = number(port, &["port"]).unwrap_or(0);
        let shared = given.iter().find(|(port, _)| *port == own).map(|(_, node)| *node);
        let node = shared.unwrap_or_else(&mut *next);
        given.push((own, node));
        set(port, &["nodePort"], node.into());
    }
}
