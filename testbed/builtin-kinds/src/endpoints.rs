//! EndpointSlices, and the Endpoints they replaced.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::Value;

use super::behavior::KindBehavior;
use super::check;
use super::print::{NONE, age, first_three, name};
use super::require;
use super::value::{at, default_to, has, items_mut, list, number, set, text};

const DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// How endpoint slices behave.
pub(super) const ENDPOINT_SLICE: KindBehavior = KindBehavior {
    default: default_slice,
    prepare_create: drop_topology,
    drop_changed: drop_topology,
    validate: validate_slice,
    validate_update: slice_update,
    validates_updates: false,
    generation: &[&["endpoints"], &["ports"], &["addressType"], &["metadata", "labels"]],
    cells: slice_cells,
    // Only a new slice can have a deprecated type: the type never changes.
    warnings: |slice| {
        let fqdn = text(slice, &["addressType"]) == "FQDN";
        fqdn.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned())
            .into_iter()
            .collect()
    },
    ..KindBehavior::PLAIN
};

/// How endpoints behave.
pub(super) const ENDPOINTS: KindBehavior = KindBehavior {
    default: |endpoints| {
        for subset in items_mut(endpoints, &["subsets"]) {
            for port in items_mut(subset, &["ports"]) {
                default_to(port, "protocol", "TCP");
            }
        }
    },
    validate: validate_endpoints,
    create_on_update: true,
    cells: |endpoints, now| vec![name(endpoints), addresses(endpoints).into(), age(endpoints, now)],
    warnings: |_| vec![DEPRECATED.to_owned()],
    update_warnings: |_, _| vec![DEPRECATED.to_owned()],
    ..KindBehavior::PLAIN
};

fn default_slice(slice: &mut Value) {
    for port in items_mut(slice, &["ports"]) {
        default_to(port, "name", "");
        default_to(port, "protocol", "TCP");
    }
}

fn drop_topology(slice: &mut Value) {
    for endpoint in items_mut(slice, &["endpoints"]) {
        set(endpoint, &["deprecatedTopology"], Value::Null);
    }
}

fn slice_cells(slice: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| match (number(port, &["port"]), at(port, &["name"]).as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        _ => "*".to_owned(),
    };
    let ports: Vec<String> = list(slice, &["ports"]).iter().map(port).collect();
    let addresses: Vec<String> = list(slice, &["endpoints"])
        .iter()
        .flat_map(|endpoint| list(endpoint, &["addresses"]))
        .map(|address| address.as_str().unwrap_or("").to_owned())
        .collect();
    vec![
        name(slice),
        text(slice, &["addressType"]).into(),
        first_three(&ports).into(),
        first_three(&addresses).into(),
        age(slice, now),
    ]
}

/// Addresses with their ports, the first three of them.
fn addresses(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(endpoints, &["subsets"]) {
        let ips = || {
            list(subset, &["addresses"])
                .iter()
                .map(|address| text(address, &["ip"]))
        };
        let ports = list(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(ips().map(str::to_owned));
        }
        for port in ports {
            let number = number(port, &["port"]).unwrap_or(0);
            all.extend(ips().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{number}"),
                false => format!("{ip}:{number}"),
            }));
        }
    }
    match (list(endpoints, &["subsets"]).len(), all.len()) {
        (0, _) => NONE.to_owned(),
        (_, 0) => String::new(),
        _ => first_three(&all),
    }
}

fn validate_slice(slice: &Value) -> Vec<FieldError> {
    let mut errors = validate_slice_shape(slice);
    errors.extend(validate_slice_endpoints(slice));
    errors
}

fn slice_update(new: &Value, old: &Value, _part: Part) -> Vec<FieldError> {
    let mut errors = validate_slice_shape(new);
    if at(new, &["endpoints"]) != at(old, &["endpoints"]) {
        errors.extend(validate_slice_endpoints(new));
    }
    errors.extend(check::immutable(new, old, &["addressType"]));
    errors
}

fn validate_slice_shape(slice: &Value) -> Vec<FieldError> {
    let mut errors = match text(slice, &["addressType"]) {
        "" => vec![FieldError::required("addressType", "")],
        kind => check::one_of("addressType", kind, &["FQDN", "IPv4", "IPv6"]),
    };
    let ports = list(slice, &["ports"]);
    for (index, port) in ports.iter().enumerate() {
        let field = format!("ports[{index}]");
        let port_name = text(port, &["name"]);
        if !port_name.is_empty() {
            let field = format!("{field}.name");
            errors.extend(check::invalid(
                &field,
                port_name,
                validation::dns_label(port_name, false),
            ));
        }
        if ports[..index]
            .iter()
            .any(|earlier| text(earlier, &["name"]) == port_name)
        {
            errors.push(FieldError::duplicate(format!("{field}.name"), port_name));
        }
        let protocol = text(port, &["protocol"]);
        errors.extend(check::one_of(
            &format!("{field}.protocol"),
            protocol,
            &["SCTP", "TCP", "UDP"],
        ));
        let rule = validation::label_key;
        errors.extend(require::spelled(port, "appProtocol", &field, rule));
    }
    errors
}

fn validate_slice_endpoints(slice: &Value) -> Vec<FieldError> {
    let endpoints = list(slice, &["endpoints"]);
    if endpoints.len() > 1000 {
        return vec![FieldError::too_many("endpoints", endpoints.len(), 1000)];
    }
    let kind = text(slice, &["addressType"]);
    let mut errors = Vec::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        errors.extend(validate_slice_endpoint(endpoint, kind, &format!("endpoints[{index}]")));
    }
    errors
}

fn validate_slice_endpoint(endpoint: &Value, kind: &str, field: &str) -> Vec<FieldError> {
    let mut errors = validate_addresses(endpoint, kind, &format!("{field}.addresses"));
    let rule = |name: &str| validation::dns_subdomain(name, false);
    errors.extend(require::spelled(endpoint, "nodeName", field, rule));
    let topology = format!("{field}.deprecatedTopology");
    errors.extend(check::labels(endpoint, &["deprecatedTopology"], &topology));
    let rule = |name: &str| validation::dns_label(name, false);
    errors.extend(require::spelled(endpoint, "hostname", field, rule));
    errors.extend(validate_hints(endpoint, field));
    errors
}

fn validate_addresses(endpoint: &Value, kind: &str, field: &str) -> Vec<FieldError> {
    let addresses = list(endpoint, &["addresses"]);
    let mut errors = Vec::new();
    if addresses.is_empty() {
        let why = "must contain at least 1 address";
        errors.push(FieldError::required(field, why));
    } else if addresses.len() > 100 {
        errors.push(FieldError::too_many(field, addresses.len(), 100));
    }
    for (index, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or("");
        errors.extend(validate_address(address, kind, field, index));
    }
    errors
}

fn validate_address(address: &str, kind: &str, list_field: &str, index: usize) -> Vec<FieldError> {
    let field = format!("{list_field}[{index}]");
    if kind == "FQDN" {
        return validation::fully_qualified(address, &field);
    }
    if kind != "IPv4" && kind != "IPv6" {
        return Vec::new();
    }
    let mut errors = if kind == "IPv6" {
        check::canonical_ip(address, &field)
    } else {
        check::ip(address, &field)
    };
    if errors.is_empty() {
        let is_v4 = address.parse::<std::net::Ipv4Addr>().is_ok();
        if is_v4 != (kind == "IPv4") {
            errors.push(FieldError::invalid(
                list_field,
                address,
                format!("must be an {kind} address"),
            ));
        }
        errors.extend(check::endpoint_ip(address, &field));
    }
    errors
}

fn validate_hints(endpoint: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, rule) in [
        ("forZones", validation::label_value as fn(&str) -> Vec<String>),
        ("forNodes", |name: &str| validation::dns_subdomain(name, false)),
    ] {
        let hints = list(endpoint, &["hints", key]);
        let field = format!("{field}.hints.{key}");
        if hints.len() > 8 {
            errors.push(FieldError::too_many(field, hints.len(), 8));
            return errors;
        }
        for (index, hint) in hints.iter().enumerate() {
            let field = format!("{field}[{index}].name");
            let name = text(hint, &["name"]);
            if hints[..index].iter().any(|earlier| text(earlier, &["name"]) == name) {
                errors.push(FieldError::duplicate(&field, name));
            }
            errors.extend(check::invalid(&field, name, rule(name)));
        }
    }
    errors
}

fn validate_endpoints(endpoints: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, subset) in list(endpoints, &["subsets"]).iter().enumerate() {
        let field = format!("subsets[{index}]");
        if list(subset, &["addresses"]).is_empty() && list(subset, &["notReadyAddresses"]).is_empty() {
            let why = "must specify `addresses` or `notReadyAddresses`";
            errors.push(FieldError::required(&field, why));
        }
        for key in ["addresses", "notReadyAddresses"] {
            let rule = validate_endpoint_address;
            errors.extend(require::each(subset, key, &field, rule));
        }
        let several = list(subset, &["ports"]).len() > 1;
        errors.extend(require::each(subset, "ports", &field, |port, field| {
            validate_endpoint_port(port, several, field)
        }));
    }
    errors
}

fn validate_endpoint_address(address: &Value, field: &str) -> Vec<FieldError> {
    let ip = text(address, &["ip"]);
    let mut errors = check::ip(ip, &format!("{field}.ip"));
    let host = text(address, &["hostname"]);
    if !host.is_empty() {
        errors.extend(check::invalid(
            &format!("{field}.hostname"),
            host,
            validation::dns_label(host, false),
        ));
    }
    if has(address, &["nodeName"]) {
        let node = text(address, &["nodeName"]);
        errors.extend(check::invalid(
            &format!("{field}.nodeName"),
            node,
            validation::dns_subdomain(node, false),
        ));
    }
    errors.extend(check::endpoint_ip(ip, &format!("{field}.ip")));
    errors
}

fn validate_endpoint_port(port: &Value, require_name: bool, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match text(port, &["name"]) {
        "" if require_name => errors.push(FieldError::required(format!("{field}.name"), "")),
        "" => {}
        name => errors.extend(check::invalid(
            &format!("{field}.name"),
            name,
            validation::dns_label(name, false),
        )),
    }
    let number = number(port, &["port"]).unwrap_or(0);
    let port_field = format!("{field}.port");
    errors.extend(check::port_number(number).map(|why| FieldError::invalid(port_field, number, why)));
    let protocol = text(port, &["protocol"]);
    errors.extend(check::one_of(
        &format!("{field}.protocol"),
        protocol,
        &["SCTP", "TCP", "UDP"],
    ));
    if let Some(app) = at(port, &["appProtocol"]).as_str() {
        errors.extend(check::invalid(
            &format!("{field}.appProtocol"),
            app,
            validation::label_key(app),
        ));
    }
    errors
}
