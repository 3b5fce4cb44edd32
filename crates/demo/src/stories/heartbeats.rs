//! A thousand node heartbeats arrive, and none of them changes a field that an operator reads. The
//! measure is that none leads to a reconcile or a call to the provider.

use std::time::Duration;

use anyhow::Result;
use aplomb::telemetry::EventResult;
use aplomb_api::egress::StableEgress;
use aplomb_fake_services::hcloud::Entry;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, interval};

use super::node_death;
use crate::baseline::BaselinePoller;
use crate::client::ObjectWatch;
use crate::narration::{Narrator, StoryMoment, StoryResult, StoryTitle};
use crate::stage::{DemoStage, EGRESS, OTHER_CLIENTS};

pub(super) const TITLE: StoryTitle = StoryTitle {
    name: "heartbeats",
    title: "noise costs nothing",
    elsewhere: "every heartbeat of every node ran a reconcile, and every reconcile called \
                the provider. When the address had to move, no calls were left.",
};

const WORKERS: u32 = 200;
const BEATS: u32 = 5;
const HEARTBEATS: u64 = 1_000;
/// How many kubelets write at the same time.
const CONCURRENCY: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(20);
/// Polling interval for counters, which have no watch.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How often the operator reads from the provider without a change.
const RESYNC: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default)]
struct HeartbeatMeasurements {
    sent: u64,
    elapsed: Duration,
    /// Node events that the operator dropped, and those that it passed on.
    dropped: u64,
    passed: u64,
    /// Calls at the provider.
    calls: usize,
}

#[derive(Clone, Copy)]
struct HeartbeatCounters {
    dropped: u64,
    passed: u64,
    calls: usize,
}

impl HeartbeatCounters {
    fn events_seen(self) -> u64 {
        self.dropped + self.passed
    }
}

pub(super) async fn play(stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
    // Calls of the operator's own start are not counted.
    let egress: Api<StableEgress> = Api::all(stage.client.clone());
    ObjectWatch::new(egress, EGRESS)
        .wait_until(TIMEOUT, "Ready", node_death::is_ready)
        .await?;
    let began = Instant::now();
    let nodes: Api<Node> = Api::all(stage.client.clone());
    create_workers(&nodes).await?;
    teller.print_event(began.elapsed(), &format!("{WORKERS} nodes have registered"));
    let before = wait_settled(stage, 0).await;
    let beats = Instant::now();
    for beat in 1..=BEATS {
        let each = stream::iter(1..=WORKERS).map(|worker| send_heartbeat(&nodes, worker, beat));
        each.buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
    }
    let took = beats.elapsed();
    teller.print_event(
        began.elapsed(),
        &format!("{HEARTBEATS} heartbeats, in {:.1} s", took.as_secs_f64()),
    );
    let after = wait_settled(stage, before.events_seen() + HEARTBEATS).await;
    let seen = HeartbeatMeasurements {
        sent: u64::from(WORKERS * BEATS),
        elapsed: beats.elapsed(),
        dropped: after.dropped - before.dropped,
        passed: after.passed - before.passed,
        calls: after.calls - before.calls,
    };
    let what = format!(
        "the egress operator dropped {} node events and passed {} on",
        seen.dropped, seen.passed
    );
    teller.print_event(began.elapsed(), &what);
    teller.print_timelines(&moments(&seen));
    Ok(evaluate(&seen))
}

async fn create_workers(nodes: &Api<Node>) -> Result<()> {
    let each = stream::iter(1..=WORKERS).map(|worker| async move {
        let node = json!({
            "metadata": { "name": worker_name(worker) },
            "status": { "conditions": [ready_status(0)] },
        });
        let node = serde_json::from_value(node)?;
        nodes.create(&PostParams::default(), &node).await?;
        anyhow::Ok(())
    });
    each.buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
    Ok(())
}

fn worker_name(worker: u32) -> String {
    format!("worker-{worker:03}")
}

fn ready_status(beat: u32) -> serde_json::Value {
    json!({
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": format!("2026-01-01T00:{beat:02}:00Z"),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

async fn send_heartbeat(nodes: &Api<Node>, worker: u32, beat: u32) -> Result<()> {
    let status = json!({ "status": { "conditions": [ready_status(beat)] } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    nodes.patch_status(&worker_name(worker), &params, &patch).await?;
    Ok(())
}

/// The counters once `least` events were seen and no more arrive, or when the time limit passes.
async fn wait_settled(stage: &DemoStage, least: u64) -> HeartbeatCounters {
    let deadline = Instant::now() + TIMEOUT;
    let mut looks = interval(POLL_INTERVAL);
    let mut last = read_counters(stage);
    let mut still = 0;
    while still < 4 && looks.tick().await < deadline {
        let now = read_counters(stage);
        still = match now.events_seen() >= least && now.events_seen() == last.events_seen() {
            true => still + 1,
            false => 0,
        };
        last = now;
    }
    last
}

fn read_counters(stage: &DemoStage) -> HeartbeatCounters {
    let ours = |entry: &&Entry| entry.client != OTHER_CLIENTS;
    HeartbeatCounters {
        dropped: stage.admin.telemetry.watch.events("Node", EventResult::Noise),
        passed: stage.admin.telemetry.watch.events("Node", EventResult::Passed),
        calls: stage.hetzner.requests().iter().filter(ours).count(),
    }
}

/// The provider calls that resync makes in this time.
fn routine_calls(time: Duration) -> usize {
    usize::try_from(time.as_secs() / RESYNC.as_secs()).unwrap_or(usize::MAX - 1) + 1
}

fn evaluate(seen: &HeartbeatMeasurements) -> StoryResult {
    let routine = routine_calls(seen.elapsed);
    let caused = seen.calls.saturating_sub(routine);
    let pass = seen.sent >= HEARTBEATS && seen.dropped >= seen.sent && seen.passed == 0 && caused == 0;
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
    StoryResult { pass, figure, numbers }
}

fn moments(seen: &HeartbeatMeasurements) -> Vec<StoryMoment> {
    let caused = seen.calls.saturating_sub(routine_calls(seen.elapsed));
    let ours = format!("{} reconciles, {caused} calls", seen.passed);
    let usual = format!("{0} reconciles, {0} calls", seen.sent);
    let mut all = vec![
        StoryMoment::both(Duration::ZERO, "first heartbeat"),
        StoryMoment::ours(seen.elapsed, ours),
        StoryMoment::baseline(seen.elapsed, usual),
    ];
    if let Some(empty) = BaselinePoller::default().bucket_lifetime(WORKERS) {
        let what = "with this many nodes no calls are left: the provider rejects everything";
        all.push(StoryMoment::baseline(empty, what));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_measurements() -> HeartbeatMeasurements {
        HeartbeatMeasurements {
            sent: 1_000,
            elapsed: Duration::from_secs(5),
            dropped: 2_000,
            passed: 0,
            calls: 1,
        }
    }

    #[test]
    fn heartbeats_that_lead_to_nothing_pass() {
        let verdict = evaluate(&sample_measurements());
        assert!(verdict.pass, "{verdict:?}");
        assert!(
            verdict.figure.contains("0 reconciles and 0 provider calls"),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_run_or_a_call_or_a_missed_heartbeat_fails() {
        let mut run = sample_measurements();
        run.passed = 1;
        let mut call = sample_measurements();
        call.calls = 3;
        let mut unseen = sample_measurements();
        unseen.dropped = 999;
        for seen in [run, call, unseen] {
            assert!(!evaluate(&seen).pass, "{seen:?}");
        }
    }
}
