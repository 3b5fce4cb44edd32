//! Tests of the decision about a tunnel.

mod child_conditions_and_claims;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aplomb::Condition;
use aplomb_api::tunnel::{AppliedVersions, ChildRevision, ConnectionDetails, HttpProxy, HttpProxyStatus};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::httpproxy::{AppliedChild, ChildrenState, ClaimState, ObservedConnector, ObservedReplica, Progress};
use crate::probe::result::{Ambiguity, ProbeFailure, ProbeResult};

const UID: &str = "5d3e2c1b-0000-4000-8000-000000000001";

fn proxy(hostnames: &[&str]) -> HttpProxy {
    serde_json::from_value(json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "HTTPProxy",
        "metadata": {"name": "web", "namespace": "team", "uid": UID, "generation": 2},
        "spec": {
            "hostnames": hostnames,
            "rules": [{"backends": [{
                "endpoint": "http://localhost:3000", "connector": {"name": "laptop"},
            }]}],
        },
    }))
    .expect("an HTTPProxy")
}

fn child(kind: &str, version: &str) -> AppliedChild {
    AppliedChild {
        revision: ChildRevision {
            kind: kind.to_owned(),
            name: "web".to_owned(),
            version: version.to_owned(),
            digest: "d".to_owned(),
        },
        changed: true,
    }
}

fn replica(applied: &str) -> ObservedReplica {
    let at = applied.to_owned();
    ObservedReplica {
        name: "gw-0".to_owned(),
        listen: "192.0.2.1:80".to_owned(),
        listen_tls: None,
        endpoint_id: "aa".to_owned(),
        applied: AppliedVersions {
            gateways: at.clone(),
            http_routes: at.clone(),
            endpoint_slices: at.clone(),
            connectors: at.clone(),
            secrets: at.clone(),
            claims: at,
        },
        relays: Some(Vec::new()),
        quarantined: None,
        quarantine_list_incomplete: false,
        lost: false,
    }
}

fn connector() -> ObservedConnector {
    ObservedConnector {
        uid: "u1".to_owned(),
        version: "7".to_owned(),
        details: Some(ConnectionDetails {
            session: "s1".to_owned(),
            ..ConnectionDetails::default()
        }),
        online: Some((true, "LeaseRenewed".to_owned(), String::new())),
    }
}

/// A tunnel whose children are written and acknowledged.
fn served_inputs(hostnames: &[&str]) -> Observed {
    let children = ["EndpointSlice", "Gateway", "HTTPRoute"];
    let children = children.map(|kind| child(kind, "10")).to_vec();
    Observed {
        proxy: Arc::new(proxy(hostnames)),
        domain: Some("tunnels.example.com".to_owned()),
        domains: ["tunnels.example.com", "nested.tunnels.example.com", "other.example.org"]
            .map(str::to_owned)
            .into(),
        platform_hostnames: BTreeSet::new(),
        networks: Vec::new(),
        started_at: Timestamp::UNIX_EPOCH,
        now: Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
        claims: hostnames
            .iter()
            .map(|it| ((*it).to_owned(), ClaimState::Own("9".to_owned(), "u".to_owned())))
            .collect(),
        unowned_gateways: BTreeMap::new(),
        surplus_claims: BTreeSet::new(),
        connectors: BTreeMap::from([("laptop".to_owned(), Some(connector()))]),
        replicas: vec![replica("10")],
        child_status_reported: false,
        fresh: true,
        progress: Progress {
            written: Some(ChildrenState::Children(children)),
            child_status_reported: true,
            ..Progress::default()
        },
        probe_result: None,
    }
}

fn with_probe_result(mut world: Observed) -> Observed {
    let hostnames: Vec<String> = decide(&world)
        .status
        .hostname_statuses
        .iter()
        .filter(|it| it.accepted)
        .map(|it| it.hostname.clone())
        .collect();
    world.probe_result = Some(ProbeResult {
        subject: probe_subject(&world, &hostnames),
        at: world.instant,
        next_probe_after: std::time::Duration::from_secs(7),
        failures: 0,
        tunnel: Ok(()),
        origin: Some(true),
        certificates: None,
    });
    world
}

fn condition<'a>(plan: &'a Plan, kind: &str) -> Option<&'a Condition> {
    plan.conditions.iter().find(|it| it.type_ == kind)
}

fn ready(plan: &Plan) -> (ConditionStatus, &str) {
    let ready = condition(plan, kinds::READY).expect("Ready is always set");
    (ready.status, &ready.reason)
}

#[test]
fn a_new_tunnel_is_written_before_anything_else() {
    let mut world = served_inputs(&[]);
    world.progress = Progress::default();
    assert_eq!(decide(&world).step, Some(TunnelStep::Write));
}

#[test]
fn no_child_is_written_before_its_hostname_is_claimed() {
    let mut world = served_inputs(&["app.example.com"]);
    world.progress = Progress::default();
    world.claims.insert("app.example.com".to_owned(), ClaimState::Free);
    let plan = decide(&world);
    assert_eq!(plan.step, Some(TunnelStep::Claim("app.example.com".to_owned())));
    world.claims.insert("app.example.com".to_owned(), ClaimState::Orphaned);
    let plan = decide(&world);
    assert_eq!(plan.step, Some(TunnelStep::Unclaim("app.example.com".to_owned())));
}

#[test]
fn ready_needs_a_proof_even_when_all_else_is_well() {
    let plan = decide(&served_inputs(&[]));
    assert_eq!(plan.step, Some(TunnelStep::Prove));
    assert_eq!(
        condition(&plan, kinds::PROGRAMMED).map(|it| it.status),
        Some(ConditionStatus::True)
    );
    assert_eq!(ready(&plan), (ConditionStatus::False, reasons::PENDING));
    let plan = decide(&with_probe_result(served_inputs(&[])));
    assert_eq!(ready(&plan), (ConditionStatus::True, reasons::PROVEN));
    assert_eq!(plan.step, None);
}

#[test]
fn a_proof_of_another_session_or_gateway_is_ignored() {
    let world = with_probe_result(served_inputs(&[]));
    let mut restarted = world.clone();
    let seen = restarted.connectors.get_mut("laptop").and_then(Option::as_mut);
    seen.and_then(|it| it.details.as_mut()).expect("registered").session = "s2".to_owned();
    restarted.replicas[0] = replica("12");
    assert_eq!(ready(&decide(&restarted)).0, ConditionStatus::False);
    let mut second = world;
    second.replicas.push(ObservedReplica {
        name: "gw-1".to_owned(),
        ..replica("12")
    });
    let plan = decide(&second);
    assert_eq!(
        (ready(&plan).0, plan.step),
        (ConditionStatus::False, Some(TunnelStep::Prove))
    );
}

#[test]
fn one_gateway_behind_is_not_programmed() {
    let mut world = with_probe_result(served_inputs(&[]));
    world.replicas.push(replica("9"));
    let plan = decide(&world);
    assert_eq!(
        condition(&plan, kinds::PROGRAMMED).map(|it| it.status),
        Some(ConditionStatus::False)
    );
    assert_eq!(ready(&plan), (ConditionStatus::False, reasons::PENDING));
    assert!(plan.waiting && plan.step.is_none());
}

#[test]
fn a_gateway_that_cannot_list_all_it_leaves_out_makes_nothing_programmed() {
    let mut world = with_probe_result(served_inputs(&[]));
    world.replicas[0].quarantine_list_incomplete = true;
    let plan = decide(&world);
    let programmed = condition(&plan, kinds::PROGRAMMED).map(|it| (it.status, &*it.reason));
    assert_eq!(programmed, Some((ConditionStatus::Unknown, reasons::REPORT_INCOMPLETE)));
    assert_eq!(ready(&plan), (ConditionStatus::Unknown, reasons::REPORT_INCOMPLETE));
}

#[test]
fn a_childs_own_status_does_not_unprogram_it() {
    let mut world = with_probe_result(served_inputs(&[]));
    let plan = decide(&world);
    let mut proxy = HttpProxy::clone(&world.proxy);
    proxy.status = Some(plan.status);
    world.proxy = Arc::new(proxy);
    let mut newer = child("Gateway", "99");
    newer.changed = false;
    world.progress.written = Some(ChildrenState::Children(vec![newer]));
    let plan = decide(&world);
    assert_eq!(
        condition(&plan, kinds::PROGRAMMED).map(|it| it.status),
        Some(ConditionStatus::True)
    );
}

#[test]
fn a_missing_connector_is_named_and_not_reported_as_silent() {
    let mut world = served_inputs(&[]);
    world.connectors.insert("laptop".to_owned(), None);
    let plan = decide(&world);
    assert_eq!(ready(&plan), (ConditionStatus::False, reasons::CONNECTOR_NOT_FOUND));
    assert_eq!(plan.step, None);
    assert_eq!(
        condition(&plan, kinds::PROGRAMMED).map(|it| it.status),
        Some(ConditionStatus::True)
    );
}

#[test]
fn a_recreated_connector_is_another_one_even_with_the_same_details() {
    let mut world = with_probe_result(served_inputs(&[]));
    let status = decide(&world).status;
    let mut proxy = HttpProxy::clone(&world.proxy);
    proxy.status = Some(status);
    world.proxy = Arc::new(proxy);
    let mut second = connector();
    (second.uid, second.version) = ("u2".to_owned(), "11".to_owned());
    world.connectors.insert("laptop".to_owned(), Some(second));
    let plan = decide(&world);
    let metadata = condition(&plan, kinds::CONNECTOR_METADATA_PROGRAMMED);
    let metadata = metadata.map(|it| (it.status, it.reason.as_str()));
    assert_eq!(metadata, Some((ConditionStatus::False, reasons::PENDING)));
    assert_eq!(plan.step, None, "gateways have version 10");
    world.replicas = vec![replica("11")];
    let plan = decide(&world);
    assert_eq!(ready(&plan), (ConditionStatus::False, reasons::PENDING));
    assert_eq!(plan.step, Some(TunnelStep::Prove));
}

#[test]
fn the_holder_of_a_hostname_is_named_only_within_the_namespace() {
    for (namespace, told) in [("team", true), ("other", false)] {
        let mut world = with_probe_result(served_inputs(&["app.example.com"]));
        let taken = ClaimState::Taken {
            namespace: namespace.to_owned(),
            name: "first".to_owned(),
        };
        world.claims.insert("app.example.com".to_owned(), taken);
        let plan = decide(&world);
        let in_use = condition(&plan, kinds::HOSTNAMES_IN_USE).expect("HostnamesInUse is set");
        assert_eq!(in_use.message.contains("first"), told, "{}", in_use.message);
        assert_eq!(ready(&plan), (ConditionStatus::False, reasons::HOSTNAME_IN_USE));
    }
}

#[test]
fn a_platform_hostname_of_another_cannot_be_asked_for() {
    let theirs = aplomb_api::tunnel::canonical_hostname("another", "tunnels.example.com");
    let world = served_inputs(&[&theirs]);
    let plan = decide(&world);
    assert_eq!(ready(&plan), (ConditionStatus::False, reasons::HOSTNAME_RESERVED));
}

#[test]
fn a_platform_hostname_is_reserved_under_the_domain_of_every_class() {
    let hostname = |domain: &str| aplomb_api::tunnel::canonical_hostname("another", domain);
    for domain in ["nested.tunnels.example.com", "other.example.org"] {
        let theirs = hostname(domain);
        let mut world = served_inputs(&[&theirs]);
        let plan = decide(&world);
        assert_eq!(
            ready(&plan),
            (ConditionStatus::False, reasons::HOSTNAME_RESERVED),
            "{domain}"
        );
        // The class may be newer than the claim.
        assert_eq!(plan.step, Some(TunnelStep::Unclaim(theirs.clone())));
        world.claims.insert(theirs, ClaimState::Free);
        assert!(!matches!(decide(&world).step, Some(TunnelStep::Claim(_))), "{domain}");
    }
}

#[test]
fn a_label_of_an_existing_tunnel_is_reserved_under_any_domain_and_other_labels_are_not() {
    let theirs = aplomb_api::tunnel::canonical_hostname("another", "gone.example.net");
    let mut world = served_inputs(&[&theirs]);
    assert_eq!(decide(&world).step, Some(TunnelStep::Prove), "a word like any other");
    world.platform_hostnames.insert(theirs.clone());
    assert_eq!(decide(&world).step, Some(TunnelStep::Unclaim(theirs)));
    let own = aplomb_api::tunnel::canonical_hostname(UID, "gone.example.net");
    let plan = decide(&served_inputs(&[&own]));
    assert_eq!(
        condition(&plan, kinds::HOSTNAMES_VERIFIED).map(|it| it.status),
        Some(ConditionStatus::True)
    );
}

#[test]
fn an_unreachable_origin_is_its_own_condition() {
    let mut world = with_probe_result(served_inputs(&[]));
    if let Some(evidence) = &mut world.probe_result {
        evidence.origin = Some(false);
    }
    let plan = decide(&world);
    assert_eq!(ready(&plan), (ConditionStatus::False, reasons::ORIGIN_UNREACHABLE));
    let origin = condition(&plan, kinds::ORIGIN_REACHABLE).map(|it| it.status);
    assert_eq!(origin, Some(ConditionStatus::False));
}

#[test]
fn an_origin_that_is_not_exposed_is_in_both_conditions() {
    let mut world = with_probe_result(served_inputs(&[]));
    let message = "agent \"laptop\" does not expose 127.0.0.1:9; restart it with --expose 127.0.0.1:9";
    if let Some(evidence) = &mut world.probe_result {
        evidence.tunnel = Err(ProbeFailure::new(reasons::ORIGIN_NOT_EXPOSED, message));
        // The origin of another rule is reachable.
        evidence.origin = Some(true);
    }
    let plan = decide(&world);
    for kind in [kinds::READY, kinds::ORIGIN_REACHABLE] {
        let said = condition(&plan, kind).expect("the condition is set");
        assert_eq!(
            (said.status, &*said.reason),
            (ConditionStatus::False, "OriginNotExposed")
        );
        assert_eq!(said.message, message);
    }
    assert!(plan.notes.iter().any(|it| it.reason == "OriginNotExposed"));
}

#[test]
fn a_failed_proof_has_a_reason_and_is_retried_soon() {
    let mut world = with_probe_result(served_inputs(&[]));
    if let Some(evidence) = &mut world.probe_result {
        evidence.tunnel = Err(ProbeFailure::new(reasons::CONNECTOR_OFFLINE, "offline"));
        evidence.next_probe_after = std::time::Duration::from_millis(100);
    }
    let plan = decide(&world);
    assert_eq!(ready(&plan), (ConditionStatus::False, reasons::CONNECTOR_OFFLINE));
    assert!(plan.requeue_after <= std::time::Duration::from_millis(100));
}

#[test]
fn silence_is_probed_again_before_a_new_tunnel_is_reported_broken() {
    let mut world = with_probe_result(served_inputs(&[]));
    let silence = ProbeFailure::new(reasons::PROOF_FAILED, "no answer").with_ambiguity(Some(Ambiguity::NoResponse));
    if let Some(evidence) = &mut world.probe_result {
        (evidence.tunnel, evidence.failures) = (Err(silence), 1);
    }
    world.progress.probes = 1;
    assert_eq!(decide(&world).step, Some(TunnelStep::Prove));
    world.progress.probes = MAX_PROBES;
    let plan = decide(&world);
    assert_eq!(
        (ready(&plan), plan.step.clone()),
        ((ConditionStatus::False, reasons::PROOF_FAILED), None)
    );
    // A tunnel that was Ready gets no further round before its failure is reported.
    world.progress.probes = 1;
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Proven", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut proxy = HttpProxy::clone(&world.proxy);
    let status = serde_json::from_value(json!({ "conditions": [ready] }));
    proxy.status = Some(status.expect("a status"));
    world.proxy = Arc::new(proxy);
    assert_eq!(decide(&world).step, None);
}

#[test]
fn a_stage_keeps_its_time_although_its_status_could_not_be_written() {
    let mut world = with_probe_result(served_inputs(&[]));
    let first = decide(&world).status.timeline;
    world.progress.timeline.clone_from(&first);
    world.now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(60);
    world.started_at = world.now;
    assert_eq!(decide(&world).status.timeline, first);
}

#[test]
fn the_same_inputs_give_the_same_status() {
    let mut world = with_probe_result(served_inputs(&["app.example.com"]));
    let first = decide(&world);
    let mut proxy = HttpProxy::clone(&world.proxy);
    proxy.status = Some(HttpProxyStatus::clone(&first.status));
    world.proxy = Arc::new(proxy);
    world.now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(60);
    let second = decide(&world);
    assert_eq!(first.status, second.status);
    assert_eq!(first.conditions, second.conditions);
}

#[test]
fn stages_are_reached_in_order_and_stay() {
    let plan = decide(&with_probe_result(served_inputs(&[])));
    let line = plan.status.timeline.expect("a timeline");
    let stages = [
        line.created,
        line.accepted,
        line.children_written,
        line.programmed,
        line.proven,
    ];
    assert!(stages.iter().all(Option::is_some), "{stages:?}");
    assert!(stages.is_sorted_by_key(|stage| stage.as_ref().map(|it| it.0)));
}
