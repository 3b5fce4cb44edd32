//! Types shared by `observe`, `decide` and `act`. Data only. A [`TableInputs`] contains everything a routing
//! table depends on, so that the same input always gives the same [`TablePlan`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aplomb::ObjectKey;
use aplomb_api::tunnel::{AppliedVersions, Claimant, ConnectionDetails, QuarantinedRoute};
use ipnet::IpNet;
use iroh::RelayUrl;
use rustls::sign::CertifiedKey;

use crate::control::views::{GatewayView, RouteView, SliceView};
use crate::routing::{AgentTarget, RoutingTable};

#[derive(Clone, Default)]
pub struct TableInputs {
    /// The Gateways of our class.
    pub gateways: Vec<Arc<GatewayView>>,
    pub routes: Vec<Arc<RouteView>>,
    pub slices: BTreeMap<ObjectKey, Arc<SliceView>>,
    pub connectors: BTreeMap<ObjectKey, ConnectorInfo>,
    pub proxies: BTreeMap<ObjectKey, String>,
    pub claims: BTreeMap<String, Claim>,
    pub domains: BTreeSet<String>,
    /// The first labels of claimed hostnames that are platform hostnames of an HTTPProxy.
    pub labels: BTreeSet<String>,
    /// The certificates, or why a Secret has none.
    pub certificates: BTreeMap<ObjectKey, Result<Arc<CertifiedKey>, String>>,
    /// The relays that an administrator permits. Agents may register any.
    pub relays: BTreeSet<RelayUrl>,
    /// The networks that each ConnectorClass permits.
    pub class_networks: BTreeMap<String, Vec<IpNet>>,
    /// The versions that the caches had reached before any of this was read.
    pub versions: AppliedVersions,
    /// The UIDs of Gateways whose HTTPProxy may be about to appear.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub claimant: Claimant,
    /// When it was created: RFC 3339 in UTC and whole seconds.
    pub created: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectorInfo {
    /// Its UID, because a name can be reused.
    pub uid: String,
    /// The addresses that its agent registered; `None` before that.
    pub details: Option<ConnectionDetails>,
    /// Its agent shut down gracefully and has not come back since.
    pub released: bool,
    /// Its agent was told to accept this gateway.
    pub gateway_listed: bool,
}

/// The routing table, and the report about it.
#[derive(Clone, Debug, Default)]
pub struct TablePlan {
    pub table: RoutingTable,
    pub report: TableReport,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableReport {
    pub applied: AppliedVersions,
    pub relays: Vec<String>,
    pub tunnels: usize,
    /// The objects that were omitted, sorted.
    pub quarantined: Vec<QuarantinedRoute>,
    pub session_targets: BTreeMap<ObjectKey, SessionTarget>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTarget {
    pub target: Arc<AgentTarget>,
    /// Whether its agent was told to accept this gateway: a dial before that fails.
    pub gateway_listed: bool,
}
