//! Guarantee: if other clients hold the bucket within five tokens of empty, our routine reads leave
//! the rest to a move, and an Assign is accepted almost as soon as possible. Counted from the
//! simulator's log, compared with a client with hcloud-go's retry policy in the same simulation.
//!
//! Fifty seeds by default; `make proof` runs the thousand whose figures the documents quote.

use std::sync::Arc;
use std::time::Duration;

use aplomb::leadership::fence::Fence;
use aplomb::{Clock, ObjectKey, Telemetry};
use aplomb_api::egress::FloatingIpRef;
use aplomb_egress_operator::hcloud::client::{ENDPOINT, HcloudClient};
use aplomb_egress_operator::hcloud::{HcloudAccount, HcloudAccounts, HcloudError, HcloudSettings};
use aplomb_egress_operator::telemetry::EgressMetrics;
use aplomb_fake_services::hcloud::{BackgroundClients, Config, Entry, FakeHcloud, Shape};
use aplomb_http_client::{ApiToken, Transport};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use tower::util::BoxCloneSyncService;

use crate::lab::{Lab, TOKEN, floating_ip, on_box, seconds, until};
use crate::nodes;

/// Calls kept for a move.
const RESERVE: u64 = 30;
const RESYNC: Duration = Duration::from_secs(30);

/// How others spend.
#[derive(Clone, Copy, Debug)]
enum Others {
    /// They leave at most five tokens, with the call pattern of other programs in a cluster.
    Hold,
    /// They call at random at this rate per second, with a bucket that was empty.
    Rate(f64),
}

/// A simulation with one seed.
struct Scene {
    hetzner: FakeHcloud,
    clock: aplomb_apimachinery::clock::Clock,
    rng: fastrand::Rng,
}

impl Scene {
    fn new(seed: u64, others: Others) -> Self {
        let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = aplomb_apimachinery::clock::Clock::new(epoch, seed);
        let hetzner = FakeHcloud::new(Config::new(clock.clone(), seed, TOKEN));
        let servers: Vec<_> = (1..=20)
            .map(|id| json!({"id": id, "name": format!("server-{id}")}))
            .collect();
        let state = json!({
            "servers": servers,
            "floating_ips": [{"id": 100, "name": "web", "ip": "203.0.113.10", "server": 1}],
            "buckets": [{"name": "default", "remaining": 3}],
        });
        let state = serde_json::from_value(state).unwrap();
        hetzner.change(state).unwrap();
        let noise = match others {
            Others::Rate(rate) => vec![BackgroundClients::rate("others", rate)],
            Others::Hold => vec![
                BackgroundClients::hold_at("hold", 5),
                BackgroundClients::shape("caph", Shape::Caph),
                BackgroundClients::shape("ccm", Shape::Ccm),
                BackgroundClients::shape("csi", Shape::Csi),
            ],
        };
        for noise in noise {
            hetzner.noise(noise).unwrap();
        }
        let rng = fastrand::Rng::with_seed(seed);
        Self { hetzner, clock, rng }
    }

    fn transport(&self) -> Transport {
        BoxCloneSyncService::new(self.hetzner.service())
    }

    fn account(&self) -> HcloudAccount {
        let (service, clock) = (self.hetzner.service(), self.clock.clone());
        let clouds = HcloudAccounts::new(HcloudSettings {
            endpoint: ENDPOINT.to_owned(),
            connect: Arc::new(move || BoxCloneSyncService::new(service.clone())),
            telemetry: Telemetry::default(),
            egress: EgressMetrics::default(),
            clock: Clock::new(move || clock.now()),
            budgets: aplomb::ratelimit::LimiterRegistry::default(),
        });
        clouds.account_for(&ObjectKey::new(None, "web"), &ApiToken::new(TOKEN).unwrap(), "hcloud")
    }

    /// When the move begins: not aligned with any interval.
    fn start(&mut self) -> Instant {
        Instant::now() + Duration::from_millis(self.rng.u64(600_000..630_000))
    }
}

/// Time until an Assign was accepted.
async fn run_own(mut scene: Scene) -> (Duration, Vec<Entry>) {
    let begins = scene.start();
    let account = scene.account();
    let (who, which) = (ObjectKey::new(None, "web"), web());
    let fence = Fence::always_open();
    let within = || Instant::now() + Duration::from_secs(10);
    let look = |max_age| account.refresh(&who, &which, max_age, false, within(), &fence);
    while look(RESYNC).await.is_err() && account.last_seen(&which).is_none() {
        sleep(account.retry_delay()).await;
    }
    while Instant::now() + RESYNC.mul_f64(1.1) < begins {
        sleep(RESYNC.mul_f64(1.0 + 0.1 * scene.rng.f64())).await;
        // Like an operator that calls more often than needed.
        let _ = look(RESYNC).await;
    }
    sleep_until(begins).await;
    while account.assign(100, 2, within(), &fence).await.is_err() {
        sleep(account.retry_delay()).await;
    }
    (begins.elapsed(), scene.hetzner.requests())
}

/// The same for a client that retries like hcloud-go, in a reconcile that backs off like
/// controller-runtime; it reads twice a minute and knows the ID, like ours.
async fn run_reference(mut scene: Scene) -> (Duration, Vec<Entry>) {
    let begins = scene.start();
    let client = HcloudClient::new(scene.transport(), ENDPOINT, ApiToken::new(TOKEN).unwrap());
    while Instant::now() + RESYNC < begins {
        sleep(RESYNC).await;
        let looks = client.with_lane("routine");
        call_with_retries(&mut scene.rng, || async { looks.floating_ip(100).await.map(drop) }).await;
    }
    sleep_until(begins).await;
    let mut failures = 0;
    while !call_with_retries(&mut scene.rng, || async { client.assign(100, 2).await.map(drop) }).await {
        let backoff = Duration::from_millis(5) * 2_u32.pow(failures.min(20));
        sleep(backoff.min(Duration::from_secs(1000))).await;
        failures += 1;
    }
    (begins.elapsed(), scene.hetzner.requests())
}

/// One call of hcloud-go: up to five retries of retryable errors. Returns whether it succeeded.
async fn call_with_retries<F>(rng: &mut fastrand::Rng, call: impl Fn() -> F) -> bool
where
    F: Future<Output = Result<(), HcloudError>>,
{
    const RETRIES: u32 = 5;
    const RETRYABLE: [&str; 4] = ["conflict", "rate_limit_exceeded", "bad_gateway", "timeout"];
    for retry in 0..=RETRIES {
        match call().await {
            Ok(()) => return true,
            Err(error) if RETRYABLE.contains(&error.code.as_str()) && retry < RETRIES => {
                let most = f64::from(2_u32.pow(retry)) - 1.0;
                let wait = (1.0 + rng.f64() * most).min(60.0);
                sleep(Duration::from_secs_f64(wait)).await;
            }
            Err(_) => return false,
        }
    }
    false
}

fn web() -> FloatingIpRef {
    FloatingIpRef {
        name: Some("web".to_owned()),
        id: None,
    }
}

/// Reads that used one of the last tokens, whatever lane they name. Background calls name none, and
/// refused calls use none.
fn count_accepted(log: &[Entry]) -> usize {
    let ours = log.iter().filter(|it| it.lane.is_some());
    let looks = ours.filter(|it| it.method == "GET" && it.status == Some(200));
    let looks = looks.filter(|it| it.path.contains("/floating_ips"));
    looks.filter(|it| it.remaining < RESERVE).count()
}

fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(run)
}

/// Median, 99th percentile and worst.
fn percentiles(mut times: Vec<Duration>) -> [f64; 3] {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize].as_secs_f64();
    [at(0.5), at(0.99), at(1.0)]
}

/// One row: ours and theirs, in the same worlds.
fn compare_runs(seeds: u64, what: &str, others: Others) -> ([f64; 3], [f64; 3]) {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    let mut taken = 0;
    for seed in 0..seeds {
        let (took, log) = in_virtual_time(async move { run_own(Scene::new(seed, others)).await });
        let first = log.iter().position(|it| it.lane.is_some() && it.status == Some(200));
        let later = &log[first.map_or(0, |first| first + 1)..];
        assert_eq!(count_accepted(later), 0, "seed {seed} used the reserve");
        our_times.push(took);
        let (took, log) = in_virtual_time(async move { run_reference(Scene::new(seed, others)).await });
        taken += count_accepted(&log);
        their_times.push(took);
    }
    let (ours, theirs) = (percentiles(our_times), percentiles(their_times));
    let each = |count: usize| count as f64 / seeds as f64;
    println!(
        "{what:<36} | {} {:>6} | {} {:>6.1}",
        ours.map(|time| format!("{time:>6.1}")).join(" "),
        0,
        theirs.map(|time| format!("{time:>6.1}")).join(" "),
        each(taken),
    );
    (ours, theirs)
}

#[test]
fn an_assign_is_accepted_about_as_soon_as_it_can_be_at_an_empty_bucket() {
    print_table(50);
}

#[test]
#[ignore = "a thousand seeds: make proof"]
fn an_assign_is_accepted_about_as_soon_as_it_can_be_over_a_thousand_seeds() {
    print_table(1000);
}

fn print_table(seeds: u64) {
    println!("Seconds to an accepted Assign and looks per 10 min at the reserve, {seeds} seeds, refill 1/s");
    println!("{:<36} | {:^27} | {:^27}", "", "this operator", "hcloud-go's policy");
    let head = "median    p99  worst";
    println!("{:<36} | {head}  looks | {head}  looks", "others");
    let (ours, theirs) = compare_runs(seeds, "hold it within 5, caph, ccm and csi", Others::Hold);
    assert!(ours[0] <= 2.0, "median {ours:?}");
    assert!(ours[1] <= 20.0, "p99 {ours:?}");
    assert!(ours[1] <= theirs[1], "{ours:?} {theirs:?}");
    for rate in [0.9, 1.5, 3.0, 10.0] {
        let what = format!("call at random {rate} times a second");
        let (ours, theirs) = compare_runs(seeds, &what, Others::Rate(rate));
        assert!(ours[1] <= theirs[1].max(5.0), "{what}: {ours:?} {theirs:?}");
    }
}

/// The whole operator: a gateway is cordoned while others hold the bucket.
async fn cordoned(lab: Lab) -> (Duration, usize) {
    let _replica = lab.start_settled(2, &json!({})).await;
    let noise = BackgroundClients {
        bucket: Some("hcloud".to_owned()),
        ..BackgroundClients::hold_at("hold", 5)
    };
    lab.hetzner.noise(noise).unwrap();
    // One read finds out, and none follows for ten minutes.
    sleep(seconds(70)).await;
    let known = lab.hetzner.requests().len() as u64;
    sleep(seconds(600)).await;
    let taken = count_accepted(&lab.hetzner.requests_since(known));
    lab.nodes.cordon(0, true).await;
    let accepted = |it: &Entry| it.method == "POST" && it.lane.is_some() && it.status == Some(201);
    let accept = || lab.hetzner.requests_since(known).iter().any(accepted);
    let took = until(seconds(120), "an Assign is accepted", accept).await;
    let moved = || lab.hetzner.holder(floating_ip(0)) == Some(nodes::server(1));
    until(seconds(30), "it is moved", moved).await;
    (took, taken)
}

#[test]
fn the_whole_operator_moves_while_others_hold_the_bucket() {
    let mut times = Vec::new();
    for seed in 0..5 {
        let (took, taken) = on_box(seed, cordoned);
        assert_eq!(taken, 0, "seed {seed} used the reserve");
        times.push(took);
    }
    let [median, _, worst] = percentiles(times);
    println!(
        "Cordon to an accepted Assign, whole operator, others hold the bucket within 5: {median:.1} s (median of 5 seeds), {worst:.1} s (worst)"
    );
    assert!(worst <= 30.0, "{worst} s");
}
