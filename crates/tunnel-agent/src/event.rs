//! What there is to tell a person while an agent runs. The names and fields are read by programs
//! (`--json`): they may grow, and never change their meaning.

use std::net::SocketAddr;

use serde::Serialize;

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(
    tag = "event",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum AgentEvent {
    /// Connector and HTTPProxy are there.
    Registered {
        /// Their namespace.
        namespace: String,
        /// The Connector.
        connector: String,
        /// The HTTPProxy, if the agent has one of its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        tunnel: Option<String>,
        /// This life of the agent.
        session: String,
    },
    /// The operator has said which gateways and relays there are.
    Accepted {
        /// How many gateways.
        gateways: usize,
        /// How many relays.
        relays: usize,
    },
    /// Gateways can connect.
    Listening {
        /// The endpoint id.
        id: String,
        /// The addresses that were published.
        addresses: Vec<SocketAddr>,
        /// The relay that was published.
        #[serde(skip_serializing_if = "Option::is_none")]
        relay: Option<String>,
    },
    /// A heartbeat failed.
    HeartbeatLost {
        /// Why.
        message: String,
    },
    /// And one went through again.
    HeartbeatRecovered,
    /// Every live gateway serves the tunnel.
    Programmed,
    /// A nonce came back signed through every live gateway.
    Proven {
        /// Where the tunnel is.
        url: String,
    },
    /// The tunnel does not work, or not yet.
    NotReady {
        /// A stable word.
        reason: String,
        /// What it means.
        message: String,
    },
    /// The tunnel works up to the service behind it, which takes no connection.
    OriginUnreachable {
        /// What it said.
        message: String,
    },
    /// A gateway was refused: it asked for another Connector, or speaks another version.
    Refused {
        /// Why, and what it may mean.
        message: String,
    },
    /// An object was deleted.
    Deleted {
        /// Which one, such as `httpproxy/web`.
        object: String,
    },
    /// The lease was given up: the connector is offline.
    Released,
}
