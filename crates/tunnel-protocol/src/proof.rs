//! What a proof states, the bytes that an agent signs, and how long each side waits for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::message::ConnectorId;

/// The longest time that a prober waits for one response.
pub const MAX_PROBE_TIMEOUT: Duration = Duration::from_millis(1_200);
/// The longest time that a gateway spends on a proof.
const MAX_PROOF_TIMEOUT: Duration = Duration::from_millis(600);

/// How long a prober waits for one response about a tunnel that is proven once in `interval`.
#[must_use]
pub fn probe_timeout(interval: Duration) -> Duration {
    MAX_PROBE_TIMEOUT.min(interval / 8)
}

/// How long a gateway works on a proof for a prober that waits for `patience`. The rest is time to report
/// an error: a late response cannot be distinguished from a gateway that does not respond.
#[must_use]
pub fn proof_timeout(patience: Duration) -> Duration {
    MAX_PROOF_TIMEOUT.min(patience * 2 / 3)
}

/// The longest time that an agent checks an origin for a proof.
const MAX_ORIGIN_CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long an agent checks an origin for a gateway that waits `work` for the proof. The rest is time to
/// report that the origin does not respond.
#[must_use]
pub fn origin_check_timeout(work: Duration) -> Duration {
    MAX_ORIGIN_CHECK_TIMEOUT.min(work * 2 / 3)
}

/// The content of a proof: a nonce, the tunnel in its current generation, and the agent's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProofStatement {
    /// 32 random bytes in hex, never used twice.
    pub nonce: String,
    /// The UID of the HTTPProxy.
    pub tunnel: String,
    /// Its generation.
    pub generation: i64,
    /// The Connector of the tunnel.
    pub connector: ConnectorId,
    /// The agent's session.
    pub session: String,
}

/// Whether the origin accepted a connection when the proof was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OriginState {
    /// It did.
    Reachable,
    /// It did not.
    Unreachable,
}

/// A statement that an agent has signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// What the proof states.
    pub statement: ProofStatement,
    /// The endpoint id of the requesting gateway, in hex, from the agent's connection.
    pub gateway: String,
    /// Whether the origin can be reached.
    pub origin: OriginState,
    /// The agent's ed25519 signature of [`Proof::signed_bytes`], in hex.
    pub signature: String,
}

impl Proof {
    /// The signed bytes: every part with its length, so that no two proofs have the same bytes, under a
    /// heading that the key uses for nothing else.
    #[must_use]
    pub fn signed_bytes(statement: &ProofStatement, gateway: &str, origin: OriginState) -> Vec<u8> {
        let generation = statement.generation.to_string();
        let origin = match origin {
            OriginState::Reachable => "reachable",
            OriginState::Unreachable => "unreachable",
        };
        let parts = [
            "aplomb tunnel proof 2",
            &statement.nonce,
            &statement.tunnel,
            &generation,
            &statement.connector.namespace,
            &statement.connector.uid,
            &statement.session,
            gateway,
            origin,
        ];
        let mut bytes = Vec::new();
        for part in parts {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(tunnel: &str, session: &str) -> ProofStatement {
        ProofStatement {
            nonce: "00".to_owned(),
            tunnel: tunnel.to_owned(),
            generation: 1,
            connector: connector("team-a", "u1"),
            session: session.to_owned(),
        }
    }

    fn connector(namespace: &str, uid: &str) -> ConnectorId {
        ConnectorId {
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
        }
    }

    #[test]
    fn timeouts_shrink_from_prober_to_agent() {
        for millis in [2_000, 2_500, 4_799, 4_800, 4_801, 9_600, 10_000, 3_600_000] {
            let patience = probe_timeout(Duration::from_millis(millis));
            let work = proof_timeout(patience);
            assert!(work + work / 4 < patience, "{millis} ms: {work:?} of {patience:?}");
            let look = origin_check_timeout(work);
            assert!(look + work / 4 < work, "{millis} ms: {look:?} of {work:?}");
            assert!(work >= patience / 2, "{millis} ms: {work:?} of {patience:?}");
        }
    }

    #[test]
    fn signed_bytes_separate_adjacent_fields() {
        let bytes = |t, s| Proof::signed_bytes(&statement(t, s), "g", OriginState::Reachable);
        assert_ne!(bytes("ab", "c"), bytes("a", "bc"));
        let up = Proof::signed_bytes(&statement("a", "b"), "g", OriginState::Reachable);
        let down = Proof::signed_bytes(&statement("a", "b"), "g", OriginState::Unreachable);
        assert_ne!(up, down);
        let of = |namespace, uid| {
            let mut statement = statement("a", "b");
            statement.connector = connector(namespace, uid);
            Proof::signed_bytes(&statement, "g", OriginState::Reachable)
        };
        assert_ne!(of("ab", "c"), of("a", "bc"));
    }
}
