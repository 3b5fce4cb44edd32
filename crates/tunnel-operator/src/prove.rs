//! Proves a tunnel: sends a fresh nonce through the public listener of every live gateway, for every hostname
//! and every rule, concurrently. This module returns the results; the decision is made elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb_api::tunnel::{Backend, ConnectionDetails, reasons};
use aplomb_api::wire::{
    ConnectorId, OriginState, Proof, ProofStatement, proof_patience as patience,
};
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use crate::children::{certificate, target};
use crate::client::{ProbeClient, ProbeError, ProbeRequest, ProbeResponse};
use crate::evidence::{Ambiguity, ProbeFailure, ProbeResult, due, subject};
use crate::verify::{hex, verify};
use crate::world::{Observed, ObservedReplica};

/// Delay between a failed round and the retry within a pass: long enough for a gateway that is about to swap
/// its table, too short to be noticed.
const AGAIN: Duration = Duration::from_millis(60);

/// Proves tunnels. Clones share the state.
#[derive(Clone)]
pub(crate) struct TunnelProber {
    ask: Arc<dyn ProbeClient>,
    random: Arc<Mutex<fastrand::Rng>>,
}

/// One probe request, and the expected signer of the response.
struct Asked<'a> {
    world: &'a Observed,
    question: ProbeRequest,
    replica: &'a ObservedReplica,
    agent: Option<Agent<'a>>,
}

/// The agent behind a rule.
#[derive(Clone, Copy)]
struct Agent<'a> {
    /// The name of its Connector.
    connector: &'a str,
    uid: &'a str,
    details: &'a ConnectionDetails,
    backend: &'a Backend,
}

/// The result of one probe request.
struct Shown {
    tunnel: Result<(), ProbeFailure>,
    origin: Option<bool>,
}

impl TunnelProber {
    pub(crate) fn new(ask: Arc<dyn ProbeClient>, seed: u64) -> Self {
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Self { ask, random }
    }

    /// Proves the tunnel of `world`. A failed round is retried once at once, because a recent change may not
    /// have reached every gateway yet.
    pub(crate) async fn prove(&self, world: &Observed, hostnames: &[String]) -> ProbeResult {
        let patience = patience(world.proxy.spec.proof_interval.0);
        let first = self.round(world, hostnames, patience).await;
        if first.failures != 1 {
            return first;
        }
        sleep(AGAIN).await;
        // A busy gateway or origin responds late rather than never.
        let patience = if first.is_silent() || first.origin == Some(false) {
            2 * patience
        } else {
            patience
        };
        self.round(world, hostnames, patience).await
    }

    async fn round(
        &self,
        world: &Observed,
        hostnames: &[String],
        patience: Duration,
    ) -> ProbeResult {
        let asked = questions(world, hostnames, patience);
        let answers = join_all(asked.iter().map(|asked| self.ask(asked))).await;
        let interval = world.proxy.spec.proof_interval.0;
        let mut evidence = ProbeResult {
            subject: subject(world, hostnames),
            at: Instant::now(),
            due: Duration::ZERO,
            failures: 0,
            tunnel: Ok(()),
            origin: None,
            certificates: world.proxy.spec.tls.as_ref().map(|_| Ok(())),
        };
        for (asked, shown) in asked.iter().zip(answers) {
            take(&mut evidence, asked, shown);
        }
        lacks_tls(world, &mut evidence);
        if !evidence.is_good() {
            let before = world.evidence.as_ref();
            let same = before.filter(|it| it.subject == evidence.subject);
            evidence.failures = same.map_or(0, |it| it.failures).saturating_add(1);
        }
        let gone = evidence.tunnel.is_err();
        evidence.due = due(interval, evidence.failures, gone, self.fraction());
        evidence
    }

    async fn ask(&self, asked: &Asked<'_>) -> Shown {
        let answer = self.ask.ask(&asked.question).await;
        let shown = answer.map_err(|error| unanswered(error, asked));
        shown.map_or_else(
            |failure| Shown {
                tunnel: Err(failure),
                origin: None,
            },
            |answer| judged(&answer, asked),
        )
    }

    fn fraction(&self) -> f64 {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        random.f64()
    }
}

impl fmt::Debug for TunnelProber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prover")
    }
}

/// The connectors that returned a valid proof in `evidence`, by name.
pub(crate) fn answered<'a>(world: &'a Observed, evidence: &ProbeResult) -> Vec<&'a str> {
    let signed = evidence.tunnel.is_ok();
    let all = world
        .connectors
        .iter()
        .filter(|(_, seen)| signed && seen.is_some());
    all.map(|(name, _)| name.as_str()).collect()
}

/// Every hostname with the first rule that has a backend, and the first hostname with every other.
fn questions<'a>(world: &'a Observed, hostnames: &[String], patience: Duration) -> Vec<Asked<'a>> {
    let rules = &world.proxy.spec.rules;
    let mut backed: Vec<usize> = (0..rules.len())
        .filter(|it| !rules[*it].backends.is_empty())
        .collect();
    if backed.is_empty() {
        backed.push(0);
    }
    let mut wanted: BTreeMap<(usize, usize), ()> = BTreeMap::new();
    wanted.extend((0..hostnames.len()).map(|hostname| ((hostname, backed[0]), ())));
    wanted.extend(backed.iter().map(|rule| ((0, *rule), ())));
    let mut all = Vec::new();
    for replica in &world.replicas {
        for (hostname, rule) in wanted.keys() {
            let agent = agent(world, *rule);
            let mut ask = |listen: &str, tls| {
                let hostname = &hostnames[*hostname];
                let question = question(world, listen, tls, hostname, *rule, agent, patience);
                all.push(Asked {
                    world,
                    question,
                    replica,
                    agent,
                });
            };
            ask(&replica.listen, false);
            if let Some(listen) = replica
                .listen_tls
                .as_deref()
                .filter(|_| certificate(&world.proxy, &hostnames[*hostname]).is_some())
            {
                ask(listen, true);
            }
        }
    }
    all
}

fn agent(world: &Observed, rule: usize) -> Option<Agent<'_>> {
    let backend = world.proxy.spec.rules.get(rule)?.backends.first()?;
    let connector = &backend.connector.as_ref()?.name;
    let seen = world.connectors.get(connector)?.as_ref()?;
    Some(Agent {
        connector,
        uid: &seen.uid,
        details: seen.details.as_ref()?,
        backend,
    })
}

/// The Connector that the proof must be about; empty if the backend has no agent.
fn connector(world: &Observed, agent: Option<Agent<'_>>) -> ConnectorId {
    let namespace = world.proxy.metadata.namespace.clone();
    agent.map_or_else(ConnectorId::default, |agent| ConnectorId {
        namespace: namespace.unwrap_or_default(),
        uid: agent.uid.to_owned(),
    })
}

fn question(
    world: &Observed,
    listen: &str,
    tls: bool,
    hostname: &str,
    rule: usize,
    agent: Option<Agent<'_>>,
    patience: Duration,
) -> ProbeRequest {
    let meta = &world.proxy.metadata;
    ProbeRequest {
        listen: listen.to_owned(),
        tls,
        hostname: hostname.to_owned(),
        rule,
        statement: ProofStatement {
            nonce: nonce(),
            tunnel: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            connector: connector(world, agent),
            session: agent
                .map(|it| it.details.session.clone())
                .unwrap_or_default(),
        },
        patience,
    }
}

/// From the system's random source: a predictable nonce could be signed in advance.
fn nonce() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    hex(&bytes)
}

fn take(evidence: &mut ProbeResult, asked: &Asked<'_>, shown: Shown) {
    if let Some(reachable) = shown.origin {
        evidence.origin = Some(evidence.origin.unwrap_or(true) && reachable);
    }
    let Err(failure) = shown.tunnel else { return };
    // An explicit failure takes precedence over a timeout.
    let louder = failure.doubt != Some(Ambiguity::Silence) && evidence.leaves(Ambiguity::Silence);
    let certificate = [reasons::CERTIFICATE_MISSING, reasons::CERTIFICATE_INVALID];
    if asked.question.tls && certificate.contains(&failure.reason) {
        if !matches!(evidence.certificates, Some(Err(_))) {
            evidence.certificates = Some(Err(failure));
        }
    } else if evidence.tunnel.is_ok() || louder {
        evidence.tunnel = Err(failure);
    }
}

/// A tunnel with a certificate needs a TLS listener.
fn lacks_tls(world: &Observed, evidence: &mut ProbeResult) {
    let without = world.replicas.iter().find(|it| it.listen_tls.is_none());
    if let (Some(replica), Some(Ok(()))) = (without, &evidence.certificates) {
        let message = format!(
            "gateway {} has no TLS listener: start it with --listen-tls",
            replica.name
        );
        evidence.certificates = Some(Err(ProbeFailure::new(reasons::NO_TLS_LISTENER, message)));
    }
}

fn unanswered(error: ProbeError, asked: &Asked<'_>) -> ProbeFailure {
    let (name, hostname) = (&asked.replica.name, &asked.question.hostname);
    match error {
        ProbeError::Unreachable => ProbeFailure::new(
            reasons::GATEWAY_UNREACHABLE,
            format!("gateway {name} does not accept connections on its listener"),
        ),
        ProbeError::TimedOut => ProbeFailure::new(
            reasons::PROOF_FAILED,
            format!("gateway {name} did not respond in time"),
        )
        .with(Some(Ambiguity::Silence)),
        ProbeError::NoCertificate => ProbeFailure::new(
            reasons::CERTIFICATE_MISSING,
            format!(
                "gateway {name} has no certificate for {hostname}: check that the kubernetes.io/tls Secret exists"
            ),
        ),
        ProbeError::WrongCertificate => ProbeFailure::new(
            reasons::CERTIFICATE_INVALID,
            format!("the certificate of gateway {name} is not valid for {hostname}"),
        ),
    }
}

fn judged(answer: &ProbeResponse, asked: &Asked<'_>) -> Shown {
    if answer.status != http::StatusCode::OK {
        return refusal(answer, asked);
    }
    let Some(agent) = asked.agent else {
        return Shown {
            tunnel: Ok(()),
            origin: None,
        };
    };
    let proof: Option<Proof> = serde_json::from_slice(&answer.body).ok();
    let checked = proof.map(|proof| {
        let gateway = &asked.replica.endpoint_id;
        verify(
            &proof,
            &asked.question.statement,
            gateway,
            &agent.details.public_key.id,
        )
    });
    let refused = |message: &str| ProbeFailure::new(reasons::PROOF_REFUSED, message);
    match checked {
        Some(Ok(origin)) => Shown {
            tunnel: Ok(()),
            origin: Some(origin == OriginState::Reachable),
        },
        Some(Err(why)) => Shown {
            tunnel: Err(refused(why.message())),
            origin: None,
        },
        None if is_older(asked) => Shown {
            tunnel: Err(ProbeFailure::new(reasons::PROOF_FAILED, older(asked))),
            origin: None,
        },
        None => Shown {
            tunnel: Err(refused("the response is not a proof")),
            origin: None,
        },
    }
}

/// The result if the gateway returned an error instead of a proof.
fn refusal(answer: &ProbeResponse, asked: &Asked<'_>) -> Shown {
    let name = &asked.replica.name;
    let word = answer
        .reason
        .as_deref()
        .unwrap_or("no reason given");
    let message = format!("gateway {name} responded with {}: {word}", answer.status.as_u16());
    let (reason, message) = match (word, asked.agent) {
        ("ConnectorOffline", _) => (reasons::CONNECTOR_OFFLINE, message),
        ("OriginTimeout", Some(agent)) => {
            let agent = agent.connector;
            let message = format!("agent {agent:?} did not respond to gateway {name} in time");
            (reasons::CONNECTOR_OFFLINE, message)
        }
        ("OriginNotExposed", Some(agent)) => (reasons::ORIGIN_NOT_EXPOSED, not_exposed(agent)),
        ("Unauthorised", Some(_)) if is_older(asked) => (reasons::PROOF_FAILED, older(asked)),
        ("Unauthorised", Some(agent)) => (reasons::PROOF_REFUSED, not_its_own(agent)),
        ("Unauthorised", None) => (reasons::ORIGIN_UNREACHABLE, not_open(asked)),
        ("OriginTimeout", None) => {
            let rule = asked.question.rule;
            let message =
                format!("gateway {name} could not connect to the backend of rule {rule} in time");
            (reasons::ORIGIN_UNREACHABLE, message)
        }
        ("OriginUnreachable", None) => {
            // An origin that the gateway dials itself has no agent to sign a proof.
            return Shown {
                tunnel: Ok(()),
                origin: Some(false),
            };
        }
        _ => (reasons::PROOF_FAILED, message),
    };
    let doubt = match word {
        // The agent may be busy or far away: it is probed once more, with a longer timeout if the proof
        // interval is short.
        "OriginTimeout" => Some(Ambiguity::Silence),
        _ if answer.status == http::StatusCode::NOT_FOUND => Some(Ambiguity::Unknown),
        _ => None,
    };
    Shown {
        tunnel: Err(ProbeFailure::new(reason, message).with(doubt)),
        origin: None,
    }
}

/// Whether a gateway runs the previous protocol: it lists no relays. An older CRD drops the relays of a newer
/// gateway, so this does not tell which of the two is old.
fn is_older(asked: &Asked<'_>) -> bool {
    asked.replica.relays.is_none()
}

fn older(asked: &Asked<'_>) -> String {
    format!(
        "gateway {} or its CRD is older than this operator; upgrade both",
        asked.replica.name
    )
}

/// The agent registered another Connector: this one has a copied key.
fn not_its_own(agent: Agent<'_>) -> String {
    let name = agent.connector;
    format!(
        "the agent with the key of Connector {name:?} rejects it; delete this Connector or run \
         `aplomb connect PORT --name {name}`"
    )
}

/// The gateway is not allowed to dial the backend.
fn not_open(asked: &Asked<'_>) -> String {
    let (rule, class) = (
        asked.question.rule,
        &asked.world.proxy.spec.connector_class_name,
    );
    format!(
        "gateways may not dial the backend of rule {rule}: add its network to spec.backendNetworks of \
         ConnectorClass {class}"
    )
}

/// The agent does not expose the target. The message is the same through every gateway, so no gateway is
/// named.
fn not_exposed(agent: Agent<'_>) -> String {
    let (name, target) = (agent.connector, target(agent.backend).unwrap_or_default());
    format!("agent {name:?} does not expose {target}; restart it with --expose {target}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_to_be_exposed_is_written_as_the_agent_reads_it() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:9", "127.0.0.1:9"),
            ("http://localhost:3000", "localhost:3000"),
            ("http://[::1]:80", "[::1]:80"),
            ("http://[::1]", "[::1]:80"),
            ("https://[2001:db8::7]", "[2001:db8::7]:443"),
            ("https://127.0.0.1:8443", "127.0.0.1:8443"),
            ("http://db.internal", "db.internal:80"),
            ("HTTPS://Printer", "Printer:443"),
        ] {
            let backend = json!({ "endpoint": endpoint, "connector": { "name": "laptop" } });
            let backend: Backend = serde_json::from_value(backend).expect("a backend");
            let agent = Agent {
                connector: "laptop",
                uid: "u1",
                details: &ConnectionDetails::default(),
                backend: &backend,
            };
            let message = format!(
                "agent \"laptop\" does not expose {expected}; restart it with --expose {expected}"
            );
            assert_eq!(not_exposed(agent), message);
            let read: aplomb_tunnel_agent::ExposedTarget = expected.parse().expect("a target");
            let exposed = aplomb_tunnel_agent::ExposedTargets::new(vec![read]);
            assert!(exposed.find(expected).is_some());
        }
    }
}
