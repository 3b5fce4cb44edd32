//! What `observe` gathers, what `decide` answers and what `act` carries out: the words the three share.
//! Data only. Everything a routing table depends on is in a [`TableInputs`], so that the same world always
//! leads to the same [`TablePlan`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aplomb::ObjectKey;
use aplomb_api::tunnel::{AppliedVersions, Claimant, ConnectionDetails, QuarantinedRoute};
use ipnet::IpNet;
use iroh::RelayUrl;
use rustls::sign::CertifiedKey;

use crate::table::{AgentTarget, RoutingTable};
use crate::views::{GatewayView, RouteView, SliceView};

/// Everything a routing table depends on.
#[derive(Clone, Default)]
pub struct TableInputs {
    /// The Gateways of our class.
    pub gateways: Vec<Arc<GatewayView>>,
    /// The HTTPRoutes.
    pub routes: Vec<Arc<RouteView>>,
    /// The EndpointSlices that may be of use.
    pub slices: BTreeMap<ObjectKey, Arc<SliceView>>,
    /// The Connectors.
    pub connectors: BTreeMap<ObjectKey, ConnectorInfo>,
    /// The UIDs of the HTTPProxies.
    pub proxies: BTreeMap<ObjectKey, String>,
    /// Whose each claimed hostname is.
    pub claims: BTreeMap<String, Claim>,
    /// The base domains of the ConnectorClasses.
    pub domains: BTreeSet<String>,
    /// The first labels of claimed hostnames that the platform gives to an HTTPProxy.
    pub labels: BTreeSet<String>,
    /// The certificates, or why a Secret holds none.
    pub certificates: BTreeMap<ObjectKey, Result<Arc<CertifiedKey>, String>>,
    /// The relays that an administrator allows: an agent may say any.
    pub relays: BTreeSet<RelayUrl>,
    /// The networks that each ConnectorClass opens.
    pub class_networks: BTreeMap<String, Vec<IpNet>>,
    /// The versions that the caches had passed before any of this was read.
    pub versions: AppliedVersions,
    /// The UIDs of Gateways whose HTTPProxy may be about to be seen.
    pub awaited: BTreeSet<String>,
}

impl fmt::Debug for TableInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("gateways", &self.gateways.len())
            .field("routes", &self.routes.len())
            .field("versions", &self.versions)
            .finish_non_exhaustive()
    }
}

/// A claim on a hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is.
    pub claimant: Claimant,
    /// When it was made: RFC 3339 in UTC and whole seconds.
    pub created: String,
}

/// A Connector, as far as requests need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectorInfo {
    /// Its UID: a name can be given to another.
    pub uid: String,
    /// How its agent is reached, as it says itself; `None` while it has never said so.
    pub details: Option<ConnectionDetails>,
    /// Its agent has gone on purpose, and no other life of it has been seen since.
    pub released: bool,
    /// Its agent has been told to accept this gateway.
    pub gateway_listed: bool,
}

/// What is to be served, and what is to be said of it.
#[derive(Clone, Debug, Default)]
pub struct TablePlan {
    /// The routing table.
    pub table: RoutingTable,
    /// What is to be said.
    pub report: TableReport,
}

/// What is to be said of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableReport {
    /// The versions it takes into account.
    pub applied: AppliedVersions,
    /// The relays that it allows.
    pub relays: Vec<String>,
    /// How many tunnels it serves.
    pub tunnels: usize,
    /// What it had to leave out, sorted.
    pub quarantined: Vec<QuarantinedRoute>,
    /// The connectors to hold a session with.
    pub session_targets: BTreeMap<ObjectKey, SessionTarget>,
}

/// A connector that tunnels go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTarget {
    /// How it is reached.
    pub target: Arc<AgentTarget>,
    /// Whether its agent has been told to accept this gateway: a dial before that is in vain.
    pub gateway_listed: bool,
}
