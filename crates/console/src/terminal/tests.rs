//! `aplomb status` of several clusters.

use serde_json::json;

use super::*;

fn at() -> Timestamp {
    "2026-01-01T00:05:00Z".parse().expect("a time")
}

fn lease(name: &str, holder: &str, renewed: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "aplomb-system" }, "spec": {
        "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed, "leaseTransitions": 2,
    } })
}

fn tunnel(ready: &str) -> Value {
    json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
        "metadata": { "name": "web", "namespace": "default", "generation": 1 },
        "status": { "observedGeneration": 1, "conditions": [{
            "type": "Ready", "status": ready, "reason": "ConnectorOffline", "message": "laptop is offline",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] },
    })
}

fn readings(leases: Vec<Value>, tunnels: Vec<Value>) -> ScreenData {
    let mut readings = ScreenData {
        leases: Some(leases),
        ..ScreenData::default()
    };
    readings.objects.insert("HTTPProxy", tunnels);
    readings
}

fn texts(status: &Overview) -> String {
    let all = sections(status);
    all.iter().map(|lines| crate::table::align_columns(lines)).collect()
}

#[test]
fn an_unreachable_operator_is_known_by_its_lease() {
    let fresh = lease("aplomb-tunnel", "pod-1", "2026-01-01T00:04:55.000000Z");
    let status = merge_overview(&readings(vec![fresh], vec![tunnel("True")]), at());
    assert_eq!(status.findings, []);
    let text = texts(&status);
    assert!(text.contains("aplomb-tunnel   leading   pod-1"), "{text}");
    assert!(text.contains("HTTPProxy   1         1/1"), "{text}");
}

#[test]
fn a_reachable_operator_is_not_repeated_from_its_lease() {
    let fresh = lease("aplomb-tunnel", "pod-1", "2026-01-01T00:04:55.000000Z");
    let mut readings = readings(vec![fresh], Vec::new());
    let said = OperatorRow {
        name: "aplomb-tunnel".to_owned(),
        identity: Some("pod-1".to_owned()),
        uptime: 90.0,
        leading: true,
        ..OperatorRow::default()
    };
    readings.statuses = vec![Overview {
        operators: vec![said],
        ..Overview::default()
    }];
    let status = merge_overview(&readings, at());
    assert_eq!(status.operators.len(), 1);
    assert!(texts(&status).contains("90s      ok"), "{}", texts(&status));
}

#[test]
fn unready_objects_have_reasons_and_the_lost_leader_is_first() {
    let old = lease("aplomb-tunnel", "pod-1", "2026-01-01T00:00:00.000000Z");
    let status = merge_overview(&readings(vec![old], vec![tunnel("False")]), at());
    let reasons: Vec<&str> = status.findings.iter().map(|it| it.reason.as_str()).collect();
    assert!(
        reasons.contains(&"NobodyLeads") && reasons.contains(&"ConnectorOffline"),
        "{reasons:?}"
    );
    let text = texts(&status);
    assert!(text.contains("HTTPProxy/default/web"), "{text}");
    assert!(text.contains("laptop is offline"), "{text}");
}

#[test]
fn a_cluster_without_operators_has_a_finding() {
    let status = merge_overview(&readings(Vec::new(), Vec::new()), at());
    assert_eq!(status.findings[0].reason, "NotRunning");
    let unreadable = ScreenData::default();
    assert_eq!(merge_overview(&unreadable, at()).findings, []);
}
