//! The queue compared with kube-rs's scheduler, in one run on one machine: 200,000 queued keys, taken by
//! sixteen workers that do nothing. Prints the ratio, and fails if it is below 40, or if a
//! completion costs more with many keys in flight.
//!
//! kube-rs is measured twice: its `applier` (scheduler, runner and store lookup, without the task that
//! `Controller` starts for each run), and the bare scheduler with all keys held until they are due,
//! like the runner while its workers are busy. The asserted ratio is against the
//! former; both are printed.

use std::convert::Infallible;
use std::hint::black_box;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb::queue::{Dispatch, FairQueue, Lane, NextRun, QueueConfig, RunReason};
use futures::{FutureExt, Stream, StreamExt, future, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::runtime::controller::{Action, applier};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use kube::runtime::{Config as Controller, watcher};
use tokio::time::Instant;

const KEYS: usize = 200_000;
const WORKERS: u16 = 16;
const MIN_SPEEDUP: f64 = 40.0;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How often each is measured; the least counts, which is the run that was disturbed least.
const SAMPLES: usize = 10;

fn main() -> ExitCode {
    // Without `--bench` this is a test that the benchmark runs at all.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let samples = if measured { SAMPLES } else { 1 };
    let drained = drained(samples);
    let completed = completed(samples);
    if measured {
        verdict(&drained, completed)
    } else {
        ExitCode::SUCCESS
    }
}

/// The first sample only warms up.
fn least(samples: usize, mut sample: impl FnMut() -> Duration) -> Duration {
    sample();
    let all = (0..samples).map(|_| sample());
    all.min().expect("there is a sample")
}

/// The least time that each needed for all keys.
struct Drained {
    runtime: Duration,
    applier: Duration,
    scheduler: Duration,
}

/// All three, one after the other, on the same keys. kube-rs needs over a second for each sample, so
/// its bare scheduler gets two.
fn drained(samples: usize) -> Drained {
    let (keys, store) = (keys(KEYS), stored(KEYS));
    Drained {
        runtime: least(samples, || timed(|| drain(queue(), &keys))),
        applier: least(samples, || kube_applier(&store)),
        scheduler: kube_scheduler(&store).min(kube_scheduler(&store)),
    }
}

const IN_FLIGHT: [usize; 4] = [0, 1_000, 10_000, 100_000];
/// So many make a sample that the resolution of the clock does not matter.
const COMPLETIONS: u32 = 500_000;

/// What one event, run and completion costs at least while so many other keys run.
fn completed(samples: usize) -> [Duration; 4] {
    IN_FLIGHT.map(|in_flight| {
        let mut queue = busy(in_flight);
        let hot = ObjectKey::new(Some("default"), "hot");
        let mut once = || {
            queue.push(&hot, Lane::Input, RunReason::Changed, Duration::ZERO);
            let run = queue.pop(Duration::ZERO).expect("it was pushed");
            queue.complete(run.ticket, NextRun::Idle, Duration::ZERO)
        };
        let mut sample = || timed(|| (0..COMPLETIONS).filter(|_| once()).count());
        least(samples, &mut sample) / COMPLETIONS
    })
}

/// A queue with this many running keys.
fn busy(in_flight: usize) -> FairQueue<ObjectKey> {
    let mut queue = queue();
    for key in keys(in_flight) {
        queue.push(&key, Lane::Input, RunReason::Changed, Duration::ZERO);
    }
    let running = std::iter::from_fn(|| queue.pop(Duration::ZERO)).count();
    assert_eq!(running, in_flight);
    queue
}

fn verdict(drained: &Drained, completed: [Duration; 4]) -> ExitCode {
    for (in_flight, cost) in IN_FLIGHT.into_iter().zip(completed) {
        println!("completion with {in_flight} keys in flight: {cost:?}");
    }
    let grows = completed[3] > 3 * completed[0];
    let per_second = |time: Duration| KEYS as f64 / time.as_secs_f64();
    let (ours, kube) = (per_second(drained.runtime), per_second(drained.applier));
    let bare = per_second(drained.scheduler);
    println!("kube-rs, the bare scheduler: {bare:.0}/s, ratio {:.1}", ours / bare);
    let ratio = ours / kube;
    println!("queue: {ours:.0} dispatches/s, kube-rs: {kube:.0}/s, ratio {ratio:.1}");
    if ratio < MIN_SPEEDUP || grows {
        eprintln!("the ratio is below {MIN_SPEEDUP}, or the cost of a completion grows");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn keys(count: usize) -> Vec<ObjectKey> {
    let name = |i| ObjectKey::new(Some("default"), &format!("object-{i}"));
    (0..count).map(name).collect()
}

fn queue() -> FairQueue<ObjectKey> {
    FairQueue::new(QueueConfig::default())
}

/// Queues every key, then runs sixteen at a time through a reconcile that does nothing.
fn drain(mut queue: FairQueue<ObjectKey>, keys: &[ObjectKey]) {
    let now = Duration::ZERO;
    for key in keys {
        queue.push(key, Lane::Input, RunReason::Changed, now);
    }
    let mut running: Vec<Dispatch<ObjectKey>> = Vec::with_capacity(WORKERS.into());
    let mut runs = 0;
    loop {
        while running.len() < WORKERS.into() {
            let Some(run) = queue.pop(now) else { break };
            running.push(run);
        }
        if running.is_empty() {
            break;
        }
        for run in running.drain(..) {
            async { black_box(&run.key) }.now_or_never();
            queue.complete(run.ticket, NextRun::Idle, now);
            runs += 1;
        }
    }
    assert_eq!(runs, keys.len());
}

/// A store as kube-rs's applier reads it.
fn stored(count: usize) -> Store<ConfigMap> {
    let (reader, mut writer) = store();
    writer.apply_watcher_event(&watcher::Event::Init);
    for key in keys(count) {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(key.name.to_string());
        object.metadata.namespace = key.namespace.map(|namespace| namespace.to_string());
        writer.apply_watcher_event(&watcher::Event::InitApply(object));
    }
    writer.apply_watcher_event(&watcher::Event::InitDone);
    // A store without its writer is never ready.
    std::mem::forget(writer);
    reader
}

fn references(store: &Store<ConfigMap>) -> Vec<ObjectRef<ConfigMap>> {
    let objects = store.state();
    objects.iter().map(|object| ObjectRef::from_obj(&**object)).collect()
}

fn kube_applier(store: &Store<ConfigMap>) -> Duration {
    let references = references(store);
    let count = references.len();
    let events = stream::iter(references.into_iter().map(Ok::<_, Infallible>));
    let runs = applier(
        |object: Arc<ConfigMap>, _: Arc<()>| {
            black_box(object.name_any());
            future::ready(Ok::<_, Infallible>(Action::await_change()))
        },
        |_, _, _| Action::await_change(),
        Arc::new(()),
        store.clone(),
        events.chain(stream::pending()),
        Controller::default().concurrency(WORKERS),
    );
    timed(|| run_all(runs, count))
}

fn kube_scheduler(store: &Store<ConfigMap>) -> Duration {
    let references = references(store);
    let count = references.len();
    timed(|| {
        let run_at = runtime().block_on(async { Instant::now() });
        let requests = references
            .into_iter()
            .map(|message| ScheduleRequest { message, run_at });
        let held = async {
            let mut scheduler = pin!(scheduler(stream::iter(requests).chain(stream::pending())));
            // Its timer has a resolution of a millisecond: before that nothing is due.
            tokio::time::sleep(Duration::from_millis(2)).await;
            let mut context = Context::from_waker(Waker::noop());
            assert!(scheduler.as_mut().hold().poll_next_unpin(&mut context).is_pending());
            scheduler.take(count).count().await
        };
        assert_eq!(runtime().block_on(held), count);
    })
}

fn run_all(runs: impl Stream, count: usize) {
    let done = runtime().block_on(runs.take(count).count());
    assert_eq!(done, count);
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().expect("a runtime")
}

/// The time this thread spent on it, without that of other processes.
fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = cpu_time();
    black_box(work());
    cpu_time().saturating_sub(start)
}

/// The processor time of this thread where the system tells it (Linux), the clock elsewhere.
fn cpu_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}
