//! Runs the lease renewal of an agent: started with the Connector's lease duration, and restarted when that
//! changes.

use std::time::Duration;

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_api::tunnel::Connector;
use kube::{Client, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentSettings;
use crate::event::AgentEvent;
use crate::lease::{LeaseRenewer, LeaseSettings, RenewalResult};

/// The lease duration that a Connector requests.
pub(crate) fn lease_duration(connector: &Connector) -> Duration {
    let seconds = u64::try_from(connector.spec.lease_duration_seconds).unwrap_or_default();
    Duration::from_secs(seconds.max(1))
}

/// A running lease renewal.
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

    /// Switches to another lease duration.
    pub(crate) fn set_lease_duration(&mut self, lease: Duration) {
        if lease != self.settings.lease {
            self.settings.lease = lease;
            // The old task is dropped with its handle, without releasing the lease.
            self.task = spawn_renewer(&self.client, &self.settings, &self.stop);
        }
    }

    /// Waits for an event to report.
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
