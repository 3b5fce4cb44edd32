//! Listeners: a route is served over those that it is attached to, and over no other.

use serde_json::{Value, json};

use super::build::{Tunnel, laptop, plain};
use crate::decide::decide;
use crate::route;
use crate::table::{Action, Table};
use crate::world::World;
use aplomb::Key;

fn listener(name: &str, hostname: &str, protocol: &str, port: u16) -> Value {
    let tls = json!({ "mode": "Terminate", "certificateRefs": [{ "name": "cert" }] });
    let mut made =
        json!({ "name": name, "hostname": hostname, "protocol": protocol, "port": port });
    if protocol == "HTTPS" {
        made["tls"] = tls;
    }
    made
}

/// A Gateway of the namespace `a`, and routes: each with its parent references and whether it redirects.
fn world(name: &str, listeners: &[Value], routes: &[(Value, bool)]) -> World {
    let (mut gateway, route) = plain("a", name, "2026-01-01T00:00:00Z", "x");
    gateway["spec"]["listeners"] = json!(listeners);
    let mut world = World::default().gateway(gateway);
    world
        .connectors
        .insert(Key::new(Some("a"), "laptop"), laptop("session-1"));
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
fn over_both(table: &Table, hostname: &str) -> [&'static str; 2] {
    let request = http::Request::get("/").body(()).expect("a request");
    let (head, ()) = request.into_parts();
    [false, true].map(|tls| {
        let Some(host) = route::host(table, hostname, tls) else {
            return "no host";
        };
        match route::pick(host, &head, tls).map(|it| &it.action) {
            None => "no route",
            Some(Action::Redirect) => "redirect",
            Some(_) => "backend",
        }
    })
}

fn both() -> [Value; 2] {
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
            let table = decide(&world("web", &both(), &routes)).table;
            assert_eq!(over_both(&table, "a.example.com"), ["redirect", "backend"]);
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
        (
            json!([{ "name": "web", "port": 443 }]),
            ["no route", "backend"],
        ),
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
        let plan = decide(&world("web", &both(), &[(parents, false)]));
        assert_eq!(over_both(&plan.table, "a.example.com"), wanted, "{said}");
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
    let table = decide(&world("web", &listeners, &routes)).table;
    assert_eq!(over_both(&table, "a.example.com"), ["backend", "backend"]);
    assert_eq!(over_both(&table, "b.example.com"), ["no host", "backend"]);
    assert_eq!(over_both(&table, "c.example.com"), ["no host", "backend"]);
    let table = decide(&world("web", &listeners[..2], &routes)).table;
    assert_eq!(over_both(&table, "a.example.com"), ["backend", "no host"]);
}

/// The wildcard of another Gateway gets nothing of a hostname that is served over one protocol only.
#[test]
fn two_gateways_have_their_own_listeners() {
    let mine = [listener("http", "a.example.com", "HTTP", 80)];
    let mut all = world("web", &mine, &[(json!([{ "name": "web" }]), false)]);
    let theirs = [listener("https", "*.example.com", "HTTPS", 443)];
    let other = world("other", &theirs, &[(json!([{ "name": "other" }]), true)]);
    all.gateways.extend(other.gateways);
    all.routes.extend(other.routes);
    let table = decide(&all).table;
    assert_eq!(over_both(&table, "a.example.com"), ["backend", "no host"]);
    assert_eq!(over_both(&table, "b.example.com"), ["no host", "redirect"]);
}

#[test]
fn of_two_ports_for_the_same_hostname_one_is_served_and_the_other_is_reported() {
    let listeners = [
        listener("alternative", "a.example.com", "HTTP", 8080),
        listener("http", "a.example.com", "HTTP", 80),
        listener("other", "b.example.com", "HTTP", 8080),
    ];
    let routes = [
        (
            json!([{ "name": "web", "sectionName": "alternative" }]),
            false,
        ),
        (json!([{ "name": "web", "sectionName": "http" }]), true),
        (json!([{ "name": "web", "sectionName": "other" }]), false),
    ];
    let plan = decide(&world("web", &listeners, &routes));
    assert_eq!(
        over_both(&plan.table, "a.example.com"),
        ["redirect", "no host"]
    );
    assert_eq!(
        over_both(&plan.table, "b.example.com"),
        ["backend", "no host"]
    );
    let reason = &plan.report.quarantined[0].reason;
    assert!(
        reason.contains("listener alternative: port 8080"),
        "{reason}"
    );
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
    let mut world = World::default().tunnel(&tunnel);
    world.gateways.clear();
    let plan = decide(&world.gateway(gateway));
    assert_eq!(over_both(&plan.table, &hostname), ["backend", "backend"]);
}
