//! The result of a round of proofs: what it covers and how long it is valid. Values only.

use std::time::Duration;

use aplomb_tunnel_protocol::probe_timeout as patience;
use serde_json::json;
use tokio::time::Instant;

use crate::httpproxy::Observed;
use crate::httpproxy::children::spec_digest;

/// Delay before a failed proof is retried: initial and maximum.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// After this many failed rounds, retries slow down to the proof interval.
const QUICK_RETRIES: u32 = 8;

/// The outcome of one round of proofs through every live gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProbeResult {
    /// Digest of what was proven. A different subject needs a new proof.
    pub(crate) subject: String,
    pub(crate) at: Instant,
    pub(crate) next_probe_after: Duration,
    /// Consecutive failed rounds, including this one.
    pub(crate) failures: u32,
    /// Whether every proof was returned and verified.
    pub(crate) tunnel: Result<(), ProbeFailure>,
    /// Whether every agent could reach its origin, if any was asked.
    pub(crate) origin: Option<bool>,
    /// Whether every TLS listener has a certificate for the hostnames, if the tunnel uses TLS.
    pub(crate) certificates: Option<Result<(), ProbeFailure>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeFailure {
    pub(crate) reason: &'static str,
    /// Message for the condition. The same failure gives the same text.
    pub(crate) message: String,
    /// Whether the failure may have another cause.
    pub(crate) ambiguity: Option<Ambiguity>,
}

/// A cause of the failure other than a broken tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ambiguity {
    /// The probe timed out: the gateway or the agent may be busy.
    NoResponse,
    /// The gateway does not have the tunnel, as after a deletion that the watch has not shown yet.
    UnknownTunnel,
}

impl ProbeFailure {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            reason,
            message,
            ambiguity: None,
        }
    }

    pub(crate) fn with_ambiguity(self, doubt: Option<Ambiguity>) -> Self {
        Self {
            ambiguity: doubt,
            ..self
        }
    }
}

impl ProbeResult {
    /// Whether it is valid for `subject` at `now`.
    pub(crate) fn is_current(&self, subject: &str, now: Instant) -> bool {
        self.subject == subject && now < self.at + self.next_probe_after
    }

    pub(crate) fn is_success(&self) -> bool {
        let certificates = self.certificates.as_ref().is_none_or(Result::is_ok);
        self.tunnel.is_ok() && self.origin != Some(false) && certificates
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        let certificates = self.certificates.as_ref().is_none_or(Result::is_ok);
        self.has_ambiguity(Ambiguity::NoResponse) && self.origin != Some(false) && certificates
    }

    /// Whether the failure may have a cause other than a broken tunnel.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let failure = self.tunnel.as_ref().err();
        failure.is_some_and(|failure| failure.ambiguity.is_some())
    }

    pub(crate) fn has_ambiguity(&self, doubt: Ambiguity) -> bool {
        let failure = self.tunnel.as_ref().err();
        failure.is_some_and(|failure| failure.ambiguity == Some(doubt))
    }

    /// The result to keep after this round, given the one `before` it. A timeout does not replace a success that is
    /// still valid while there is time for one more round before its interval ends: the next round may succeed.
    pub(crate) fn merge_previous(self, before: Option<&Self>, interval: Duration) -> Self {
        let (next, patience) = (self.at + self.next_probe_after, patience(interval));
        let good = |it: &&Self| it.is_success() && it.subject == self.subject;
        let in_time = |it: &&Self| next + patience <= it.at + interval;
        match before.filter(good).filter(in_time) {
            Some(proof) if self.is_unanswered() => Self {
                next_probe_after: next - proof.at,
                failures: self.failures,
                ..proof.clone()
            },
            _ => self,
        }
    }
}

/// When the next proof is due. After a success it is early enough that a tunnel that breaks is found within
/// one interval, including the time of the probe and one retry.
///
/// A tunnel that has failed for a while is probed no more often than a healthy one: other signals report a return, and
/// many failed tunnels must not delay the others. An origin gives no signal, so its probes continue at the short delay.
pub(crate) fn next_probe_delay(interval: Duration, failures: u32, gone: bool, fraction: f64) -> Duration {
    match failures {
        0 => interval.mul_f64(0.45 + 0.1 * fraction),
        failures if gone && failures > QUICK_RETRIES => interval.mul_f64(0.55 + 0.1 * fraction),
        failures => {
            let doubled = RETRY_DELAYS.0.saturating_mul(1 << failures.min(6).saturating_sub(1));
            doubled
                .min(RETRY_DELAYS.1)
                .min(interval)
                .mul_f64(0.75 + 0.25 * fraction)
        }
    }
}

/// What a proof of this tunnel would cover.
pub(crate) fn probe_subject(world: &Observed, hostnames: &[String]) -> String {
    let meta = &world.proxy.metadata;
    let replicas: Vec<_> = world
        .replicas
        .iter()
        .map(|it| {
            let at = json!([it.name, it.listen, it.listen_tls, it.endpoint_id]);
            json!([at, it.lost, it.relays])
        })
        .collect();
    let secrets: Vec<_> = world.replicas.iter().map(|it| &it.applied.secrets).collect();
    let connectors: Vec<_> = world
        .connectors
        .values()
        .map(|it| json!(it.as_ref().map(|it| (&it.uid, &it.details))))
        .collect();
    spec_digest(&json!([
        meta.uid,
        meta.generation,
        hostnames,
        replicas,
        connectors,
        world.networks,
        world.proxy.spec.tls.as_ref().map(|_| secrets),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn probe_result(at: Instant, tunnel: Result<(), ProbeFailure>) -> ProbeResult {
        let failures = u32::from(tunnel.is_err());
        ProbeResult {
            subject: "web".to_owned(),
            at,
            next_probe_after: next_probe_delay(INTERVAL, failures, false, 0.5),
            failures,
            origin: tunnel.is_ok().then_some(true),
            tunnel,
            certificates: None,
        }
    }

    fn no_response() -> Result<(), ProbeFailure> {
        Err(ProbeFailure::new("ProofFailed", "no answer").with_ambiguity(Some(Ambiguity::NoResponse)))
    }

    #[test]
    fn silence_keeps_a_proof_while_another_round_fits_into_its_interval() {
        let proof = probe_result(Instant::now(), Ok(()));
        let seconds = |seconds| proof.at + Duration::from_secs(seconds);
        let held = probe_result(seconds(8), no_response()).merge_previous(Some(&proof), INTERVAL);
        assert!(held.is_success() && held.at == proof.at && held.failures == 1);
        assert!(!held.is_current("web", seconds(9)), "it is tried again soon");
        let late = probe_result(seconds(9), no_response()).merge_previous(Some(&held), INTERVAL);
        assert!(!late.is_success(), "and reported within the interval");
    }

    #[test]
    fn an_answered_failure_and_a_first_failure_are_reported_at_once() {
        let proof = probe_result(Instant::now(), Ok(()));
        let soon = proof.at + Duration::from_secs(6);
        let told = Err(ProbeFailure::new("ConnectorOffline", "it is gone"));
        let after = |tunnel, before| probe_result(soon, tunnel).merge_previous(before, INTERVAL);
        assert!(!after(told, Some(&proof)).is_success());
        assert!(!after(no_response(), None).is_success());
        let other = ProbeResult {
            subject: "another session".to_owned(),
            ..proof.clone()
        };
        assert!(!after(no_response(), Some(&other)).is_success());
    }

    #[test]
    fn a_good_proof_is_repeated_well_within_its_interval() {
        let interval = Duration::from_secs(10);
        for fraction in [0.0, 0.5, 1.0] {
            let rounds = 3 * patience(interval) + Duration::from_millis(100);
            assert!(next_probe_delay(interval, 0, false, fraction) + rounds <= interval);
        }
    }

    #[test]
    fn a_failed_proof_is_repeated_soon_and_one_that_keeps_failing_at_the_usual_pace() {
        let interval = Duration::from_secs(10);
        assert!(next_probe_delay(interval, 1, true, 1.0) <= Duration::from_millis(100));
        assert!((1..200).all(|failures| next_probe_delay(interval, failures, false, 1.0) <= RETRY_DELAYS.1));
        assert!((1..=QUICK_RETRIES).all(|failures| next_probe_delay(interval, failures, true, 1.0) <= RETRY_DELAYS.1));
        assert!(next_probe_delay(interval, QUICK_RETRIES + 1, true, 0.0) > Duration::from_secs(5));
    }
}
