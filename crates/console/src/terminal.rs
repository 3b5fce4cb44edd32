//! One `Overview` from the overviews of several operators and the objects of the API server, and the tables that
//! `aplomb status` prints from it. Pure: the caller reads, this module combines.

#[cfg(test)]
mod tests;
mod text;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::status::{
    Finding, FindingSeverity, KindRow, ObjectMap, ObjectName, OperatorRow, Overview, OverviewInputs, find_all,
};

pub use self::text::{TextSection, sections};

/// Everything that could be read.
#[derive(Clone, Debug, Default)]
pub struct ScreenData {
    /// The overview of each operator that could be reached.
    pub statuses: Vec<Overview>,
    /// Our objects, as the API server has them.
    pub objects: ObjectMap,
    /// The Leases of the operators; `None` if they could not be read.
    pub leases: Option<Vec<Value>>,
}

/// Everything, as of `at`. Operators report their own state; objects come from the API server.
#[must_use]
pub fn merge_overview(readings: &ScreenData, at: Timestamp) -> Overview {
    let objects = &readings.objects;
    let mut status = Overview::from_inputs(OverviewInputs {
        objects,
        engines: &[],
        journal: &|_| Vec::new(),
        at,
    });
    for told in &readings.statuses {
        status.operators.extend(told.operators.iter().cloned());
        status.watches.extend(told.watches.iter().cloned());
        status.budgets.extend(told.budgets.iter().cloned());
        status.queues.extend(told.queues.iter().cloned());
        told.kinds
            .iter()
            .for_each(|kind| add_kind_counts(&mut status.kinds, kind));
    }
    let leases = readings.leases.as_deref().unwrap_or_default();
    let silent = leases.iter().map(operator_from_lease);
    let silent: Vec<OperatorRow> = silent.filter(|it| !reports_lease(&status, it)).collect();
    status.operators.extend(silent);
    status
        .operators
        .sort_by(|a, b| (&a.name, !a.leading).cmp(&(&b.name, !b.leading)));
    status.findings = find_all(&status, objects);
    status
        .findings
        .extend(leases.iter().filter_map(|lease| expired_finding(lease, at)));
    if status.operators.is_empty() && readings.leases.is_some() {
        status.findings.push(no_operators_finding());
    }
    status.findings.sort_by_key(|it| it.severity);
    status
}

fn reports_lease(status: &Overview, lease: &OperatorRow) -> bool {
    let mut told = status.operators.iter();
    told.any(|it| it.name == lease.name && it.identity == lease.identity)
}

/// The state of an operator, from its Lease.
fn operator_from_lease(lease: &Value) -> OperatorRow {
    let holder = lease["spec"]["holderIdentity"].as_str();
    let holder = holder.filter(|it| !it.is_empty()).map(str::to_owned);
    let transitions = lease["spec"]["leaseTransitions"].as_i64();
    OperatorRow {
        name: ObjectName::from_object(lease).name,
        leading: holder.is_some(),
        identity: holder.clone(),
        holder,
        transitions: transitions.and_then(|it| i32::try_from(it).ok()).unwrap_or_default(),
        ..OperatorRow::default()
    }
}

fn expired_finding(lease: &Value, at: Timestamp) -> Option<Finding> {
    let renewed: Timestamp = lease["spec"]["renewTime"].as_str()?.parse().ok()?;
    let seconds = lease["spec"]["leaseDurationSeconds"].as_i64()?;
    let until = renewed.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    let held = lease["spec"]["holderIdentity"]
        .as_str()
        .is_some_and(|it| !it.is_empty());
    let message = match held {
        true if at <= until => return None,
        true => "the leader has not renewed its Lease in time; it stopped or is disconnected",
        false => "its Lease has no holder; the operator was stopped",
    };
    Some(Finding {
        severity: FindingSeverity::Error,
        kind: "Operator".to_owned(),
        name: ObjectName::from_object(lease),
        reason: "NobodyLeads".to_owned(),
        message: message.to_owned(),
        since: Some(renewed),
    })
}

fn no_operators_finding() -> Finding {
    Finding {
        severity: FindingSeverity::Error,
        kind: "Operator".to_owned(),
        reason: "NotRunning".to_owned(),
        message: "no operator holds a Lease; start them with `aplomb run`".to_owned(),
        ..Finding::default()
    }
}

/// Adds up the counts of a kind that several processes watch.
fn add_kind_counts(kinds: &mut Vec<KindRow>, more: &KindRow) {
    match kinds.iter_mut().find(|it| it.kind == more.kind) {
        Some(known) => {
            known.events_passed += more.events_passed;
            known.events_dropped += more.events_dropped;
            known.writes += more.writes;
            known.writes_suppressed += more.writes_suppressed;
            known.conflicts += more.conflicts;
        }
        None => kinds.push(more.clone()),
    }
}
