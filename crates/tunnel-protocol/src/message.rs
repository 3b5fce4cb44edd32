//! What gateway and agent send each other, and the protocol's names and close codes.

use serde::{Deserialize, Serialize};

use crate::proof::{Proof, ProofStatement};

/// The protocol's name in TLS. The number is raised with every incompatible change.
pub const ALPN: &[u8] = b"aplomb/tunnel/2";
/// The version whose messages do not name a Connector. An agent accepts it only to respond with an error.
pub const OLD_ALPN: &[u8] = b"aplomb/tunnel/1";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_a_connector_is_malformed() {
        let statement = r#"{"nonce":"00","tunnel":"t","generation":1,"session":"s"}"#;
        let dial = r#"{"kind":"dial","session":"s","target":"localhost:1"}"#;
        let prove = format!(r#"{{"kind":"prove","statement":{statement},"target":"localhost:1"}}"#);
        for old in [dial, &prove] {
            let error = serde_json::from_str::<StreamRequest>(old).expect_err("it is of version 1");
            assert!(error.to_string().contains("`connector`"), "{error}");
        }
    }
}
