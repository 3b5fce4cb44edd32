//! Promise: wherever the operator or a gateway crashes while tunnels are created, changed and deleted, the
//! result is the same as without the crash.
//!
//! A run is recorded first. Each of its effects, a write to the API server or a proof, is then a point at
//! which the same scenario is repeated with a crash before and after it. which the same world is run again
//! with a crash before and after it.

use std::collections::BTreeMap;

use aplomb_api::tunnel::HttpProxy;
use aplomb_simulation::{Crash, CrashPoint};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::agent::Agent;
use crate::gateway::Gateway;
use crate::lab::{Lab, TENANT, create_tunnel, on_box, recorded_on_box, seconds};
use crate::operator::Operator;

/// The process that crashes.
#[derive(Clone, Copy, Debug)]
enum CrashTarget {
    Operator,
    Gateway,
}

/// The final state, without what legitimately differs between runs.
type FinalState = BTreeMap<String, Vec<String>>;

/// The number of effects of each, until the tunnels converged.
#[derive(Clone, Copy, Debug)]
struct EffectCounts {
    operator: u64,
    gateway: u64,
}

/// One tunnel is created and stays, one is changed, one is deleted.
async fn run_story(lab: Lab, crash: Option<(CrashTarget, Crash)>) -> (FinalState, EffectCounts) {
    let operator = Operator::without_leader_election(&lab, "operator");
    let gateway = Gateway::start(&lab, 1);
    match crash {
        Some((CrashTarget::Operator, crash)) => operator.component.crash_at(crash),
        Some((CrashTarget::Gateway, crash)) => gateway.component.crash_at(crash),
        None => {}
    }
    let _agents = ["laptop", "desktop"].map(|name| Agent::start(&lab, name, seconds(30)));
    for name in ["stays", "changes", "goes"] {
        create_tunnel(&lab.user(), name, "laptop").await;
    }
    for name in ["stays", "changes", "goes"] {
        lab.wait_ready(name, seconds(60)).await;
    }
    let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
    let patch = Patch::Merge(changed_spec());
    let params = PatchParams::default();
    let patched = proxies.patch("changes", &params, &patch).await;
    patched.expect("patch succeeds");
    let deleted = proxies.delete("goes", &DeleteParams::default()).await;
    deleted.expect("the tunnel is deleted");
    sleep(seconds(10)).await;
    let effects = EffectCounts {
        operator: operator.component.effects(),
        gateway: gateway.component.effects(),
    };
    sleep(seconds(20)).await;
    (final_state(&lab), effects)
}

/// With another backend, a custom hostname and another rule.
fn changed_spec() -> Value {
    let backends = json!([
        { "endpoint": "http://localhost:4000", "connector": { "name": "desktop" } },
    ]);
    json!({ "spec": {
        "hostnames": ["app.example.com"],
        "rules": [
            { "matches": [{ "path": { "type": "PathPrefix", "value": "/api" } }], "backends": backends },
            { "backends": backends },
        ],
    }})
}

/// Every object except heartbeats, Events and CRDs.
fn final_state(lab: &Lab) -> FinalState {
    let mut state = lab.cluster.state();
    state.retain(|name, _| {
        let beside = ["leases.", "gatewayreplicas.", "events", "customresource"];
        !beside.iter().any(|kind| name.starts_with(kind))
    });
    let said = |(name, object): (String, Value)| (name, object_state(&object));
    state.into_iter().map(said).collect()
}

/// The spec and status of an object, except for values that follow from UIDs.
fn object_state(object: &Value) -> Vec<String> {
    let backends = object.pointer("/spec/rules").cloned();
    let conditions = object.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let words = conditions.map(|it| {
        let text = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
        [text("type"), text("status"), text("reason")].join(" ")
    });
    let mut all: Vec<String> = words
        .chain(backends.map(|it| it.to_string()))
        .chain(object.get("endpoints").map(Value::to_string))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_crash_before_or_after_any_effect_changes_nothing_in_the_end() {
    const SEED: u64 = 5;
    let (clean, effects) = on_box(SEED, |lab| run_story(lab, None));
    for (who, many) in [
        (CrashTarget::Operator, effects.operator),
        (CrashTarget::Gateway, effects.gateway),
    ] {
        for effect in 1..=many {
            for point in [CrashPoint::BeforeSend, CrashPoint::AfterCommit] {
                let crash = Crash { effect, point };
                let (end, _) = on_box(SEED, move |lab| run_story(lab, Some((who, crash))));
                assert_eq!(end, clean, "{who:?}, {crash:?}");
            }
        }
    }
    let (operator, gateway) = (effects.operator, effects.gateway);
    println!(
        "{operator} effects of the operator and {gateway} of the gateway, before and after each: {} \
         crashes, all converged",
        2 * (operator + gateway)
    );
    assert!(operator > 20 && gateway >= 3, "{effects:?}");
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let crash = Crash {
        effect: 9,
        point: CrashPoint::AfterCommit,
    };
    let run = move || recorded_on_box(11, move |lab| run_story(lab, Some((CrashTarget::Operator, crash))));
    let (one, two) = (run(), run());
    let differ = one.iter().zip(&two).find(|(one, two)| one != two);
    assert_eq!(differ, None, "the first line that differs");
    assert_eq!(one.len(), two.len());
    println!("{} lines of trace, twice the same", one.len());
}
