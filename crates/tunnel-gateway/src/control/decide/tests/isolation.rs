//! Whatever one tenant writes, another's entries stay as they are; and no order of anything matters.

use aplomb_api::tunnel::{canonical_hostname, canonical_label};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::build::{DOMAIN, Tunnel, owner, to_slice, unowned_gateway};
use crate::control::decide::decide;
use crate::control::inputs::TableInputs;
use crate::routing::RoutingTable;

/// The honest tenant: an HTTPProxy with a claimed hostname, and a Gateway of its own.
fn honest_tenant() -> (TableInputs, Vec<String>) {
    let mut tunnel = Tunnel::new("a", "app");
    tunnel.hostnames.push("app.example.com".to_owned());
    let second = canonical_hostname(&tunnel.uid, "second.example.org");
    tunnel.hostnames.push(second);
    let (gateway, route) = unowned_gateway("a", "site", "2026-01-01T00:00:00Z", "site.example.com");
    let world = TableInputs::default()
        .tunnel(&tunnel)
        .claim("app.example.com", "a", &tunnel.uid)
        .gateway(gateway)
        .route(route);
    let mut hostnames = tunnel.hostnames;
    hostnames.push("site.example.com".to_owned());
    (world, hostnames)
}

fn entries(table: &RoutingTable, hostnames: &[String]) -> String {
    let hosts: Vec<_> = hostnames.iter().map(|it| table.host(it)).collect();
    format!("{hosts:?}")
}

/// What other tenants can bring about at will: claims of their HTTPProxies, made by the operator, which are
/// newer than what is there and never on a name that another HTTPProxy was first with; and, with an
/// administrator's help, classes with domains of any kind.
fn claims() -> impl Strategy<Value = Vec<(String, String)>> {
    let hostname = prop_oneof![
        Just("site.example.com".to_owned()),
        Just(Tunnel::new("a", "app").canonical()),
        Just(canonical_hostname("uid-a-app", "second.example.org")),
        Just("other.example.com".to_owned()),
    ];
    let uid = prop_oneof![Just("uid-b-app".to_owned()), Just("uid-b-web".to_owned())];
    prop::collection::vec((hostname, uid), 0..4)
}

fn domains() -> impl Strategy<Value = Vec<String>> {
    let domain = prop_oneof![
        Just(DOMAIN),
        Just("example.com"),
        Just("second.example.org"),
        Just("site.example.com"),
    ];
    prop::collection::vec(domain.prop_map(str::to_owned), 0..3)
}

/// Rules that are wrong in every way, and some that are not.
fn rule() -> impl Strategy<Value = Value> {
    let with = |member: &'static str, value: Value| {
        let mut rule = to_slice("app");
        rule[member] = value;
        rule
    };
    let expression = json!([{ "path": { "type": "RegularExpression", "value": "(" } }]);
    prop_oneof![
        Just(to_slice("app")),
        Just(with("matches", expression)),
        Just(with("backendRefs", json!([{ "name": "svc", "port": 1 }]))),
        Just(with("filters", json!([{ "type": "CORS" }]))),
        Just(with("timeouts", json!({ "request": "soon" }))),
        Just(json!("not even an object")),
    ]
}

prop_compose! {
    /// What another tenant may write: any hostname, any owner, any rules, newer than the honest one's.
    fn hostile()(
        name in "[a-z]{1,3}",
        hostname in prop_oneof![
            Just("app.example.com".to_owned()), Just("site.example.com".to_owned()),
            Just("*.example.com".to_owned()), Just(Tunnel::new("a", "app").canonical()),
            Just("*.tunnels.example.com".to_owned()), Just("SITE.example.com".to_owned()),
            Just(canonical_hostname("uid-a-app", "second.example.org")),
            Just("..".to_owned()), "[a-z]{1,3}\\.example\\.com",
        ],
        owned in prop_oneof![
            Just(None), Just(Some("uid-a-app".to_owned())), Just(Some("uid-b-app".to_owned())),
        ],
        rules in prop::collection::vec(rule(), 0..3),
        seen in any::<bool>(),
    ) -> (Value, Value, Option<(String, String)>) {
        let (mut gateway, mut route) = unowned_gateway("b", &name, "2026-06-01T00:00:00Z", &hostname);
        if let Some(uid) = &owned {
            for object in [&mut gateway, &mut route] {
                object["metadata"]["ownerReferences"] = json!([owner(&name, uid)]);
            }
        }
        route["spec"]["rules"] = json!(rules);
        // The server gives out UIDs: only its own can be that of an HTTPProxy of this tenant.
        let seen = seen.then(|| (name.clone(), "uid-b-app".to_owned()));
        (gateway, route, seen)
    }
}

proptest! {
    #[test]
    fn nothing_another_tenant_writes_changes_an_entry(
        others in prop::collection::vec(hostile(), 1..5),
        claims in claims(),
        domains in domains(),
    ) {
        let (world, hostnames) = honest_tenant();
        let before = decide(&world);
        let mut attacked = world;
        attacked.domains = domains.into_iter().collect();
        for (hostname, uid) in claims {
            attacked = attacked.claim_at(&hostname, "b", &uid, "2026-06-01T00:00:00Z");
            let mut tunnel = Tunnel::new("b", uid.trim_start_matches("uid-b-"));
            tunnel.hostnames.push(hostname);
            attacked = attacked.tunnel(&tunnel);
        }
        // What observing adds: whose labels the claimed hostnames have.
        attacked.labels.insert(canonical_label("uid-a-app"));
        for (gateway, route, seen) in others {
            if let Some((name, uid)) = seen {
                attacked.proxies.insert(aplomb::ObjectKey::new(Some("b"), &name), uid);
            }
            attacked = attacked.gateway(gateway).route(route);
        }
        let after = decide(&attacked);
        prop_assert_eq!(
            entries(&after.table, &hostnames),
            entries(&before.table, &hostnames)
        );
        let hurt = after.report.quarantined.iter().any(|it| it.namespace == "a");
        prop_assert!(!hurt, "{:?}", after.report.quarantined);
    }

    #[test]
    fn the_order_of_objects_does_not_matter(
        others in prop::collection::vec(hostile(), 1..5),
        seed in any::<u64>(),
    ) {
        let (mut world, _) = honest_tenant();
        for (number, (mut gateway, mut route, _)) in others.into_iter().enumerate() {
            for object in [&mut gateway, &mut route] {
                let name = format!("{}{number}", object["metadata"]["name"].as_str().unwrap_or_default());
                object["metadata"]["name"] = json!(name);
            }
            route["spec"]["parentRefs"][0]["name"] = route["metadata"]["name"].clone();
            world = world.gateway(gateway).route(route);
        }
        let mut shuffled = world.clone();
        let mut draw = fastrand::Rng::with_seed(seed);
        draw.shuffle(&mut shuffled.gateways);
        draw.shuffle(&mut shuffled.routes);
        let (one, other) = (decide(&world), decide(&shuffled));
        prop_assert_eq!(format!("{:?}", one.table), format!("{:?}", other.table));
        prop_assert_eq!(one.report, other.report);
    }
}
