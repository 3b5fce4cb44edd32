//! Promise: occasional heartbeat failures, in any pattern within the bound, never make a connector flap; and
//! one real change is one write.

use aplomb::telemetry::EventResult;
use tokio::time::sleep;

use crate::agent::Agent;
use crate::lab::{Lab, on_box_for_long, seconds};
use crate::operator::Operator;

const CONNECTOR: &str = "aplomb-connector";

/// The cost of a day.
#[derive(Debug)]
struct DayCost {
    failed: u64,
    heartbeats: u64,
    longest: f64,
    writes: Vec<String>,
    passed: u64,
    noise: u64,
    passes: f64,
}

async fn run_day(lab: Lab, lease: u64, hours: u64) -> DayCost {
    let operator = Operator::without_leader_election(&lab, "operator");
    let agent = Agent::with_failing_heartbeats(&lab, "laptop", seconds(lease), lab.cluster.seed());
    lab.wait_online("laptop", seconds(lease + 2)).await;
    sleep(seconds(3 * lease)).await;
    let turns = lab.follow_status();
    let seen = |result| operator.telemetry.watch.events("Lease", result);
    let before = (
        seen(EventResult::Passed),
        seen(EventResult::Noise),
        operator.passes(CONNECTOR),
    );
    sleep(seconds(hours * 3_600)).await;
    let tally = agent.adversary.as_ref().expect("the agent has an adversary").tally();
    let quiet = turns.all();
    assert!(lab.is_online("laptop"));
    agent.kill();
    lab.wait_offline("laptop", seconds(lease + 2)).await;
    assert_eq!(turns.all().len(), quiet.len() + 1, "one write per transition");
    DayCost {
        failed: tally.failed,
        heartbeats: tally.heartbeats,
        longest: tally.longest.as_secs_f64(),
        writes: quiet,
        passed: seen(EventResult::Passed) - before.0,
        noise: seen(EventResult::Noise) - before.1,
        passes: operator.passes(CONNECTOR) - before.2,
    }
}

fn check(lease: u64, hours: u64, seed: u64) {
    let it = on_box_for_long(seed, move |lab| run_day(lab, lease, hours));
    println!(
        "{hours} h, a lease of {lease} s: {} heartbeats arrived and {} failed, the longest silence was \
         {:.1} s; {} flaps and writes, {} passes, {} of {} heartbeats led to one",
        it.heartbeats,
        it.failed,
        it.longest,
        it.writes.len(),
        it.passes,
        it.passed,
        it.noise + it.passed,
    );
    assert_eq!(it.writes, Vec::<String>::new(), "no real change happened");
    assert!(it.longest > 0.9 * lease as f64, "the outages were long enough: {it:?}");
    assert!(it.failed > it.heartbeats, "enough heartbeats failed: {it:?}");
    assert_eq!(it.passed, 0, "a heartbeat costs no pass: {it:?}");
    // One check for each lease that almost expired.
    let looks = (hours * 3_600 / lease * 4) as f64;
    assert!(it.passes <= looks, "{it:?}");
}

#[test]
fn a_day_of_failing_heartbeats_shows_no_flap() {
    check(30, 24, 1);
}

#[test]
fn leases_of_any_length_show_no_flap() {
    check(5, 2, 2);
    check(1_200, 24, 3);
}
