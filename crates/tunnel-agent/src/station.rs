//! The endpoint and its tasks, for one set of relays. Other relays require a new one.

use std::collections::BTreeSet;
use std::sync::Arc;

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_api::tunnel::Connector;
use iroh::{Endpoint, RelayUrl, SecretKey};
use kube::Api;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::accept::{AllowedGateways, PARTING};
use crate::answer::StreamHandler;
use crate::error::{Error, Result};
use crate::event::AgentEvent;
use crate::publish::{AddressPublisher, AgentIdentity};
use crate::serve::{self, NetworkConfig};
use crate::watched::ObservedObject;

/// Configuration shared by all endpoints of an agent.
#[derive(Debug)]
pub(crate) struct EndpointConfig {
    pub(crate) secret: SecretKey,
    pub(crate) network: NetworkConfig,
    pub(crate) answers: Arc<StreamHandler>,
    pub(crate) listed: watch::Receiver<AllowedGateways>,
    pub(crate) connectors: Api<Connector>,
    pub(crate) name: String,
    pub(crate) identity: AgentIdentity,
    pub(crate) connector: watch::Receiver<ObservedObject<Connector>>,
    pub(crate) events: mpsc::UnboundedSender<AgentEvent>,
}

/// A bound endpoint that accepts gateways and is published.
#[derive(Debug)]
pub(crate) struct AgentEndpoint {
    relays: BTreeSet<Result<RelayUrl, String>>,
    endpoint: Endpoint,
    released: CancellationToken,
    serving: TaskHandle<()>,
    publishing: TaskHandle<Error>,
}

impl AgentEndpoint {
    pub(crate) async fn open(ground: &EndpointConfig, relays: &[String]) -> Result<Self> {
        let endpoint = serve::bind(ground.secret.clone(), &ground.network, relays).await?;
        let released = CancellationToken::new();
        let (tasks, listed) = (Tasks::on_runtime(), ground.listed.clone());
        let serving = serve::serve(
            endpoint.clone(),
            ground.answers.clone(),
            listed,
            PARTING,
            released.clone(),
        );
        let publisher = AddressPublisher {
            connectors: ground.connectors.clone(),
            name: ground.name.clone(),
            identity: ground.identity.clone(),
            connector: ground.connector.clone(),
            events: ground.events.clone(),
        };
        Ok(Self {
            relays: urls(relays),
            endpoint: endpoint.clone(),
            released,
            serving: tasks.start(serving),
            publishing: tasks.start(publisher.run(endpoint)),
        })
    }

    /// Whether it was opened for these relays, in any notation.
    pub(crate) fn uses(&self, relays: &[String]) -> bool {
        self.relays == urls(relays)
    }

    /// Waits until it fails.
    pub(crate) async fn failed(&mut self) -> Error {
        tokio::select! {
            biased;
            error = self.publishing.done() => {
                error.unwrap_or_else(|| Error::Bind("the address publisher stopped".to_owned()))
            }
            _ = self.serving.done() => Error::Bind("the endpoint closed".to_owned()),
        }
    }

    /// Closes it for another endpoint of the same agent, without the release code.
    pub(crate) async fn vacate(self) {
        drop(self.publishing);
        serve::vacate(&self.endpoint).await;
        self.serving.join().await;
    }

    /// Closes every connection with the release code.
    pub(crate) async fn close(self) {
        drop(self.publishing);
        self.released.cancel();
        self.serving.join().await;
    }
}

/// Parses relays to URLs, because one URL has several notations. Invalid ones stay as they are.
fn urls(relays: &[String]) -> BTreeSet<Result<RelayUrl, String>> {
    let url = |relay: &String| relay.parse::<RelayUrl>().map_err(|_| relay.clone());
    relays.iter().map(url).collect()
}
