//! The heartbeat: a Lease with the Connector's name, renewed in time and released on shutdown. It depends
//! only on a client and tokio's time, so that it also runs in virtual time.

use std::pin::pin;
use std::time::Duration;

use aplomb::tasks::TaskHandle;
use aplomb::{Clock, Tasks};
use aplomb_api::tunnel::Connector;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::FIELD_MANAGER;
use crate::agent::AgentSettings;
use crate::event::AgentEvent;

/// How long an attempt in flight at shutdown may continue.
const FINAL_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);
/// How many attempts to release the lease, and the delay between them.
const RELEASE_ATTEMPTS: u32 = 3;
const RELEASE_RETRY_DELAY: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RenewalResult {
    /// No attempt has finished yet.
    #[default]
    Unknown,
    Renewed,
    Failed(String),
}

#[derive(Clone, Debug)]
pub struct LeaseSettings {
    pub namespace: String,
    /// Name of both.
    pub connector: String,
    /// UID of the Connector, which owns the Lease.
    pub uid: String,
    /// The holder of the Lease: this agent session.
    pub session: String,
    pub lease: Duration,
    /// Clock for the renewal time. No decision depends on it.
    pub clock: Clock,
    /// Seed of the jitter.
    pub seed: u64,
    /// Reports each change of the result.
    pub renewal: watch::Sender<RenewalResult>,
}

/// Renews the lease of an agent.
#[derive(Debug)]
pub struct LeaseRenewer {
    leases: Api<Lease>,
    settings: LeaseSettings,
    schedule: RenewalSchedule,
    rng: fastrand::Rng,
}

impl LeaseRenewer {
    /// Renews until `shutdown`, then releases the lease. Returns whether the release succeeded.
    pub async fn run(client: Client, settings: LeaseSettings, shutdown: impl Future<Output = ()>) -> bool {
        let mut heart = Self {
            leases: Api::namespaced(client, &settings.namespace),
            schedule: RenewalSchedule::new(settings.lease),
            rng: fastrand::Rng::with_seed(settings.seed),
            settings,
        };
        let mut shutdown = pin!(shutdown);
        while heart.attempt_renewal(&mut shutdown).await {}
        heart.release().await
    }

    /// One attempt and the wait after it. `false` on shutdown.
    async fn attempt_renewal(&mut self, shutdown: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        let began = Instant::now();
        let outcome = {
            let mut attempt = pin!(self.renew());
            tokio::select! {
                biased;
                () = &mut *shutdown => {
                    // Otherwise the attempt in flight could arrive after the release and undo it.
                    drop(timeout(FINAL_ATTEMPT_TIMEOUT, &mut attempt).await);
                    return false;
                }
                outcome = &mut attempt => outcome,
            }
        };
        let wait = match outcome {
            Ok(()) => {
                self.report(RenewalResult::Renewed);
                self.schedule.renew_after(&mut self.rng)
            }
            Err(error) => {
                self.report(RenewalResult::Failed(error));
                self.schedule.retry_after(began.elapsed(), &mut self.rng)
            }
        };
        tokio::select! {
            biased;
            () = &mut *shutdown => false,
            () = sleep(wait) => true,
        }
    }

    fn report(&self, pulse: RenewalResult) {
        self.settings.renewal.send_if_modified(|last| {
            let news = std::mem::discriminant(last) != std::mem::discriminant(&pulse);
            *last = pulse;
            news
        });
    }

    async fn renew(&self) -> Result<(), String> {
        self.apply_lease(&self.settings.session).await
    }

    async fn release(&self) -> bool {
        for farewell in 0..RELEASE_ATTEMPTS {
            if farewell > 0 {
                sleep(RELEASE_RETRY_DELAY).await;
            }
            match self.apply_lease("").await {
                Ok(()) => return true,
                Err(error) => tracing::warn!(error, "Failed to release Lease"),
            }
        }
        false
    }

    /// Applies the whole Lease with force: it belongs to this agent by name and owner.
    async fn apply_lease(&self, holder: &str) -> Result<(), String> {
        let lease = self.lease_object(holder);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&lease);
        let call = self.leases.patch(&self.settings.connector, &params, &patch);
        match timeout(self.schedule.timeout(), call).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no response within {:?}", self.schedule.timeout())),
        }
    }

    fn lease_object(&self, holder: &str) -> Value {
        let settings = &self.settings;
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": settings.connector,
                "ownerReferences": [{
                    "apiVersion": "aplomb.dev/v1alpha1",
                    "kind": "Connector",
                    "name": settings.connector,
                    "uid": settings.uid,
                    "controller": true,
                }],
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": settings.lease.as_secs().max(1),
                "renewTime": MicroTime(settings.clock.now()),
            },
        })
    }
}

/// Maximum timeout and maximum delay between attempts, for any lease duration.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The times of a heartbeat, all of them fractions of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalSchedule {
    lease: Duration,
}

impl RenewalSchedule {
    /// The schedule for a lease duration.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self { lease }
    }

    /// Timeout of one attempt: at most a twelfth of the lease.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        (self.lease / 12).min(MAX_WAIT)
    }

    /// From the end of a success to the next attempt: a third of the lease, minus up to a tenth of that, so
    /// that agents that started together drift apart.
    #[must_use]
    pub fn renew_after(&self, rng: &mut fastrand::Rng) -> Duration {
        (self.lease / 3).mul_f64(1.0 - 0.1 * rng.f64())
    }

    /// From the end of a failure, which took `spent`, to the next attempt: a twelfth of the lease between
    /// starts, minus up to half of that.
    #[must_use]
    pub fn retry_after(&self, spent: Duration, rng: &mut fastrand::Rng) -> Duration {
        let apart = self.timeout().mul_f64(1.0 - 0.5 * rng.f64());
        apart.saturating_sub(spent)
    }

    /// The hysteresis bound: an outage of at most this length never lets two successes be further apart than the lease.
    ///
    /// A third of the lease passes before the first attempt. That attempt may have begun before the outage
    /// and fail because of it; the last failing attempt may run into its timeout; and the one that succeeds
    /// may need all of its own.
    #[must_use]
    pub fn max_tolerated_outage(&self) -> Duration {
        self.lease - self.lease / 3 - self.timeout() * 3
    }
}

/// The lease duration that a Connector requests.
pub(crate) fn lease_duration(connector: &Connector) -> Duration {
    let seconds = u64::try_from(connector.spec.lease_duration_seconds).unwrap_or_default();
    Duration::from_secs(seconds.max(1))
}

pub(crate) struct LeaseTask {
    client: Client,
    settings: LeaseSettings,
    renewal: watch::Receiver<RenewalResult>,
    stop: CancellationToken,
    task: TaskHandle<bool>,
    heartbeat_lost: bool,
}

impl LeaseTask {
    pub(crate) fn spawn(client: Client, settings: &AgentSettings, connector: &Connector, session: &str) -> Self {
        let (told, pulse) = watch::channel(RenewalResult::Unknown);
        let settings = LeaseSettings {
            namespace: settings.connector.namespace.clone(),
            connector: settings.connector.name.clone(),
            uid: connector.uid().unwrap_or_default(),
            session: session.to_owned(),
            lease: lease_duration(connector),
            clock: settings.clock.clone(),
            seed: jitter_seed(session),
            renewal: told,
        };
        let stop = CancellationToken::new();
        Self {
            task: spawn_renewer(&client, &settings, &stop),
            client,
            settings,
            renewal: pulse,
            stop,
            heartbeat_lost: false,
        }
    }

    pub(crate) fn set_lease_duration(&mut self, lease: Duration) {
        if lease != self.settings.lease {
            self.settings.lease = lease;
            // The old task is dropped with its handle, without releasing the lease.
            self.task = spawn_renewer(&self.client, &self.settings, &self.stop);
        }
    }

    pub(crate) async fn next_event(&mut self) -> AgentEvent {
        loop {
            if self.renewal.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let pulse = self.renewal.borrow_and_update().clone();
            match pulse {
                RenewalResult::Failed(message) => {
                    self.heartbeat_lost = true;
                    return AgentEvent::HeartbeatLost { message };
                }
                RenewalResult::Renewed if self.heartbeat_lost => {
                    self.heartbeat_lost = false;
                    return AgentEvent::HeartbeatRecovered;
                }
                RenewalResult::Renewed | RenewalResult::Unknown => {}
            }
        }
    }

    /// Releases the lease; returns whether that succeeded.
    pub(crate) async fn release(self) -> bool {
        self.stop.cancel();
        self.task.join().await.unwrap_or(false)
    }
}

fn spawn_renewer(client: &Client, settings: &LeaseSettings, stop: &CancellationToken) -> TaskHandle<bool> {
    let shutdown = stop.clone().cancelled_owned();
    Tasks::on_runtime().spawn(LeaseRenewer::run(client.clone(), settings.clone(), shutdown))
}

/// Spreads the renewals of agents that start together.
fn jitter_seed(session: &str) -> u64 {
    let digits = session.get(..16).unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How attempts behave over time.
    #[derive(Clone, Copy, Debug)]
    struct World {
        lease: Duration,
        burst: (Duration, Duration),
        /// As a fraction of the timeout: how long a failure and a success take.
        failing: f64,
        working: f64,
    }

    /// The times at which successes ended.
    fn successes(world: World, seed: u64, until: Duration) -> Vec<Duration> {
        let schedule = RenewalSchedule::new(world.lease);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut now, mut ends) = (Duration::ZERO, Vec::new());
        while now < until {
            let needs = schedule.timeout().mul_f64(world.working);
            let (from, to) = world.burst;
            let clear = now + needs < from || now >= to;
            let spent = match clear {
                true => needs,
                false => schedule.timeout().mul_f64(world.failing),
            };
            now += spent;
            now += match clear {
                true => {
                    ends.push(now);
                    schedule.renew_after(&mut rng)
                }
                false => schedule.retry_after(spent, &mut rng),
            };
            // Timer resolution.
            now += Duration::from_micros(1);
        }
        ends
    }

    proptest! {
        #[test]
        fn a_burst_within_the_bound_never_loses_the_lease(
            seconds in 5_u64..3_600,
            starts in 0.0..3.0_f64,
            part in 0.0..0.99_f64,
            failing in 0.0..=1.0_f64,
            working in 0.0..=1.0_f64,
            seed in any::<u64>(),
        ) {
            let lease = Duration::from_secs(seconds);
            let from = lease.mul_f64(starts);
            let to = from + RenewalSchedule::new(lease).max_tolerated_outage().mul_f64(part);
            let world = World { lease, burst: (from, to), failing, working };
            // The first success creates the lease.
            for pair in successes(world, seed, lease * 6).windows(2) {
                prop_assert!(pair[1] - pair[0] <= lease, "{pair:?}");
            }
        }
    }

    #[test]
    fn a_longer_burst_can_lose_it() {
        let lease = Duration::from_secs(30);
        let bound = RenewalSchedule::new(lease).max_tolerated_outage();
        let lost = |seed| {
            let from = Duration::from_secs(10);
            let world = World {
                lease,
                burst: (from, from + bound * 2),
                failing: 1.0,
                working: 1.0,
            };
            let ends = successes(world, seed, lease * 4);
            ends.windows(2).any(|pair| pair[1] - pair[0] > lease)
        };
        assert!((0..100).any(lost));
    }

    #[test]
    fn a_common_lease_has_common_times() {
        let schedule = RenewalSchedule::new(Duration::from_secs(30));
        assert_eq!(schedule.timeout(), Duration::from_millis(2_500));
        assert_eq!(schedule.max_tolerated_outage(), Duration::from_millis(12_500));
    }
}
