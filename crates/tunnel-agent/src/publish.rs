//! Publishes the addresses of the agent in the status of its Connector, only when they change.

use std::net::SocketAddr;
use std::time::Duration;

use aplomb_api::tunnel::{ConnectionDetails, Connector, EndpointAddress, PublicKey};
use iroh::{Endpoint, EndpointAddr, Watcher};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::FIELD_MANAGER;
use crate::error::{Error, Result};
use crate::event::AgentEvent;
use crate::informers::ObservedObject;

/// Network changes come in groups.
const COALESCE_DELAY: Duration = Duration::from_millis(100);
/// Initial and maximum delay between retries.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ADDRESSES: usize = 16;

/// The part that does not change during an agent session.
#[derive(Clone, Debug)]
pub struct AgentIdentity {
    pub session: String,
    /// The agent's version.
    pub version: String,
    pub device: Option<String>,
    /// Whether to publish no direct address.
    pub relay_only: bool,
}

impl AgentIdentity {
    /// The details to publish while the endpoint is at `address`; none until it is reachable.
    #[must_use]
    pub fn details(&self, address: &EndpointAddr) -> Option<ConnectionDetails> {
        let mut addresses: Vec<EndpointAddress> = address.ip_addrs().map(endpoint_address).collect();
        addresses.sort();
        addresses.dedup();
        addresses.truncate(MAX_ADDRESSES);
        if self.relay_only {
            addresses.clear();
        }
        let home_relay = address.relay_urls().next().map(ToString::to_string);
        if addresses.is_empty() && home_relay.is_none() {
            return None;
        }
        Some(ConnectionDetails {
            public_key: PublicKey {
                id: address.id.to_string(),
                home_relay,
                addresses,
            },
            session: self.session.clone(),
            agent_version: Some(self.version.clone()),
            device: self.device.clone(),
        })
    }
}

fn endpoint_address(address: &SocketAddr) -> EndpointAddress {
    EndpointAddress {
        address: address.ip().to_string(),
        port: address.port(),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AddressPublisher {
    pub(crate) connectors: Api<Connector>,
    pub(crate) name: String,
    pub(crate) identity: AgentIdentity,
    pub(crate) connector: watch::Receiver<ObservedObject<Connector>>,
    pub(crate) events: mpsc::UnboundedSender<AgentEvent>,
}

impl AddressPublisher {
    /// Publishes until a permanent failure: another agent took the name.
    pub(crate) async fn run(mut self, endpoint: Endpoint) -> Error {
        let mut address = endpoint.watch_addr();
        let (mut written, mut confirmed) = (None, false);
        loop {
            let details = self.identity.details(&address.get());
            if details.is_some() && details != written {
                if let Some(details) = &details {
                    self.write_until_accepted(details).await;
                }
                (written, confirmed) = (details, false);
            }
            tokio::select! {
                biased;
                // The watcher ends with the endpoint, and this task with the agent that owns both.
                updated = address.updated() => if updated.is_err() {
                    std::future::pending::<()>().await;
                } else {
                    sleep(COALESCE_DELAY).await;
                },
                // The sender lives as long as the agent.
                changed = self.connector.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
            }
            match self.published_state(written.as_ref(), confirmed) {
                PublishedState::Current => confirmed = true,
                PublishedState::Unknown => {}
                PublishedState::Missing => written = None,
                PublishedState::OtherAgent => return Error::Replaced(self.name),
            }
        }
    }

    /// The published details in the cache, once it has caught up with the last write. Before that it may have
    /// an earlier session.
    fn published_state(&mut self, written: Option<&ConnectionDetails>, confirmed: bool) -> PublishedState {
        let seen = self.connector.borrow_and_update();
        let Some(connector) = seen.present() else {
            return PublishedState::Unknown;
        };
        let shown = connector
            .status
            .as_ref()
            .and_then(|status| status.connection_details.as_ref());
        match shown {
            Some(shown) if Some(shown) == written => PublishedState::Current,
            Some(shown) if confirmed && shown.session != self.identity.session => PublishedState::OtherAgent,
            None if confirmed => PublishedState::Missing,
            _ => PublishedState::Unknown,
        }
    }

    async fn write_until_accepted(&self, details: &ConnectionDetails) {
        let mut wait = RETRY_DELAYS.0;
        loop {
            match timeout(WRITE_TIMEOUT, write_details(&self.connectors, &self.name, details)).await {
                Ok(Ok(())) => break,
                Ok(Err(error)) => tracing::warn!(%error, "Failed to publish addresses"),
                Err(_) => tracing::warn!("Failed to publish addresses: no response"),
            }
            sleep(wait).await;
            wait = (wait * 2).min(RETRY_DELAYS.1);
        }
        // The receiver may be dropped.
        drop(self.events.send(listening_event(details)));
    }
}

enum PublishedState {
    Current,
    Unknown,
    Missing,
    OtherAgent,
}

/// Applies the details: only the status fields of this manager.
///
/// # Errors
/// Errors of the API server.
pub(crate) async fn write_details(
    connectors: &Api<Connector>,
    name: &str,
    details: &ConnectionDetails,
) -> Result<(), kube::Error> {
    let patch = json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "Connector",
        "status": { "connectionDetails": details },
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    connectors.patch_status(name, &params, &Patch::Apply(&patch)).await?;
    Ok(())
}

fn listening_event(details: &ConnectionDetails) -> AgentEvent {
    let key = &details.public_key;
    let socket = |address: &EndpointAddress| {
        let ip = address.address.parse().ok()?;
        Some(SocketAddr::new(ip, address.port))
    };
    AgentEvent::Listening {
        id: key.id.clone(),
        addresses: key.addresses.iter().filter_map(socket).collect(),
        relay: key.home_relay.clone(),
    }
}

#[cfg(test)]
mod tests {
    use iroh::{SecretKey, TransportAddr};

    use super::*;

    fn identity(relay_only: bool) -> AgentIdentity {
        AgentIdentity {
            session: "a1".to_owned(),
            version: "0.1.0".to_owned(),
            device: None,
            relay_only,
        }
    }

    fn endpoint_at(addresses: &[&str], relay: Option<&str>) -> EndpointAddr {
        let ip = |text: &&str| TransportAddr::Ip(text.parse().expect("an address"));
        let relay = relay.map(|url| TransportAddr::Relay(url.parse().expect("a URL")));
        let id = SecretKey::from_bytes(&[7; 32]).public();
        EndpointAddr::from_parts(id, addresses.iter().map(ip).chain(relay))
    }

    #[test]
    fn the_order_of_addresses_is_ignored() {
        let one = endpoint_at(&["192.0.2.9:7", "192.0.2.10:7"], None);
        let other = endpoint_at(&["192.0.2.10:7", "192.0.2.9:7"], None);
        assert_eq!(identity(false).details(&one), identity(false).details(&other));
    }

    #[test]
    fn an_endpoint_that_cannot_be_reached_is_not_published() {
        assert_eq!(identity(false).details(&endpoint_at(&[], None)), None);
        assert_eq!(identity(true).details(&endpoint_at(&["192.0.2.9:7"], None)), None);
    }

    #[test]
    fn direct_addresses_can_be_withheld() {
        let address = endpoint_at(&["192.0.2.9:7"], Some("https://relay.example.com"));
        let details = identity(true).details(&address).expect("reachable");
        assert!(details.public_key.addresses.is_empty());
        assert!(details.public_key.home_relay.is_some());
    }
}
