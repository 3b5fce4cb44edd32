//! The heartbeat: a Lease named like the Connector, renewed in good time and given up on purpose at
//! the end. It needs a client and tokio's time, nothing else, so that it runs in virtual time too.

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

/// How long a try that was under way when the end came may go on.
const FINAL_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);
/// How often, and how far apart, the end is told.
const RELEASE_ATTEMPTS: u32 = 3;
const RELEASE_RETRY_DELAY: Duration = Duration::from_millis(200);

/// How the last heartbeat went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RenewalResult {
    /// There was none yet.
    #[default]
    Unknown,
    /// It went through.
    Renewed,
    /// It did not.
    Failed(String),
}

/// Whose heart it is.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// The namespace of the Connector and the Lease.
    pub namespace: String,
    /// The name of both.
    pub connector: String,
    /// The UID of the Connector, which owns the Lease.
    pub uid: String,
    /// Who holds the Lease: this life of the agent.
    pub session: String,
    /// How long the Lease holds.
    pub lease: Duration,
    /// What is written as the time of renewal. Nobody decides by it.
    pub clock: Clock,
    /// Of the jitter.
    pub seed: u64,
    /// Where each change of the pulse is told.
    pub renewal: watch::Sender<RenewalResult>,
}

/// The heart of an agent.
#[derive(Debug)]
pub struct LeaseRenewer {
    leases: Api<Lease>,
    settings: LeaseSettings,
    schedule: RenewalSchedule,
    rng: fastrand::Rng,
}

impl LeaseRenewer {
    /// Beats until `shutdown`, then gives the lease up. Whether that was heard is returned.
    pub async fn run(
        client: Client,
        settings: LeaseSettings,
        shutdown: impl Future<Output = ()>,
    ) -> bool {
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

    /// One try and the wait after it. `false` when it is time to go.
    async fn attempt_renewal(&mut self, shutdown: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        let began = Instant::now();
        let outcome = {
            let mut attempt = pin!(self.renew());
            tokio::select! {
                biased;
                () = &mut *shutdown => {
                    // What is under way could otherwise arrive after the release and undo it.
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
                Err(error) => tracing::warn!(error, "Lease cannot be released"),
            }
        }
        false
    }

    /// Writes the whole Lease, whoever wrote it before: it is this agent's by name and by owner.
    async fn apply_lease(&self, holder: &str) -> Result<(), String> {
        let lease = self.lease_object(holder);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&lease);
        let call = self.leases.patch(&self.settings.connector, &params, &patch);
        match timeout(self.schedule.timeout(), call).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer in {:?}", self.schedule.timeout())),
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
