//! The whole agent: registers, listens, renews its lease, reports events, and shuts down gracefully.

mod running;

use std::time::Duration;

use aplomb::Clock;
use aplomb_api::tunnel::{Connector, HttpProxy};
use kube::Client;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use self::running::RunningAgent;
use crate::error::{Error, Result};
use crate::event::AgentEvent;
use crate::key::AgentKey;
use crate::register::{self, DesiredConnector, DesiredHttpProxy};
use crate::serve::NetworkConfig;
use crate::target::ExposedTarget;
use crate::tls::OriginTlsSettings;

/// Initial and maximum delay between retries while the API server is unavailable at startup.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
const REGISTER_TIMEOUT: Duration = Duration::from_secs(60);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct AgentSettings {
    pub key: AgentKey,
    pub connector: DesiredConnector,
    /// Its HTTPProxy; without one it serves existing ones.
    pub proxy: Option<DesiredHttpProxy>,
    pub expose: Vec<ExposedTarget>,
    pub network: NetworkConfig,
    /// TLS settings for https origins.
    pub origin_tls: OriginTlsSettings,
    pub version: String,
    pub device: Option<String>,
    /// Delete the HTTPProxy and the Connector on exit instead of keeping them for the next start.
    pub delete_on_exit: bool,
    /// Clock for the time of heartbeats.
    pub clock: Clock,
}

/// Runs an agent until `shutdown`, and releases its lease however it ended.
///
/// # Errors
/// It could not start, another agent took its name, or its objects were deleted.
pub async fn run(
    client: Client,
    settings: AgentSettings,
    events: mpsc::UnboundedSender<AgentEvent>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let mut shutdown = std::pin::pin!(shutdown);
    let registered = tokio::select! {
        biased;
        () = &mut shutdown => return Ok(()),
        registered = register(&client, &settings, &events) => registered?,
    };
    let mut agent = RunningAgent::new(client, settings, events, registered)?;
    let ended = tokio::select! {
        biased;
        () = &mut shutdown => Ok(()),
        error = agent.run() => Err(error),
    };
    agent.shut_down(ended.as_ref().err()).await;
    ended
}

struct Registered {
    connector: Connector,
    proxy: Option<HttpProxy>,
}

/// Registers both objects, and retries while the API server is unavailable.
async fn register(
    client: &Client,
    settings: &AgentSettings,
    events: &mpsc::UnboundedSender<AgentEvent>,
) -> Result<Registered> {
    let (mut wait, mut said) = (RETRY_DELAYS.0, String::new());
    let tried = async {
        loop {
            let trouble = match timeout(CALL_TIMEOUT, register_once(client, settings)).await {
                Ok(Err(error)) if error.is_transient() => error.to_string(),
                Ok(outcome) => return outcome,
                Err(_) => "the API server does not respond".to_owned(),
            };
            if said != trouble {
                report_unavailable(events, &trouble);
                said = trouble;
            }
            sleep(wait).await;
            wait = (wait * 2).min(RETRY_DELAYS.1);
        }
    };
    let gone = "the API server did not respond for a minute: check --kubeconfig and the network";
    let tried = timeout(REGISTER_TIMEOUT, tried).await;
    tried.unwrap_or_else(|_| Err(Error::InvalidSetting(gone.to_owned())))
}

fn report_unavailable(events: &mpsc::UnboundedSender<AgentEvent>, message: &str) {
    let event = AgentEvent::NotReady {
        reason: "APIServerUnavailable".to_owned(),
        message: message.to_owned(),
    };
    // The receiver may be dropped.
    drop(events.send(event));
}

async fn register_once(client: &Client, settings: &AgentSettings) -> Result<Registered> {
    let wish = &settings.connector;
    let connector = register::register_connector(client, wish, &settings.key.id()).await?;
    let proxy = match &settings.proxy {
        Some(proxy) => Some(register::register_proxy(client, wish, proxy).await?),
        None => None,
    };
    Ok(Registered { connector, proxy })
}
