//! What clients see: every member the API promises, in its shape.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::model::{ActionRecord, FloatingIp, Server, Status};
use super::store::Store;

/// A floating IP.
#[must_use]
pub(super) fn floating_ip(floating_ip: &FloatingIp) -> Value {
    json!({
        "id": floating_ip.id,
        "name": floating_ip.name,
        "description": floating_ip.description,
        "ip": floating_ip.ip,
        "type": floating_ip.family.clone().unwrap_or_else(|| family(&floating_ip.ip)),
        "server": floating_ip.server,
        "dns_ptr": floating_ip.dns_ptr,
        "home_location": floating_ip.home_location.clone().unwrap_or_else(location),
        "blocked": floating_ip.blocked,
        "protection": {"delete": floating_ip.protection.delete},
        "labels": floating_ip.labels,
        "created": time(floating_ip.created),
    })
}

/// An action.
#[must_use]
pub(super) fn action(action: &ActionRecord, now: Timestamp) -> Value {
    json!({
        "id": action.id,
        "command": action.command,
        "status": action.status,
        "progress": progress(action, now),
        "started": time(action.started),
        "finished": time(action.finished),
        "resources": action.resources,
        "error": action.error,
    })
}

/// A server, with what actions and floating IPs say about it.
#[must_use]
pub(super) fn server(store: &Store, server: &Server) -> Value {
    let held = store.floating_ips.values();
    let held: Vec<u64> = held
        .filter(|floating_ip| floating_ip.server == Some(server.id))
        .map(|floating_ip| floating_ip.id)
        .collect();
    let mut shown = json!({
        "id": server.id,
        "name": server.name,
        "status": server.status,
        "created": time(server.created),
        "public_net": public_net(server.id),
        "private_net": [],
        "server_type": server_type(),
        "datacenter": datacenter(),
        "location": location(),
        "image": null,
        "iso": null,
        "rescue_enabled": false,
        "locked": store.locked("server", server.id),
        "backup_window": null,
        "outgoing_traffic": 0,
        "ingoing_traffic": 0,
        "included_traffic": 21_990_232_555_520_u64,
        "protection": {"delete": false, "rebuild": false},
        "labels": server.labels,
        "volumes": [],
        "load_balancers": [],
        "primary_disk_size": 80,
        "placement_group": null,
    });
    for (member, value) in &server.extra {
        shown[member] = value.clone();
    }
    if let Some(net) = shown.get_mut("public_net").and_then(Value::as_object_mut) {
        net.insert("floating_ips".to_owned(), json!(held));
    }
    shown
}

/// Times have whole seconds and an offset, as the service prints them.
#[must_use]
pub(super) fn time(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string())
}

fn progress(action: &ActionRecord, now: Timestamp) -> i64 {
    let (Some(started), Some(ends)) = (action.started, action.ends) else {
        return if action.status == Status::Running { 0 } else { 100 };
    };
    let whole = (ends.as_millisecond() - started.as_millisecond()).max(1);
    match action.status {
        Status::Running => ((now.as_millisecond() - started.as_millisecond()) * 100 / whole).clamp(0, 99),
        Status::Success | Status::Error => 100,
    }
}

fn family(ip: &str) -> String {
    if ip.contains(':') { "ipv6" } else { "ipv4" }.to_owned()
}

/// One of the addresses that are for documentation, so that nobody is ever called by mistake.
fn ipv4(id: u64) -> String {
    format!("198.51.100.{}", id % 254 + 1)
}

fn location() -> Value {
    json!({
        "id": 1, "name": "fsn1", "description": "Falkenstein DC Park 1", "country": "DE",
        "city": "Falkenstein", "latitude": 50.47612, "longitude": 12.370_071,
        "network_zone": "eu-central",
    })
}

fn public_net(server: u64) -> Value {
    json!({
        "ipv4": {"id": server, "ip": ipv4(server), "blocked": false,
                 "dns_ptr": format!("server-{server}.example.com")},
        "ipv6": null,
        "firewalls": [],
    })
}

fn datacenter() -> Value {
    json!({
        "id": 4, "name": "fsn1-dc14", "description": "Falkenstein 1 DC14", "location": location(),
        "server_types": {"supported": [1], "available": [1], "available_for_migration": [1]},
    })
}

fn server_type() -> Value {
    json!({
        "id": 1, "name": "cpx22", "description": "CPX 22", "cores": 2, "memory": 4.0, "disk": 80,
        "deprecated": false, "prices": [], "storage_type": "local", "cpu_type": "shared",
        "architecture": "x86", "deprecation": null, "category": "Shared vCPU", "locations": [],
    })
}
