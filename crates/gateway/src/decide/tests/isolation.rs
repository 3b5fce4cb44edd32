//! Whatever one tenant writes, another's entries stay as they are; and no order of anything matters.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::build::{Tunnel, owner, plain, to_slice};
use crate::decide::decide;
use crate::table::Table;
use crate::world::World;

/// The honest tenant: an HTTPProxy with a claimed hostname, and a Gateway of its own.
fn honest() -> (World, Vec<String>) {
    let mut tunnel = Tunnel::new("a", "app");
    tunnel.hostnames.push("app.example.com".to_owned());
    let (gateway, route) = plain("a", "site", "2026-01-01T00:00:00Z", "site.example.com");
    let world = World::default()
        .tunnel(&tunnel)
        .claim("app.example.com", "a", &tunnel.uid)
        .gateway(gateway)
        .route(route);
    let mut hostnames = tunnel.hostnames;
    hostnames.push("site.example.com".to_owned());
    (world, hostnames)
}

fn entries(table: &Table, hostnames: &[String]) -> String {
    let hosts: Vec<_> = hostnames.iter().map(|it| table.at(it)).collect();
    format!("{hosts:?}")
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
            Just("..".to_owned()), "[a-z]{1,3}\\.example\\.com",
        ],
        owned in prop_oneof![
            Just(None), Just(Some("uid-a-app".to_owned())), Just(Some("uid-b-app".to_owned())),
        ],
        rules in prop::collection::vec(rule(), 0..3),
        seen in any::<bool>(),
    ) -> (Value, Value, Option<(String, String)>) {
        let (mut gateway, mut route) = plain("b", &name, "2026-06-01T00:00:00Z", &hostname);
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
    fn nothing_another_tenant_writes_changes_an_entry(others in prop::collection::vec(hostile(), 1..5)) {
        let (world, hostnames) = honest();
        let before = decide(&world);
        let mut attacked = world;
        for (gateway, route, seen) in others {
            if let Some((name, uid)) = seen {
                attacked.proxies.insert(aplomb::Key::new(Some("b"), &name), uid);
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
        let (mut world, _) = honest();
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
