//! The savings by a lens: CPU per dropped heartbeat and memory per cached Node, compared with
//! kube-rs with full objects in the same run. Fails if a limit is exceeded.
//!
//! Run with `cargo bench -p aplomb --bench lens`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark may fail at any step"
)]

mod node;
mod server;

use std::fs;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aplomb::informer::Scope;
use aplomb::tasks::Tasks;
use aplomb::telemetry::{EventResult, Telemetry};
use aplomb::{InformerSet, Predicate};
use bytes::Bytes;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::WatchEvent;
use kube::runtime::reflector::store;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::node::{NodeView, Writer};
use crate::server::{Content, client};

const NODES: usize = 1_000;
const BEATS_EACH: usize = 5;
const ROUNDS: usize = 5;
const CACHED: usize = 50_000;

/// The maximum cost, as a fraction of the cost of kube-rs.
const CPU_LIMIT: f64 = 1.0 / 3.0;
const MEMORY_LIMIT: f64 = 0.1;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("--hold-ours") => measure_resident(hold_runtime_cache),
        Some("--hold-theirs") => measure_resident(hold_kube_rs_store),
        _ => {
            let kept = [cpu(), memory()];
            if kept.iter().all(|kept| *kept) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn report(what: &str, unit: &str, ours: f64, theirs: f64, limit: f64) -> bool {
    let ratio = ours / theirs;
    println!("{what}: ours {ours:.1} {unit}, kube-rs {theirs:.1} {unit}, ratio {ratio:.3} (at most {limit:.3})");
    ratio <= limit
}

/// Heartbeats of every node in turn, as lines of a watch.
fn heartbeats() -> Vec<Bytes> {
    let writer = Writer::new();
    let line = |at: usize| {
        let object = writer.write(at % NODES, at as u64 + 2);
        // As the server writes it: the type first.
        Bytes::from(format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"))
    };
    (0..NODES * BEATS_EACH).map(line).collect()
}

fn cpu() -> bool {
    let beats = heartbeats();
    let kilobytes = beats[0].len() as f64 / 1000.0;
    // The fastest round of each, because the machine has other work.
    let fastest = |cost: fn(&[Bytes]) -> Duration| (0..ROUNDS).map(|_| cost(&beats)).min().unwrap();
    let micros = |spent: Duration| spent.as_secs_f64() * 1e6 / beats.len() as f64;
    let (ours, theirs) = (micros(fastest(runtime_cpu_time)), micros(fastest(kube_rs_cpu_time)));
    let what = format!("CPU per dropped heartbeat of a {kilobytes:.1} KB Node");
    report(&what, "us", ours, theirs, CPU_LIMIT)
}

/// Our whole path: the client's stream, its lines, the cache, the lens, the counter.
fn runtime_cpu_time(beats: &[Bytes]) -> Duration {
    let content = Content {
        nodes: NODES,
        writer: Writer::new(),
        beats: beats.to_vec(),
    };
    runtime().block_on(async {
        let telemetry = Telemetry::default();
        let hub = InformerSet::new(client(content), telemetry.clone());
        let watch = hub.informer::<NodeView>(Scope::default());
        let (seen, all) = (AtomicUsize::new(0), Arc::new(Notify::new()));
        let (done, total) = (all.clone(), NODES + beats.len());
        let listed = Arc::new(std::sync::OnceLock::new());
        let begin = listed.clone();
        watch.listen_filtered(Predicate::unless_same(NodeView::same), "bench", move |_, _| {
            let count = seen.fetch_add(1, Ordering::Relaxed) + 1;
            if count == NODES {
                begin.get_or_init(on_cpu);
            }
            if count == total {
                done.notify_one();
            }
        });
        let _tasks = hub.start(&Tasks::on_runtime());
        all.notified().await;
        let spent = on_cpu() - *listed.get().unwrap();
        assert_eq!(telemetry.watch.events("Node", EventResult::Noise), beats.len() as u64);
        spent
    })
}

/// Only decoding and the store of kube-rs.
fn kube_rs_cpu_time(beats: &[Bytes]) -> Duration {
    let (reader, mut writer) = store::<Node>();
    let begin = on_cpu();
    for line in beats {
        match serde_json::from_slice(line).unwrap() {
            WatchEvent::Modified(node) => writer.apply_watcher_event(&watcher::Event::Apply(node)),
            _ => unreachable!("every line is a change"),
        }
    }
    let spent = on_cpu() - begin;
    assert_eq!(reader.len(), NODES);
    spent
}

/// The CPU time of this thread so far.
fn on_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos = stat.split(' ').next().unwrap().parse().unwrap();
    Duration::from_nanos(nanos)
}

fn memory() -> bool {
    let held = |which: &str| -> f64 {
        let own = std::env::current_exe().unwrap();
        let output = Command::new(own).arg(which).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().parse().expect("the child process succeeded")
    };
    let (ours, theirs) = (held("--hold-ours"), held("--hold-theirs"));
    let what = format!("memory of {CACHED} cached Nodes");
    report(&what, "MiB", ours, theirs, MEMORY_LIMIT)
}

/// Prints by how many MiB this process grew while `fill` created its result.
fn measure_resident<H>(fill: impl AsyncFnOnce(kube::Client) -> H) -> ExitCode {
    let content = Content {
        nodes: CACHED,
        writer: Writer::new(),
        beats: Vec::new(),
    };
    runtime().block_on(async {
        let before = resident();
        let held = fill(client(content)).await;
        println!("{}", resident() - before);
        drop(held);
    });
    ExitCode::SUCCESS
}

async fn hold_runtime_cache(client: kube::Client) -> impl Sized {
    let hub = InformerSet::new(client, Telemetry::default());
    let watch = hub.informer::<NodeView>(Scope::default());
    watch.listen_filtered(Predicate::unless_same(NodeView::same), "bench", |_, _| {});
    let tasks = hub.start(&Tasks::on_runtime());
    hub.wait_until_synced(Instant::now() + Duration::from_secs(120))
        .await
        .unwrap();
    assert_eq!(watch.cache().len(), CACHED);
    (hub, tasks)
}

async fn hold_kube_rs_store(client: kube::Client) -> impl Sized {
    let (reader, writer) = store::<Node>();
    let nodes = watcher(Api::<Node>::all(client), watcher::Config::default()).reflect(writer);
    let mut nodes = Box::pin(nodes);
    loop {
        let event = nodes.next().await.unwrap().unwrap();
        if matches!(event, watcher::Event::InitDone) {
            break;
        }
    }
    assert_eq!(reader.len(), CACHED);
    (reader, nodes)
}

fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024.0
}
