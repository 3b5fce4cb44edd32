//! A registered agent while it runs: watches its two objects, applies what they require, reports events, and
//! releases its lease at the end.

use std::sync::Arc;

use aplomb_api::tunnel::{Connector, ConnectorStatus, HttpProxy, conditions};
use aplomb_tunnel_protocol::ConnectorId;
use kube::{Api, Client, ResourceExt};
use tokio::sync::{mpsc, watch};

use super::{AgentSettings, Registered};
use crate::accept::{self, AllowedGateways};
use crate::endpoint::{AgentEndpoint, EndpointConfig};
use crate::error::{Error, Result};
use crate::event::{AgentEvent, ReportedState};
use crate::informers::{AgentInformers, ObservedObject};
use crate::lease::{LeaseTask, lease_duration};
use crate::origin::OriginPool;
use crate::publish::{AddressPublisher, AgentIdentity};
use crate::stream_handler::StreamHandler;
use crate::target::ExposedTargets;
use crate::{register, serve};

pub(super) struct RunningAgent {
    client: Client,
    settings: AgentSettings,
    events: mpsc::UnboundedSender<AgentEvent>,
    registered: Registered,
    informers: AgentInformers,
    connector: watch::Receiver<ObservedObject<Connector>>,
    proxy: Option<watch::Receiver<ObservedObject<HttpProxy>>>,
    allowed_gateways: watch::Sender<AllowedGateways>,
    endpoint_config: EndpointConfig,
    endpoint: Option<AgentEndpoint>,
    lease_task: LeaseTask,
    reported: ReportedState,
    last_connector_event: Option<AgentEvent>,
}

impl RunningAgent {
    pub(super) fn new(
        client: Client,
        settings: AgentSettings,
        events: mpsc::UnboundedSender<AgentEvent>,
        registered: Registered,
    ) -> Result<Self> {
        let session = new_session();
        let namespace = &settings.connector.namespace;
        let mut watches = AgentInformers::new(client.clone());
        let connector = watches.watch_object(namespace, &registered.connector);
        let proxy = registered.proxy.as_ref();
        let proxy = proxy.map(|proxy| watches.watch_object(namespace, proxy));
        let listed = watch::Sender::new(AllowedGateways::default());
        let ground = EndpointConfig {
            secret: settings.key.secret().clone(),
            network: settings.network.clone(),
            stream_handler: Arc::new(stream_handler(&settings, &registered, &session, events.clone())?),
            allowed_gateways: listed.subscribe(),
            publisher: AddressPublisher {
                connectors: Api::namespaced(client.clone(), namespace),
                name: settings.connector.name.clone(),
                identity: identity(&settings, &session),
                connector: connector.clone(),
                events: events.clone(),
            },
        };
        let beat = LeaseTask::spawn(client.clone(), &settings, &registered.connector, &session);
        watches.start();
        let agent = Self {
            client,
            settings,
            events,
            registered,
            informers: watches,
            connector,
            proxy,
            allowed_gateways: listed,
            endpoint_config: ground,
            endpoint: None,
            lease_task: beat,
            reported: ReportedState::default(),
            last_connector_event: None,
        };
        agent.send_event(agent.registered_event(session));
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

    fn send_event(&self, event: AgentEvent) {
        // The receiver may be dropped.
        drop(self.events.send(event));
    }

    /// Handles changes until something ends the agent.
    pub(super) async fn run(&mut self) -> Error {
        let mut synced = false;
        loop {
            let step = tokio::select! {
                biased;
                // Neither sender is dropped while the watches exist.
                _ = self.connector.changed() => self.on_connector_changed().await,
                _ = wait_changed(&mut self.proxy) => self.on_proxy_changed(),
                pulse = self.lease_task.next_event() => {
                    self.send_event(pulse);
                    Ok(())
                }
                error = endpoint_failure(&mut self.endpoint) => Err(error),
                () = self.informers.wait_synced(), if !synced => {
                    synced = true;
                    self.check_missing()
                }
            };
            if let Err(error) = step {
                return error;
            }
        }
    }

    /// An object that was deleted before the watch began never appears in it.
    fn check_missing(&mut self) -> Result<()> {
        if matches!(*self.connector.borrow(), ObservedObject::Unknown) {
            return Err(self.deleted_error("connector", &self.settings.connector.name));
        }
        let unseen = |proxy: &watch::Receiver<_>| matches!(*proxy.borrow(), ObservedObject::Unknown);
        match (&self.settings.proxy, &self.proxy) {
            (Some(wish), Some(proxy)) if unseen(proxy) => Err(self.deleted_error("httpproxy", &wish.name)),
            _ => Ok(()),
        }
    }

    fn deleted_error(&self, kind: &str, name: &str) -> Error {
        let object = format!("{kind}/{name}");
        self.send_event(AgentEvent::Deleted { object: object.clone() });
        Error::Deleted(object)
    }

    async fn on_connector_changed(&mut self) -> Result<()> {
        let seen = self.connector.borrow_and_update().clone();
        let connector = match seen {
            ObservedObject::Unknown => return Ok(()),
            ObservedObject::Deleted => {
                return Err(self.deleted_error("connector", &self.settings.connector.name));
            }
            ObservedObject::Present(connector) => connector,
        };
        self.lease_task.set_lease_duration(lease_duration(&connector));
        let Some(status) = &connector.status else {
            return Ok(());
        };
        let mut refused = None;
        if let (Some(gateways), Some(relays)) = (&status.gateways, &status.relays) {
            let listed = accept::allowed_gateways(gateways);
            self.allowed_gateways.send_if_modified(|last| {
                let news = *last != listed;
                *last = listed;
                news
            });
            refused = self.use_relays(relays).await?;
        }
        if let Some(standing) = refused.or_else(|| connector_event(status)) {
            if self.last_connector_event.as_ref() != Some(&standing) {
                self.send_event(standing.clone());
            }
            self.last_connector_event = Some(standing);
        }
        Ok(())
    }

    /// Opens an endpoint with these relays, in place of one with others. If the relays are invalid, the current
    /// endpoint stays and the returned event reports it, because the owner of the class can correct them.
    async fn use_relays(&mut self, relays: &[String]) -> Result<Option<AgentEvent>> {
        if self.endpoint.as_ref().is_some_and(|open| open.uses_relays(relays)) {
            return Ok(None);
        }
        if let Err(error) = serve::relay_mode(relays) {
            return Ok(Some(AgentEvent::NotReady {
                reason: "InvalidRelay".to_owned(),
                message: error.to_string(),
            }));
        }
        // Closed first, since both may bind the same port.
        if let Some(old) = self.endpoint.take() {
            old.close_for_replacement().await;
        }
        self.endpoint = Some(AgentEndpoint::open(&self.endpoint_config, relays).await?);
        Ok(None)
    }

    fn on_proxy_changed(&mut self) -> Result<()> {
        let (Some(wish), Some(proxy)) = (&self.settings.proxy, &mut self.proxy) else {
            return Ok(());
        };
        let seen = proxy.borrow_and_update().clone();
        match seen {
            ObservedObject::Unknown => {}
            ObservedObject::Deleted => return Err(self.deleted_error("httpproxy", &wish.name)),
            ObservedObject::Present(proxy) => {
                for event in self.reported.new_events(&proxy) {
                    self.send_event(event);
                }
            }
        }
        Ok(())
    }

    /// Releases the lease and, if configured, deletes the objects.
    pub(super) async fn shut_down(self, why: Option<&Error>) {
        let connector = self.settings.connector.name.clone();
        let theirs = match why {
            Some(Error::Replaced(_)) => true,
            Some(Error::Deleted(object)) => *object == format!("connector/{connector}"),
            _ => false,
        };
        if !theirs && self.lease_task.release().await {
            // The receiver may be dropped.
            drop(self.events.send(AgentEvent::Released));
        }
        if let Some(station) = self.endpoint {
            station.close().await;
        }
        if self.settings.delete_on_exit && !matches!(why, Some(Error::Replaced(_))) {
            delete_objects(&self.client, &self.settings, &self.registered).await;
        }
    }
}

fn stream_handler(
    settings: &AgentSettings,
    registered: &Registered,
    session: &str,
    events: mpsc::UnboundedSender<AgentEvent>,
) -> Result<StreamHandler> {
    let exposed = ExposedTargets::new(settings.expose.clone());
    let origins = OriginPool::new(exposed, &settings.origin_tls)?;
    let secret = settings.key.secret().clone();
    let connector = ConnectorId {
        namespace: settings.connector.namespace.clone(),
        uid: registered.connector.uid().unwrap_or_default(),
    };
    let session = session.to_owned();
    Ok(StreamHandler::new(origins, secret, connector, session, events))
}

fn identity(settings: &AgentSettings, session: &str) -> AgentIdentity {
    AgentIdentity {
        session: session.to_owned(),
        version: settings.version.clone(),
        device: settings.device.clone(),
        relay_only: settings.network.relay_only,
    }
}

async fn wait_changed<T>(seen: &mut Option<watch::Receiver<T>>) {
    match seen {
        // The watch keeps the sender for as long as the agent runs.
        Some(seen) => drop(seen.changed().await),
        None => std::future::pending().await,
    }
}

async fn endpoint_failure(station: &mut Option<AgentEndpoint>) -> Error {
    match station {
        Some(station) => station.failure().await,
        None => std::future::pending().await,
    }
}

async fn delete_objects(client: &Client, settings: &AgentSettings, registered: &Registered) {
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

fn connector_event(status: &ConnectorStatus) -> Option<AgentEvent> {
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
fn new_session() -> String {
    let mut bytes = [0; 16];
    rustls::crypto::aws_lc_rs::default_provider()
        .secure_random
        .fill(&mut bytes)
        .expect("the operating system has random bytes");
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
