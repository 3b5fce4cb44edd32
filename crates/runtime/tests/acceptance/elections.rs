//! Elections with many seeds, every type of fault, and replicas that stop, crash, leave
//! and return. Two must never act at once, and in the end one leads.

use std::time::Duration;

use aplomb::clock::Clock;
use aplomb::leadership::fence::Fence;
use aplomb::leadership::{LeaderElector, LeaseConfig};
use aplomb::telemetry::Telemetry;
use aplomb_simulation::faults::{Fault, Faults, Latency, Match, Rule, Sampler, WatchFault};
use aplomb_simulation::{Cluster, Simulation};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::replica::Process;

const REPLICAS: usize = 3;

struct Candidate {
    process: Process,
    fence: Fence,
    lease: LeaderElector,
    faults: Faults,
    thaws_at: Option<Instant>,
}

/// A wall clock that is wrong and runs a tenth too fast.
fn skewed_clock(seconds: i64) -> Clock {
    let (right, begun) = (Clock::system(), Instant::now());
    Clock::new(move || {
        let fast = SignedDuration::try_from(begun.elapsed() / 10).unwrap();
        right.now() + SignedDuration::from_secs(seconds) + fast
    })
}

impl Candidate {
    /// Each start has its own name, like a Pod.
    fn start(cluster: &Cluster, place: usize, life: u32) -> Self {
        let identity = format!("replica-{place}");
        let client = cluster.plain_client(&identity);
        let config = LeaseConfig::new("default", "demo", &format!("{identity}-{life}"));
        let (fence, telemetry) = (Fence::closed(), Telemetry::default());
        let clock = skewed_clock(30 * (place as i64 - 1));
        let lease = LeaderElector::new(client, config, fence.clone(), telemetry, clock).unwrap();
        let process = Process::default();
        process.spawn(lease.run(CancellationToken::new()));
        let faults = cluster.faults(&identity);
        Self {
            process,
            fence,
            lease,
            faults,
            thaws_at: None,
        }
    }
}

struct Chaos {
    cluster: Cluster,
    rng: fastrand::Rng,
    candidates: Vec<Candidate>,
    lives: u32,
}

impl Chaos {
    fn new(cluster: Cluster, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let candidates = (0..REPLICAS)
            .map(|place| Candidate::start(&cluster, place, 0))
            .collect();
        Self {
            cluster,
            rng,
            candidates,
            lives: 0,
        }
    }

    /// The number of replicas that may act; at most one.
    fn acting(&self) -> usize {
        let open = |candidate: &&Candidate| candidate.fence.is_open();
        let acting = self.candidates.iter().filter(open).count();
        assert!(acting <= 1, "{acting} replicas may act");
        acting
    }

    fn thaw(&mut self) {
        for candidate in &mut self.candidates {
            if candidate.thaws_at.take_if(|at| *at <= Instant::now()).is_some() {
                candidate.process.thaw();
            }
        }
    }

    fn inject_fault(&mut self) {
        let place = self.rng.usize(..REPLICAS);
        match self.rng.u32(..2000) {
            0..4 => {
                let asleep = Duration::from_millis(self.rng.u64(..40_000));
                let candidate = &mut self.candidates[place];
                candidate.process.freeze();
                candidate.thaws_at = Some(Instant::now() + asleep);
            }
            4 => {
                self.lives += 1;
                self.candidates[place] = Candidate::start(&self.cluster, place, self.lives);
            }
            5 => {
                let lease = self.candidates[place].lease.clone();
                let released = async move { lease.release().await };
                self.candidates[place].process.spawn(released);
            }
            6 => {
                // A released or crashed replica returns with another name.
                self.lives += 1;
                self.candidates[place] = Candidate::start(&self.cluster, place, self.lives);
            }
            7 => {
                let (refusing, filling) = (self.rng.u64(..8), self.rng.u64(..3));
                self.cluster.outages().restart_at(
                    Instant::now(),
                    Duration::from_secs(refusing),
                    Duration::from_secs(filling),
                );
            }
            _ => {}
        }
    }

    async fn run(&mut self, time: Duration, disturbed: bool) -> f64 {
        let end = Instant::now() + time;
        let (mut led, mut looked) = (0, 0);
        while Instant::now() < end {
            sleep(Duration::from_millis(50)).await;
            self.thaw();
            if disturbed {
                self.inject_fault();
            }
            led += self.acting();
            looked += 1;
        }
        led as f64 / f64::from(looked)
    }
}

/// The share of the bad day with a leader.
async fn bad_day(cluster: Cluster) -> f64 {
    let seed = cluster.seed();
    let mut chaos = Chaos::new(cluster, seed);
    for (place, candidate) in chaos.candidates.iter().enumerate() {
        let seed = seed * 10 + place as u64;
        let latency = Latency::Bimodal {
            fast: Duration::from_millis(20),
            slow: Duration::from_secs(7),
            probability: 0.02,
        };
        candidate.faults.sample(Sampler::bad_day(seed, 0.25).latency(latency));
    }
    let led = chaos.run(Duration::from_secs(1200), true).await;
    chaos.candidates.iter().for_each(|candidate| candidate.faults.clear());
    for place in 0..REPLICAS {
        chaos.lives += 1;
        chaos.candidates[place] = Candidate::start(&chaos.cluster, place, chaos.lives);
    }
    chaos.run(Duration::from_secs(40), false).await;
    assert_eq!(chaos.acting(), 1, "without faults one replica leads");
    led
}

#[test]
fn on_a_bad_day_one_leads_at_a_time_and_mostly_one_does() {
    for seed in 0..4 {
        let world = Simulation::new(seed).interpose(aplomb_virtual_time::install);
        let led = world.run(bad_day).value;
        assert!(led > 0.5, "seed {seed}: there was a leader {led:.2} of the time");
    }
}

/// Replicas whose wall clocks are a minute apart: to the other one, renewals look as if the
/// lease had expired long ago.
async fn wrong_clocks(cluster: Cluster) {
    let first = Candidate::start(&cluster, 0, 0);
    first.lease.leading().wait_for(|leading| *leading).await.unwrap();
    let second = Candidate::start(&cluster, 2, 0);
    sleep(Duration::from_secs(300)).await;
    assert!(*first.lease.leading().borrow());
    let status = second.lease.status();
    assert_eq!(status.holder.as_deref(), Some("replica-0-0"));
    assert_eq!((status.leading, status.transitions), (false, 0));
}

#[test]
fn clocks_that_are_wrong_decide_nothing() {
    let world = Simulation::new(1).interpose(aplomb_virtual_time::install);
    world.run(wrong_clocks);
}

/// A standby whose watch delivers nothing.
async fn hand_over_without_a_watch(cluster: Cluster) -> Duration {
    let first = Candidate::start(&cluster, 0, 0);
    first.lease.leading().wait_for(|leading| *leading).await.unwrap();
    let deaf = Fault::Watch(WatchFault::BlackHoled(Duration::ZERO));
    cluster.faults("replica-1").add(Rule::new(deaf).on(Match::watches()));
    let second = Candidate::start(&cluster, 1, 0);
    sleep(Duration::from_secs(60)).await;
    let asked = Instant::now();
    first.lease.release().await;
    second.lease.leading().wait_for(|leading| *leading).await.unwrap();
    asked.elapsed()
}

#[test]
fn standby_with_a_dead_watch_polls_the_lease() {
    let world = Simulation::new(1).interpose(aplomb_virtual_time::install);
    let took = world.run(hand_over_without_a_watch).value;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// A standby whose watches are all rejected.
async fn refused_watches(cluster: Cluster) -> usize {
    let expired = Fault::Watch(WatchFault::Expired);
    cluster.faults("replica-1").add(Rule::new(expired).on(Match::watches()));
    let first = Candidate::start(&cluster, 0, 0);
    first.lease.leading().wait_for(|leading| *leading).await.unwrap();
    let _second = Candidate::start(&cluster, 1, 0);
    sleep(Duration::from_secs(60)).await;
    cluster.trace().count(|line| line.contains("replica-1 request"))
}

#[test]
fn standby_with_a_refused_watch_backs_off() {
    let world = Simulation::new(1).interpose(aplomb_virtual_time::install);
    let requests = world.run(refused_watches).value;
    // A read and a watch every two seconds.
    assert!((40..=62).contains(&requests), "{requests} requests in a minute");
}

/// client-go's record: of a holder that is gone, and after a release.
async fn take_over_from_client_go(cluster: Cluster, holder: &str, seconds: i32) -> Duration {
    let mut theirs = Object {
        metadata: ObjectMeta {
            name: Some("demo".to_owned()),
            ..ObjectMeta::default()
        },
        ..Object::default()
    };
    let spec = theirs.spec.get_or_insert_default();
    spec.holder_identity = Some(holder.to_owned());
    spec.lease_duration_seconds = Some(seconds);
    spec.lease_transitions = Some(7);
    let leases: Api<Object> = Api::namespaced(cluster.plain_client("user"), "default");
    leases.create(&PostParams::default(), &theirs).await.unwrap();
    let began = Instant::now();
    let candidate = Candidate::start(&cluster, 0, 0);
    candidate.lease.leading().wait_for(|leading| *leading).await.unwrap();
    let took = began.elapsed();
    let ours = leases.get("demo").await.unwrap().spec.unwrap();
    assert_eq!(ours.holder_identity.as_deref(), Some("replica-0-0"));
    assert_eq!(ours.lease_transitions, Some(8));
    assert_eq!(ours.acquire_time, ours.renew_time);
    candidate.lease.release().await;
    let released = leases.get("demo").await.unwrap().spec.unwrap();
    assert_eq!(released.holder_identity.as_deref(), Some(""));
    assert_eq!(released.lease_duration_seconds, Some(1));
    assert_eq!(released.lease_transitions, Some(8));
    took
}

#[test]
fn it_follows_client_go_and_leaves_what_client_go_expects() {
    let world = || Simulation::new(1).interpose(aplomb_virtual_time::install);
    let gone = world().run(|cluster| take_over_from_client_go(cluster, "host_5e1f", 15));
    assert_eq!(gone.value.as_secs(), 15);
    let released = world().run(|cluster| take_over_from_client_go(cluster, "", 1));
    assert!(released.value < Duration::from_secs(1), "{:?}", released.value);
}
