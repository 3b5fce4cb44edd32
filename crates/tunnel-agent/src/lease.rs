//! The heartbeat: a Lease with the Connector's name, renewed in time and released on shutdown. It depends
//! only on a client and tokio's time, so that it also runs in virtual time.

mod schedule;

use std::pin::pin;
use std::time::Duration;

use aplomb::Clock;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

pub use self::schedule::RenewalSchedule;
use crate::FIELD_MANAGER;

/// How long an attempt in flight at shutdown may continue.
const FINAL_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);
/// How many attempts to release the lease, and the delay between them.
const RELEASE_ATTEMPTS: u32 = 3;
const RELEASE_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The result of the last heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RenewalResult {
    /// No attempt has finished yet.
    #[default]
    Unknown,
    /// It succeeded.
    Renewed,
    /// It failed.
    Failed(String),
}

/// Settings of the lease.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the Connector and the Lease.
    pub namespace: String,
    /// Name of both.
    pub connector: String,
    /// UID of the Connector, which owns the Lease.
    pub uid: String,
    /// The holder of the Lease: this agent session.
    pub session: String,
    /// The lease duration.
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
