//! The messages between gateway and agent on an iroh stream, and the format of a proof. No sockets and no keys:
//! only bytes and their meaning.
//!
//! The gateway opens a bidirectional stream and sends one [`StreamRequest`]; the agent answers with one
//! [`StreamReply`]. After `StreamRequest::Dial` and `StreamReply::Connected` the stream is the connection to the origin.
//! Each message is a frame: four bytes of length, big endian, then that much JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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

/// The protocol's name in TLS. The number is raised with every incompatible change.
pub const ALPN: &[u8] = b"aplomb/tunnel/2";
/// The version whose messages do not name a Connector. An agent accepts it only to respond with an error.
pub const OLD_ALPN: &[u8] = b"aplomb/tunnel/1";
/// The maximum length of a frame. A longer frame is a protocol error.
pub const MAX_FRAME_SIZE: usize = 16 * 1024;
/// The close code of a connection whose agent shuts down.
pub const CLOSE_RELEASED: u32 = 1;
/// The close code of a connection whose peer is not listed.
pub const CLOSE_NOT_ALLOWED: u32 = 2;

/// The Connector that a message is about, from the gateway's own lookup. An agent serves only the Connector that
/// it registered. Every reader can copy the status of a Connector, but not its namespace and UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorId {
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
}

/// A gateway's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum StreamRequest {
    /// A connection to an origin.
    Dial {
        /// The Connector of the tunnel.
        connector: ConnectorId,
        /// The session in its status.
        session: String,
        /// host:port.
        target: String,
        /// The name in the origin's certificate, if the connection uses TLS.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<String>,
    },
    /// A proof.
    Prove {
        /// The statement to sign.
        statement: ProofStatement,
        /// How many milliseconds the gateway waits for the proof.
        within: u64,
        /// The origin to check: host:port.
        target: String,
        /// The name in the origin's certificate, if the connection uses TLS.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<String>,
    },
}

/// An agent's reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum StreamReply {
    /// The origin is connected. The rest of the stream is the connection.
    Connected,
    /// The proof.
    Proof(Proof),
    /// The agent refuses.
    Refused {
        /// The reason, for programs.
        refusal: StreamRefusal,
        /// The reason, for people.
        message: String,
    },
}

/// Why an agent refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamRefusal {
    /// The agent does not expose the target.
    NotExposed,
    /// The target did not accept the connection.
    OriginUnreachable,
    /// The request names a session that is not the agent's current one.
    OtherSession,
    /// The request names a Connector that is not the agent's.
    OtherConnector,
    /// The request is malformed.
    Malformed,
    /// Too many requests at once.
    TooMany,
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

/// A frame that cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It is longer than [`MAX_FRAME_SIZE`].
    #[error("a frame of {0} bytes is longer than {MAX_FRAME_SIZE}")]
    TooLong(usize),
    /// Its content is not the expected JSON.
    #[error("not a message of this protocol: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// A message as a frame.
///
/// # Errors
/// It is too long.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MAX_FRAME_SIZE);
    let length = length.ok_or(FrameError::TooLong(body.len()))?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// How long the body of a frame is, from its first four bytes.
///
/// # Errors
/// It is too long.
pub fn body_length(head: [u8; 4]) -> Result<usize, FrameError> {
    let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
    if length > MAX_FRAME_SIZE {
        return Err(FrameError::TooLong(length));
    }
    Ok(length)
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
            assert!(work + work / 4 < patience, "{millis} ms: {work:?} of {patience:?}");
            let look = origin_check_timeout(work);
            assert!(look + work / 4 < work, "{millis} ms: {look:?} of {work:?}");
            assert!(work >= patience / 2, "{millis} ms: {work:?} of {patience:?}");
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
        assert_eq!(decode::<StreamRequest>(&frame[4..]).expect("readable"), open);
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
