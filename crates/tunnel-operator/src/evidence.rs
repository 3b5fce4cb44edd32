//! What a round of proofs showed, what it was about, and how long it holds. Values only.

use std::time::Duration;

use aplomb_api::wire::proof_patience as patience;
use serde_json::json;
use tokio::time::Instant;

use crate::children::spec_digest;
use crate::world::Observed;

/// How soon a failed proof is tried again, at first and at most.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// After how many failed rounds nobody is expected back at once.
const QUICK_RETRIES: u32 = 8;

/// The outcome of one round of proofs through every live gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProbeResult {
    /// What was proven, in short: another subject needs another proof.
    pub(crate) subject: String,
    /// When the round ended.
    pub(crate) at: Instant,
    /// When the next is due.
    pub(crate) next_probe_after: Duration,
    /// How many rounds failed in a row, this one included.
    pub(crate) failures: u32,
    /// Whether every nonce came back as it should.
    pub(crate) tunnel: Result<(), ProbeFailure>,
    /// Whether every agent could reach its origin, if one was asked.
    pub(crate) origin: Option<bool>,
    /// Whether every TLS listener showed a certificate of the hostnames, if it should.
    pub(crate) certificates: Option<Result<(), ProbeFailure>>,
}

/// Why a proof failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeFailure {
    /// The reason of the condition.
    pub(crate) reason: &'static str,
    /// For people. The same trouble gives the same words.
    pub(crate) message: String,
    /// What it leaves open.
    pub(crate) ambiguity: Option<Ambiguity>,
}

/// What else than a tunnel that is broken may be behind a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ambiguity {
    /// Nobody said anything in time: whoever was asked may be busy, and no more than that.
    NoResponse,
    /// The gateway knows no such tunnel, as after a deletion that was not heard of here yet.
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
        Self { ambiguity: doubt, ..self }
    }
}

impl ProbeResult {
    /// Whether it says something about `subject` at `now`.
    pub(crate) fn is_current(&self, subject: &str, now: Instant) -> bool {
        self.subject == subject && now < self.at + self.next_probe_after
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_success(&self) -> bool {
        let certificates = self.certificates.as_ref().is_none_or(Result::is_ok);
        self.tunnel.is_ok() && self.origin != Some(false) && certificates
    }

    /// Whether all that is wrong is that somebody did not answer in time.
    pub(crate) fn is_unanswered(&self) -> bool {
        let certificates = self.certificates.as_ref().is_none_or(Result::is_ok);
        self.has_ambiguity(Ambiguity::NoResponse) && self.origin != Some(false) && certificates
    }

    /// Whether something else than the tunnel may have failed.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let failure = self.tunnel.as_ref().err();
        failure.is_some_and(|failure| failure.ambiguity.is_some())
    }

    /// Whether its failure leaves this open.
    pub(crate) fn has_ambiguity(&self, doubt: Ambiguity) -> bool {
        let failure = self.tunnel.as_ref().err();
        failure.is_some_and(|failure| failure.ambiguity == Some(doubt))
    }

    /// What is known after this round, given what was known `before` it. Silence takes nothing from a proof
    /// that is still good while there is time for one more round before its interval is over: who answers a
    /// moment later was never gone.
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

/// When the next proof is due after one that ended `well`. A good one is repeated early enough that a
/// tunnel that breaks is found within one interval, the proof's own time and another try included.
///
/// Who is gone for long is asked no more often than who is there: a return is heard of by other means,
/// and many that are gone must not keep the others waiting. An origin gives no sign, so it is asked on.
pub(crate) fn next_probe_delay(interval: Duration, failures: u32, gone: bool, fraction: f64) -> Duration {
    match failures {
        0 => interval.mul_f64(0.45 + 0.1 * fraction),
        failures if gone && failures > QUICK_RETRIES => interval.mul_f64(0.55 + 0.1 * fraction),
        failures => {
            let doubled = RETRY_DELAYS
                .0
                .saturating_mul(1 << failures.min(6).saturating_sub(1));
            doubled
                .min(RETRY_DELAYS.1)
                .min(interval)
                .mul_f64(0.75 + 0.25 * fraction)
        }
    }
}

/// What a proof of this world would be about.
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
    let secrets: Vec<_> = world
        .replicas
        .iter()
        .map(|it| &it.applied.secrets)
        .collect();
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
        assert!(!late.is_success(), "and told within the interval");
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
