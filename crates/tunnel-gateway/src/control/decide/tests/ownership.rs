//! Whose a hostname is follows from UIDs alone.

use aplomb::ObjectKey;
use aplomb_api::tunnel::canonical_hostname;
use serde_json::json;

use super::build::{Tunnel, owner, unowned_gateway};
use crate::control::decide::decide;
use crate::control::inputs::TableInputs;

#[test]
fn a_tunnel_serves_its_canonical_hostname_without_a_claim() {
    let tunnel = Tunnel::new("a", "app");
    let plan = decide(&TableInputs::default().tunnel(&tunnel));
    let host = plan.table.host(&tunnel.canonical()).expect("served");
    assert_eq!(host.tunnel.uid, tunnel.uid);
    assert_eq!(host.tunnel.generation, 3);
    assert_eq!(plan.report.tunnels, 1);
    assert!(
        plan.report
            .session_targets
            .contains_key(&ObjectKey::new(Some("a"), "laptop"))
    );
}

#[test]
fn a_hostname_needs_the_claim_of_that_uid_and_namespace() {
    let mut tunnel = Tunnel::new("a", "app");
    tunnel.hostnames.push("app.example.com".to_owned());
    let world = TableInputs::default().tunnel(&tunnel);
    let served = |world: &TableInputs| decide(world).table.host("app.example.com").is_some();
    assert!(!served(&world), "without a claim");
    assert!(!served(&world.clone().claim("app.example.com", "a", "uid-of-another")));
    assert!(!served(&world.clone().claim("app.example.com", "b", &tunnel.uid)));
    assert!(served(&world.claim("app.example.com", "a", &tunnel.uid)));
}

#[test]
fn an_unclaimed_hostname_is_not_reported() {
    let mut tunnel = Tunnel::new("a", "app");
    tunnel.hostnames.push("app.example.com".to_owned());
    assert_eq!(decide(&TableInputs::default().tunnel(&tunnel)).report.quarantined, []);
}

#[test]
fn a_forged_owner_in_another_namespace_gets_nothing() {
    let victim = Tunnel::new("a", "app");
    let mut forged = Tunnel::new("b", "app");
    forged.uid.clone_from(&victim.uid);
    forged.hostnames.clone_from(&victim.hostnames);
    let honest = TableInputs::default().tunnel(&victim);
    let attacked = honest.clone().gateway(forged.gateway()).route(forged.route());
    assert_eq!(
        format!("{:?}", decide(&attacked).table),
        format!("{:?}", decide(&honest).table)
    );
}

#[test]
fn another_gateway_of_the_same_namespace_cannot_borrow_an_owner() {
    let victim = Tunnel::new("a", "app");
    let mut thief = victim.clone();
    thief.name = "thief".to_owned();
    let mut gateway = thief.gateway();
    gateway["metadata"]["ownerReferences"] = json!([owner("app", &victim.uid)]);
    gateway["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    let plan = decide(&TableInputs::default().tunnel(&victim).gateway(gateway));
    let host = plan.table.host(&victim.canonical()).expect("served");
    assert_eq!(host.tunnel.name, "app");
}

#[test]
fn an_unowned_gateway_serves_unclaimed_hostnames() {
    let (gateway, route) = unowned_gateway("b", "site", "2026-01-02T00:00:00Z", "site.example.com");
    let world = TableInputs::default().gateway(gateway).route(route);
    assert!(decide(&world).table.host("site.example.com").is_some());
    let plan = decide(&world.claim("site.example.com", "a", "uid"));
    assert!(plan.table.host("site.example.com").is_none());
    assert!(plan.report.quarantined[0].reason.contains("claimed"));
}

#[test]
fn an_unowned_gateway_gets_no_canonical_hostname() {
    let tunnel = Tunnel::new("a", "app");
    let (gateway, route) = unowned_gateway("b", "site", "2020-01-01T00:00:00Z", &tunnel.canonical());
    let world = TableInputs::default().gateway(gateway).route(route);
    assert!(decide(&world).table.hosts.is_empty());
    let plan = decide(&world.tunnel(&tunnel));
    let host = plan.table.host(&tunnel.canonical()).expect("served");
    assert_eq!(host.tunnel.name, "app");
}

#[test]
fn of_two_gateways_with_a_hostname_the_older_one_serves_it() {
    let (old, old_route) = unowned_gateway("b", "old", "2026-01-01T00:00:00Z", "site.example.com");
    let (new, new_route) = unowned_gateway("a", "new", "2026-01-02T00:00:00Z", "site.example.com");
    let world = TableInputs::default().gateway(new).route(new_route);
    let plan = decide(&world.gateway(old).route(old_route));
    let host = plan.table.host("site.example.com").expect("served");
    assert_eq!(host.tunnel.name, "old");
    assert!(plan.report.quarantined[0].reason.contains("older"));
}

#[test]
fn a_gateway_whose_owner_is_still_to_be_seen_is_not_acknowledged() {
    let tunnel = Tunnel::new("a", "app");
    let mut world = TableInputs::default().tunnel(&tunnel);
    world.versions.gateways = "40".to_owned();
    world.proxies.clear();
    assert_eq!(decide(&world).report.applied.gateways, "40", "it has another owner");
    world.awaited.insert(format!("{}-child", tunnel.uid));
    assert_eq!(decide(&world).report.applied.gateways, "6");
}

#[test]
fn a_platform_hostname_is_served_for_its_uid_whatever_is_claimed() {
    let victim = Tunnel::new("a", "app");
    for domain in ["second.example.org", "nested.tunnels.example.com"] {
        let name = canonical_hostname(&victim.uid, domain);
        let mut thief = Tunnel::new("b", "thief");
        thief.hostnames.push(name.clone());
        let world = TableInputs::default().tunnel(&thief);
        let world = world.claim(&name, "b", &thief.uid);
        let served = |world: &TableInputs| decide(world).table.host(&name).map(|it| it.tunnel.uid.clone());
        let mut class = world.clone();
        class.domains.insert(domain.to_owned());
        assert_eq!(served(&class), None, "{domain} is the domain of a class");
        let mut label = world;
        label.labels.insert(name[..17].to_owned());
        assert_eq!(served(&label), None, "its UID exists");
        let mut owner = victim.clone();
        owner.hostnames.push(name.clone());
        for world in [class, label] {
            let world = world.tunnel(&owner);
            assert_eq!(served(&world).as_ref(), Some(&victim.uid), "{domain}");
        }
    }
}

#[test]
fn a_hostname_that_only_looks_platform_given_is_served_by_its_claim() {
    let (mut tunnel, name) = (Tunnel::new("a", "app"), "thirdpartylogging.example.net");
    tunnel.hostnames.push(name.to_owned());
    let world = TableInputs::default().tunnel(&tunnel);
    assert!(decide(&world.claim(name, "a", &tunnel.uid)).table.host(name).is_some());
}

#[test]
fn of_a_claim_and_an_unowned_gateway_the_older_has_the_hostname() {
    let hostname = "site.example.com";
    let mut tunnel = Tunnel::new("a", "app");
    tunnel.hostnames.push(hostname.to_owned());
    let served = |created: &str, generation: i64, claimed: &str| {
        let (mut gateway, route) = unowned_gateway("b", "site", created, "Site.example.com");
        gateway["metadata"]["generation"] = json!(generation);
        let world = TableInputs::default().tunnel(&tunnel).gateway(gateway).route(route);
        let plan = decide(&world.claim_at(hostname, "a", &tunnel.uid, claimed));
        let name = plan.table.host(hostname).expect("served").tunnel.name.clone();
        let said = plan.report.quarantined.iter();
        let in_use = said.filter(|it| it.reason.starts_with("HostnameInUse: site.example.com"));
        (name, in_use.count())
    };
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    assert_eq!(served(old, 1, new), ("site".to_owned(), 0));
    assert_eq!(served(new, 1, old), ("app".to_owned(), 1));
    assert_eq!(served(old, 1, old), ("app".to_owned(), 1), "the same second");
    assert_eq!(
        served(old, 2, new),
        ("app".to_owned(), 1),
        "it may have added the hostname later"
    );
}

#[test]
fn a_wildcard_gets_nothing_of_an_http_proxy_that_is_not_served() {
    let tunnel = Tunnel::new("a", "app");
    let (gateway, route) = unowned_gateway("b", "all", "2020-01-01T00:00:00Z", "*.tunnels.example.com");
    let claimed = "shop.tunnels.example.com";
    let world = TableInputs::default().gateway(gateway).route(route);
    let plan = decide(&world.claim(claimed, "a", &tunnel.uid));
    let host = |name: &str| crate::routing::find_host(&plan.table, name, false);
    assert!(host("any.tunnels.example.com").is_some());
    assert!(host(claimed).is_none(), "the hostname is claimed");
    assert!(host(&tunnel.canonical()).is_none(), "the platform assigns the hostname");
}
