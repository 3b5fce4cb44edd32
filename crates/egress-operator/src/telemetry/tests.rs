//! The output of a scrape after various events.

use std::time::Duration;

use aplomb::{Condition, conditions::ConditionStatus};
use aplomb_api::DurationString;
use aplomb_api::egress::{MoveCause, MoveStages, MoveStatus, StableEgressStatus, conditions, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use prometheus_client::encoding::text::encode;

use super::*;
use crate::decide::Plan;
use crate::egress::{CandidateNode, FloatingIpState, LabelState, NodeReady, Observed, RemainingCalls};

fn scrape(egress: &EgressMetrics) -> String {
    let mut registry = Registry::default();
    egress.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string");
    text
}

fn samples(egress: &EgressMetrics, metric: &str) -> Vec<String> {
    let text = scrape(egress);
    let lines = text.lines().filter(|line| line.starts_with(metric));
    lines.map(str::to_owned).collect()
}

fn node(name: &str) -> CandidateNode {
    CandidateNode {
        name: name.to_owned(),
        server: Some(1),
        candidate: true,
        labels: LabelState::None,
        conflicting_label: None,
        cilium: None,
        ready: NodeReady::True,
        cordoned: false,
        terminating: false,
        prepared: true,
        probe_result: None,
    }
}

fn world(nodes: Vec<CandidateNode>) -> Observed {
    let spec = serde_json::json!({ "floatingIP": { "name": "out" } });
    Observed {
        name: "web".to_owned(),
        spec: serde_json::from_value(spec).expect("a spec"),
        hold: None,
        status: StableEgressStatus::default(),
        now: Timestamp::UNIX_EPOCH,
        uptime: Duration::ZERO,
        leading_for: Duration::ZERO,
        nodes,
        unwatched: None,
        reported_unusable: std::collections::BTreeSet::new(),
        floating_ip: FloatingIpState::default(),
        moving: None,
        term: 1,
    }
}

fn plan(available: ConditionStatus, reason: &str) -> Plan {
    let status = StableEgressStatus {
        active_node: Some("a".to_owned()),
        ip: Some("192.0.2.1".to_owned()),
        ..StableEgressStatus::default()
    };
    Plan {
        step: None,
        requeue_after: Duration::ZERO,
        status,
        conditions: vec![Condition::new(conditions::AVAILABLE, available, reason, "As it is")],
        notes: Vec::new(),
    }
}

fn record_decision(egress: &EgressMetrics, nodes: &[&str], available: ConditionStatus, reason: &str) {
    let world = world(nodes.iter().map(|name| node(name)).collect());
    let plan = plan(available, reason);
    egress.emit(GatewayDecided {
        world: &world,
        plan: &plan,
    });
}

fn finished_move() -> MoveStatus {
    let at = MicroTime(Timestamp::UNIX_EPOCH);
    MoveStatus {
        from: Some("a".to_owned()),
        to: "b".to_owned(),
        cause: MoveCause::NodeCordoned,
        detected: at.clone(),
        decided: at.clone(),
        ended: Some(at),
        unlabelled_since: None,
        overdue: false,
        stages: MoveStages {
            assign: Some(DurationString::from_secs(3)),
            total: Some(DurationString::from_secs(4)),
            ..MoveStages::default()
        },
    }
}

#[test]
fn available_is_one_only_while_the_condition_is_true() {
    let egress = EgressMetrics::default();
    let available = || samples(&egress, "aplomb_egress_gateway_available{");
    for (status, reason, value) in [
        (ConditionStatus::True, reasons::SERVING, "1.0"),
        (ConditionStatus::False, reasons::NOT_ALLOWED, "0.0"),
        (ConditionStatus::Unknown, reasons::STALE, "0.0"),
    ] {
        record_decision(&egress, &["a"], status, reason);
        let line = format!(r#"aplomb_egress_gateway_available{{stable_egress="web"}} {value}"#);
        assert_eq!(available(), [line]);
        let state = samples(&egress, "aplomb_egress_gateway_state{");
        assert_eq!(state.len(), 1, "{state:?}");
        assert!(state[0].contains(&format!(r#"reason="{reason}""#)), "{state:?}");
    }
}

#[test]
fn a_node_that_is_gone_takes_its_series_along() {
    let egress = EgressMetrics::default();
    record_decision(&egress, &["a", "b"], ConditionStatus::True, reasons::SERVING);
    egress.emit(ProbeFailed {
        name: "web",
        node: "b",
        failures: 1,
    });
    assert!(scrape(&egress).contains(r#"node="b""#));
    record_decision(&egress, &["a"], ConditionStatus::True, reasons::SERVING);
    assert!(!scrape(&egress).contains(r#"node="b""#), "{}", scrape(&egress));
}

#[test]
fn an_object_that_is_gone_takes_its_series_along() {
    let egress = EgressMetrics::default();
    record_decision(&egress, &["a"], ConditionStatus::True, reasons::SERVING);
    egress.emit(MoveEnded {
        name: "web",
        moved: &finished_move(),
    });
    egress.emit(GatewayRemoved { name: "web" });
    assert!(!scrape(&egress).contains("web"), "{}", scrape(&egress));
}

#[test]
fn a_standby_shows_no_gateway_and_no_budget_and_keeps_its_counters() {
    let egress = EgressMetrics::default();
    record_decision(&egress, &["a"], ConditionStatus::True, reasons::SERVING);
    let seen = RemainingCalls {
        limit: 3600,
        remaining: 100,
    };
    egress.emit(ForecastReported {
        account: "s/t",
        seen,
        others: 0.5,
        empty: None,
    });
    assert!(!samples(&egress, "aplomb_egress_budget_remaining{").is_empty());
    egress.set_fence(&Fence::closed());
    for metric in ["gateway_", "candidates{", "held{", "budget_"] {
        let left = samples(&egress, &format!("aplomb_egress_{metric}"));
        assert!(left.is_empty(), "{left:?}");
    }
    let line = r#"aplomb_egress_failovers_total{stable_egress="web"} 0"#;
    assert_eq!(samples(&egress, "aplomb_egress_failovers_total"), [line]);
}

#[test]
fn a_move_counts_once_and_times_the_stages_it_had() {
    let egress = EgressMetrics::default();
    let (name, moved) = ("web", finished_move());
    egress.emit(MoveStarted { name, moving: &moved });
    egress.emit(MoveEnded { name, moved: &moved });
    let moves = samples(&egress, "aplomb_egress_moves_total");
    assert!(moves[0].ends_with(r#"cause="NodeCordoned"} 1"#), "{moves:?}");
    let sums = samples(&egress, "aplomb_egress_move_stage_seconds_sum");
    let sums: Vec<_> = sums.iter().map(|line| line.rsplit('=').next()).collect();
    assert_eq!(sums, [Some(r#""assign"} 3.0"#), Some(r#""total"} 4.0"#)]);
}

#[test]
fn a_malformed_code_is_not_shown() {
    let egress = EgressMetrics::default();
    let call = |code| ProviderCall {
        account: "s/t",
        operation: HcloudOperation::Get,
        code,
        lane: "routine",
    };
    egress.emit(call("limit for token abcdefgh... exceeded"));
    egress.emit(call("locked"));
    let requests = samples(&egress, "aplomb_egress_provider_requests_total");
    assert!(requests.iter().any(|line| line.contains(r#"code="locked""#)));
    assert!(requests.iter().any(|line| line.contains(r#"code="other""#)));
    assert!(!scrape(&egress).contains("abcdefgh"));
    let reads = samples(&egress, "aplomb_egress_provider_reads_total");
    assert!(reads[0].ends_with(" 2"), "{reads:?}");
}
