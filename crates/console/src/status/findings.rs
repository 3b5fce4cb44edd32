//! What is not as it should be and why: the first thing that somebody who is called wants to read.
//!
//! Pure. An object that works is never in it, and one that does not always is.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Status;
use super::objects::{Name, Objects, condition, text};
use crate::light::Light;

/// How bad something is. The order is the order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It does not work and will not by itself.
    Error,
    /// It does not work yet, or not as fast as it could.
    #[default]
    Warning,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The kind of the object, or `Operator`, `Budget`, `Queue`.
    pub kind: String,
    /// Which.
    #[serde(flatten)]
    pub name: Name,
    /// A word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
}

/// Kinds that have no lamp: what they say of themselves is another's business.
const WITHOUT: [&str; 3] = ["ConnectorClass", "GatewayReplica", "HostnameClaim"];

/// Everything that is not as it should be, worst first.
#[must_use]
pub fn findings(status: &Status, objects: &Objects) -> Vec<Finding> {
    let mut found = of_process(status);
    for (kind, all) in objects.kinds().filter(|(kind, _)| !WITHOUT.contains(kind)) {
        found.extend(all.iter().filter_map(|object| of_object(kind, object)));
    }
    found.sort_by(|a, b| {
        let key = |it: &Finding| (it.severity, it.kind.clone(), it.name.clone());
        key(a).cmp(&key(b))
    });
    found
}

fn of_object(kind: &str, object: &Value) -> Option<Finding> {
    let (proof, well) = match kind {
        "Connector" => ("Online", online(object)),
        _ => ("Ready", Light::of(object) == Light::Green),
    };
    if well {
        return None;
    }
    let going = !object["metadata"]["deletionTimestamp"].is_null();
    let said = condition(object, proof);
    let (reason, message) = match said {
        _ if going => ("Deleting".to_owned(), "it is being deleted".to_owned()),
        Some(said) if said["status"] == "True" => {
            let message = "what was proven is not about the newest spec";
            ("Outdated".to_owned(), message.to_owned())
        }
        Some(said) => (text(&said["reason"]), text(&said["message"])),
        None => {
            let message = "nobody has looked at it yet: is its operator running?";
            ("NotObserved".to_owned(), message.to_owned())
        }
    };
    let severity = match Light::of(object) {
        Light::Amber { .. } => Severity::Warning,
        _ if going => Severity::Warning,
        _ => Severity::Error,
    };
    let since = said.and_then(|it| it["lastTransitionTime"].as_str()?.parse().ok());
    Some(Finding {
        severity,
        kind: kind.to_owned(),
        name: Name::of(object),
        reason,
        message,
        since,
    })
}

fn online(object: &Value) -> bool {
    condition(object, "Online").is_some_and(|it| it["status"] == "True")
}

fn of_process(status: &Status) -> Vec<Finding> {
    let finding = |severity, kind: &str, name: &str, reason: &str, message: String| Finding {
        severity,
        kind: kind.to_owned(),
        name: Name {
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
                Severity::Error,
                "Operator",
                &operator.name,
                "Unhealthy",
                it.clone(),
            )
        })
    });
    let budgets = status.budgets.iter().filter_map(|budget| {
        let message = format!("no call is allowed for {:.0} s", budget.closed_for_seconds?);
        Some(finding(
            Severity::Warning,
            "Budget",
            &budget.target,
            "Closed",
            message,
        ))
    });
    let queues = status.queues.iter().flat_map(|queue| {
        let quarantined = queue.quarantined.iter();
        quarantined.map(|key| {
            let message =
                format!("{key} keeps failing by a defect and is not run until its spec changes");
            finding(
                Severity::Error,
                "Queue",
                &queue.controller,
                "Quarantined",
                message,
            )
        })
    });
    operators.chain(budgets).chain(queues).collect()
}
