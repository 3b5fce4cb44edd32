//! Leader election on a `coordination.k8s.io/v1` Lease, in client-go's format, so that replicas
//! with client-go can take part.
//!
//! Decided on the local monotonic clock, and written on top of the version it was decided on. A released
//! lease is taken at once, because standbys watch it. Losing the lease closes the
//! [`Fence`]; it does not end the process.

mod candidate;
mod election;
pub mod fence;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::fence::Fence;
use crate::clock::Clock;
use crate::error::{Error, ErrorClass, Result};
use crate::telemetry::Telemetry;

/// A replica's participation in an election. Clones share it.
#[derive(Clone, Debug)]
pub struct LeaderElector(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    api: Api<Object>,
    config: LeaseConfig,
    fence: Fence,
    telemetry: Telemetry,
    clock: Clock,
    leading: watch::Sender<bool>,
    status: Mutex<LeaseStatus>,
    stop: CancellationToken,
    stage: watch::Sender<Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Running,
    Stopped,
}

/// The known state of a lease, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseStatus {
    /// Namespace and name.
    pub lease: String,
    /// The identity of this replica.
    pub identity: String,
    /// Whether it leads.
    pub leading: bool,
    /// The holder of the lease, as far as known.
    pub holder: Option<String>,
    /// How often it has changed hands.
    pub transitions: i32,
}

impl LeaderElector {
    /// Prepares to contend. The fence is closed until the lease is held.
    pub fn new(client: Client, config: LeaseConfig, fence: Fence, telemetry: Telemetry, clock: Clock) -> Result<Self> {
        config.validate()?;
        fence.revoke();
        let status = LeaseStatus {
            lease: format!("{}/{}", config.namespace, config.name),
            identity: config.identity.clone(),
            leading: false,
            holder: None,
            transitions: 0,
        };
        Ok(Self(Arc::new(Shared {
            api: Api::namespaced(client, &config.namespace),
            config,
            fence,
            telemetry,
            clock,
            leading: watch::Sender::new(false),
            status: Mutex::new(status),
            stop: CancellationToken::new(),
            stage: watch::Sender::new(Stage::New),
        })))
    }

    /// Whether this replica leads. The fence is opened before this becomes true, and closed before it
    /// becomes false.
    #[must_use]
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.0.leading.subscribe()
    }

    /// The known state of the lease.
    #[must_use]
    pub fn status(&self) -> LeaseStatus {
        self.0.with_status(|status| status.clone())
    }

    /// The number of this leader, or of the next one, in the order of hand-overs; the first is 1.
    #[must_use]
    pub fn term(&self) -> u64 {
        let transitions = self.0.with_status(|status| status.transitions);
        u64::try_from(transitions).unwrap_or_default() + 1
    }

    /// Contends, and renews while it leads, until `shutdown` or [`LeaderElector::release`]; then releases the
    /// lease. If it is dropped before that, it closes the fence and leaves the lease to expire.
    ///
    /// It keeps renewing while the rest of the process drains: cancel `shutdown` after that.
    pub fn run(&self, shutdown: CancellationToken) -> impl Future<Output = ()> + Send + 'static {
        candidate::run(self.0.clone(), shutdown)
    }

    /// Ends [`LeaderElector::run`] and returns when the lease has been released.
    pub async fn release(&self) {
        self.0.stop.cancel();
        let mut stage = self.0.stage.subscribe();
        // We own the sender, so the wait cannot fail.
        drop(stage.wait_for(|stage| *stage != Stage::Running).await);
    }
}

impl Shared {
    fn with_status<T>(&self, act: impl FnOnce(&mut LeaseStatus) -> T) -> T {
        act(&mut self.status.lock())
    }
}

/// The annotation of a Lease with the admin address of its holder.
pub const ADMIN_ANNOTATION: &str = "aplomb.dev/admin";

/// How a replica contends for a lease. The times are those of client-go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The identity of this replica. No two processes may share it, not even one after the other: a process
    /// that starts with the name of a paused one would take its renewals for its own.
    pub identity: String,
    /// How long others wait after the last renewal they saw.
    pub lease_duration: Duration,
    /// How long this replica acts after the last renewal it sent. The difference to `duration`
    /// is the clock drift that is tolerated in that time.
    pub renew_deadline: Duration,
    /// How often the holder renews, and how long a replica waits after a failed call.
    pub retry_period: Duration,
    /// Annotations that the holder writes to the Lease.
    pub annotations: BTreeMap<String, String>,
}

impl LeaseConfig {
    /// The lease `namespace`/`name`, held as `identity`: 15 s, renewed every 2 s, lost after 10 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            annotations: BTreeMap::new(),
        }
    }

    /// The same with the admin address of the holder, under [`ADMIN_ANNOTATION`].
    #[must_use]
    pub fn with_admin_address(mut self, admin: Option<&str>) -> Self {
        let shown = admin.map(|admin| (ADMIN_ANNOTATION.to_owned(), admin.to_owned()));
        self.annotations.extend(shown);
        self
    }

    /// How long one call may take: half of the time for a renewal, so that there is a second attempt.
    pub(super) fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// Rejects times with which two replicas could act at once, or a leader could not renew.
    pub(super) fn validate(&self) -> Result<()> {
        let wrong = if self.identity.is_empty() {
            "the identity is empty"
        } else if self.lease_duration.as_secs() == 0 || self.lease_duration.subsec_nanos() != 0 {
            "the duration must be whole seconds, at least one"
        } else if self.lease_duration <= self.renew_deadline {
            "the duration must be longer than the renewal deadline"
        } else if self.renew_deadline <= self.retry_period.mul_f64(1.2) || self.retry_period.is_zero() {
            "the renewal deadline must be longer than 1.2 times the retry period"
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorClass::Invalid,
            format!("lease {}/{}: {wrong}", self.namespace, self.name),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound() {
        assert!(LeaseConfig::new("default", "demo", "a").validate().is_ok());
    }

    #[test]
    fn times_that_would_let_two_replicas_act_are_refused() {
        let mut config = LeaseConfig::new("default", "demo", "a");
        config.renew_deadline = config.lease_duration;
        let refused = config.validate().expect_err("no margin");
        assert_eq!(refused.class(), ErrorClass::Invalid);
        assert!(refused.to_string().contains("longer than the renewal"));
    }

    #[test]
    fn fractions_of_a_second_cannot_be_written_to_a_lease() {
        let mut config = LeaseConfig::new("default", "demo", "a");
        config.lease_duration = Duration::from_millis(15_500);
        assert!(config.validate().is_err());
    }
}
