//! A process with objects of every kind, for tests: fixed values at a fixed moment.

use aplomb::admin::{self, DebugState, KindCounters};
use aplomb::journal::{JournalEntry, JournalLine};
use aplomb::leadership;
use aplomb::ratelimit::{LimiterLaneSnapshot, LimiterSnapshot};
use aplomb::{ErrorClass, ObjectRef};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::status::{ObjectMap, ObjectName, Overview, OverviewInputs};

/// Must never be shown anywhere: the value of a Secret reference, a fingerprint, an annotation.
pub(crate) const SECRET: &str = "s3cr3t-f1ng3rpr1nt";

pub(crate) fn fixture_time() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().expect("a moment")
}

pub(crate) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-15T11:58:00Z", "observedGeneration": 1 })
}

fn meta(namespace: Option<&str>, name: &str) -> Value {
    let mut meta = json!({ "name": name, "uid": format!("uid-{name}"), "resourceVersion": "812",
        "generation": 1, "creationTimestamp": "2026-11-15T11:57:58Z",
        "annotations": { "example.com/note": SECRET } });
    if let Some(namespace) = namespace {
        meta["namespace"] = namespace.into();
    }
    meta
}

/// A tunnel that has reached `stages`, some milliseconds apart.
pub(crate) fn tunnel(name: &str, stages: &[(&str, i64)], conditions: &[Value]) -> Value {
    let began: Timestamp = "2026-11-15T11:57:58.100000Z".parse().expect("a moment");
    let mut timeline = json!({ "generation": 1 });
    for (stage, after) in stages {
        let moment = began + jiff::SignedDuration::from_millis(*after);
        timeline[*stage] = format!("{moment:.6}").into();
    }
    json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
        "metadata": meta(Some("default"), name),
        "spec": { "rules": [{}] },
        "status": { "observedGeneration": 1, "hostname": format!("{name}.tunnels.example.com"),
            "connector": "laptop", "conditions": conditions, "timeline": timeline },
    })
}

pub(crate) fn proven(name: &str) -> Value {
    let stages = [
        ("created", 0),
        ("accepted", 18),
        ("childrenWritten", 61),
        ("programmed", 148),
        ("proven", 412),
    ];
    let said = condition("Ready", "True", "Proven", "every live gateway returned a signed proof");
    tunnel(name, &stages, &[said])
}

fn tunnels() -> Vec<Value> {
    let way = [("created", 0), ("accepted", 21), ("childrenWritten", 77)];
    let pending = condition(
        "Ready",
        "False",
        "Pending",
        "waiting for gateways to serve the current version",
    );
    let offline = condition(
        "Ready",
        "False",
        "ConnectorOffline",
        "the agent was stopped: start it again",
    );
    let gone = condition(
        "ConnectorOnline",
        "False",
        "Released",
        "the agent was stopped: start it again",
    );
    let reconciling = condition(
        "Reconciling",
        "True",
        "Pending",
        "waiting for gateways to acknowledge the latest changes",
    );
    vec![
        proven("api"),
        tunnel("blog", &way, &[pending, reconciling]),
        tunnel("demo", &[("created", 0)], &[offline, gone]),
        proven("shop"),
    ]
}

fn connector(name: &str, online: &str, reason: &str) -> Value {
    json!({
        "kind": "Connector", "metadata": meta(Some("default"), name),
        "status": { "observedGeneration": 1,
            "conditions": [condition("Online", online, reason, "its heartbeat was renewed")],
            "connectionDetails": { "publicKey": { "id": "ab", "addresses": [] }, "session": SECRET,
                "agentVersion": "0.1.0", "device": "laptop.example.com" } },
    })
}

fn egress() -> Value {
    json!({
        "kind": "StableEgress", "metadata": meta(None, "web"),
        "spec": { "floatingIP": { "name": "web" } },
        "status": { "observedGeneration": 1, "activeNode": "gateway-b", "ip": "192.0.2.17",
            "candidates": { "total": 3, "ready": 2 },
            "suspects": [{ "node": "gateway-a", "what": "Unhealthy", "since": "2026-11-15T11:59:20.000000Z" }],
            "budget": { "limit": 3600, "remaining": 890, "level": "Low" },
            "lastMove": { "from": "gateway-a", "to": "gateway-b", "cause": "NodeUnhealthy",
                "detected": "2026-11-15T11:58:50.000000Z", "decided": "2026-11-15T11:59:11.000000Z",
                "ended": "2026-11-15T11:59:12.900000Z",
                "stages": { "decide": "21s", "accept": "320ms", "assign": "1.4s", "label": "180ms",
                    "unlabelled": "1.9s", "total": "22.9s" } },
            "conditions": [condition("Ready", "True", "Assigned", "gateway-b has the floating IP and the labels")] },
    })
}

fn provisioner() -> Value {
    let binding = json!({ "serverURL": "https://coder.example.com",
        "tokenSecretRef": { "name": "coder-token", "key": "token" }, "tokenFingerprint": SECRET });
    let key = |name: &str| {
        json!({ "name": name, "id": "k1", "organizationID": "o1", "organizationName": "default",
        "tagsHash": "h", "since": "2026-11-15T11:40:00Z", "binding": binding })
    };
    let mut retiring = key("on-prem");
    retiring["retired"] = "2026-11-15T11:59:40Z".into();
    json!({
        "kind": "CoderProvisioner", "metadata": meta(Some("coder"), "on-prem"),
        "status": { "observedGeneration": 1, "daemons": "3/3", "readyReplicas": 3,
            "controlPlaneURL": "https://coder.example.com", "provisionerKeyName": "on-prem-1",
            "key": key("on-prem-1"), "retiring": [retiring],
            "rotation": { "sequence": 1, "reason": "annotation", "last": "2026-11-15T11:40:01Z" },
            "rateLimited": { "since": "2026-11-15T11:59:30Z", "endpoint": "GET provisionerdaemons",
                "notBefore": "2026-11-15T12:00:30Z" },
            "conditions": [condition("Ready", "True", "Proven", "coderd sees every daemon")] },
    })
}

/// An object of this name in the default namespace.
pub(crate) fn object_name(name: &str) -> ObjectName {
    ObjectName {
        namespace: Some("default".to_owned()),
        name: name.to_owned(),
    }
}

/// Objects of every kind.
pub(crate) fn objects() -> ObjectMap {
    let mut objects = ObjectMap::default();
    objects.insert("HTTPProxy", tunnels());
    objects.insert("Connector", vec![connector("laptop", "True", "LeaseRenewed")]);
    objects.insert("StableEgress", vec![egress()]);
    objects.insert("CoderProvisioner", vec![provisioner()]);
    objects.insert("CoderWorkspaceProxy", Vec::new());
    objects
}

fn budget(target: &str, capacity: f64, reserve: f64, shared: f64) -> LimiterSnapshot {
    let lane = |name: &str, reserve: f64, waiting: usize| LimiterLaneSnapshot {
        name: name.to_owned(),
        tokens: shared + reserve,
        reserve,
        waiting,
        in_flight: usize::from(waiting > 0),
    };
    LimiterSnapshot {
        target: target.to_owned(),
        rate: 20.0,
        capacity,
        closed_for_seconds: (shared == 0.0).then_some(12.0),
        lanes: vec![lane("urgent", reserve, 0), lane("normal", 0.0, 2)],
    }
}

fn lease(name: &str) -> leadership::LeaseStatus {
    leadership::LeaseStatus {
        lease: format!("aplomb-system/{name}"),
        identity: "replica-1".to_owned(),
        leading: true,
        holder: Some("replica-1".to_owned()),
        transitions: 2,
    }
}

fn watch(name: &str, objects: usize, age: f64) -> admin::WatchHealth {
    admin::WatchHealth {
        name: name.to_owned(),
        required: true,
        synced: true,
        objects,
        age: Some(age),
        ..admin::WatchHealth::default()
    }
}

fn controller(name: &str, depth: usize) -> admin::ControllerState {
    let lane = |name: &'static str, depth: usize| admin::QueueLaneState {
        name: name.into(),
        depth,
        oldest: (depth > 0).then_some(0.04),
    };
    admin::ControllerState {
        name: name.to_owned(),
        open: true,
        concurrency: 8,
        lanes: vec![lane("urgent", 0), lane("normal", depth), lane("background", 0)],
        waiting: 3,
        ..admin::ControllerState::default()
    }
}

fn tally(kind: &str, passed: u64, dropped: u64, conflicts: u64) -> KindCounters {
    KindCounters {
        kind: kind.to_owned(),
        events_passed: passed,
        events_dropped: dropped,
        writes: passed / 2,
        writes_suppressed: passed * 3,
        conflicts,
    }
}

/// Two healthy engines.
pub(crate) fn engines() -> Vec<(String, DebugState)> {
    let tunnel = DebugState {
        uptime: 3723.0,
        controllers: vec![controller("httpproxy", 2), controller("connector", 0)],
        watches: vec![
            watch("HTTPProxy in all namespaces", 4, 3.0),
            watch("Connector in all namespaces", 1, 8.0),
        ],
        budgets: vec![budget("apiserver", 100.0, 20.0, 55.0)],
        leases: vec![lease("aplomb-tunnel")],
        kinds: vec![tally("HTTPProxy", 26, 14, 7), tally("Lease", 3, 1841, 0)],
        ..DebugState::default()
    };
    let egress = DebugState {
        uptime: 3723.0,
        controllers: vec![controller("stableegress", 0)],
        watches: vec![watch("Node in all namespaces", 3, 1.0)],
        budgets: vec![
            budget("apiserver", 100.0, 20.0, 55.0),
            budget("hetzner", 60.0, 30.0, 0.0),
        ],
        leases: vec![lease("aplomb-egress")],
        kinds: vec![tally("Node", 5, 12_402, 0)],
        ..DebugState::default()
    };
    vec![
        ("aplomb-tunnel".to_owned(), tunnel),
        ("aplomb-egress".to_owned(), egress),
    ]
}

/// The tunnel `shop` met three conflicts, which two other writers won.
pub(crate) fn journal(object: &ObjectRef) -> Vec<JournalLine> {
    if *object.key.name != *"shop" {
        return Vec::new();
    }
    let line = |after: i64, entry: JournalEntry| JournalLine {
        at: "2026-11-15T11:57:58.100Z".parse::<Timestamp>().expect("a moment")
            + jiff::SignedDuration::from_millis(after),
        offset: std::time::Duration::from_millis(after.unsigned_abs()),
        times: 1,
        until: None,
        entry,
    };
    let lost = |after: i64, winner: &str| {
        let route = object_name("shop").object_ref("HTTPRoute");
        let message = "the object has been modified".to_owned();
        let winner = Some(winner.to_owned());
        [
            line(
                after,
                JournalEntry::Pushback {
                    class: ErrorClass::Conflict,
                    message,
                },
            ),
            line(after + 2, JournalEntry::Conflict { object: route, winner }),
        ]
    };
    let throttled = JournalEntry::Pushback {
        class: ErrorClass::Throttled,
        message: "too many requests".to_owned(),
    };
    let mut lines: Vec<JournalLine> = [
        lost(31, "kubectl-edit"),
        lost(44, "cert-manager"),
        lost(52, "kubectl-edit"),
    ]
    .concat();
    lines.push(line(230, throttled));
    lines
}

/// The overview of everything above.
pub(crate) fn status() -> Overview {
    Overview::from_inputs(OverviewInputs {
        objects: &objects(),
        engines: &engines(),
        journal: &journal,
        at: fixture_time(),
    })
}
