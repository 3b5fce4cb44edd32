//! The routing table: immutable, built whole from what was watched, swapped atomically. Nothing here
//! reads a cache or a socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::tunnel::{PathMatchType, RouteFilter, RouteMatch};
use aplomb_api::wire::ConnectorId;
use ipnet::IpNet;
use rustls::sign::CertifiedKey;

/// Everything that requests need.
#[derive(Clone, Debug, Default)]
pub struct RoutingTable {
    /// By exact hostname, in lower case.
    pub hosts: BTreeMap<String, Arc<VirtualHost>>,
    /// By the part after `*.`; the longest that fits wins, after exact ones.
    pub wildcards: BTreeMap<String, Arc<VirtualHost>>,
    /// Claimed hostnames that are not served now, and that no wildcard may serve.
    pub reserved: BTreeSet<String>,
    /// By exact hostname, or `*.` and a suffix: what a TLS client that asks for it is shown.
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

    /// Whether a connection with TLS, or without it, is one of them.
    #[must_use]
    pub const fn includes(self, tls: bool) -> bool {
        if tls { self.https } else { self.http }
    }

    /// Those of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self {
            http: self.http || other.http,
            https: self.https || other.https,
        }
    }
}

/// What is served under a hostname.
#[derive(Clone, Debug)]
pub struct VirtualHost {
    /// Whose it is.
    pub tunnel: Arc<TunnelInfo>,
    /// The protocols of its listeners.
    pub protocols: Protocols,
    /// One for each match of each rule, in the Gateway API's order of precedence: the first that
    /// matches serves.
    pub routes: Vec<TableRoute>,
}

/// A tunnel, as far as requests name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelInfo {
    /// The namespace of its HTTPProxy.
    pub namespace: String,
    /// The name of its HTTPProxy.
    pub name: String,
    /// The UID of its HTTPProxy.
    pub uid: String,
    /// The generation of the HTTPProxy that its HTTPRoute was made from.
    pub generation: i64,
    /// Names this configuration, for `X-Aplomb-Revision`.
    pub revision: String,
}

impl TunnelInfo {
    /// Its namespace/name, for people.
    #[must_use]
    pub fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Some requests, and what becomes of them.
#[derive(Clone, Debug)]
pub struct TableRoute {
    /// The index of its rule in the HTTPRoute.
    pub rule: usize,
    /// The protocols of the listeners that it is attached to.
    pub protocols: Protocols,
    /// Which requests. Regular expressions were compiled when the table was built.
    pub matches: CompiledMatch,
    /// The filters of the rule, then of the backend.
    pub filters: Vec<RouteFilter>,
    /// What becomes of them.
    pub action: RouteAction,
    /// How long a response may take to begin.
    pub timeout: Option<Duration>,
}

impl TableRoute {
    /// What it matches of a path by prefix.
    pub(crate) fn path_prefix(&self) -> &str {
        let path = self.matches.wanted.path.as_ref();
        path.filter(|it| it.kind == PathMatchType::PathPrefix)
            .map_or("/", |it| &it.value)
    }
}

/// A match with its expressions compiled.
#[derive(Clone, Debug)]
pub struct CompiledMatch {
    /// What was asked for.
    pub wanted: RouteMatch,
    /// The path's expression, anchored at both ends.
    pub path: Option<regex::Regex>,
    /// The expressions of headers, by their index.
    pub headers: BTreeMap<usize, regex::Regex>,
    /// The expressions of query parameters, by their index.
    pub query: BTreeMap<usize, regex::Regex>,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum RouteAction {
    /// It goes to an origin.
    Forward(Arc<OriginTarget>),
    /// A filter answers it with a redirect.
    Redirect,
    /// It has nowhere to go: a status code and a stable word for it.
    NoBackend {
        /// The status code.
        status: u16,
        /// The word, of [`crate::reason`].
        reason: &'static str,
    },
}

/// An origin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OriginTarget {
    /// How it is reached.
    pub target: OriginAddress,
    /// Its host:port, as the endpoint says it.
    pub authority: String,
    /// The name in its certificate, if TLS is spoken to it.
    pub tls: Option<String>,
}

/// How an origin is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginAddress {
    /// Through an agent, which dials [`OriginTarget::authority`].
    Connector(Arc<AgentTarget>),
    /// From here.
    Addresses(Addresses),
}

/// What is dialed from here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addresses {
    /// Names or addresses with ports, checked after resolution.
    pub names: Vec<String>,
    /// The networks that the class opens. A connection is never used by a route with others.
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
    /// Which life of the agent.
    pub session: String,
    /// The relay it is reached through.
    pub relay: Option<String>,
    /// Where it is reached directly.
    pub addresses: Vec<SocketAddr>,
    /// The operator has seen it go: nothing is dialled until its session changes.
    pub released: bool,
}

impl AgentTarget {
    /// The Connector, as messages to its agent name it.
    #[must_use]
    pub fn connector_id(&self) -> ConnectorId {
        ConnectorId {
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
        }
    }
}
