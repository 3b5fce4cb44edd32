//! A simulated network: agents by key, gateways by address, and a small delay between them. It replaces iroh
//! and TCP.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb_api::tunnel::LostSession;
use aplomb_tunnel_gateway::control::inputs::SessionTarget;
use aplomb_tunnel_gateway::origin::policy::AddressPolicy;
use aplomb_tunnel_gateway::origin::{DialError, OriginDialer, OriginStream};
use aplomb_tunnel_gateway::proxy::ProxyServer;
use aplomb_tunnel_gateway::routing::{OriginAddress, OriginTarget};
use aplomb_tunnel_gateway::sessions::AgentSessions;
use aplomb_tunnel_operator::{ProbeClient, ProbeError, ProbeRequest, ProbeResponse};
use aplomb_tunnel_protocol::{ConnectorId, OriginState as Seen, Proof, ProofStatement, StreamRefusal};
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use iroh_base::SecretKey;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Delay of one direction.
const LATENCY: Duration = Duration::from_millis(1);
/// How long a session may be down before it counts as lost.
const SESSION_LOST_AFTER: Duration = Duration::from_secs(1);

/// Addresses that do not respond at all.
pub const DEAD: &str = "203.0.113.7:";

/// The endpoints and their state.
#[derive(Clone, Default)]
pub struct Net(Arc<Mutex<NetworkState>>);

#[derive(Default)]
struct NetworkState {
    agents: BTreeMap<String, AgentEnd>,
    gateways: BTreeMap<String, Arc<ProxyServer>>,
    /// Additional delay to agents.
    agent_distance: Duration,
    /// Until when gateways do not respond.
    busy_until: Option<Instant>,
}

struct AgentEnd {
    key: SecretKey,
    connector: ConnectorId,
    session: String,
    /// Since when it does not respond.
    down_since: Option<Instant>,
}

/// The key of a connector's agent.
pub fn key_of(connector: &str) -> SecretKey {
    let mut bytes = [7; 32];
    for (byte, letter) in bytes.iter_mut().zip(connector.bytes()) {
        *byte = letter;
    }
    SecretKey::from_bytes(&bytes)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Net {
    /// Adds an agent.
    pub fn add_agent(&self, name: &str, connector: ConnectorId, session: &str) {
        let key = key_of(name);
        let id = hex(key.public().as_bytes());
        let end = AgentEnd {
            key,
            connector,
            session: session.to_owned(),
            down_since: None,
        };
        self.0.lock().unwrap().agents.insert(id, end);
    }

    /// Makes an agent reachable or unreachable.
    pub fn set_reachable(&self, connector: &str, up: bool) {
        let id = hex(key_of(connector).public().as_bytes());
        let mut ends = self.0.lock().unwrap();
        if let Some(agent) = ends.agents.get_mut(&id) {
            agent.down_since = (!up).then(Instant::now);
        }
    }

    /// Sets the additional delay to agents.
    pub fn set_distance(&self, trip: Duration) {
        self.0.lock().unwrap().agent_distance = trip;
    }

    /// Delays every response of gateways by this time.
    pub fn set_busy(&self, time: Duration) {
        self.0.lock().unwrap().busy_until = Some(Instant::now() + time);
    }

    async fn wait_idle(&self) {
        let busy = self.0.lock().unwrap().busy_until;
        if let Some(until) = busy {
            sleep_until(until).await;
        }
    }

    /// Adds a gateway until the returned value is dropped.
    pub fn add_gateway(&self, listen: &str, server: Arc<ProxyServer>) -> ListenerGuard {
        let mut ends = self.0.lock().unwrap();
        ends.gateways.insert(listen.to_owned(), server);
        ListenerGuard(self.clone(), listen.to_owned())
    }

    /// The dialer of the gateway with this endpoint id.
    pub fn dialer(&self, gateway: &str) -> Arc<GatewayLine> {
        Arc::new(GatewayLine {
            net: self.clone(),
            gateway: gateway.to_owned(),
            targets: Mutex::default(),
        })
    }

    fn sign(&self, id: &str, gateway: &str, statement: &ProofStatement) -> Result<Proof, DialError> {
        let ends = self.0.lock().unwrap();
        let agent = ends.agents.get(id).filter(|agent| agent.down_since.is_none());
        let agent = agent.ok_or(DialError::Offline)?;
        if agent.connector != statement.connector {
            let refusal = StreamRefusal::OtherConnector;
            return Err(DialError::Refused(refusal, "another Connector".to_owned()));
        }
        if agent.session != statement.session {
            let refusal = StreamRefusal::OtherSession;
            return Err(DialError::Refused(refusal, "another session".to_owned()));
        }
        let signed = Proof::signed_bytes(statement, gateway, Seen::Reachable);
        Ok(Proof {
            statement: statement.clone(),
            gateway: gateway.to_owned(),
            origin: Seen::Reachable,
            signature: hex(&agent.key.sign(&signed).to_bytes()),
        })
    }

    fn is_lost(&self, id: &str) -> bool {
        let ends = self.0.lock().unwrap();
        let down = |agent: &AgentEnd| {
            agent
                .down_since
                .is_some_and(|since| since.elapsed() >= SESSION_LOST_AFTER)
        };
        ends.agents.get(id).is_none_or(down)
    }
}

/// The registration of a gateway in the network.
pub struct ListenerGuard(Net, String);

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().gateways.remove(&self.1);
    }
}

/// The connections from one gateway to agents.
pub struct GatewayLine {
    net: Net,
    gateway: String,
    targets: Mutex<BTreeMap<ObjectKey, SessionTarget>>,
}

impl OriginDialer for GatewayLine {
    fn dial<'a>(
        &'a self,
        origin: &'a OriginTarget,
        until: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn OriginStream>, DialError>> {
        Box::pin(async move {
            sleep(LATENCY).await;
            if let OriginAddress::Addresses(target) = &origin.target {
                if target.names.iter().any(|it| it.starts_with(DEAD)) {
                    sleep_until(until).await;
                    return Err(DialError::TimedOut);
                }
                let mut addresses = target.names.iter().filter_map(|it| it.parse().ok());
                let closed = |it| AddressPolicy::default().check(it, &target.open_networks).err();
                if let Some(why) = addresses.find_map(closed) {
                    return Err(DialError::Forbidden(why.to_string()));
                }
            }
            let (near, far) = tokio::io::duplex(64);
            drop(far);
            Ok(Box::new(near) as Box<dyn OriginStream>)
        })
    }

    fn prove<'a>(
        &'a self,
        origin: &'a OriginTarget,
        statement: &'a ProofStatement,
        until: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>> {
        Box::pin(async move {
            sleep(LATENCY).await;
            let trip = self.net.0.lock().unwrap().agent_distance;
            if Instant::now() + trip >= until {
                sleep_until(until).await;
                return Err(DialError::TimedOut);
            }
            sleep(trip).await;
            match &origin.target {
                OriginAddress::Connector(target) => {
                    let signed = self.net.sign(&target.id, &self.gateway, statement);
                    if matches!(signed, Err(DialError::Offline)) {
                        // A real session may come back while the request waits.
                        sleep_until(until).await;
                    }
                    signed
                }
                OriginAddress::Addresses(_) => Err(DialError::Unreachable("no agent".to_owned())),
            }
        })
    }
}

impl AgentSessions for GatewayLine {
    fn set_targets(&self, wanted: &BTreeMap<ObjectKey, SessionTarget>) {
        self.targets.lock().unwrap().clone_from(wanted);
    }

    fn lost_sessions(&self) -> Vec<LostSession> {
        let wanted = self.targets.lock().unwrap();
        let lost = wanted.iter().filter(|(_, wanted)| self.net.is_lost(&wanted.target.id));
        lost.map(|(key, wanted)| LostSession {
            namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
            name: key.name.to_string(),
            session: wanted.target.session.clone(),
        })
        .collect()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl ProbeClient for Net {
    fn send<'a>(&'a self, question: &'a ProbeRequest) -> BoxFuture<'a, Result<ProbeResponse, ProbeError>> {
        Box::pin(async move {
            sleep(LATENCY).await;
            let idle = timeout(question.timeout, self.wait_idle()).await;
            idle.map_err(|_| ProbeError::TimedOut)?;
            let server = self.0.lock().unwrap().gateways.get(&question.listen).cloned();
            let server = server.ok_or(ProbeError::Unreachable)?;
            let request = aplomb_tunnel_operator::build_request(question, question.timeout)?;
            let peer = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 250), 40_000));
            let answer = timeout(question.timeout, server.handle(request, peer, question.tls));
            let (head, body) = answer.await.map_err(|_| ProbeError::TimedOut)?.into_parts();
            let body = body.collect().await.map_err(|_| ProbeError::Unreachable)?;
            let reason = head.headers.get("x-aplomb-reason");
            Ok(ProbeResponse {
                status: head.status,
                reason: reason.and_then(|it| it.to_str().ok()).map(str::to_owned),
                body: body.to_bytes(),
            })
        })
    }
}
