//! Guarantee: a quiet day costs almost nothing, however often kubelets write. For comparison, two
//! clients that react to every event of a node run too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aplomb::telemetry::EventResult;
use aplomb_controllers::Controllers;
use aplomb_fake_services::hcloud::Change;
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Around, Lab, NAMESPACE, TOKEN, on_box, seconds, server, until};
use crate::nodes;
use crate::operator::Replica;
use crate::peers;

const HOUR: Duration = Duration::from_secs(3600);
/// Heartbeat interval of a node.
pub const BEAT: Duration = Duration::from_secs(10);

/// StableEgress objects that share a token: how many, their resync interval, and the allowed reads
/// per hour.
#[derive(Clone, Copy, Debug)]
struct Group {
    token: &'static str,
    count: usize,
    resync: u64,
    max_reads: usize,
}

const GROUPS: [Group; 4] = [
    Group {
        token: "one-30",
        count: 1,
        resync: 30,
        max_reads: 120,
    },
    Group {
        token: "ten-30",
        count: 10,
        resync: 30,
        max_reads: 120,
    },
    Group {
        token: "one-60",
        count: 1,
        resync: 60,
        max_reads: 60,
    },
    Group {
        token: "ten-60",
        count: 10,
        resync: 60,
        max_reads: 60,
    },
];

/// Cost of a quiet period.
#[derive(Debug)]
struct Cost {
    /// Reads of each group in its busiest hour.
    reads: Vec<usize>,
    /// Calls to the provider other than reads.
    writes: usize,
    /// Writes to StableEgress objects.
    statuses: u64,
    /// Events of nodes that were dropped, and those that were not.
    noise: u64,
    passed: u64,
    reconciles: f64,
}

/// Names of the StableEgress objects, with their groups.
fn egresses() -> Vec<(String, Group)> {
    let of = |group: &Group| {
        let group = *group;
        (0..group.count).map(move |number| (format!("{}-{number}", group.token), group))
    };
    GROUPS.iter().flat_map(of).collect()
}

async fn set_up(lab: &Lab, count: usize) {
    let egresses = egresses();
    let named = |number: usize| egresses.get(number / 2).map(|(name, _)| name.as_str());
    for number in 0..count {
        lab.nodes.create(&nodes::node(number, named(number))).await;
    }
    lab.change(Change {
        servers: Some((0..count).map(server).collect()),
        ..Change::default()
    });
    for (number, (name, group)) in egresses.iter().enumerate() {
        let project = Some(group.token.to_owned());
        lab.floating_ip(number, name, |it| it.project = project);
        let spec = json!({
            "tokenSecretRef": { "name": group.token },
            "resync": format!("{}s", group.resync),
        });
        lab.egress(name, &spec).await;
    }
}

/// Counts the writes to StableEgress objects.
fn status_writes(lab: &Lab) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counts = count.clone();
    lab.cluster.server().on_commit(Arc::new(move |change| {
        if change.key.resource.resource == "stableegresses" {
            counts.fetch_add(1, Ordering::Relaxed);
        }
    }));
    count
}

/// Reconciles so far.
pub fn reconciles(replica: &Replica) -> f64 {
    let metrics = replica.telemetry.text();
    let total = metrics
        .lines()
        .filter(|line| line.starts_with("controller_runtime_reconcile_total{") && line.contains("aplomb-egress"));
    total
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// Runs `hours` with `count` nodes, with or without heartbeats.
async fn run_quiet(lab: Lab, count: usize, hours: u64) -> Cost {
    set_up(&lab, count).await;
    let replica = Replica::start(&lab, "first");
    let all_well = || {
        let names = egresses();
        names
            .iter()
            .all(|(name, _)| lab.condition(name, "Available").status == "True")
    };
    until(seconds(120), "all serve", all_well).await;
    sleep(seconds(120)).await;
    let statuses = status_writes(&lab);
    let seen = |result| replica.telemetry.watch.events("Node", result);
    let before = (
        seen(EventResult::Noise),
        seen(EventResult::Passed),
        reconciles(&replica),
    );
    let (reads, writes) = count_calls(&lab, hours).await;
    assert!(all_well());
    Cost {
        reads,
        writes,
        statuses: statuses.load(Ordering::Relaxed),
        noise: seen(EventResult::Noise) - before.0,
        passed: seen(EventResult::Passed) - before.1,
        reconciles: reconciles(&replica) - before.2,
    }
}

/// Reads of each group in its busiest hour, and all calls other than reads.
async fn count_calls(lab: &Lab, hours: u64) -> (Vec<usize>, usize) {
    let mut last = lab.hetzner.requests().last().map_or(0, |it| it.n);
    let (mut reads, mut writes) = (vec![0; GROUPS.len()], 0);
    for _ in 0..hours {
        sleep(HOUR).await;
        let requests = lab.hetzner.requests_since(last);
        last = requests.last().map_or(last, |it| it.n);
        writes += requests.iter().filter(|it| it.method != "GET").count();
        for (group, most) in reads.iter_mut().enumerate() {
            let token = format!("token-{}", group + 1);
            let of = requests.iter().filter(|it| it.token.as_ref() == Some(&token));
            *most = of.count().max(*most);
        }
    }
    (reads, writes)
}

/// The settings of a quiet day.
pub fn lab_options(beats: bool) -> Around {
    let actors = Controllers::none();
    let token = |group: &Group| (group.token.to_owned(), TOKEN.replace("q7Zp2m", group.token));
    Around {
        actors: if beats { actors.node_heartbeats(BEAT) } else { actors },
        tokens: GROUPS.iter().map(token).collect(),
        long_running: true,
        ..Around::with_seed(24)
    }
}

fn check_cost(cost: &Cost, still: &Cost, count: usize, hours: u64) {
    let beats = count as u64 * hours * HOUR.as_secs() / BEAT.as_secs();
    assert!(
        cost.noise >= beats - count as u64,
        "{} of {beats} heartbeats",
        cost.noise
    );
    assert_eq!(cost.passed, 0, "events of nodes that led to a reconcile");
    assert_eq!(still.noise, 0, "without heartbeats no events arrive");
    assert_eq!(
        cost.reconciles, still.reconciles,
        "reconciles with and without heartbeats"
    );
    assert_eq!((cost.statuses, cost.writes), (0, 0), "writes in a steady state");
    for (group, reads) in GROUPS.iter().zip(&cost.reads) {
        assert!(*reads <= group.max_reads, "{group:?}: {reads} reads in an hour");
        assert!(
            *reads * 10 >= group.max_reads * 8,
            "{group:?}: the floating IP is read: {reads}"
        );
    }
}

fn run_day(count: usize, hours: u64, peers_time: Duration) {
    let cost = lab_options(true).run(move |lab| run_quiet(lab, count, hours));
    let still = lab_options(false).run(move |lab| run_quiet(lab, count, hours));
    let events = count as u64 * HOUR.as_secs() / BEAT.as_secs();
    println!("{hours} h, {count} nodes, a heartbeat of each every {BEAT:?}, namespace {NAMESPACE}");
    println!("{:<44} {:>12} {:>12} {:>10}", "", "events/h", "reads/h", "at most");
    for (group, reads) in GROUPS.iter().zip(&cost.reads) {
        let what = format!("{} StableEgress on a token, resync {} s", group.count, group.resync);
        println!("{what:<44} {events:>12} {reads:>12} {:>10}", group.max_reads);
    }
    let theirs = peers::print_cost(count, peers_time);
    println!(
        "quiet: reads an hour {:?}, at most {:?}; {:.0} where each node event costs two, {:.0} with an event every 2.5 s; {} heartbeats (dropped by each of two controllers) led to {} reconciles ({} with them, {} without); {} status writes",
        cost.reads,
        GROUPS.map(|group| group.max_reads),
        theirs.0,
        theirs.1,
        events * hours,
        cost.reconciles - still.reconciles,
        cost.reconciles,
        still.reconciles,
        cost.statuses
    );
    check_cost(&cost, &still, count, hours);
}

#[test]
fn a_standby_reads_nothing() {
    let reads = on_box(1, |lab| async move {
        let _first = lab.start_settled(2, &json!({})).await;
        let second = Replica::start(&lab, "second");
        sleep(seconds(60)).await;
        let before = lab.hetzner.requests().len();
        sleep(HOUR).await;
        // The standby maintains only its own lease and report.
        assert_eq!(second.metric(&["aplomb_egress_gateway_available"]), None);
        lab.hetzner.requests().len() - before
    });
    println!("two replicas, resync 30 s: {reads} reads an hour");
    assert!((100..=120).contains(&reads), "{reads}");
}

#[test]
fn a_quiet_hour_of_a_hundred_nodes_costs_no_reconcile_and_few_reads() {
    run_day(100, 1, seconds(600));
}

#[test]
#[ignore = "8.6 million heartbeats; make proof runs it, optimized"]
fn a_quiet_day_of_a_thousand_nodes_costs_no_reconcile_and_few_reads() {
    run_day(1_000, 24, HOUR);
}
