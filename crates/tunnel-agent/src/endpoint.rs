//! The endpoint and its tasks, for one set of relays. Other relays require a new one.

use std::collections::BTreeSet;
use std::sync::Arc;

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use iroh::{Endpoint, RelayUrl, SecretKey};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::accept::{AllowedGateways, UNLISTED_GRACE};
use crate::error::{Error, Result};
use crate::publish::AddressPublisher;
use crate::serve::{self, NetworkConfig};
use crate::stream_handler::StreamHandler;

/// Configuration shared by all endpoints of an agent.
#[derive(Debug)]
pub(crate) struct EndpointConfig {
    pub(crate) secret: SecretKey,
    pub(crate) network: NetworkConfig,
    pub(crate) stream_handler: Arc<StreamHandler>,
    pub(crate) allowed_gateways: watch::Receiver<AllowedGateways>,
    pub(crate) publisher: AddressPublisher,
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
        let (tasks, listed) = (Tasks::on_runtime(), ground.allowed_gateways.clone());
        let serving = serve::serve(
            endpoint.clone(),
            ground.stream_handler.clone(),
            listed,
            UNLISTED_GRACE,
            released.clone(),
        );
        Ok(Self {
            relays: relay_urls(relays),
            endpoint: endpoint.clone(),
            released,
            serving: tasks.spawn(serving),
            publishing: tasks.spawn(ground.publisher.clone().run(endpoint)),
        })
    }

    /// Whether it was opened for these relays, in any notation.
    pub(crate) fn uses_relays(&self, relays: &[String]) -> bool {
        self.relays == relay_urls(relays)
    }

    pub(crate) async fn failure(&mut self) -> Error {
        tokio::select! {
            biased;
            error = self.publishing.wait() => {
                error.unwrap_or_else(|| Error::Bind("the address publisher stopped".to_owned()))
            }
            _ = self.serving.wait() => Error::Bind("the endpoint closed".to_owned()),
        }
    }

    /// Closes it for another endpoint of the same agent, without the release code.
    pub(crate) async fn close_for_replacement(self) {
        drop(self.publishing);
        serve::close_for_replacement(&self.endpoint).await;
        self.serving.join().await;
    }

    pub(crate) async fn close(self) {
        drop(self.publishing);
        self.released.cancel();
        self.serving.join().await;
    }
}

/// Parses relays to URLs, because one URL has several notations. Invalid ones stay as they are.
fn relay_urls(relays: &[String]) -> BTreeSet<Result<RelayUrl, String>> {
    let url = |relay: &String| relay.parse::<RelayUrl>().map_err(|_| relay.clone());
    relays.iter().map(url).collect()
}
