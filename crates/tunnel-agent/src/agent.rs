//! All of an agent together: registers, listens, beats, tells what happens, and goes on purpose.

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

/// The first and the longest wait while the API server is away at the start, and for how long it is
/// waited for.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
const REGISTER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long one call at the start may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What an agent is told.
#[derive(Debug)]
pub struct AgentSettings {
    /// Who it is.
    pub key: AgentKey,
    /// Its Connector.
    pub connector: DesiredConnector,
    /// Its HTTPProxy; without one it serves those that others make.
    pub proxy: Option<DesiredHttpProxy>,
    /// What may be dialled.
    pub expose: Vec<ExposedTarget>,
    /// Where it listens.
    pub network: NetworkConfig,
    /// Whom it trusts as an https origin.
    pub origin_tls: OriginTlsSettings,
    /// What it calls its version.
    pub version: String,
    /// What it calls the machine.
    pub device: Option<String>,
    /// Delete HTTPProxy and Connector at the end, instead of leaving them for the next start.
    pub delete_on_exit: bool,
    /// What is written as the time of heartbeats.
    pub clock: Clock,
}

/// Runs an agent until `shutdown`, and releases its lease whatever ended it.
///
/// # Errors
/// It could not start, somebody took its name, or its objects were deleted.
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

/// The objects as they were when the agent began.
struct Registered {
    connector: Connector,
    proxy: Option<HttpProxy>,
}

/// Registers both objects; while the API server is away, again.
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
                Err(_) => "the API server does not answer".to_owned(),
            };
            if said != trouble {
                report_unavailable(events, &trouble);
                said = trouble;
            }
            sleep(wait).await;
            wait = (wait * 2).min(RETRY_DELAYS.1);
        }
    };
    let gone = "the API server did not answer in a minute: check --kubeconfig and the network";
    let tried = timeout(REGISTER_TIMEOUT, tried).await;
    tried.unwrap_or_else(|_| Err(Error::InvalidSetting(gone.to_owned())))
}

fn report_unavailable(events: &mpsc::UnboundedSender<AgentEvent>, message: &str) {
    let event = AgentEvent::NotReady {
        reason: "APIServerUnavailable".to_owned(),
        message: message.to_owned(),
    };
    // Nobody may be listening any more.
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
