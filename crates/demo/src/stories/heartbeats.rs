//! A thousand heartbeats of nodes arrive. Nothing in them is anything that an operator reads: what counts
//! is that none of them becomes a run or a call to the provider.

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
use crate::stage::{EGRESS, OTHERS, Stage};
use crate::tell::{Moment, Teller, Title, Verdict};
use crate::usual::Watchman;
use crate::watch::Eye;

pub(super) const TITLE: Title = Title {
    name: "heartbeats",
    title: "noise costs nothing",
    elsewhere: "every heartbeat of every node ran the controller, and every run asked the provider, until \
                the hour's calls were gone and the address could not be moved when it had to be.",
};

const WORKERS: u32 = 200;
const BEATS: u32 = 5;
const ALL: u64 = 1_000;
/// How many kubelets talk at once.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(20);
/// How often counters are looked at, which have no watch.
const LOOK: Duration = Duration::from_millis(50);
/// How often the operator asks the provider although nothing changed.
const RESYNC: Duration = Duration::from_secs(30);

/// What was seen while the heartbeats came.
#[derive(Clone, Debug, Default)]
struct Seen {
    sent: u64,
    took: Duration,
    /// Events of nodes that the operator dropped, and that it let through.
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
    /// How many events of nodes there were.
    fn seen(self) -> u64 {
        self.dropped + self.passed
    }
}

pub(super) async fn play(stage: &Stage, teller: &Teller) -> Result<Verdict> {
    // What its own beginning cost shall not be counted.
    let egress: Api<StableEgress> = Api::all(stage.client.clone());
    Eye::on(egress, EGRESS)
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
        "the egress operator dropped {} events of nodes and let {} through",
        seen.dropped, seen.passed
    );
    teller.event(began.elapsed(), &what);
    teller.beside(&moments(&seen));
    Ok(judge(&seen))
}

/// Workers, as a kubelet registers them.
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

/// The counters once so many events were seen and no more come, or as they are when patience ends.
async fn settled(stage: &Stage, least: u64) -> Count {
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

fn count(stage: &Stage) -> Count {
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

/// What is asked in this time although nothing happens.
fn routine(time: Duration) -> usize {
    usize::try_from(time.as_secs() / RESYNC.as_secs()).unwrap_or(usize::MAX - 1) + 1
}

fn judge(seen: &Seen) -> Verdict {
    let routine = routine(seen.took);
    let caused = seen.calls.saturating_sub(routine);
    let pass = seen.sent >= ALL && seen.dropped >= seen.sent && seen.passed == 0 && caused == 0;
    let figure = format!(
        "{} heartbeats: {} runs and {caused} calls to the provider (its resync made {})",
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
    Verdict {
        pass,
        figure,
        numbers,
    }
}

fn moments(seen: &Seen) -> Vec<Moment> {
    let caused = seen.calls.saturating_sub(routine(seen.took));
    let ours = format!("{} runs, {caused} calls", seen.passed);
    let usual = format!("{0} runs, {0} calls", seen.sent);
    let mut all = vec![
        Moment::both(Duration::ZERO, "the first heartbeat"),
        Moment::ours(seen.took, ours),
        Moment::usual(seen.took, usual),
    ];
    if let Some(empty) = Watchman::default().empty_after(WORKERS) {
        let what = "at the rate of these nodes no call is left: the provider refuses everything";
        all.push(Moment::usual(empty, what));
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
        assert!(verdict.figure.contains("0 runs and 0 calls"), "{verdict:?}");
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
