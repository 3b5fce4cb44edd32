//! Tests of decisions where an object is missing, in use elsewhere or unused.

use super::*;
use crate::httpproxy::{ChildCondition, UnownedGateway};

/// The new `Programmed` condition of children that were reported as served: status and reason.
fn programmed_after_served(mut world: Observed) -> Option<(ConditionStatus, String)> {
    world.child_status_reported = true;
    world.progress.child_status_reported = false;
    let plan = decide(&world);
    let programmed = plan.child_conditions?.programmed;
    Some((programmed.status, programmed.reason))
}

#[test]
fn children_are_unserved_when_their_gateway_spec_or_connector_is_deleted() {
    let world = with_probe_result(served_inputs(&[]));
    let no = |reason: &str| Some((ConditionStatus::False, reason.to_owned()));
    assert_eq!(
        programmed_after_served(world.clone()),
        Some((ConditionStatus::True, "Programmed".to_owned()))
    );
    let mut alone = world.clone();
    alone.replicas.clear();
    assert_eq!(programmed_after_served(alone), no(reasons::NO_GATEWAY));
    let mut unclear = world.clone();
    unclear.fresh = false;
    assert_eq!(
        programmed_after_served(unclear),
        Some((ConditionStatus::Unknown, reasons::STALE.to_owned()))
    );
    let mut refused = world.clone();
    refused.domain = None;
    assert_eq!(programmed_after_served(refused), no(reasons::CONNECTOR_CLASS_NOT_FOUND));
    let mut gone = world.clone();
    gone.connectors.insert("laptop".to_owned(), None);
    assert_eq!(programmed_after_served(gone), no(reasons::CONNECTOR_NOT_FOUND));
    let mut released = world.clone();
    let mut seen = connector();
    seen.online = Some((false, reasons::RELEASED.to_owned(), "stopped".to_owned()));
    released.connectors.insert("laptop".to_owned(), Some(seen));
    assert_eq!(programmed_after_served(released), no(reasons::RELEASED));
    let mut bad = world.clone();
    bad.replicas[0].quarantined = Some("rule 0: bad".to_owned());
    assert_eq!(programmed_after_served(bad), no(reasons::QUARANTINED));
    let mut behind = world;
    behind.replicas[0] = replica("9");
    assert_eq!(
        programmed_after_served(behind),
        None,
        "a pending transition is not reported"
    );
}

#[test]
fn a_missing_connector_is_not_hidden_by_a_gateway_that_is_behind_or_gone() {
    let mut world = with_probe_result(served_inputs(&[]));
    world.connectors.insert("laptop".to_owned(), None);
    (world.child_status_reported, world.progress.child_status_reported) = (true, false);
    let (mut behind, mut alone) = (world.clone(), world);
    behind.replicas[0] = replica("9");
    alone.replicas.clear();
    for (world, reason) in [(behind, reasons::CONNECTOR_NOT_FOUND), (alone, reasons::NO_GATEWAY)] {
        let standing = decide(&world).child_conditions.expect("it is reported");
        let is = |said: &ChildCondition, reason| (said.status, &*said.reason) == (ConditionStatus::False, reason);
        assert!(is(&standing.programmed, reason), "{standing:?}");
        assert!(is(&standing.resolved, "BackendNotFound"), "{standing:?}");
    }
}

#[test]
fn children_without_a_status_are_not_reported_unserved() {
    let mut world = served_inputs(&[]);
    world.progress.child_status_reported = false;
    world.replicas.clear();
    assert_eq!(decide(&world).step, None);
}

#[test]
fn a_stopped_agent_is_not_reported_without_its_relay() {
    for relays in [None, Some(Vec::new())] {
        let mut world = with_probe_result(served_inputs(&[]));
        let mut seen = connector();
        let details = seen.details.as_mut().expect("registered");
        details.public_key.home_relay = Some("https://relay.example.com/".to_owned());
        seen.online = Some((false, reasons::RELEASED.to_owned(), "stopped".to_owned()));
        world.connectors.insert("laptop".to_owned(), Some(seen));
        world.replicas[0].relays = relays;
        let plan = decide(&world);
        assert_eq!(ready(&plan), (ConditionStatus::False, reasons::CONNECTOR_OFFLINE));
    }
}

/// A tunnel whose agent names a relay, and the relays that its gateway lists.
fn with_relays(used: Option<&[&str]>) -> Observed {
    let mut world = served_inputs(&[]);
    let seen = world.connectors.get_mut("laptop").and_then(Option::as_mut);
    let details = seen.and_then(|it| it.details.as_mut()).expect("registered");
    details.public_key.home_relay = Some("https://relay.example.com/".to_owned());
    let urls = |all: &[&str]| all.iter().map(|it| it.parse().expect("a URL")).collect();
    world.replicas[0].relays = used.map(urls);
    world
}

#[test]
fn gateways_are_reported_with_the_relays_that_they_use() {
    let metadata = |world: &Observed| {
        let plan = decide(world);
        let said = condition(&plan, kinds::CONNECTOR_METADATA_PROGRAMMED).expect("condition is set");
        (said.status, said.reason.to_string())
    };
    let says = |status, reason: &str| (status, reason.to_owned());
    let applied = says(ConditionStatus::True, reasons::METADATA_APPLIED);
    for used in ["https://relay.example.com", "https://RELAY.example.com:443/"] {
        assert_eq!(metadata(&with_relays(Some(&[used]))), applied, "{used}");
    }
    assert_eq!(metadata(&served_inputs(&[])), applied, "a connector without a relay");
    let old = with_relays(None);
    assert_eq!(metadata(&old), says(ConditionStatus::Unknown, reasons::RELAY_UNKNOWN));
    // The API server drops fields that an older CRD does not have.
    let plan = decide(&old);
    let why = condition(&plan, kinds::CONNECTOR_METADATA_PROGRAMMED).expect("condition is set");
    assert!(why.message.contains("and the CRDs"), "{}", why.message);
    for used in [&[][..], &["https://other.example.com"]] {
        let unused = with_relays(Some(used));
        assert_eq!(metadata(&unused), says(ConditionStatus::False, reasons::RELAY_NOT_USED));
        let plan = decide(&unused);
        assert_eq!(ready(&plan), (ConditionStatus::False, reasons::RELAY_NOT_USED));
        assert_eq!(plan.step, Some(TunnelStep::Prove), "it may be reached directly");
        assert_eq!(
            ready(&decide(&with_probe_result(unused))).0,
            ConditionStatus::True,
            "as a proof shows"
        );
    }
    let mut second = with_relays(Some(&["https://relay.example.com"]));
    second.replicas.push(ObservedReplica {
        name: "gw-1".to_owned(),
        ..replica("10")
    });
    assert_eq!(metadata(&second), says(ConditionStatus::False, reasons::RELAY_NOT_USED));
}

#[test]
fn a_hostname_of_a_gateway_without_an_http_proxy_is_not_claimed() {
    let hostname = "app.example.com";
    let mut world = with_probe_result(served_inputs(&[hostname]));
    let plain = |namespace: &str, first| UnownedGateway {
        namespace: namespace.to_owned(),
        name: "site".to_owned(),
        older: first,
    };
    world
        .unowned_gateways
        .insert(hostname.to_owned(), plain("other", false));
    assert_eq!(
        ready(&decide(&world)).0,
        ConditionStatus::True,
        "it came after the claim"
    );
    world.unowned_gateways.insert(hostname.to_owned(), plain("other", true));
    let plan = decide(&world);
    assert_eq!(plan.step, Some(TunnelStep::Unclaim(hostname.to_owned())));
    assert_eq!(ready(&plan), (ConditionStatus::False, reasons::HOSTNAME_IN_USE));
    world.claims.insert(hostname.to_owned(), ClaimState::Free);
    for (namespace, told) in [("team", true), ("other", false)] {
        world
            .unowned_gateways
            .insert(hostname.to_owned(), plain(namespace, false));
        let plan = decide(&world);
        assert!(!matches!(plan.step, Some(TunnelStep::Claim(_))), "{:?}", plan.step);
        let in_use = condition(&plan, kinds::HOSTNAMES_IN_USE).expect("HostnamesInUse is set");
        assert_eq!(in_use.message.contains("site"), told, "{}", in_use.message);
    }
}
