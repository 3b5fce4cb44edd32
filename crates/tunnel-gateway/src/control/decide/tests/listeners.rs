//! Listeners: a route is served over those that it is attached to, and over no other.

use std::sync::Arc;

use aplomb::ObjectKey;
use serde_json::{Value, json};

use super::build::{Tunnel, registered_connector, unowned_gateway};
use crate::certificates::parse_key_pair;
use crate::control::decide::decide;
use crate::control::inputs::TableInputs;
use crate::routing::{self, RouteAction, RoutingTable};

fn listener(name: &str, hostname: &str, protocol: &str, port: u16) -> Value {
    let tls = json!({ "mode": "Terminate", "certificateRefs": [{ "name": "cert" }] });
    let mut made = json!({ "name": name, "hostname": hostname, "protocol": protocol, "port": port });
    if protocol == "HTTPS" {
        made["tls"] = tls;
    }
    made
}

/// A Gateway of the namespace `a`, and routes: each with its parent references and whether it redirects.
fn inputs(name: &str, listeners: &[Value], routes: &[(Value, bool)]) -> TableInputs {
    let (mut gateway, route) = unowned_gateway("a", name, "2026-01-01T00:00:00Z", "x");
    gateway["spec"]["listeners"] = json!(listeners);
    let mut world = TableInputs::default().gateway(gateway);
    world
        .connectors
        .insert(ObjectKey::new(Some("a"), "laptop"), registered_connector("session-1"));
    for (number, (parents, redirects)) in routes.iter().enumerate() {
        let mut route = route.clone();
        route["metadata"]["name"] = json!(format!("{name}-{number}"));
        route["spec"]["parentRefs"] = parents.clone();
        if *redirects {
            let redirect = json!({ "type": "RequestRedirect",
                "requestRedirect": { "scheme": "https", "statusCode": 301 } });
            route["spec"]["rules"] = json!([{ "filters": [redirect] }]);
        }
        world = world.route(route);
    }
    world
}

/// What becomes of a request for `/` over HTTP and over HTTPS.
fn actions_by_protocol(table: &RoutingTable, hostname: &str) -> [&'static str; 2] {
    let request = http::Request::get("/").body(()).expect("a request");
    let (head, ()) = request.into_parts();
    [false, true].map(|tls| {
        let Some(host) = routing::find_host(table, hostname, tls) else {
            return "no host";
        };
        match routing::match_route(host, &head, tls).map(|it| &it.action) {
            None => "no route",
            Some(RouteAction::Redirect) => "redirect",
            Some(_) => "backend",
        }
    })
}

fn both_listeners() -> [Value; 2] {
    [
        listener("http", "a.example.com", "HTTP", 80),
        listener("https", "a.example.com", "HTTPS", 443),
    ]
}

#[test]
fn the_recipe_of_a_redirect_to_https_does_not_loop() {
    let parent = |member: &str, value: Value| json!([{ "name": "web", member: value }]);
    for (plain, secure) in [
        (
            parent("sectionName", json!("http")),
            parent("sectionName", json!("https")),
        ),
        (parent("port", json!(80)), parent("port", json!(443))),
    ] {
        // Whichever of the two is older.
        for routes in [
            [(plain.clone(), true), (secure.clone(), false)],
            [(secure, false), (plain, true)],
        ] {
            let table = decide(&inputs("web", &both_listeners(), &routes)).table;
            assert_eq!(actions_by_protocol(&table, "a.example.com"), ["redirect", "backend"]);
        }
    }
}

#[test]
fn a_route_is_on_the_listeners_that_its_references_name() {
    let table = [
        (json!([{ "name": "web" }]), ["backend", "backend"]),
        (
            json!([{ "name": "web", "sectionName": "https" }]),
            ["no route", "backend"],
        ),
        (
            json!([{ "name": "web", "sectionName": "http" }]),
            ["backend", "no route"],
        ),
        (json!([{ "name": "web", "port": 443 }]), ["no route", "backend"]),
        (
            json!([{ "name": "web", "port": 443, "sectionName": "http" }]),
            ["no route", "no route"],
        ),
        (
            json!([{ "name": "web", "sectionName": "none" }]),
            ["no route", "no route"],
        ),
        (
            json!([{ "name": "web", "sectionName": "http" }, { "name": "web", "sectionName": "https" }]),
            ["backend", "backend"],
        ),
        (
            json!([{ "name": "web", "sectionName": "https" }, { "name": "web", "sectionName": "https" }]),
            ["no route", "backend"],
        ),
    ];
    for (parents, wanted) in table {
        let said = parents.to_string();
        let plan = decide(&inputs("web", &both_listeners(), &[(parents, false)]));
        assert_eq!(actions_by_protocol(&plan.table, "a.example.com"), wanted, "{said}");
    }
}

#[test]
fn a_hostname_is_served_over_the_protocol_of_its_listener() {
    let listeners = [
        listener("http", "a.example.com", "HTTP", 80),
        listener("https", "b.example.com", "HTTPS", 443),
        listener("all", "*.example.com", "HTTPS", 443),
    ];
    let routes = [(json!([{ "name": "web" }]), false)];
    let table = decide(&inputs("web", &listeners, &routes)).table;
    assert_eq!(actions_by_protocol(&table, "a.example.com"), ["backend", "backend"]);
    assert_eq!(actions_by_protocol(&table, "b.example.com"), ["no host", "backend"]);
    assert_eq!(actions_by_protocol(&table, "c.example.com"), ["no host", "backend"]);
    let table = decide(&inputs("web", &listeners[..2], &routes)).table;
    assert_eq!(actions_by_protocol(&table, "a.example.com"), ["backend", "no host"]);
}

/// The wildcard of another Gateway gets nothing of a hostname that is served over one protocol only.
#[test]
fn two_gateways_have_their_own_listeners() {
    let mine = [listener("http", "a.example.com", "HTTP", 80)];
    let mut all = inputs("web", &mine, &[(json!([{ "name": "web" }]), false)]);
    let theirs = [listener("https", "*.example.com", "HTTPS", 443)];
    let other = inputs("other", &theirs, &[(json!([{ "name": "other" }]), true)]);
    all.gateways.extend(other.gateways);
    all.routes.extend(other.routes);
    let table = decide(&all).table;
    assert_eq!(actions_by_protocol(&table, "a.example.com"), ["backend", "no host"]);
    assert_eq!(actions_by_protocol(&table, "b.example.com"), ["no host", "redirect"]);
}

#[test]
fn of_two_ports_for_the_same_hostname_one_is_served_and_the_other_is_reported() {
    let listeners = [
        listener("alternative", "a.example.com", "HTTP", 8080),
        listener("http", "a.example.com", "HTTP", 80),
        listener("other", "b.example.com", "HTTP", 8080),
    ];
    let routes = [
        (json!([{ "name": "web", "sectionName": "alternative" }]), false),
        (json!([{ "name": "web", "sectionName": "http" }]), true),
        (json!([{ "name": "web", "sectionName": "other" }]), false),
    ];
    let plan = decide(&inputs("web", &listeners, &routes));
    assert_eq!(
        actions_by_protocol(&plan.table, "a.example.com"),
        ["redirect", "no host"]
    );
    assert_eq!(
        actions_by_protocol(&plan.table, "b.example.com"),
        ["backend", "no host"]
    );
    let reason = &plan.report.quarantined[0].reason;
    assert!(reason.contains("listener alternative: port 8080"), "{reason}");
}

/// A route of the wildcard that names the hostname of another listener, and one of that listener.
#[test]
fn a_route_is_not_served_where_a_more_specific_listener_has_its_hostname() {
    let own = [(json!([{ "name": "web", "sectionName": "one" }]), false)];
    for (ports, at) in [([80, 80], "backend"), ([8080, 80], "backend"), ([80, 8080], "redirect")] {
        let listeners = [
            listener("all", "*.example.com", "HTTP", ports[0]),
            listener("one", "a.example.com", "HTTP", ports[1]),
        ];
        for hostname in ["a.example.com", "*.example.com"] {
            let mut all = inputs("web", &listeners, &own);
            let (_, mut route) = unowned_gateway("a", "wide", "2025-01-01T00:00:00Z", "x");
            route["spec"]["parentRefs"] = json!([{ "name": "web", "sectionName": "all" }]);
            route["spec"]["hostnames"] = json!([hostname, "b.example.com"]);
            let redirect = json!({ "type": "RequestRedirect",
                "requestRedirect": { "scheme": "https", "statusCode": 301 } });
            route["spec"]["rules"] = json!([{ "filters": [redirect] }]);
            all = all.route(route);
            let plan = decide(&all);
            let said = format!("{ports:?} {hostname}");
            let got = actions_by_protocol(&plan.table, "a.example.com");
            assert_eq!(got, [at, "no host"], "{said}");
            let other = actions_by_protocol(&plan.table, "b.example.com");
            assert_eq!(other, ["redirect", "no host"], "{said}");
            let reported = plan.report.quarantined.iter().any(|it| it.name == "web");
            assert_eq!(reported, at == "redirect", "{said}");
        }
    }
}

/// A certificate of a listener whose port is not served, or of a less specific one, is not used.
#[test]
fn a_hostname_is_shown_with_the_certificate_of_its_listener() {
    let with = |name: &str, hostname: &str, port| {
        let mut made = listener(name, hostname, "HTTPS", port);
        made["tls"]["certificateRefs"] = json!([{ "name": name }]);
        made
    };
    let listeners = [
        with("one", "a.example.com", 443),
        with("alternative", "a.example.com", 8443),
        with("all", "*.example.com", 443),
    ];
    let mut world = inputs("web", &listeners, &[]);
    for name in ["one", "alternative", "all"] {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pair = parse_key_pair(certificate.as_bytes(), key.as_bytes()).expect("a pair");
        world
            .certificates
            .insert(ObjectKey::new(Some("a"), name), Ok(Arc::new(pair)));
    }
    let shown = decide(&world).table.certificates;
    for (hostname, name) in [("a.example.com", "one"), ("*.example.com", "all")] {
        let wanted = world.certificates[&ObjectKey::new(Some("a"), name)].as_ref();
        let wanted = wanted.expect("a pair");
        assert!(Arc::ptr_eq(&shown[hostname], wanted), "{hostname}");
    }
}

#[test]
fn a_tunnel_is_served_over_both() {
    let tunnel = Tunnel::new("a", "app");
    let mut gateway = tunnel.gateway();
    let hostname = tunnel.canonical();
    gateway["spec"]["listeners"] = json!([
        listener("http-1", &hostname, "HTTP", 80),
        listener("https-1", &hostname, "HTTPS", 443),
    ]);
    let mut world = TableInputs::default().tunnel(&tunnel);
    world.gateways.clear();
    let plan = decide(&world.gateway(gateway));
    assert_eq!(actions_by_protocol(&plan.table, &hostname), ["backend", "backend"]);
}
