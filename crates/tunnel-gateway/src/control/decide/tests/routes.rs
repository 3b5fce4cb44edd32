//! How a rule becomes routes, and what is quarantined.

use serde_json::{Value, json};

use super::build::{Tunnel, registered_connector, to_slice};
use crate::control::decide::decide;
use crate::control::inputs::{TableInputs, TablePlan};
use crate::routing::{Addresses, OriginAddress, RouteAction};
use aplomb::ObjectKey;

fn with_rules(rules: &[Value]) -> (Tunnel, TableInputs) {
    let mut tunnel = Tunnel::new("a", "app");
    tunnel.rules = rules.to_vec();
    let world = TableInputs::default().tunnel(&tunnel);
    (tunnel, world)
}

fn decide_rules(rules: &[Value]) -> (Tunnel, TablePlan) {
    let (tunnel, world) = with_rules(rules);
    (tunnel, decide(&world))
}

fn action(plan: &TablePlan, tunnel: &Tunnel) -> RouteAction {
    plan.table.host(&tunnel.canonical()).expect("served").routes[0]
        .action
        .clone()
}

#[test]
fn a_connector_dials_the_endpoint_address() {
    let (tunnel, plan) = decide_rules(&[to_slice("app")]);
    let RouteAction::Forward(origin) = action(&plan, &tunnel) else {
        panic!("expected an origin");
    };
    assert_eq!(origin.authority, "localhost:3000");
    let OriginAddress::Connector(target) = &origin.target else {
        panic!("expected an agent");
    };
    assert_eq!(target.session, "session-1");
    assert_eq!(target.addresses[0].to_string(), "192.0.2.9:4433");
}

#[test]
fn a_relay_is_used_however_its_url_is_written_and_no_other_is() {
    let (tunnel, world) = with_rules(&[to_slice("app")]);
    let used = |class: &str, agent: &str| {
        let mut world = world.clone();
        world.relays.extend(class.parse());
        let connector = world.connectors.get_mut(&ObjectKey::new(Some("a"), "laptop"));
        let details = connector.and_then(|it| it.details.as_mut()).expect("there");
        details.public_key.home_relay = Some(agent.to_owned());
        let plan = decide(&world);
        let RouteAction::Forward(origin) = action(&plan, &tunnel) else {
            panic!("expected an origin");
        };
        let OriginAddress::Connector(target) = &origin.target else {
            panic!("expected an agent");
        };
        let said = plan.report.relays.iter().any(|it| it == agent);
        assert_eq!(target.relay.is_some(), said, "{class}: {:?}", plan.report.relays);
        said
    };
    let agent = "https://relay.example.com/";
    for class in [
        "https://relay.example.com",
        "https://relay.example.com/",
        "https://relay.example.com:443",
        "HTTPS://Relay.Example.COM:443/",
    ] {
        assert!(used(class, agent), "{class}");
    }
    for (class, agent) in [
        ("https://[2001:DB8:0::1]", "https://[2001:db8::1]/"),
        ("http://192.0.2.7:3340", "http://192.0.2.7:3340/"),
        ("https://relay.example.com.", "https://relay.example.com./"),
        ("https://b\u{fc}cher.example", "https://xn--bcher-kva.example/"),
    ] {
        assert!(used(class, agent), "{class}");
    }
    for class in [
        "http://relay.example.com",
        "https://relay.example.com:8443",
        "https://other.example.com",
        "https://relay.example.com:99999",
    ] {
        assert!(!used(class, agent), "{class}");
    }
}

#[test]
fn a_missing_and_an_unregistered_connector_have_different_reasons() {
    let (tunnel, mut world) = with_rules(&[to_slice("app")]);
    let word = |world: &TableInputs| match action(&decide(world), &tunnel) {
        RouteAction::NoBackend { reason, .. } => reason,
        _ => panic!("unexpected action"),
    };
    let key = ObjectKey::new(Some("a"), "laptop");
    let connector = world.connectors.get_mut(&key).expect("there");
    connector.details = None;
    assert_eq!(word(&world), crate::reason::CONNECTOR_OFFLINE);
    world.connectors.clear();
    assert_eq!(word(&world), crate::reason::CONNECTOR_NOT_FOUND);
}

#[test]
fn addresses_get_their_port_whatever_their_family() {
    let (tunnel, mut world) = with_rules(&[to_slice("pods")]);
    let slice = json!({
        "metadata": { "namespace": "a", "name": "pods" }, "addressType": "IPv6",
        "endpoints": [
            { "addresses": ["2001:db8::1"], "conditions": { "ready": true } },
            { "addresses": ["2001:db8::2"], "conditions": { "ready": false } },
        ],
    });
    let slice = serde_json::from_value(slice).expect("a slice");
    world
        .slices
        .insert(ObjectKey::new(Some("a"), "pods"), std::sync::Arc::new(slice));
    let RouteAction::Forward(origin) = action(&decide(&world), &tunnel) else {
        panic!("expected an origin");
    };
    let expected = OriginAddress::Addresses(Addresses {
        names: vec!["[2001:db8::1]:3000".to_owned()],
        open_networks: Vec::new(),
    });
    assert_eq!(origin.target, expected);
}

#[test]
fn matches_stand_in_the_order_of_the_gateway_api() {
    let with = |value: Value| {
        let mut rule = to_slice("app");
        rule["matches"] = value;
        rule
    };
    let path = |kind: &str, value: &str| json!({ "path": { "type": kind, "value": value } });
    let (tunnel, plan) = decide_rules(&[
        with(json!([path("PathPrefix", "/")])),
        with(json!([path("PathPrefix", "/shop")])),
        with(json!([path("Exact", "/a")])),
        with(json!([{ "path": { "type": "PathPrefix", "value": "/shop" }, "method": "GET" }])),
        with(json!([path("RegularExpression", "/[0-9]+")])),
    ]);
    let routes = &plan.table.host(&tunnel.canonical()).expect("served").routes;
    let order: Vec<_> = routes.iter().map(|route| route.rule).collect();
    assert_eq!(order, [2, 3, 1, 4, 0]);
}

/// A replica whose record is rejected for its size would count as dead, and break every tunnel.
#[test]
fn a_long_reason_is_truncated() {
    let long = format!("({}", "é".repeat(4000));
    let mut rule = to_slice("app");
    rule["matches"] = json!([{ "path": { "type": "RegularExpression", "value": long } }]);
    let (_, plan) = decide_rules(&[rule]);
    assert_eq!(plan.report.quarantined[0].reason.chars().count(), 512);
}

#[test]
fn what_can_never_work_is_quarantined_with_the_reason() {
    let bad_path = json!([{ "path": { "type": "RegularExpression", "value": "(" } }]);
    let wide = json!([{ "path": { "type": "PathPrefix", "value": "/webhooks/%2E%2e" } }]);
    let service = json!([{ "kind": "Service", "name": "x", "port": 80 }]);
    let elsewhere = json!([{ "group": "aplomb.dev", "kind": "Connector", "name": "x",
        "namespace": "b", "port": 80 }]);
    let mirror = json!([{ "type": "RequestMirror" }]);
    let twice = json!([
        { "type": "URLRewrite", "urlRewrite": { "hostname": "a" } },
        { "type": "URLRewrite", "urlRewrite": { "hostname": "b" } },
    ]);
    let header = json!([{ "type": "RequestHeaderModifier",
        "requestHeaderModifier": { "set": [{ "name": "a b", "value": "x" }] } }]);
    for (member, value, word) in [
        ("matches", bad_path, "regular expression"),
        ("matches", wide, "dot segment"),
        ("backendRefs", service, "not supported as a backend"),
        ("backendRefs", elsewhere, "namespace of its route"),
        ("backendRefs", json!([]), "neither a backend"),
        ("filters", mirror, "RequestMirror"),
        ("filters", twice, "more than one filter"),
        ("filters", header, "not a header name"),
    ] {
        let mut rule = to_slice("app");
        rule[member] = value;
        let (tunnel, plan) = decide_rules(&[to_slice("app"), rule]);
        let host = plan.table.host(&tunnel.canonical()).expect("route is reported");
        assert!(host.routes.is_empty(), "{word}");
        let [quarantined] = &plan.report.quarantined[..] else {
            panic!("{word}: {:?}", plan.report.quarantined);
        };
        let reason = &quarantined.reason;
        assert!(reason.starts_with("rule 1: ") && reason.contains(word), "{reason}");
    }
}

#[test]
fn a_revision_depends_only_on_what_is_served() {
    let (tunnel, world) = with_rules(&[to_slice("app")]);
    let revision = |world: &TableInputs| {
        let table = decide(world).table;
        let host = table.host(&tunnel.canonical()).expect("served");
        host.tunnel.revision.clone()
    };
    let before = revision(&world);
    let (other, _) = super::build::unowned_gateway("b", "site", "2026-01-01T00:00:00Z", "site.example.com");
    assert_eq!(revision(&world.clone().gateway(other)), before);
    let mut moved = world;
    moved
        .connectors
        .insert(ObjectKey::new(Some("a"), "laptop"), registered_connector("session-2"));
    assert_ne!(revision(&moved), before);
}

#[test]
fn the_networks_of_its_own_class_are_open_to_a_backend() {
    let pods = json!({
        "metadata": { "namespace": "a", "name": "pods" }, "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.0.0.1"] }],
    });
    let tunnel = Tunnel {
        rules: vec![to_slice("pods")],
        ..Tunnel::new("a", "app")
    };
    let network = |text: &str| vec![text.parse().expect("a network")];
    let opened = |class: Option<&str>, owned: bool| {
        let mut gateway = tunnel.gateway();
        if let Some(class) = class {
            gateway["metadata"]["annotations"] = json!({ "tunnel.aplomb.dev/connector-class": class });
        }
        let mut route = tunnel.route();
        let hostname = match owned {
            true => tunnel.canonical(),
            false => {
                gateway["metadata"]["ownerReferences"] = json!([]);
                gateway["spec"]["listeners"][0]["hostname"] = json!("a.example.com");
                route["spec"]["hostnames"] = json!([]);
                "a.example.com".to_owned()
            }
        };
        let mut world = TableInputs::default().tunnel(&tunnel);
        (world.gateways, world.routes) = Default::default();
        let slice = serde_json::from_value(pods.clone()).expect("a slice");
        world
            .slices
            .insert(ObjectKey::new(Some("a"), "pods"), std::sync::Arc::new(slice));
        world.class_networks.insert("aplomb".to_owned(), network("10.1.0.0/16"));
        world.class_networks.insert("inside".to_owned(), network("10.2.0.0/16"));
        let plan = decide(&world.gateway(gateway).route(route));
        let host = plan.table.host(&hostname).expect("served");
        match &host.routes[0].action {
            RouteAction::Forward(origin) => match &origin.target {
                OriginAddress::Addresses(to) => to.open_networks.iter().map(ToString::to_string).collect(),
                OriginAddress::Connector(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    };
    assert_eq!(opened(None, true), ["10.1.0.0/16"]);
    assert_eq!(opened(Some("inside"), true), ["10.2.0.0/16"]);
    assert_eq!(opened(Some("none"), true), [""; 0]);
    assert_eq!(opened(Some("inside"), false), ["10.1.0.0/16"]);
}
