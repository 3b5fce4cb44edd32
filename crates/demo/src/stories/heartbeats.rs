//! A thousand node heartbeats arrive, and none of them changes a field that an operator reads. The
//! measure is that none leads to a reconcile or a call to the provider.

use std::time::Duration;

use anyhow::Result;
use aplomb::telemetry::EventResult;
use aplomb_api::egress::StableEgress;
use aplomb_apiserver::hetzner::Entry;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, interval};

use super::node_death;
use crate::stage::{DemoStage, EGRESS, OTHERS};
use crate::tell::{Narrator, StoryMoment, StoryResult, StoryTitle};
use crate::usual::BaselinePoller;
use crate::watch::ObjectWatch;

pub(super) const TITLE: StoryTitle = StoryTitle {
    name: "heartbeats",
    title: "noise costs nothing",
    elsewhere: "every heartbeat of every node ran a reconcile, and every reconcile called \
                the provider. When the address had to move, no calls were left.",
};

const WORKERS: u32 = 200;
const BEATS: u32 = 5;
const ALL: u64 = 1_000;
/// How many kubelets write at the same time.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(20);
/// Polling interval for counters, which have no watch.
const LOOK: Duration = Duration::from_millis(50);
/// How often the operator reads from the provider without a change.
const RESYNC: Duration = Duration::from_secs(30);

/// What was observed during the heartbeats.
#[derive(Clone, Debug, Default)]
struct Seen {
    sent: u64,
    took: Duration,
    /// Node events that the operator dropped, and those that it passed on.
    dropped: u64,
    passed: u64,
    /// Calls at the provider.
    calls: usize,
}

/// The counters.
#[derive(Clone, Copy)]
struct Count {
    dropped: u64,
    passed: u64,
    calls: usize,
}

impl Count {
    /// The number of node events.
    fn seen(self) -> u64 {
        self.dropped + self.passed
    }
}

pub(super) async fn play(stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
    // Calls of the operator's own start are not counted.
    let egress: Api<StableEgress> = Api::all(stage.client.clone());
    ObjectWatch::on(egress, EGRESS)
        .until(PATIENCE, "Ready", node_death::is_ready)
        .await?;
    let began = Instant::now();
    let nodes: Api<Node> = Api::all(stage.client.clone());
    setup(&nodes).await?;
    teller.event(began.elapsed(), &format!("{WORKERS} nodes have registered"));
    let before = settled(stage, 0).await;
    let beats = Instant::now();
    for beat in 1..=BEATS {
        let each = stream::iter(1..=WORKERS).map(|worker| heartbeat(&nodes, worker, beat));
        each.buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
    }
    let took = beats.elapsed();
    teller.event(
        began.elapsed(),
        &format!("{ALL} heartbeats, in {:.1} s", took.as_secs_f64()),
    );
    let after = settled(stage, before.seen() + ALL).await;
    let seen = Seen {
        sent: u64::from(WORKERS * BEATS),
        took: beats.elapsed(),
        dropped: after.dropped - before.dropped,
        passed: after.passed - before.passed,
        calls: after.calls - before.calls,
    };
    let what = format!(
        "the egress operator dropped {} node events and passed {} on",
        seen.dropped, seen.passed
    );
    teller.event(began.elapsed(), &what);
    teller.beside(&moments(&seen));
    Ok(judge(&seen))
}

/// Registers nodes, as kubelets do.
async fn setup(nodes: &Api<Node>) -> Result<()> {
    let each = stream::iter(1..=WORKERS).map(|worker| async move {
        let node = json!({
            "metadata": { "name": name(worker) },
            "status": { "conditions": [ready(0)] },
        });
        let node = serde_json::from_value(node)?;
        nodes.create(&PostParams::default(), &node).await?;
        anyhow::Ok(())
    });
    each.buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

fn name(worker: u32) -> String {
    format!("worker-{worker:03}")
}

fn ready(beat: u32) -> serde_json::Value {
    json!({
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": format!("2026-01-01T00:{beat:02}:00Z"),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

async fn heartbeat(nodes: &Api<Node>, worker: u32, beat: u32) -> Result<()> {
    let status = json!({ "status": { "conditions": [ready(beat)] } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    nodes.patch_status(&name(worker), &params, &patch).await?;
    Ok(())
}

/// The counters once `least` events were seen and no more arrive, or when the time limit passes.
async fn settled(stage: &DemoStage, least: u64) -> Count {
    let deadline = Instant::now() + PATIENCE;
    let mut looks = interval(LOOK);
    let mut last = count(stage);
    let mut still = 0;
    while still < 4 && looks.tick().await < deadline {
        let now = count(stage);
        still = match now.seen() >= least && now.seen() == last.seen() {
            true => still + 1,
            false => 0,
        };
        last = now;
    }
    last
}

fn count(stage: &DemoStage) -> Count {
    let ours = |entry: &&Entry| entry.client != OTHERS;
    Count {
        dropped: stage
            .office
            .telemetry
            .watch
            .events("Node", EventResult::Noise),
        passed: stage
            .office
            .telemetry
            .watch
            .events("Node", EventResult::Passed),
        calls: stage.hetzner.requests().iter().filter(ours).count(),
    }
}

/// The provider calls that resync makes in this time.
fn routine(time: Duration) -> usize {
    usize::try_from(time.as_secs() / RESYNC.as_secs()).unwrap_or(usize::MAX - 1) + 1
}

fn judge(seen: &Seen) -> StoryResult {
    let routine = routine(seen.took);
    let caused = seen.calls.saturating_sub(routine);
    let pass = seen.sent >= ALL && seen.dropped >= seen.sent && seen.passed == 0 && caused == 0;
    let figure = format!(
        "{} heartbeats: {} reconciles and {caused} provider calls (resync made {})",
        seen.sent,
        seen.passed,
        seen.calls - caused
    );
    let numbers = json!({
        "heartbeats": seen.sent,
        "dropped": seen.dropped,
        "runs": seen.passed,
        "calls": caused,
        "routineCalls": seen.calls - caused,
    });
    StoryResult {
        pass,
        figure,
        numbers,
    }
}

fn moments(seen: &Seen) -> Vec<StoryMoment> {
    let caused = seen.calls.saturating_sub(routine(seen.took));
    let ours = format!("{} reconciles, {caused} calls", seen.passed);
    let usual = format!("{0} reconciles, {0} calls", seen.sent);
    let mut all = vec![
        StoryMoment::both(Duration::ZERO, "first heartbeat"),
        StoryMoment::ours(seen.took, ours),
        StoryMoment::usual(seen.took, usual),
    ];
    if let Some(empty) = BaselinePoller::default().empty_after(WORKERS) {
        let what = "with this many nodes no calls are left: the provider rejects everything";
        all.push(StoryMoment::usual(empty, what));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            sent: 1_000,
            took: Duration::from_secs(5),
            dropped: 2_000,
            passed: 0,
            calls: 1,
        }
    }

    #[test]
    fn heartbeats_that_lead_to_nothing_pass() {
        let verdict = judge(&seen());
        assert!(verdict.pass, "{verdict:?}");
        assert!(verdict.figure.contains("0 reconciles and 0 provider calls"), "{verdict:?}");
    }

    #[test]
    fn a_run_a_call_or_a_heartbeat_that_was_not_seen_fails() {
        let mut run = seen();
        run.passed = 1;
        let mut call = seen();
        call.calls = 3;
        let mut unseen = seen();
        unseen.dropped = 999;
        for seen in [run, call, unseen] {
            assert!(!judge(&seen).pass, "{seen:?}");
        }
    }
}
