//! Events that an agent reports while it runs. Programs read their names and fields (`--json`), so these may
//! be extended but never change their meaning.

use std::net::SocketAddr;

use serde::Serialize;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AgentEvent {
    /// The Connector and the HTTPProxy exist.
    Registered {
        /// Their namespace.
        namespace: String,
        /// The Connector.
        connector: String,
        /// The HTTPProxy, if the agent has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        tunnel: Option<String>,
        /// The id of this agent session.
        session: String,
    },
    /// The operator has published the gateways and relays.
    Accepted {
        /// Number of gateways.
        gateways: usize,
        /// Number of relays.
        relays: usize,
    },
    /// Gateways can connect.
    Listening {
        /// The endpoint id.
        id: String,
        /// The published addresses.
        addresses: Vec<SocketAddr>,
        /// The published relay.
        #[serde(skip_serializing_if = "Option::is_none")]
        relay: Option<String>,
    },
    /// A heartbeat failed.
    HeartbeatLost {
        /// The cause.
        message: String,
    },
    /// A heartbeat succeeded again.
    HeartbeatRecovered,
    /// Every live gateway serves the tunnel.
    Programmed,
    /// Every live gateway returned a signed proof.
    Proven {
        /// The URL of the tunnel.
        url: String,
    },
    /// The tunnel does not work or is not ready yet.
    NotReady {
        /// A stable reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// The tunnel works, but the agent cannot connect to its origin.
    OriginUnreachable {
        /// The message.
        message: String,
    },
    /// A gateway's request was refused: it named another Connector, or uses another version.
    Refused {
        /// The cause.
        message: String,
    },
    /// An object was deleted.
    Deleted {
        /// The object, such as `httpproxy/web`.
        object: String,
    },
    /// The lease was released: the connector is offline.
    Released,
}
