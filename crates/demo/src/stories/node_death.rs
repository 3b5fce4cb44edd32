//! The node with the floating IP dies while other clients of the same account leave almost no calls.
//! What counts is how soon the address is elsewhere, and that no call of ours was in the way of the move.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use aplomb_api::egress::StableEgress;
use aplomb_fake_services::hcloud::{BackgroundClients, Entry};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{EGRESS, FLOATING_IP, NODES, OTHERS, Stage};
use crate::tell::{Moment, Teller, Title, Verdict};
use crate::usual::{Landed, Queue, Watchman};
use crate::watch::{Eye, holds};

pub(super) const TITLE: Title = Title {
    name: "node-death",
    title: "a reserve for the move that matters",
    elsewhere: "a dead gateway was noticed at the next look, 30 s apart, and given 90 s to come back. Then \
                the move was refused, because every other reader had spent the calls.",
};

/// What the others leave in the bucket, at most.
const LEFT: u64 = 5;
/// The promise.
const PROMISE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);
/// In this time the bucket gains a call: a read of ours before a refused Assign took it from it.
const REFILL: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    from: String,
    to: String,
    /// From the death until the address was on the other node, and the operator said so.
    moved: Duration,
    /// Whether the provider agrees.
    held: bool,
    /// The calls since the death.
    calls: Vec<Call>,
    /// How many nodes there are, whose heartbeats others would pay for.
    nodes: u32,
    /// From when the StableEgress was first looked at until the death.
    age: Duration,
}

/// A call at the provider, since the death.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    at: Duration,
    ours: bool,
    assign: bool,
    refused: bool,
    /// What was left in the bucket afterwards.
    remaining: u64,
}

pub(super) async fn play(stage: &Stage, teller: &Teller) -> Result<Verdict> {
    let all: Api<StableEgress> = Api::all(stage.client.clone());
    let mut eye = Eye::on(all, EGRESS);
    let settled = eye.until(PATIENCE, "Ready", is_ready).await?;
    let from = active(&settled).context("it has a gateway")?;
    scarcity(stage)?;
    let began = Instant::now();
    let what = format!("192.0.2.10 is on {from}; others hold the account at {LEFT} calls or less");
    teller.event(Duration::ZERO, &what);
    let first = stage.hetzner.requests().len();
    let age = stage.began.elapsed();
    let (died, death) = (Instant::now(), stage.clock.now());
    stage.nodes.kill(&from);
    teller.event(
        began.elapsed(),
        &format!("{from} dies: it answers no probe any more"),
    );
    let elsewhere = |it: &StableEgress| is_ready(it) && active(it).is_some_and(|node| node != from);
    let moved = eye.until(PATIENCE, "moved", elsewhere).await?;
    let took = died.elapsed();
    let to = active(&moved).unwrap_or_default();
    teller.event(
        began.elapsed(),
        &format!("192.0.2.10 is on {to}, and its label with it"),
    );
    stage.hetzner.stop_noise(Some(OTHERS));
    let nodes = Api::<Node>::all(stage.client.clone());
    let nodes = nodes.list_metadata(&ListParams::default()).await?;
    let seen = Seen {
        held: holder(stage).as_deref() == Some(to.as_str()),
        calls: calls(&stage.hetzner.requests()[first..], death),
        nodes: u32::try_from(nodes.items.len())?,
        moved: took,
        from,
        to,
        age,
    };
    teller.beside(&moments(&seen));
    Ok(judge(&seen))
}

pub(super) fn is_ready(egress: &StableEgress) -> bool {
    let status = egress.status.as_ref();
    status.is_some_and(|status| holds(&status.conditions, "Ready"))
}

fn active(egress: &StableEgress) -> Option<String> {
    egress.status.as_ref()?.active_node.clone()
}

/// Others leave almost nothing from now on.
fn scarcity(stage: &Stage) -> Result<()> {
    let bucket = json!({ "buckets": [{ "name": "default", "remaining": LEFT }] });
    let change = serde_json::from_value(bucket)?;
    stage.hetzner.change(change).map_err(|why| anyhow!(why))?;
    let noise = BackgroundClients::hold_at(OTHERS, LEFT);
    stage.hetzner.noise(noise).map_err(|why| anyhow!(why))
}

/// The node whose server the provider has the address on.
fn holder(stage: &Stage) -> Option<String> {
    let server = stage.hetzner.holder(FLOATING_IP)?;
    let node = NODES.iter().find(|(_, id)| *id == server)?;
    Some(node.0.to_owned())
}

fn calls(entries: &[Entry], death: jiff::Timestamp) -> Vec<Call> {
    let call = |entry: &Entry| Call {
        at: Duration::try_from(entry.time.duration_since(death)).unwrap_or_default(),
        ours: entry.client != OTHERS,
        assign: entry.path.ends_with("/actions/assign"),
        refused: entry.status == Some(429),
        remaining: entry.remaining,
    };
    entries.iter().map(call).collect()
}

/// Refusals of the move that a read of our own had taken the call from.
fn own_fault(calls: &[Call]) -> usize {
    let refused = calls.iter().filter(|it| it.ours && it.assign && it.refused);
    let taken = |assign: &&Call| {
        calls.iter().any(|it| {
            let before = it.at <= assign.at && it.at + REFILL > assign.at;
            it.ours && !it.assign && !it.refused && before
        })
    };
    refused.filter(taken).count()
}

fn judge(seen: &Seen) -> Verdict {
    let assigns = seen.calls.iter().filter(|it| it.ours && it.assign);
    let (refused, taken): (Vec<_>, Vec<_>) = assigns.partition(|it| it.refused);
    let own = own_fault(&seen.calls);
    let pass = seen.held && own == 0 && taken.len() == 1 && seen.moved < PROMISE;
    let figure = format!(
        "moved in {:.1} s; the move was refused {} times, {own} of them for reads of our own",
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
    Verdict {
        pass,
        figure,
        numbers,
    }
}

/// When the usual way wants to move the address, and when it can, with the others as they were here.
fn usual(seen: &Seen) -> (Duration, Landed) {
    let watchman = Watchman::default();
    let wants = watchman.wants(seen.age).saturating_sub(seen.age);
    let others = open(&seen.calls, watchman.refill_per_second);
    let refusals = watchman.refusals(seen.nodes, others);
    (wants, Queue::default().after(wants, refusals))
}

/// The share of the time between the calls that were seen in which the bucket had one left.
fn open(calls: &[Call], refill_per_second: f64) -> f64 {
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

fn moments(seen: &Seen) -> Vec<Moment> {
    let (wants, landed) = usual(seen);
    let mut all = vec![Moment::both(Duration::ZERO, "the gateway dies")];
    let assigned = seen
        .calls
        .iter()
        .find(|it| it.ours && it.assign && !it.refused);
    all.extend(assigned.map(|call| Moment::ours(call.at, "the move is accepted")));
    all.push(Moment::ours(
        seen.moved,
        format!("the address is on {}", seen.to),
    ));
    all.push(Moment::usual(wants, "noticed, and its grace is over"));
    let what = match landed.failures {
        0 => "the move is accepted".to_owned(),
        many => format!("the move is accepted, after {many} refusals"),
    };
    all.push(Moment::usual(landed.at, what));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(at: u64, ours: bool, assign: bool, refused: bool) -> Call {
        Call {
            at: Duration::from_millis(at),
            ours,
            assign,
            refused,
            remaining: 0,
        }
    }

    fn seen() -> Seen {
        Seen {
            from: "gateway-a".to_owned(),
            to: "gateway-b".to_owned(),
            moved: Duration::from_secs(9),
            held: true,
            calls: vec![
                call(4_000, false, false, false),
                call(6_000, true, true, true),
                call(7_000, true, true, false),
            ],
            nodes: 2,
            age: Duration::from_secs(40),
        }
    }

    #[test]
    fn a_prompt_move_passes_even_if_others_delayed_it() {
        let verdict = judge(&seen());
        assert!(verdict.pass, "{verdict:?}");
        assert!(
            verdict.figure.contains("refused 1 times, 0 of them"),
            "{verdict:?}"
        );
    }

    #[test]
    fn an_own_read_in_the_way_a_late_or_an_unreal_move_fails() {
        let mut own = seen();
        own.calls.insert(1, call(5_500, true, false, false));
        let mut late = seen();
        late.moved = PROMISE;
        let mut unreal = seen();
        unreal.held = false;
        for seen in [own, late, unreal] {
            assert!(!judge(&seen).pass, "{seen:?}");
        }
    }

    #[test]
    fn the_usual_way_looks_waits_and_is_refused() {
        let mut large = seen();
        large.nodes = 202;
        let (wants, landed) = usual(&large);
        assert_eq!(wants, Duration::from_secs(110));
        assert!(landed.at > wants && landed.failures > 5, "{landed:?}");
    }

    #[test]
    fn a_bucket_is_open_while_a_call_is_left() {
        let mut calls = [
            call(0, false, false, false),
            call(4_000, false, false, false),
        ];
        assert!(
            (open(&calls, 1.0) - 0.75).abs() < 1e-9,
            "it gains one after a second"
        );
        calls[0].remaining = 2;
        assert!((open(&calls, 1.0) - 1.0).abs() < 1e-9);
        assert!(open(&[], 1.0).abs() < 1e-9);
    }
}
