//! Leases: a plain object that clients agree on.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::with;

pub(super) const CASES: &[Case] = &[
    Case::new("lease/times-have-six-digits", |t| Box::pin(six_digits(t))),
    Case::new("lease/times-of-other-precision", |t| Box::pin(other_precision(t))),
    Case::new("lease/durations-are-positive", |t| Box::pin(durations(t))),
    Case::new("lease/compare-and-swap", |t| Box::pin(compare_and_swap(t))),
    Case::new("lease/the-server-enforces-nothing", |t| Box::pin(nothing_enforced(t))),
    Case::new("lease/transitions-cannot-be-negative", |t| Box::pin(transitions(t))),
    Case::new("lease/apply-by-two-holders-conflicts", |t| Box::pin(two_holders(t))),
];

fn lease(spec: &Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "a" }, "spec": spec,
    })
}

fn leases(t: &CaseRun) -> String {
    t.api("coordination.k8s.io/v1", "leases")
}

async fn six_digits(t: &CaseRun) -> Result<()> {
    let spec = json!({
        "holderIdentity": "me", "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T03:04:05.000000Z", "renewTime": "2026-01-02T03:04:05.123456Z",
    });
    let made = t.create(&leases(t), &lease(&spec)).await?.code(201)?;
    made.has("/spec/renewTime", "2026-01-02T03:04:05.123456Z")?
        .lacks("/metadata/generation")?;
    Ok(())
}

async fn other_precision(t: &CaseRun) -> Result<()> {
    for time in [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.123Z",
        "2026-01-02T03:04:05.123456789Z",
        "2026-01-02T03:04:05.123456+02:00",
        "yesterday",
        "",
    ] {
        let path = format!("{}?dryRun=All", leases(t));
        t.create(&path, &lease(&json!({ "renewTime": time }))).await?;
    }
    let refused = t
        .create(&leases(t), &lease(&json!({ "renewTime": "2026-01-02T03:04:05Z" })))
        .await?;
    refused.refused(400, "BadRequest")?;
    Ok(())
}

async fn durations(t: &CaseRun) -> Result<()> {
    for seconds in [0, -1] {
        let refused = t
            .create(&leases(t), &lease(&json!({ "leaseDurationSeconds": seconds })))
            .await?;
        refused.refused(422, "Invalid")?.says("must be greater than 0")?;
    }
    Ok(())
}

async fn compare_and_swap(t: &CaseRun) -> Result<()> {
    let made = t
        .create(&leases(t), &lease(&json!({ "holderIdentity": "one" })))
        .await?
        .code(201)?;
    let path = format!("{}/a", leases(t));
    let two = with(&made.body, json!({ "spec": { "holderIdentity": "two" } }));
    t.put(&path, &two).await?.code(200)?;
    let three = with(&made.body, json!({ "spec": { "holderIdentity": "three" } }));
    t.put(&path, &three).await?.refused(409, "Conflict")?;
    t.get(&path).await?.has("/spec/holderIdentity", "two")?;
    Ok(())
}

async fn nothing_enforced(t: &CaseRun) -> Result<()> {
    let old = json!({
        "holderIdentity": "one", "leaseDurationSeconds": 1, "leaseTransitions": 5,
        "renewTime": "2001-01-01T00:00:00.000000Z",
    });
    t.create(&leases(t), &lease(&old)).await?.code(201)?;
    let path = format!("{}/a", leases(t));
    let back = json!({ "spec": { "leaseTransitions": 0, "holderIdentity": "two" } });
    let taken = t.merge(&path, &back).await?.code(200)?;
    ensure!(taken.at("/spec/leaseTransitions") == 0, "{}", taken.body);
    Ok(())
}

async fn transitions(t: &CaseRun) -> Result<()> {
    let refused = t.create(&leases(t), &lease(&json!({ "leaseTransitions": -1 }))).await?;
    refused.refused(422, "Invalid")?;
    Ok(())
}

async fn two_holders(t: &CaseRun) -> Result<()> {
    let path = format!("{}/a", leases(t));
    t.apply(&path, "one", &lease(&json!({ "holderIdentity": "one" })))
        .await?
        .code(201)?;
    let refused = t
        .apply(&path, "two", &lease(&json!({ "holderIdentity": "two" })))
        .await?;
    refused.refused(409, "Conflict")?.says(".spec.holderIdentity")?;
    Ok(())
}
