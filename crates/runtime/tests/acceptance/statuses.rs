//! Promise: a status shows what was verified, is written once, and keeps the fields of other writers.

use aplomb::conditions::{Condition, PassOutcome};
use aplomb::{Action, Error, ErrorClass};
use aplomb_simulation::faults::WatchFault;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::lab::{Lab, on_box, on_real, on_real_alone, page, seconds, wait_until};
use crate::page::Page;

const SETTLED: PassOutcome<'static> = PassOutcome::Action(&Action::Done);

/// The status conditions of the page as `type=status/reason`, sorted.
async fn conditions(pages: &Api<Page>) -> Vec<String> {
    let status = pages.get("front").await.unwrap().status.unwrap_or_default();
    let mut all: Vec<String> = status
        .conditions
        .iter()
        .map(|it| format!("{}={}/{}", it.type_, it.status, it.reason))
        .collect();
    all.sort();
    all
}

/// Errors of every class after a success: the page's status, and how often it was written.
async fn report_errors(lab: Lab) {
    let pages = page(&lab).await;
    let bench = Bench::start(&lab).await;
    bench.pass(&bench.front()).flush(SETTLED).await.unwrap();
    for (class, says) in [
        (
            ErrorClass::Throttled,
            vec!["Ready=True/Settled", "Reconciling=True/Throttled"],
        ),
        (
            ErrorClass::Unavailable,
            vec!["Ready=True/Settled", "Reconciling=True/Unavailable"],
        ),
        (ErrorClass::Invalid, vec!["Ready=False/Invalid", "Stalled=True/Invalid"]),
    ] {
        let before = bench.answers.writes().len();
        for _ in 0..20 {
            let error = Error::new(class, "the same each time");
            let pass = bench.pass(&bench.front());
            pass.flush(PassOutcome::Failed(&error)).await.unwrap();
        }
        assert_eq!(conditions(&pages).await, says);
        assert_eq!(bench.answers.writes().len() - before, 1, "{class:?} is written once");
    }
    let before = bench.answers.writes().len();
    let conflict = Error::new(ErrorClass::Conflict, "another writer was first");
    let pass = bench.pass(&bench.front());
    pass.status(json!({ "words": 9 }));
    pass.flush(PassOutcome::Failed(&conflict)).await.unwrap();
    assert_eq!(bench.answers.writes().len(), before, "a conflict leaves no trace");
    bench.pass(&bench.front()).flush(SETTLED).await.unwrap();
    assert_eq!(conditions(&pages).await, ["Ready=True/Settled"]);
}

#[test]
fn error_is_reported_once_and_keeps_proven_conditions() {
    on_box(1, report_errors);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_error_is_reported_once_and_keeps_proven_conditions() {
    on_real(report_errors);
}

/// The status after a pass that does not set it.
async fn keep_status(lab: Lab) {
    let pages = page(&lab).await;
    let bench = Bench::start(&lab).await;
    let pass = bench.pass(&bench.front());
    pass.status(json!({ "words": 5 }));
    pass.condition(Condition::new_true("Probed", "Answered", "a probe came back"));
    pass.flush(SETTLED).await.unwrap();
    let error = Error::new(ErrorClass::Unavailable, "down");
    let silent = bench.pass(&bench.front());
    silent.flush(PassOutcome::Failed(&error)).await.unwrap();
    assert_eq!(pages.get("front").await.unwrap().status.unwrap().words, 5);
    let says = [
        "Probed=True/Answered",
        "Ready=True/Settled",
        "Reconciling=True/Unavailable",
    ];
    assert_eq!(conditions(&pages).await, says);
    let pass = bench.pass(&bench.front());
    pass.remove_condition("Probed");
    pass.flush(SETTLED).await.unwrap();
    assert_eq!(conditions(&pages).await, ["Ready=True/Settled"]);
    assert_eq!(pages.get("front").await.unwrap().status.unwrap().words, 5);
}

#[test]
fn pass_without_status_keeps_the_status() {
    on_box(2, keep_status);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_pass_without_status_keeps_the_status() {
    on_real(keep_status);
}

/// The page is deleted, and its watch lags.
async fn deleted(lab: Lab) {
    let pages = page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Lagged(seconds(5))).await;
    bench.pass(&bench.front()).flush(SETTLED).await.unwrap();
    let front = bench.front();
    let deleted = pages.delete("front", &DeleteParams::default()).await;
    deleted.unwrap();
    let pass = bench.pass(&front);
    pass.status(json!({ "words": 5 }));
    pass.flush(SETTLED).await.unwrap();
    assert!(bench.pages.get(&bench.key).is_none(), "the cache shows the deletion");
    let before = bench.answers.writes().len();
    let pass = bench.pass(&front);
    pass.status(json!({ "words": 6 }));
    pass.mark_owner_deleted();
    pass.flush(SETTLED).await.unwrap();
    assert_eq!(
        bench.answers.writes().len(),
        before,
        "no status is written for a deleted page"
    );
}

#[test]
fn deleted_owner_is_detected_before_its_watch_event() {
    on_box(1, deleted);
}

/// Declares the conditions as a list with the key `type`, as a definition should.
async fn key_conditions(lab: &Lab) {
    let mut definition = serde_json::to_value(Page::crd()).unwrap();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/conditions";
    let conditions = definition.pointer_mut(schema).unwrap();
    conditions["x-kubernetes-list-type"] = json!("map");
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    let definitions: Api<CustomResourceDefinition> = Api::all(lab.user());
    let parameters = PatchParams::apply("pages.example.com").force();
    let patch = Patch::Apply(definition);
    definitions.patch(Page::crd_name(), &parameters, &patch).await.unwrap();
}

/// Another controller has its own condition on the page.
async fn apply_next_to_others(lab: Lab, keyed: bool) {
    let pages = page(&lab).await;
    if keyed {
        key_conditions(&lab).await;
    }
    let theirs = json!([{
        "type": "Theirs", "status": "True", "reason": "Fine", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    wait_until(seconds(10), "the definition is in force", || async {
        let managed = apply_status(&pages, "them", &theirs).await.metadata.managed_fields;
        serde_json::to_string(&managed).unwrap().contains("k:{") == keyed
    })
    .await;
    let bench = Bench::start(&lab).await;
    bench.pass(&bench.front()).flush(SETTLED).await.unwrap();
    assert_eq!(conditions(&pages).await, ["Ready=True/Settled", "Theirs=True/Fine"]);
    bench.pass(&bench.front()).flush(SETTLED).await.unwrap();
    assert_eq!(
        bench.answers.writes().len(),
        1,
        "another manager's condition causes no write"
    );
    if keyed {
        apply_status(&pages, "them", &json!([])).await;
        wait_until(seconds(5), "the cache shows it", || async {
            bench.front().status.as_ref().unwrap().conditions.len() == 1
        })
        .await;
        bench.pass(&bench.front()).flush(SETTLED).await.unwrap();
        assert_eq!(
            conditions(&pages).await,
            ["Ready=True/Settled"],
            "a condition that they remove is gone"
        );
    }
}

async fn apply_status(pages: &Api<Page>, manager: &str, conditions: &Value) -> Page {
    let patch = Patch::Apply(json!({
        "apiVersion": "example.com/v1", "kind": "Page", "metadata": { "name": "front" },
        "status": { "conditions": conditions },
    }));
    let parameters = PatchParams::apply(manager).force();
    pages.patch_status("front", &parameters, &patch).await.unwrap()
}

#[test]
fn conditions_of_others_stay() {
    on_box(3, |lab| apply_next_to_others(lab, true));
    on_box(3, |lab| apply_next_to_others(lab, false));
}

#[test]
#[ignore = "needs the real control plane"]
fn real_conditions_of_others_stay() {
    on_real_alone(|lab| apply_next_to_others(lab, true));
    on_real_alone(|lab| apply_next_to_others(lab, false));
}
