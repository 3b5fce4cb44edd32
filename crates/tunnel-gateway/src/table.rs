//! The routing table: immutable, built as a whole from watched objects, and swapped atomically. It reads no
//! cache or socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::tunnel::{PathMatchType, RouteFilter, RouteMatch};
use aplomb_tunnel_protocol::ConnectorId;
use ipnet::IpNet;
use rustls::sign::CertifiedKey;

/// Everything that serving a request needs.
#[derive(Clone, Debug, Default)]
pub struct RoutingTable {
    /// By exact hostname, in lower case.
    pub hosts: BTreeMap<String, Arc<VirtualHost>>,
    /// By the suffix after `*.`. Exact hostnames take precedence, then the longest suffix.
    pub wildcards: BTreeMap<String, Arc<VirtualHost>>,
    /// Claimed hostnames that are not served now and that wildcards must not serve.
    pub reserved: BTreeSet<String>,
    /// By exact hostname or `*.` suffix: the certificate for TLS clients.
    pub certificates: BTreeMap<String, Arc<CertifiedKey>>,
}

/// The protocols of public listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols {
    /// Without TLS.
    pub http: bool,
    /// With TLS.
    pub https: bool,
}

impl Protocols {
    /// Both of them.
    pub const ALL: Self = Self {
        http: true,
        https: true,
    };

    /// Whether connections with TLS, or without it, are included.
    #[must_use]
    pub const fn includes(self, tls: bool) -> bool {
        if tls { self.https } else { self.http }
    }

    /// The union of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self {
            http: self.http || other.http,
            https: self.https || other.https,
        }
    }
}

/// The routes of one hostname.
#[derive(Clone, Debug)]
pub struct VirtualHost {
    /// The tunnel that owns it.
    pub tunnel: Arc<TunnelInfo>,
    /// The protocols of its listeners.
    pub protocols: Protocols,
    /// One for each match of each rule, in the Gateway API's order of precedence. The first match serves the
    /// request.
    pub routes: Vec<TableRoute>,
}

/// The identity of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelInfo {
    /// The namespace of its HTTPProxy.
    pub namespace: String,
    /// The name of its HTTPProxy.
    pub name: String,
    /// The UID of its HTTPProxy.
    pub uid: String,
    /// The generation of the HTTPProxy that its HTTPRoute was built from.
    pub generation: i64,
    /// Digest of this configuration, for `X-Aplomb-Revision`.
    pub revision: String,
}

impl TunnelInfo {
    /// Its namespace/name, for display.
    #[must_use]
    pub fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A match, and the action for requests that it selects.
#[derive(Clone, Debug)]
pub struct TableRoute {
    /// The index of its rule in the HTTPRoute.
    pub rule: usize,
    /// The protocols of the listeners that it is attached to.
    pub protocols: Protocols,
    /// The match. Regular expressions are compiled when the table is built.
    pub matches: CompiledMatch,
    /// The filters of the rule, then of the backend.
    pub filters: Vec<RouteFilter>,
    /// The action.
    pub action: RouteAction,
    /// Timeout for the start of the response.
    pub timeout: Option<Duration>,
}

impl TableRoute {
    /// The path prefix that it matches.
    pub(crate) fn path_prefix(&self) -> &str {
        let path = self.matches.wanted.path.as_ref();
        path.filter(|it| it.kind == PathMatchType::PathPrefix)
            .map_or("/", |it| &it.value)
    }
}

/// A match with its expressions compiled.
#[derive(Clone, Debug)]
pub struct CompiledMatch {
    /// The match in the spec.
    pub wanted: RouteMatch,
    /// The path's expression, anchored at both ends.
    pub path: Option<regex::Regex>,
    /// The expressions of headers, by their index.
    pub headers: BTreeMap<usize, regex::Regex>,
    /// The expressions of query parameters, by their index.
    pub query: BTreeMap<usize, regex::Regex>,
}

/// The action for a request.
#[derive(Clone, Debug)]
pub enum RouteAction {
    /// Forward it to an origin.
    Forward(Arc<OriginTarget>),
    /// Respond with the redirect of a filter.
    Redirect,
    /// No usable backend: respond with a status code and a reason.
    NoBackend {
        /// The status code.
        status: u16,
        /// The reason, one of [`crate::reason`].
        reason: &'static str,
    },
}

/// An origin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OriginTarget {
    /// Its address.
    pub target: OriginAddress,
    /// Its host:port, as the endpoint specifies it.
    pub authority: String,
    /// The server name for TLS to the origin.
    pub tls: Option<String>,
}

/// The address of an origin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginAddress {
    /// Through an agent, which dials [`OriginTarget::authority`].
    Connector(Arc<AgentTarget>),
    /// Dialed by the gateway itself.
    Addresses(Addresses),
}

/// Addresses that the gateway dials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addresses {
    /// Names or addresses with ports, checked after resolution.
    pub names: Vec<String>,
    /// The networks that the class permits. Connections are not shared between routes with different
    /// networks.
    pub open_networks: Vec<IpNet>,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentTarget {
    /// The namespace of the Connector.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The iroh endpoint id, in hex.
    pub id: String,
    /// Id of the agent session.
    pub session: String,
    /// The relay through which it is reached.
    pub relay: Option<String>,
    /// Addresses at which it is reached directly.
    pub addresses: Vec<SocketAddr>,
    /// It shut down gracefully: it is not dialed until its session changes.
    pub released: bool,
}

impl AgentTarget {
    /// The identity of the Connector in messages to its agent.
    #[must_use]
    pub fn connector_id(&self) -> ConnectorId {
        ConnectorId {
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
        }
    }
}
