//! Proves a tunnel: sends a fresh nonce through the public listener of every live gateway, for every hostname
//! and every rule, concurrently. This module returns the results; the decision is made elsewhere.

pub(crate) mod client;
pub(crate) mod proven_sessions;
pub(crate) mod result;
mod tls;
mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb_api::tunnel::{Backend, ConnectionDetails, reasons};
use aplomb_tunnel_protocol::{ConnectorId, OriginState, Proof, ProofStatement, probe_timeout as patience};
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use crate::httpproxy::children::{certificate_ref, target};
use crate::httpproxy::{Observed, ObservedReplica};
use crate::probe::client::{ProbeClient, ProbeError, ProbeRequest, ProbeResponse};
use crate::probe::result::{Ambiguity, ProbeFailure, ProbeResult, next_probe_delay, probe_subject};
use crate::probe::verify::{hex, verify_proof};

/// Delay between a failed round and the retry within a pass: long enough for a gateway that is about to swap
/// its table, too short to be noticed.
const RETRY_DELAY: Duration = Duration::from_millis(60);

/// Proves tunnels. Clones share the state.
#[derive(Clone)]
pub(crate) struct TunnelProber {
    client: Arc<dyn ProbeClient>,
    random: Arc<Mutex<fastrand::Rng>>,
}

/// One probe request, and the expected signer of the response.
struct PendingProbe<'a> {
    world: &'a Observed,
    request: ProbeRequest,
    replica: &'a ObservedReplica,
    agent: Option<ProbedAgent<'a>>,
}

#[derive(Clone, Copy)]
struct ProbedAgent<'a> {
    connector: &'a str,
    uid: &'a str,
    details: &'a ConnectionDetails,
    backend: &'a Backend,
}

struct ListenerResult {
    tunnel: Result<(), ProbeFailure>,
    origin: Option<bool>,
}

impl TunnelProber {
    pub(crate) fn new(ask: Arc<dyn ProbeClient>, seed: u64) -> Self {
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Self { client: ask, random }
    }

    /// Proves the tunnel of `world`. A failed round is retried once at once, because a recent change may not
    /// have reached every gateway yet.
    pub(crate) async fn probe(&self, world: &Observed, hostnames: &[String]) -> ProbeResult {
        let patience = patience(world.proxy.spec.proof_interval.0);
        let first = self.probe_round(world, hostnames, patience).await;
        if first.failures != 1 {
            return first;
        }
        sleep(RETRY_DELAY).await;
        // A busy gateway or origin responds late rather than never.
        let patience = if first.is_unanswered() || first.origin == Some(false) {
            2 * patience
        } else {
            patience
        };
        self.probe_round(world, hostnames, patience).await
    }

    async fn probe_round(&self, world: &Observed, hostnames: &[String], patience: Duration) -> ProbeResult {
        let asked = build_probes(world, hostnames, patience);
        let answers = join_all(asked.iter().map(|asked| self.send_probe(asked))).await;
        let interval = world.proxy.spec.proof_interval.0;
        let mut evidence = ProbeResult {
            subject: probe_subject(world, hostnames),
            at: Instant::now(),
            next_probe_after: Duration::ZERO,
            failures: 0,
            tunnel: Ok(()),
            origin: None,
            certificates: world.proxy.spec.tls.as_ref().map(|_| Ok(())),
        };
        for (asked, shown) in asked.iter().zip(answers) {
            record_outcome(&mut evidence, asked, shown);
        }
        check_tls_listener(world, &mut evidence);
        if !evidence.is_success() {
            let before = world.probe_result.as_ref();
            let same = before.filter(|it| it.subject == evidence.subject);
            evidence.failures = same.map_or(0, |it| it.failures).saturating_add(1);
        }
        let gone = evidence.tunnel.is_err();
        evidence.next_probe_after = next_probe_delay(interval, evidence.failures, gone, self.jitter_fraction());
        evidence
    }

    async fn send_probe(&self, asked: &PendingProbe<'_>) -> ListenerResult {
        let answer = self.client.send(&asked.request).await;
        let shown = answer.map_err(|error| transport_failure(error, asked));
        shown.map_or_else(
            |failure| ListenerResult {
                tunnel: Err(failure),
                origin: None,
            },
            |answer| check_response(&answer, asked),
        )
    }

    fn jitter_fraction(&self) -> f64 {
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
pub(crate) fn answered_connectors<'a>(world: &'a Observed, evidence: &ProbeResult) -> Vec<&'a str> {
    let signed = evidence.tunnel.is_ok();
    let all = world.connectors.iter().filter(|(_, seen)| signed && seen.is_some());
    all.map(|(name, _)| name.as_str()).collect()
}

/// Every hostname with the first rule that has a backend, and the first hostname with every other.
fn build_probes<'a>(world: &'a Observed, hostnames: &[String], patience: Duration) -> Vec<PendingProbe<'a>> {
    let rules = &world.proxy.spec.rules;
    let mut backed: Vec<usize> = (0..rules.len()).filter(|it| !rules[*it].backends.is_empty()).collect();
    if backed.is_empty() {
        backed.push(0);
    }
    let mut wanted: BTreeMap<(usize, usize), ()> = BTreeMap::new();
    wanted.extend((0..hostnames.len()).map(|hostname| ((hostname, backed[0]), ())));
    wanted.extend(backed.iter().map(|rule| ((0, *rule), ())));
    let mut all = Vec::new();
    for replica in &world.replicas {
        for (hostname, rule) in wanted.keys() {
            let agent = agent_for_rule(world, *rule);
            let mut ask = |listen: &str, tls| {
                let hostname = &hostnames[*hostname];
                let question = probe_request(world, listen, tls, hostname, *rule, agent, patience);
                all.push(PendingProbe {
                    world,
                    request: question,
                    replica,
                    agent,
                });
            };
            ask(&replica.listen, false);
            if let Some(listen) = replica
                .listen_tls
                .as_deref()
                .filter(|_| certificate_ref(&world.proxy, &hostnames[*hostname]).is_some())
            {
                ask(listen, true);
            }
        }
    }
    all
}

fn agent_for_rule(world: &Observed, rule: usize) -> Option<ProbedAgent<'_>> {
    let backend = world.proxy.spec.rules.get(rule)?.backends.first()?;
    let connector = &backend.connector.as_ref()?.name;
    let seen = world.connectors.get(connector)?.as_ref()?;
    Some(ProbedAgent {
        connector,
        uid: &seen.uid,
        details: seen.details.as_ref()?,
        backend,
    })
}

/// The Connector that the proof must be about; empty if the backend has no agent.
fn expected_connector(world: &Observed, agent: Option<ProbedAgent<'_>>) -> ConnectorId {
    let namespace = world.proxy.metadata.namespace.clone();
    agent.map_or_else(ConnectorId::default, |agent| ConnectorId {
        namespace: namespace.unwrap_or_default(),
        uid: agent.uid.to_owned(),
    })
}

fn probe_request(
    world: &Observed,
    listen: &str,
    tls: bool,
    hostname: &str,
    rule: usize,
    agent: Option<ProbedAgent<'_>>,
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
            connector: expected_connector(world, agent),
            session: agent.map(|it| it.details.session.clone()).unwrap_or_default(),
        },
        timeout: patience,
    }
}

/// From the system's random source: a predictable nonce could be signed in advance.
fn nonce() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    hex(&bytes)
}

fn record_outcome(evidence: &mut ProbeResult, asked: &PendingProbe<'_>, shown: ListenerResult) {
    if let Some(reachable) = shown.origin {
        evidence.origin = Some(evidence.origin.unwrap_or(true) && reachable);
    }
    let Err(failure) = shown.tunnel else { return };
    // An explicit failure takes precedence over a timeout.
    let louder = failure.ambiguity != Some(Ambiguity::NoResponse) && evidence.has_ambiguity(Ambiguity::NoResponse);
    let certificate = [reasons::CERTIFICATE_MISSING, reasons::CERTIFICATE_INVALID];
    if asked.request.tls && certificate.contains(&failure.reason) {
        if !matches!(evidence.certificates, Some(Err(_))) {
            evidence.certificates = Some(Err(failure));
        }
    } else if evidence.tunnel.is_ok() || louder {
        evidence.tunnel = Err(failure);
    }
}

/// A tunnel with a certificate needs a TLS listener.
fn check_tls_listener(world: &Observed, evidence: &mut ProbeResult) {
    let without = world.replicas.iter().find(|it| it.listen_tls.is_none());
    if let (Some(replica), Some(Ok(()))) = (without, &evidence.certificates) {
        let message = format!(
            "gateway {} has no TLS listener: start it with --listen-tls",
            replica.name
        );
        evidence.certificates = Some(Err(ProbeFailure::new(reasons::NO_TLS_LISTENER, message)));
    }
}

fn transport_failure(error: ProbeError, asked: &PendingProbe<'_>) -> ProbeFailure {
    let (name, hostname) = (&asked.replica.name, &asked.request.hostname);
    match error {
        ProbeError::Unreachable => ProbeFailure::new(
            reasons::GATEWAY_UNREACHABLE,
            format!("gateway {name} does not accept connections on its listener"),
        ),
        ProbeError::TimedOut => {
            ProbeFailure::new(reasons::PROOF_FAILED, format!("gateway {name} did not respond in time"))
                .with_ambiguity(Some(Ambiguity::NoResponse))
        }
        ProbeError::NoCertificate => ProbeFailure::new(
            reasons::CERTIFICATE_MISSING,
            format!("gateway {name} has no certificate for {hostname}: check that the kubernetes.io/tls Secret exists"),
        ),
        ProbeError::WrongCertificate => ProbeFailure::new(
            reasons::CERTIFICATE_INVALID,
            format!("the certificate of gateway {name} is not valid for {hostname}"),
        ),
    }
}

fn check_response(answer: &ProbeResponse, asked: &PendingProbe<'_>) -> ListenerResult {
    if answer.status != http::StatusCode::OK {
        return gateway_refusal(answer, asked);
    }
    let Some(agent) = asked.agent else {
        return ListenerResult {
            tunnel: Ok(()),
            origin: None,
        };
    };
    let proof: Option<Proof> = serde_json::from_slice(&answer.body).ok();
    let checked = proof.map(|proof| {
        let gateway = &asked.replica.endpoint_id;
        verify_proof(&proof, &asked.request.statement, gateway, &agent.details.public_key.id)
    });
    let refused = |message: &str| ProbeFailure::new(reasons::PROOF_REFUSED, message);
    match checked {
        Some(Ok(origin)) => ListenerResult {
            tunnel: Ok(()),
            origin: Some(origin == OriginState::Reachable),
        },
        Some(Err(why)) => ListenerResult {
            tunnel: Err(refused(why.message())),
            origin: None,
        },
        None if speaks_older_protocol(asked) => ListenerResult {
            tunnel: Err(ProbeFailure::new(reasons::PROOF_FAILED, older_protocol_message(asked))),
            origin: None,
        },
        None => ListenerResult {
            tunnel: Err(refused("the response is not a proof")),
            origin: None,
        },
    }
}

/// The result if the gateway returned an error instead of a proof.
fn gateway_refusal(answer: &ProbeResponse, asked: &PendingProbe<'_>) -> ListenerResult {
    let name = &asked.replica.name;
    let word = answer.reason.as_deref().unwrap_or("no reason given");
    let message = format!("gateway {name} responded with {}: {word}", answer.status.as_u16());
    let (reason, message) = match (word, asked.agent) {
        ("ConnectorOffline", _) => (reasons::CONNECTOR_OFFLINE, message),
        ("OriginTimeout", Some(agent)) => {
            let agent = agent.connector;
            let message = format!("agent {agent:?} did not respond to gateway {name} in time");
            (reasons::CONNECTOR_OFFLINE, message)
        }
        ("OriginNotExposed", Some(agent)) => (reasons::ORIGIN_NOT_EXPOSED, not_exposed_message(agent)),
        ("Unauthorised", Some(_)) if speaks_older_protocol(asked) => {
            (reasons::PROOF_FAILED, older_protocol_message(asked))
        }
        ("Unauthorised", Some(agent)) => (reasons::PROOF_REFUSED, copied_key_message(agent)),
        ("Unauthorised", None) => (reasons::ORIGIN_UNREACHABLE, network_closed_message(asked)),
        ("OriginTimeout", None) => {
            let rule = asked.request.rule;
            let message = format!("gateway {name} could not connect to the backend of rule {rule} in time");
            (reasons::ORIGIN_UNREACHABLE, message)
        }
        ("OriginUnreachable", None) => {
            // An origin that the gateway dials itself has no agent to sign a proof.
            return ListenerResult {
                tunnel: Ok(()),
                origin: Some(false),
            };
        }
        _ => (reasons::PROOF_FAILED, message),
    };
    let doubt = match word {
        // The agent may be busy or far away: it is probed once more, with a longer timeout if the proof
        // interval is short.
        "OriginTimeout" => Some(Ambiguity::NoResponse),
        _ if answer.status == http::StatusCode::NOT_FOUND => Some(Ambiguity::UnknownTunnel),
        _ => None,
    };
    ListenerResult {
        tunnel: Err(ProbeFailure::new(reason, message).with_ambiguity(doubt)),
        origin: None,
    }
}

/// Whether a gateway runs the previous protocol: it lists no relays. An older CRD drops the relays of a newer
/// gateway, so this does not tell which of the two is old.
fn speaks_older_protocol(asked: &PendingProbe<'_>) -> bool {
    asked.replica.relays.is_none()
}

fn older_protocol_message(asked: &PendingProbe<'_>) -> String {
    format!(
        "gateway {} or its CRD is older than this operator; upgrade both",
        asked.replica.name
    )
}

/// The agent registered another Connector: this one has a copied key.
fn copied_key_message(agent: ProbedAgent<'_>) -> String {
    let name = agent.connector;
    format!(
        "the agent with the key of Connector {name:?} rejects it; delete this Connector or run \
         `aplomb connect PORT --name {name}`"
    )
}

/// The gateway is not allowed to dial the backend.
fn network_closed_message(asked: &PendingProbe<'_>) -> String {
    let (rule, class) = (asked.request.rule, &asked.world.proxy.spec.connector_class_name);
    format!(
        "gateways may not dial the backend of rule {rule}: add its network to spec.backendNetworks of \
         ConnectorClass {class}"
    )
}

/// The agent does not expose the target. The message is the same through every gateway, so no gateway is named.
fn not_exposed_message(agent: ProbedAgent<'_>) -> String {
    let (name, target) = (agent.connector, target(agent.backend).unwrap_or_default());
    format!("agent {name:?} does not expose {target}; restart it with --expose {target}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_expose_flag_is_written_as_the_agent_parses_it() {
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
            let agent = ProbedAgent {
                connector: "laptop",
                uid: "u1",
                details: &ConnectionDetails::default(),
                backend: &backend,
            };
            let message = format!("agent \"laptop\" does not expose {expected}; restart it with --expose {expected}");
            assert_eq!(not_exposed_message(agent), message);
            let read: aplomb_tunnel_agent::ExposedTarget = expected.parse().expect("a target");
            let exposed = aplomb_tunnel_agent::ExposedTargets::new(vec![read]);
            assert!(exposed.find(expected).is_some());
        }
    }
}
