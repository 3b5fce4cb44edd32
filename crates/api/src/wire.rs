//! What gateway and agent say to each other on an iroh stream, and what a proof is. Bytes and meaning
//! only: nothing here reads or writes a socket, and nothing here holds a key.
//!
//! The gateway opens a bidirectional stream and sends one [`StreamRequest`]; the agent answers with one
//! [`StreamReply`]. After `StreamRequest::Dial` and `StreamReply::Connected` the stream is the connection to the origin.
//! Each message is a frame: four bytes of length, big endian, then that much JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest that a prober waits for the answer to one question.
pub const MAX_PROBE_TIMEOUT: Duration = Duration::from_millis(1_200);
/// The longest that a gateway works on a proof.
const MAX_PROOF_TIMEOUT: Duration = Duration::from_millis(600);

/// How long a prober waits for one answer about a tunnel that is proven once in `interval`.
#[must_use]
pub fn probe_timeout(interval: Duration) -> Duration {
    MAX_PROBE_TIMEOUT.min(interval / 8)
}

/// How long a gateway works on a proof for a prober that waits for `patience`. The rest is time to say
/// what is wrong: an answer that comes too late looks like a gateway that does not answer.
#[must_use]
pub fn proof_timeout(patience: Duration) -> Duration {
    MAX_PROOF_TIMEOUT.min(patience * 2 / 3)
}

/// The longest that an agent looks at an origin for a proof.
const MAX_ORIGIN_CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long an agent looks at an origin for a gateway that waits `work` for the proof. The rest is time
/// to say that the origin does not answer.
#[must_use]
pub fn origin_check_timeout(work: Duration) -> Duration {
    MAX_ORIGIN_CHECK_TIMEOUT.min(work * 2 / 3)
}

/// The protocol's name in TLS. The number grows with every change that one side cannot do without.
pub const ALPN: &[u8] = b"aplomb/tunnel/2";
/// The version whose messages name no Connector. An agent accepts it only to answer what is wrong.
pub const OLD_ALPN: &[u8] = b"aplomb/tunnel/1";
/// The longest frame; a longer one is an error of the peer.
pub const MAX_FRAME_SIZE: usize = 16 * 1024;
/// The close code of a connection whose agent goes away on purpose.
pub const CLOSE_RELEASED: u32 = 1;
/// The close code of a connection whose peer is not listed.
pub const CLOSE_NOT_ALLOWED: u32 = 2;

/// The Connector that a message is about, as the gateway looked it up. An agent serves only the one it registered:
/// the status of a Connector can be copied by all who can read it, namespace and UID cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorId {
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
}

/// What a gateway asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum StreamRequest {
    /// A connection to an origin.
    Dial {
        /// The Connector that the tunnel leads to.
        connector: ConnectorId,
        /// The session that it states.
        session: String,
        /// host:port.
        target: String,
        /// The name in the origin's certificate, if TLS is to be spoken to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<String>,
    },
    /// A proof.
    Prove {
        /// What is to be signed.
        statement: ProofStatement,
        /// For how many milliseconds the gateway waits for the proof.
        within: u64,
        /// The origin whose reachability is asked for: host:port.
        target: String,
        /// The name in the origin's certificate, if TLS is spoken to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<String>,
    },
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum StreamReply {
    /// The origin is connected; the rest of the stream is its bytes.
    Connected,
    /// The proof.
    Proof(Proof),
    /// No.
    Refused {
        /// Why, for programs.
        refusal: StreamRefusal,
        /// Why, for people.
        message: String,
    },
}

/// Why an agent refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamRefusal {
    /// The target is not one of those it was told to expose.
    NotExposed,
    /// The target did not take the connection.
    OriginUnreachable,
    /// Another session is meant than this life of the agent.
    OtherSession,
    /// Another Connector is meant than the agent's.
    OtherConnector,
    /// The request makes no sense.
    Malformed,
    /// More than it will do at once.
    TooMany,
}

/// What a proof is about: this nonce, for this tunnel as it is now, by this life of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProofStatement {
    /// 32 random bytes in hex, never used twice.
    pub nonce: String,
    /// The UID of the HTTPProxy.
    pub tunnel: String,
    /// Its generation.
    pub generation: i64,
    /// The Connector that it leads to.
    pub connector: ConnectorId,
    /// The agent's session.
    pub session: String,
}

/// Whether the origin took a connection when the proof was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OriginState {
    /// It did.
    Reachable,
    /// It did not.
    Unreachable,
}

/// A statement that an agent stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// What it is about.
    pub statement: ProofStatement,
    /// The endpoint id of the gateway that asked, in hex, as the agent's connection knows it.
    pub gateway: String,
    /// Whether the origin can be reached.
    pub origin: OriginState,
    /// The agent's ed25519 signature of [`Proof::signed_bytes`], in hex.
    pub signature: String,
}

impl Proof {
    /// What is signed: every part with its length, so that no two proofs share their bytes, under a
    /// heading that no other signature of the key has.
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
            bytes.extend_from_slice(&body_length.to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

/// A frame that cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It is longer than [`LONGEST`].
    #[error("a frame of {0} bytes is longer than {LONGEST}")]
    TooLong(usize),
    /// It is not the JSON it should be.
    #[error("not a message of this protocol: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// A message as a frame.
///
/// # Errors
/// It is too long.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= MAX_FRAME_SIZE);
    let length = body_length.ok_or(FrameError::TooLong(body.len()))?;
    let mut frame = body_length.to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// How long the body of a frame is, from its first four bytes.
///
/// # Errors
/// It is too long.
pub fn body_length(head: [u8; 4]) -> Result<usize, FrameError> {
    let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
    if body_length > MAX_FRAME_SIZE {
        return Err(FrameError::TooLong(body_length));
    }
    Ok(body_length)
}

/// The message in the body of a frame.
///
/// # Errors
/// It is not one.
pub fn decode<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, FrameError> {
    Ok(serde_json::from_slice(body)?)
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
            assert!(
                work + work / 4 < patience,
                "{millis} ms: {work:?} of {patience:?}"
            );
            let look = origin_check_timeout(work);
            assert!(look + work / 4 < work, "{millis} ms: {look:?} of {work:?}");
            assert!(
                work >= patience / 2,
                "{millis} ms: {work:?} of {patience:?}"
            );
        }
    }

    #[test]
    fn messages_round_trip_through_frames() {
        let open = StreamRequest::Dial {
            connector: connector("team-a", "u1"),
            session: "s".to_owned(),
            target: "localhost:3000".to_owned(),
            tls: None,
        };
        let frame = encode(&open).expect("short");
        let head = frame[..4].try_into().expect("four bytes");
        assert_eq!(body_length(head).expect("short"), frame.len() - 4);
        assert_eq!(
            decode::<StreamRequest>(&frame[4..]).expect("readable"),
            open
        );
    }

    #[test]
    fn an_oversized_frame_is_rejected_by_its_length() {
        assert!(body_length(u32::MAX.to_be_bytes()).is_err());
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

    #[test]
    fn a_message_without_a_connector_is_malformed() {
        let statement = r#"{"nonce":"00","tunnel":"t","generation":1,"session":"s"}"#;
        let dial = r#"{"kind":"dial","session":"s","target":"localhost:1"}"#;
        let prove = format!(r#"{{"kind":"prove","statement":{statement},"target":"localhost:1"}}"#);
        for old in [dial, &prove] {
            let error = decode::<StreamRequest>(old.as_bytes()).expect_err("it is of version 1");
            assert!(error.to_string().contains("`connector`"), "{error}");
        }
    }
}
