//! Leader election on a `coordination.k8s.io/v1` Lease, in client-go's format, so that replicas
//! with client-go can take part.
//!
//! Decided on the local monotonic clock, and written on top of the version it was decided on. A released
//! lease is taken at once, because standbys watch it. Losing the lease closes the
//! [`Fence`]; it does not end the process.

mod candidate;
mod config;
mod election;
mod record;

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::config::{ADMIN_ANNOTATION, LeaseConfig};
use crate::clock::Clock;
use crate::error::Result;
use crate::fence::Fence;
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
        act(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
