//! Problems and their reasons: the first page to read during an incident.
//!
//! Pure. An object that does not work is always listed; one that works is listed if something threatens
//! it. No finding is milder than the alert for the same problem: `docs/console.md` compares them.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects::{ObjectMap, ObjectName, find_condition, value_text};
use super::{LimiterRow, Overview};
use crate::health::HealthColor;

/// Severity. The order is the order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingSeverity {
    /// It does not work and will not recover by itself.
    Error,
    /// It does not work yet, is slow, or is about to fail. Or the owner of a tunnel has something to do,
    /// not the platform.
    #[default]
    Warning,
    /// Intended, such as a stopped agent: nothing to investigate.
    Notice,
}

impl FindingSeverity {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finding {
    pub severity: FindingSeverity,
    /// The kind of the object, or `Operator`, `Budget`, `Queue`.
    pub kind: String,
    #[serde(flatten)]
    pub name: ObjectName,
    /// A reason for programs, in CamelCase.
    pub reason: String,
    /// A message for people.
    pub message: String,
    /// When it began, if that is known.
    pub since: Option<Timestamp>,
}

/// Kinds without a health color: their problems show on the objects that they belong to.
const KINDS_WITHOUT_FINDINGS: [&str; 3] = ["ConnectorClass", "GatewayReplica", "HostnameClaim"];

/// All problems, worst first.
#[must_use]
pub fn find_all(status: &Overview, objects: &ObjectMap) -> Vec<Finding> {
    let mut found = process_findings(status);
    for (kind, all) in objects
        .kinds()
        .filter(|(kind, _)| !KINDS_WITHOUT_FINDINGS.contains(kind))
    {
        for object in all {
            let unproven = object_finding(kind, object, status.at);
            let threats = threat_findings(kind, object, status.at).into_iter();
            let known = unproven.as_ref().map(|it| it.reason.clone());
            found.extend(threats.filter(|it| Some(&it.reason) != known.as_ref()));
            found.extend(unproven);
        }
    }
    found.sort_by(|a, b| {
        let key = |it: &Finding| (it.severity, it.kind.clone(), it.name.clone());
        key(a).cmp(&key(b))
    });
    found
}

fn object_finding(kind: &str, object: &Value, at: Timestamp) -> Option<Finding> {
    let (proof, well) = match kind {
        "Connector" if !is_online(object) => ("Online", false),
        // Its agent runs, but its class does not exist or has a relay that is not a URL.
        "Connector" => ("Ready", !is_refused(object)),
        _ => ("Ready", HealthColor::from_object(object) == HealthColor::Green),
    };
    if well {
        return None;
    }
    let going = !object["metadata"]["deletionTimestamp"].is_null();
    let said = find_condition(object, proof);
    let (reason, message) = match said {
        _ if going => ("Deleting".to_owned(), "it is being deleted".to_owned()),
        Some(said) if said["status"] == "True" => {
            let message = "proven for an older spec only";
            ("Outdated".to_owned(), message.to_owned())
        }
        Some(said) => (value_text(&said["reason"]), value_text(&said["message"])),
        None => {
            let message = "not observed yet; check that its operator is running";
            ("NotObserved".to_owned(), message.to_owned())
        }
    };
    let since = said.and_then(transition_time);
    let severity = match HealthColor::from_object(object) {
        _ if going => FindingSeverity::Warning,
        _ if reason.starts_with("Connector") && is_released(object, "ConnectorOnline") => FindingSeverity::Notice,
        _ if kind == "Connector" && is_released(object, "Online") => FindingSeverity::Notice,
        _ if reason == "ScaledToZero" => FindingSeverity::Notice,
        _ if needs_user_action(kind, &reason) => FindingSeverity::Warning,
        HealthColor::Amber { .. } if !lasts_longer(since, alert_delay(kind), at) => FindingSeverity::Warning,
        _ => FindingSeverity::Error,
    };
    Some(Finding {
        severity,
        kind: kind.to_owned(),
        name: ObjectName::from_object(object),
        reason,
        message,
        since,
    })
}

fn transition_time(condition: &Value) -> Option<Timestamp> {
    condition["lastTransitionTime"].as_str()?.parse().ok()
}

fn lasts_longer(since: Option<Timestamp>, long: SignedDuration, at: Timestamp) -> bool {
    since.is_some_and(|since| at.duration_since(since) >= long)
}

/// Whether its agent was stopped on purpose. A tunnel repeats the reason of its Connector.
fn is_released(object: &Value, said: &str) -> bool {
    let said = find_condition(object, said);
    said.is_some_and(|it| it["status"] == "False" && it["reason"] == "Released")
}

/// Prefixes of HTTPProxy reasons that blame the agent, origin, hostname or certificate, not the platform.
/// The alert `TunnelNotProven` excludes the same.
const TENANT_REASON_PREFIXES: [&str; 5] = ["Connector", "Origin", "Hostname", "Certificate", "Invalid"];

/// Reasons of the Coder kinds that only have alerts of severity warning: `CoderKeyNotReady`,
/// `CoderTokenRejected`, `CoderServerUnreachable` and `CoderRateLimited`.
const CODER_USER_REASONS: [&str; 24] = [
    "ProvisionerKeyFailed",
    "ProvisionerKeyNotOurs",
    "OrganizationNotFound",
    "RegistrationFailed",
    "ProxyNotOurs",
    "SecretNotOurs",
    "ImageMissing",
    "NotEntitled",
    "NotSupported",
    "Forbidden",
    "TokenRejected",
    "TokenOfOtherServer",
    "OperatorAccessNotReady",
    "OperatorTokenSecretRefMissing",
    "OperatorTokenSecretUnavailable",
    "Stale",
    "ProvisionerKeyPending",
    "NotRegistered",
    "ServerUnreachable",
    "ControlPlaneUnavailable",
    "InvalidCABundle",
    "EntitlementsQueryFailed",
    "RateLimited",
    "WaitingForBudget",
];

/// Whether only a person, or time, can resolve this reason for this kind.
fn needs_user_action(kind: &str, reason: &str) -> bool {
    match kind {
        "Connector" => reason != "NotObserved",
        "HTTPProxy" => TENANT_REASON_PREFIXES.iter().any(|start| reason.starts_with(start)),
        "CoderProvisioner" | "CoderWorkspaceProxy" => CODER_USER_REASONS.contains(&reason),
        _ => false,
    }
}

/// How long an object of this kind may be progressing before its alert fires.
fn alert_delay(kind: &str) -> SignedDuration {
    SignedDuration::from_mins(match kind {
        "CoderProvisioner" => 15,
        "CoderWorkspaceProxy" => 10,
        _ => 2,
    })
}

/// Problems that may threaten an object while it is Ready.
fn threat_findings(kind: &str, object: &Value, at: Timestamp) -> Vec<Finding> {
    let finding = |(severity, reason, message, since): Threat| Finding {
        severity,
        kind: kind.to_owned(),
        name: ObjectName::from_object(object),
        reason,
        message,
        since,
    };
    let mut told = match kind {
        "StableEgress" => egress_threats(object, at),
        _ => Vec::new(),
    };
    let limited = object["status"]["rateLimited"]["since"].as_str();
    let limited = limited.and_then(|it| it.parse().ok());
    if lasts_longer(limited, SignedDuration::from_mins(30), at) {
        let message = "the server rejects calls with its rate limit".to_owned();
        told.push((FindingSeverity::Warning, "RateLimited".to_owned(), message, limited));
    }
    // Ready keeps its last proven value, so a rejected call does not show in it.
    let refused = find_condition(object, "Reconciling");
    let refused = refused.filter(|it| it["status"] == "True" && it["reason"] == "Forbidden");
    told.extend(refused.map(|it| {
        let (reason, message) = (value_text(&it["reason"]), value_text(&it["message"]));
        (FindingSeverity::Warning, reason, message, transition_time(it))
    }));
    told.into_iter().map(finding).collect()
}

/// Severity, reason and message, and since when.
type Threat = (FindingSeverity, String, String, Option<Timestamp>);

fn egress_threats(object: &Value, at: Timestamp) -> Vec<Threat> {
    let status = &object["status"];
    let conditions = status["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    let mut told: Vec<Threat> = conditions
        .filter_map(|it| {
            let severity = condition_severity(it, at)?;
            Some((
                severity,
                value_text(&it["reason"]),
                value_text(&it["message"]),
                transition_time(it),
            ))
        })
        .collect();
    if status["budget"]["level"] == "Reserve" {
        let message = "the provider's rate limit is nearly used up; the rest is reserved for moves";
        let reason = "BudgetReserve".to_owned();
        told.push((FindingSeverity::Warning, reason, message.to_owned(), None));
    }
    if status["move"]["overdue"] == true {
        let message = format!(
            "the move to {} exceeded its deadline",
            value_text(&status["move"]["to"])
        );
        let reason = "MoveDeadlineExceeded".to_owned();
        told.push((FindingSeverity::Error, reason, message, None));
    }
    told
}

/// The severity of a StableEgress condition other than Ready, if it reports a problem.
fn condition_severity(condition: &Value, at: Timestamp) -> Option<FindingSeverity> {
    let word = |field: &str| condition[field].as_str().unwrap_or_default();
    match (word("type"), word("status"), word("reason")) {
        ("Redundant", "False", "NoCandidate") => Some(FindingSeverity::Error),
        ("Redundant" | "ProviderReachable" | "LabelsConsistent" | "Fenced", "False", _) => {
            Some(FindingSeverity::Warning)
        }
        // A hold this old may have been forgotten.
        ("Held", "True", _) if lasts_longer(transition_time(condition), SignedDuration::from_hours(24), at) => {
            Some(FindingSeverity::Warning)
        }
        ("Held", "True", _) => Some(FindingSeverity::Notice),
        _ => None,
    }
}

fn is_refused(object: &Value) -> bool {
    find_condition(object, "Ready").is_some_and(|it| it["status"] == "False")
}

fn is_online(object: &Value) -> bool {
    find_condition(object, "Online").is_some_and(|it| it["status"] == "True")
}

/// Whether less than a tenth is left, or no more than the reserve. A limit that refills within minutes is
/// often empty in normal use, so it is left out.
fn is_nearly_empty(budget: &LimiterRow) -> bool {
    const SLOW_SECONDS: f64 = 600.0;
    let Some(capacity) = budget.capacity.filter(|it| *it > 0.0) else {
        return false;
    };
    let slow = capacity >= budget.rate * SLOW_SECONDS;
    slow && budget.available <= budget.reserve.max(capacity / 10.0)
}

fn process_findings(status: &Overview) -> Vec<Finding> {
    let finding = |severity, kind: &str, name: &str, reason: &str, message: String| Finding {
        severity,
        kind: kind.to_owned(),
        name: ObjectName {
            namespace: None,
            name: name.to_owned(),
        },
        reason: reason.to_owned(),
        message,
        since: None,
    };
    let operators = status.operators.iter().flat_map(|operator| {
        let trouble = operator.trouble.iter();
        trouble.map(|it| {
            finding(
                FindingSeverity::Error,
                "Operator",
                &operator.name,
                "Unhealthy",
                it.clone(),
            )
        })
    });
    let budgets = status.budgets.iter().filter_map(|budget| {
        let (reason, message) = match budget.closed_for_seconds {
            Some(left) => ("Closed", format!("no calls are allowed for {left:.0} s")),
            None if is_nearly_empty(budget) => {
                let left = budget.available;
                ("Low", format!("{left:.0} calls left, some reserved for urgent calls"))
            }
            None => return None,
        };
        let severity = FindingSeverity::Warning;
        Some(finding(severity, "Budget", &budget.target, reason, message))
    });
    let queues = status.queues.iter().flat_map(|queue| {
        let quarantined = queue.quarantined.iter();
        quarantined.map(|key| {
            let message = format!("reconcile of {key} keeps failing; stopped until its spec changes");
            finding(
                FindingSeverity::Error,
                "Queue",
                &queue.controller,
                "Quarantined",
                message,
            )
        })
    });
    operators.chain(budgets).chain(queues).collect()
}
