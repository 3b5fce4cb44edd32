//! The node with the floating IP dies while other clients of the same account leave almost no calls.
//! The measure is how soon the address moves, and that no read of ours delayed the move.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use aplomb_api::egress::StableEgress;
use aplomb_fake_services::hcloud::{BackgroundClients, Entry};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::Instant;

use crate::baseline::{BaselinePoller, BaselineQueue, BaselineWrite};
use crate::client::{ObjectWatch, is_true};
use crate::narration::{Narrator, StoryMoment, StoryResult, StoryTitle};
use crate::stage::{DemoStage, EGRESS, FLOATING_IP, NODES, OTHER_CLIENTS};

pub(super) const TITLE: StoryTitle = StoryTitle {
    name: "node-death",
    title: "a reserve for the move that matters",
    elsewhere: "a dead gateway was noticed at the next check, 30 s apart, and given 90 s to \
                come back. Then the move was rejected, because other readers had used all calls.",
};

/// How many calls the other clients leave, at most.
const REMAINING_CALLS: u64 = 5;
/// The promise.
const MAX_MOVE_TIME: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(60);
/// The bucket gains one call in this time: a read of ours just before a rejected Assign took that call.
const REFILL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
struct NodeDeathMeasurements {
    from: String,
    to: String,
    /// From the death until the operator reports the address on the other node.
    moved: Duration,
    /// Whether the provider agrees.
    assigned: bool,
    /// The calls since the death.
    calls: Vec<Call>,
    /// The number of nodes, which sets the heartbeat rate of the usual way.
    nodes: u32,
    /// From the start of the operator until the death.
    age: Duration,
}

/// A provider call, with the time since the death.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    at: Duration,
    ours: bool,
    assign: bool,
    refused: bool,
    /// Calls left in the bucket afterwards.
    remaining: u64,
}

pub(super) async fn play(stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
    let all: Api<StableEgress> = Api::all(stage.client.clone());
    let mut eye = ObjectWatch::new(all, EGRESS);
    let settled = eye.wait_until(TIMEOUT, "Ready", is_ready).await?;
    let from = active_node(&settled).context("the StableEgress has no gateway")?;
    exhaust_budget(stage)?;
    let began = Instant::now();
    let what = format!("192.0.2.10 is on {from}; other clients leave at most {REMAINING_CALLS} calls");
    teller.print_event(Duration::ZERO, &what);
    let first = stage.hetzner.requests().len();
    let age = stage.started.elapsed();
    let (died, death) = (Instant::now(), stage.clock.now());
    stage.nodes.stop_node(&from);
    teller.print_event(began.elapsed(), &format!("{from} dies: it stops answering probes"));
    let elsewhere = |it: &StableEgress| is_ready(it) && active_node(it).is_some_and(|node| node != from);
    let moved = eye.wait_until(TIMEOUT, "moved", elsewhere).await?;
    let took = died.elapsed();
    let to = active_node(&moved).unwrap_or_default();
    teller.print_event(began.elapsed(), &format!("192.0.2.10 and its label are on {to}"));
    stage.hetzner.stop_noise(Some(OTHER_CLIENTS));
    let nodes = Api::<Node>::all(stage.client.clone());
    let nodes = nodes.list_metadata(&ListParams::default()).await?;
    let seen = NodeDeathMeasurements {
        assigned: assigned_node(stage).as_deref() == Some(to.as_str()),
        calls: read_calls(&stage.hetzner.requests()[first..], death),
        nodes: u32::try_from(nodes.items.len())?,
        moved: took,
        from,
        to,
        age,
    };
    teller.print_timelines(&moments(&seen));
    Ok(evaluate(&seen))
}

pub(super) fn is_ready(egress: &StableEgress) -> bool {
    let status = egress.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, "Ready"))
}

fn active_node(egress: &StableEgress) -> Option<String> {
    egress.status.as_ref()?.active_node.clone()
}

/// From now on the other clients leave almost no calls.
fn exhaust_budget(stage: &DemoStage) -> Result<()> {
    let bucket = json!({ "buckets": [{ "name": "default", "remaining": REMAINING_CALLS }] });
    let change = serde_json::from_value(bucket)?;
    stage.hetzner.change(change).map_err(|why| anyhow!(why))?;
    let noise = BackgroundClients::hold_at(OTHER_CLIENTS, REMAINING_CALLS);
    stage.hetzner.noise(noise).map_err(|why| anyhow!(why))
}

/// The node that has the address, according to the provider.
fn assigned_node(stage: &DemoStage) -> Option<String> {
    let server = stage.hetzner.holder(FLOATING_IP)?;
    let node = NODES.iter().find(|(_, id)| *id == server)?;
    Some(node.0.to_owned())
}

fn read_calls(entries: &[Entry], death: jiff::Timestamp) -> Vec<Call> {
    let call = |entry: &Entry| Call {
        at: Duration::try_from(entry.time.duration_since(death)).unwrap_or_default(),
        ours: entry.client != OTHER_CLIENTS,
        assign: entry.path.ends_with("/actions/assign"),
        refused: entry.status == Some(429),
        remaining: entry.remaining,
    };
    entries.iter().map(call).collect()
}

/// Rejections of the move that are due to a read of ours.
fn self_caused_refusals(calls: &[Call]) -> usize {
    let refused = calls.iter().filter(|it| it.ours && it.assign && it.refused);
    let taken = |assign: &&Call| {
        calls.iter().any(|it| {
            let before = it.at <= assign.at && it.at + REFILL_INTERVAL > assign.at;
            it.ours && !it.assign && !it.refused && before
        })
    };
    refused.filter(taken).count()
}

fn evaluate(seen: &NodeDeathMeasurements) -> StoryResult {
    let assigns = seen.calls.iter().filter(|it| it.ours && it.assign);
    let (refused, taken): (Vec<_>, Vec<_>) = assigns.partition(|it| it.refused);
    let own = self_caused_refusals(&seen.calls);
    let pass = seen.assigned && own == 0 && taken.len() == 1 && seen.moved < MAX_MOVE_TIME;
    let figure = format!(
        "moved in {:.1} s; rejected {} times, {own} of them due to our own reads",
        seen.moved.as_secs_f64(),
        refused.len()
    );
    let numbers = json!({
        "movedSeconds": seen.moved.as_secs_f64(),
        "from": seen.from,
        "to": seen.to,
        "assigns": taken.len(),
        "refused": refused.len(),
        "refusedForOwnReads": own,
    });
    StoryResult { pass, figure, numbers }
}

/// When the usual way starts the move, and when it succeeds, with the other clients as they were here.
fn baseline_move(seen: &NodeDeathMeasurements) -> (Duration, BaselineWrite) {
    let watchman = BaselinePoller::default();
    let wants = watchman.failover_time(seen.age).saturating_sub(seen.age);
    let others = open_share(&seen.calls, watchman.refill_per_second);
    let refusals = watchman.refusal_count(seen.nodes, others);
    (wants, BaselineQueue::default().attempt_after(wants, refusals))
}

/// The share of the time between two observed calls in which the bucket had one left.
fn open_share(calls: &[Call], refill_per_second: f64) -> f64 {
    let (mut open, mut all) = (0.0, 0.0);
    for pair in calls.windows(2) {
        let gap = pair[1].at.saturating_sub(pair[0].at).as_secs_f64();
        let wait = if pair[0].remaining > 0 {
            0.0
        } else {
            1.0 / refill_per_second
        };
        open += (gap - wait).max(0.0);
        all += gap;
    }
    if all > 0.0 { open / all } else { 0.0 }
}

fn moments(seen: &NodeDeathMeasurements) -> Vec<StoryMoment> {
    let (wants, landed) = baseline_move(seen);
    let mut all = vec![StoryMoment::both(Duration::ZERO, "the gateway dies")];
    let assigned = seen.calls.iter().find(|it| it.ours && it.assign && !it.refused);
    all.extend(assigned.map(|call| StoryMoment::ours(call.at, "the move is accepted")));
    all.push(StoryMoment::ours(seen.moved, format!("the address is on {}", seen.to)));
    all.push(StoryMoment::baseline(wants, "noticed, and its grace period is over"));
    let what = match landed.failures {
        0 => "the move is accepted".to_owned(),
        many => format!("the move is accepted, after {many} rejections"),
    };
    all.push(StoryMoment::baseline(landed.at, what));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_call(at: u64, ours: bool, assign: bool, refused: bool) -> Call {
        Call {
            at: Duration::from_millis(at),
            ours,
            assign,
            refused,
            remaining: 0,
        }
    }

    fn sample_measurements() -> NodeDeathMeasurements {
        NodeDeathMeasurements {
            from: "gateway-a".to_owned(),
            to: "gateway-b".to_owned(),
            moved: Duration::from_secs(9),
            assigned: true,
            calls: vec![
                sample_call(4_000, false, false, false),
                sample_call(6_000, true, true, true),
                sample_call(7_000, true, true, false),
            ],
            nodes: 2,
            age: Duration::from_secs(40),
        }
    }

    #[test]
    fn a_prompt_move_passes_even_if_others_delayed_it() {
        let verdict = evaluate(&sample_measurements());
        assert!(verdict.pass, "{verdict:?}");
        assert!(verdict.figure.contains("rejected 1 times, 0 of them"), "{verdict:?}");
    }

    #[test]
    fn a_self_caused_refusal_or_a_late_or_unreal_move_fails() {
        let mut own = sample_measurements();
        own.calls.insert(1, sample_call(5_500, true, false, false));
        let mut late = sample_measurements();
        late.moved = MAX_MOVE_TIME;
        let mut unreal = sample_measurements();
        unreal.assigned = false;
        for seen in [own, late, unreal] {
            assert!(!evaluate(&seen).pass, "{seen:?}");
        }
    }

    #[test]
    fn the_baseline_polls_and_waits_and_is_refused() {
        let mut large = sample_measurements();
        large.nodes = 202;
        let (wants, landed) = baseline_move(&large);
        assert_eq!(wants, Duration::from_secs(110));
        assert!(landed.at > wants && landed.failures > 5, "{landed:?}");
    }

    #[test]
    fn a_bucket_is_open_while_a_call_is_left() {
        let mut calls = [
            sample_call(0, false, false, false),
            sample_call(4_000, false, false, false),
        ];
        assert!(
            (open_share(&calls, 1.0) - 0.75).abs() < 1e-9,
            "the bucket gains one call per second"
        );
        calls[0].remaining = 2;
        assert!((open_share(&calls, 1.0) - 1.0).abs() < 1e-9);
        assert!(open_share(&[], 1.0).abs() < 1e-9);
    }
}
