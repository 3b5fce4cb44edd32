//! A registered agent while it runs: watches its two objects, applies what they require, reports events, and
//! releases its lease at the end.

use std::sync::Arc;

use aplomb_api::tunnel::{Connector, ConnectorStatus, HttpProxy, conditions};
use aplomb_api::wire::ConnectorId;
use kube::{Api, Client, ResourceExt};
use tokio::sync::{mpsc, watch};

use super::{AgentSettings, Registered};
use crate::accept::{self, AllowedGateways};
use crate::answer::StreamHandler;
use crate::beat::{LeaseTask, lease};
use crate::error::{Error, Result};
use crate::event::AgentEvent;
use crate::origin::OriginPool;
use crate::progress::ReportedState;
use crate::publish::AgentIdentity;
use crate::register;
use crate::serve;
use crate::station::{AgentEndpoint, EndpointConfig};
use crate::target::ExposedTargets;
use crate::watched::{AgentInformers, ObservedObject};

/// A registered agent.
pub(super) struct RunningAgent {
    client: Client,
    settings: AgentSettings,
    events: mpsc::UnboundedSender<AgentEvent>,
    registered: Registered,
    watches: AgentInformers,
    connector: watch::Receiver<ObservedObject<Connector>>,
    proxy: Option<watch::Receiver<ObservedObject<HttpProxy>>>,
    listed: watch::Sender<AllowedGateways>,
    ground: EndpointConfig,
    station: Option<AgentEndpoint>,
    beat: LeaseTask,
    progress: ReportedState,
    /// The last reported event about the Connector.
    standing: Option<AgentEvent>,
}

impl RunningAgent {
    pub(super) fn new(
        client: Client,
        settings: AgentSettings,
        events: mpsc::UnboundedSender<AgentEvent>,
        registered: Registered,
    ) -> Result<Self> {
        let session = session();
        let namespace = &settings.connector.namespace;
        let mut watches = AgentInformers::new(client.clone());
        let connector = watches.object(namespace, &registered.connector);
        let proxy = registered.proxy.as_ref();
        let proxy = proxy.map(|proxy| watches.object(namespace, proxy));
        let listed = watch::Sender::new(AllowedGateways::default());
        let ground = EndpointConfig {
            secret: settings.key.secret().clone(),
            network: settings.network.clone(),
            answers: Arc::new(answers(&settings, &registered, &session, events.clone())?),
            listed: listed.subscribe(),
            connectors: Api::namespaced(client.clone(), namespace),
            name: settings.connector.name.clone(),
            identity: identity(&settings, &session),
            connector: connector.clone(),
            events: events.clone(),
        };
        let beat = LeaseTask::start(client.clone(), &settings, &registered.connector, &session);
        watches.start();
        let agent = Self {
            client,
            settings,
            events,
            registered,
            watches,
            connector,
            proxy,
            listed,
            ground,
            station: None,
            beat,
            progress: ReportedState::default(),
            standing: None,
        };
        agent.tell(agent.registered_event(session));
        Ok(agent)
    }

    fn registered_event(&self, session: String) -> AgentEvent {
        AgentEvent::Registered {
            namespace: self.settings.connector.namespace.clone(),
            connector: self.settings.connector.name.clone(),
            tunnel: self.settings.proxy.as_ref().map(|proxy| proxy.name.clone()),
            session,
        }
    }

    fn tell(&self, event: AgentEvent) {
        // The receiver may be dropped.
        drop(self.events.send(event));
    }

    /// Handles changes until something ends the agent.
    pub(super) async fn watch(&mut self) -> Error {
        let mut synced = false;
        loop {
            let step = tokio::select! {
                biased;
                // Neither sender is dropped while the watches exist.
                _ = self.connector.changed() => self.connector_changed().await,
                _ = changed(&mut self.proxy) => self.proxy_changed(),
                pulse = self.beat.changed() => {
                    self.tell(pulse);
                    Ok(())
                }
                error = failed(&mut self.station) => Err(error),
                () = self.watches.synced(), if !synced => {
                    synced = true;
                    self.missing()
                }
            };
            if let Err(error) = step {
                return error;
            }
        }
    }

    /// An object that was deleted before the watch began never appears in it.
    fn missing(&mut self) -> Result<()> {
        if matches!(*self.connector.borrow(), ObservedObject::Nothing) {
            return Err(self.deleted("connector", &self.settings.connector.name));
        }
        let unseen =
            |proxy: &watch::Receiver<_>| matches!(*proxy.borrow(), ObservedObject::Nothing);
        match (&self.settings.proxy, &self.proxy) {
            (Some(wish), Some(proxy)) if unseen(proxy) => {
                Err(self.deleted("httpproxy", &wish.name))
            }
            _ => Ok(()),
        }
    }

    fn deleted(&self, kind: &str, name: &str) -> Error {
        let object = format!("{kind}/{name}");
        self.tell(AgentEvent::Deleted {
            object: object.clone(),
        });
        Error::Deleted(object)
    }

    async fn connector_changed(&mut self) -> Result<()> {
        let seen = self.connector.borrow_and_update().clone();
        let connector = match seen {
            ObservedObject::Nothing => return Ok(()),
            ObservedObject::Gone => {
                return Err(self.deleted("connector", &self.settings.connector.name));
            }
            ObservedObject::Present(connector) => connector,
        };
        self.beat.follow(lease(&connector));
        let Some(status) = &connector.status else {
            return Ok(());
        };
        let mut refused = None;
        if let (Some(gateways), Some(relays)) = (&status.gateways, &status.relays) {
            let listed = accept::listed(gateways);
            self.listed.send_if_modified(|last| {
                let news = *last != listed;
                *last = listed;
                news
            });
            refused = self.move_to(relays).await?;
        }
        if let Some(standing) = refused.or_else(|| standing(status)) {
            if self.standing.as_ref() != Some(&standing) {
                self.tell(standing.clone());
            }
            self.standing = Some(standing);
        }
        Ok(())
    }

    /// Opens an endpoint with these relays, in place of one with others. If the relays are invalid, the
    /// current endpoint stays and the returned event reports it, because the owner of the class can correct
    /// them.
    async fn move_to(&mut self, relays: &[String]) -> Result<Option<AgentEvent>> {
        if self.station.as_ref().is_some_and(|open| open.uses(relays)) {
            return Ok(None);
        }
        if let Err(error) = serve::relay_mode(relays) {
            return Ok(Some(AgentEvent::NotReady {
                reason: "InvalidRelay".to_owned(),
                message: error.to_string(),
            }));
        }
        // Closed first, since both may bind the same port.
        if let Some(old) = self.station.take() {
            old.vacate().await;
        }
        self.station = Some(AgentEndpoint::open(&self.ground, relays).await?);
        Ok(None)
    }

    fn proxy_changed(&mut self) -> Result<()> {
        let (Some(wish), Some(proxy)) = (&self.settings.proxy, &mut self.proxy) else {
            return Ok(());
        };
        let seen = proxy.borrow_and_update().clone();
        match seen {
            ObservedObject::Nothing => {}
            ObservedObject::Gone => return Err(self.deleted("httpproxy", &wish.name)),
            ObservedObject::Present(proxy) => {
                for event in self.progress.news(&proxy) {
                    self.tell(event);
                }
            }
        }
        Ok(())
    }

    /// Releases the lease and, if configured, deletes the objects.
    pub(super) async fn end(self, why: Option<&Error>) {
        let connector = self.settings.connector.name.clone();
        let theirs = match why {
            Some(Error::Replaced(_)) => true,
            Some(Error::Deleted(object)) => *object == format!("connector/{connector}"),
            _ => false,
        };
        if !theirs && self.beat.release().await {
            // The receiver may be dropped.
            drop(self.events.send(AgentEvent::Released));
        }
        if let Some(station) = self.station {
            station.close().await;
        }
        if self.settings.delete_on_exit && !matches!(why, Some(Error::Replaced(_))) {
            delete(&self.client, &self.settings, &self.registered).await;
        }
    }
}

fn answers(
    settings: &AgentSettings,
    registered: &Registered,
    session: &str,
    events: mpsc::UnboundedSender<AgentEvent>,
) -> Result<StreamHandler> {
    let exposed = ExposedTargets::new(settings.expose.clone());
    let origins = OriginPool::new(exposed, &settings.origin)?;
    let secret = settings.key.secret().clone();
    let connector = ConnectorId {
        namespace: settings.connector.namespace.clone(),
        uid: registered.connector.uid().unwrap_or_default(),
    };
    let session = session.to_owned();
    Ok(StreamHandler::new(
        origins, secret, connector, session, events,
    ))
}

fn identity(settings: &AgentSettings, session: &str) -> AgentIdentity {
    AgentIdentity {
        session: session.to_owned(),
        version: settings.version.clone(),
        device: settings.device.clone(),
        relay_only: settings.network.relay_only,
    }
}

async fn changed<T>(seen: &mut Option<watch::Receiver<T>>) {
    match seen {
        // The watch keeps the sender for as long as the agent runs.
        Some(seen) => drop(seen.changed().await),
        None => std::future::pending().await,
    }
}

async fn failed(station: &mut Option<AgentEndpoint>) -> Error {
    match station {
        Some(station) => station.failed().await,
        None => std::future::pending().await,
    }
}

async fn delete(client: &Client, settings: &AgentSettings, registered: &Registered) {
    let namespace = &settings.connector.namespace;
    let failed = |error: kube::Error| tracing::warn!(%error, "Failed to delete object");
    if let Some(proxy) = &registered.proxy {
        let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), namespace);
        let deleted = register::delete(&proxies, &proxy.name_any(), proxy.uid().as_deref()).await;
        deleted.unwrap_or_else(failed);
    }
    let connector = &registered.connector;
    let connectors: Api<Connector> = Api::namespaced(client.clone(), namespace);
    let uid = connector.uid();
    let deleted = register::delete(&connectors, &connector.name_any(), uid.as_deref()).await;
    deleted.unwrap_or_else(failed);
}

/// The event for a Connector's status.
fn standing(status: &ConnectorStatus) -> Option<AgentEvent> {
    if let (Some(gateways), Some(relays)) = (&status.gateways, &status.relays) {
        return Some(AgentEvent::Accepted {
            gateways: gateways.len(),
            relays: relays.len(),
        });
    }
    let mut conditions = status.conditions.iter();
    let refused = conditions.find(|c| c.type_ == conditions::ACCEPTED && c.status == "False")?;
    Some(AgentEvent::NotReady {
        reason: refused.reason.clone(),
        message: refused.message.clone(),
    })
}

/// The id of this agent session: random, so that it cannot be guessed or repeated.
fn session() -> String {
    let mut bytes = [0; 16];
    rustls::crypto::aws_lc_rs::default_provider()
        .secure_random
        .fill(&mut bytes)
        .expect("the operating system has random bytes");
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
