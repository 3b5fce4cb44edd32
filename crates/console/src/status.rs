//! Everything at one moment: serialized by `/status.json`, rendered on the page and printed by
//! `aplomb status`. One value, so that they cannot disagree.
//!
//! Pure: made from objects, engine states and journals that the caller has read. It holds names, conditions, times and
//! counts. A value of a spec, an annotation or a Secret is included only if a field here names it.

mod coder;
mod egress;
mod findings;
mod objects;
mod process;
#[cfg(test)]
mod tests;
mod tunnel;

use std::sync::LazyLock;

use aplomb::ObjectRef;
use aplomb::admin::DebugState;
use aplomb::journal::JournalLine;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::table::{self, KindInfo, ObjectTable};

pub use self::coder::{KeyRow, ProvisionerRow, ProxyRow, ThrottleRow};
pub use self::egress::{BudgetRow, EgressRow, MoveRow, NodeRow};
pub use self::findings::{Finding, FindingSeverity, find_all};
pub use self::objects::{ObjectMap, ObjectName};
pub use self::process::{KindRow, LaneRow, LimiterLaneRow, LimiterRow, OperatorRow, QueueRow, RunRow, WatchRow};
pub use self::tunnel::{ConnectorRow, PushbackMark, StageRow, TimelineRow, TunnelRow};
pub(crate) use self::tunnel::{earliest_time, pushback_marks};

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overview {
    pub at: Timestamp,
    /// The version of the program that reports this.
    pub version: String,
    pub operators: Vec<OperatorRow>,
    /// The informers of the engines.
    pub watches: Vec<WatchRow>,
    /// Rate limits, by target.
    pub budgets: Vec<LimiterRow>,
    /// Queued and running work, by controller.
    pub queues: Vec<QueueRow>,
    /// Events that were passed on or dropped, and writes, by kind.
    pub kinds: Vec<KindRow>,
    pub tunnels: Vec<TunnelRow>,
    /// The agents of the tunnels.
    pub connectors: Vec<ConnectorRow>,
    pub egresses: Vec<EgressRow>,
    /// Provisioner daemons and their keys.
    pub provisioners: Vec<ProvisionerRow>,
    pub proxies: Vec<ProxyRow>,
    /// Our kinds as `kubectl get` shows them, if they are watched.
    pub tables: Vec<ObjectTable>,
    /// Problems, worst first.
    pub findings: Vec<Finding>,
}

/// Parsed once: that costs more than all tables.
static RESOURCES: LazyLock<Vec<KindInfo>> = LazyLock::new(table::all_resources);

/// The kind with this name or plural, in any case.
pub(crate) fn find_resource(word: &str) -> Option<String> {
    let meant = |it: &&KindInfo| {
        [&it.kind, &it.plural]
            .iter()
            .any(|name| name.eq_ignore_ascii_case(word))
    };
    RESOURCES.iter().find(meant).map(|it| it.kind.clone())
}

fn object_tables(objects: &ObjectMap, at: Timestamp) -> Vec<ObjectTable> {
    let known = RESOURCES.iter().filter_map(|resource| {
        let all = objects.watched(&resource.kind)?;
        Some(resource.build_table(all, at))
    });
    known.collect()
}

#[derive(Clone, Copy)]
pub struct OverviewInputs<'a> {
    /// Whole objects of our kinds.
    pub objects: &'a ObjectMap,
    /// The engines of the process, by name.
    pub engines: &'a [(String, DebugState)],
    /// The journal of an object, oldest first.
    pub journal: &'a dyn Fn(&ObjectRef) -> Vec<JournalLine>,
    pub at: Timestamp,
}

impl std::fmt::Debug for OverviewInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OverviewInputs")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Overview {
    #[must_use]
    pub fn from_inputs(inputs: OverviewInputs<'_>) -> Self {
        let OverviewInputs {
            objects, engines, at, ..
        } = inputs;
        let mut status = Self {
            at,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            operators: process::operator_rows(engines),
            watches: process::watch_rows(engines),
            budgets: process::budget_rows(engines),
            queues: process::queue_rows(engines),
            kinds: process::kind_rows(engines),
            tunnels: tunnel::tunnel_rows(objects, inputs.journal),
            connectors: tunnel::connector_rows(objects),
            egresses: egress::egress_rows(objects),
            provisioners: coder::provisioner_rows(objects),
            proxies: coder::proxy_rows(objects),
            tables: object_tables(objects, at),
            findings: Vec::new(),
        };
        status.findings = find_all(&status, objects);
        status
    }

    /// Whether no finding needs attention.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|it| it.severity == FindingSeverity::Notice)
    }
}
