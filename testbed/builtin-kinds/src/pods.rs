//! Pods, and what deployments and replica sets share with them through their templates.

mod annotated;
mod containers;
pub(super) mod defaults;
mod environment;
mod print;
mod resources;
mod scheduling;
mod security;
mod validate;
mod volumes;
pub(super) mod warnings;

use serde_json::{Value, json};

pub(super) use resources::{requirements as resource_requirements, validate_name as resource_name};
pub(super) use scheduling::node_selector;
pub(super) use validate::{TAINT_EFFECTS, running_template, template as validate_template, tolerations};

use aplomb_apimachinery::resource::Part;

use super::behavior::KindBehavior;
use super::value::{at, items_mut, list, number, restore, set, text};

/// How pods behave.
pub(super) const POD: KindBehavior = KindBehavior {
    default: defaults::pod,
    prepare_create,
    prepare_update,
    generation: &[&["spec"]],
    validate: validate::pod,
    validate_update: validate::update,
    validates_updates: false,
    fixed_by_status: &[
        &["spec"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
    ],
    selectable,
    cells: print::cells,
    row_conditions: print::row_conditions,
    warnings: warnings::pod,
    // Pods are mostly written by machines: changes are not looked at.
    update_warnings: |_, _| Vec::new(),
    ..KindBehavior::PLAIN
};

fn prepare_create(pod: &mut Value) {
    defaults::admitted(pod);
    let class = defaults::qos_class(at(pod, &["spec"]));
    set(pod, &["status"], json!({ "phase": "Pending", "qosClass": class }));
    if !list(pod, &["spec", "schedulingGates"]).is_empty() {
        let now = at(pod, &["metadata", "creationTimestamp"]);
        let gated = json!([{ "type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": now, "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates" }]);
        set(pod, &["status", "conditions"], gated);
    }
}

fn prepare_update(pod: &mut Value, old: &Value, part: Part) {
    if part != Part::Status {
        defaults::tolerate_node_failure(pod);
        // What admission once set stays when a client leaves it out.
        for path in [["spec", "priority"], ["spec", "preemptionPolicy"]] {
            if at(pod, &path).is_null() {
                restore(pod, old, &path);
            }
        }
        return;
    }
    if text(pod, &["status", "qosClass"]).is_empty() {
        restore(pod, old, &["status", "qosClass"]);
    }
    if number(pod, &["status", "observedGeneration"]).unwrap_or(0) == 0 {
        restore(pod, old, &["status", "observedGeneration"]);
    }
    for condition in items_mut(pod, &["status", "conditions"]) {
        keep_observed_generation(condition, old);
    }
}

/// A kubelet that does not know `observedGeneration` must not erase it.
fn keep_observed_generation(condition: &mut Value, old: &Value) {
    if number(condition, &["observedGeneration"]).unwrap_or(0) != 0 {
        return;
    }
    let kind = text(condition, &["type"]);
    let before = list(old, &["status", "conditions"])
        .iter()
        .find(|c| text(c, &["type"]) == kind);
    if let Some(generation) = before.and_then(|before| number(before, &["observedGeneration"])) {
        set(condition, &["observedGeneration"], generation.into());
    }
}

fn selectable(pod: &Value) -> Vec<(String, String)> {
    let status_ip = list(pod, &["status", "podIPs"])
        .first()
        .map_or("", |ip| text(ip, &["ip"]));
    let host_network = at(pod, &["spec", "hostNetwork"]) == true;
    [
        ("spec.nodeName", text(pod, &["spec", "nodeName"])),
        ("spec.restartPolicy", text(pod, &["spec", "restartPolicy"])),
        ("spec.schedulerName", text(pod, &["spec", "schedulerName"])),
        ("spec.serviceAccountName", text(pod, &["spec", "serviceAccountName"])),
        ("spec.hostNetwork", if host_network { "true" } else { "false" }),
        ("status.phase", text(pod, &["status", "phase"])),
        ("status.podIP", status_ip),
        ("status.nominatedNodeName", text(pod, &["status", "nominatedNodeName"])),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec()
}

/// How long a deleted pod stays: no time at all when no node runs it.
pub(super) fn grace_period(pod: &Value, requested: Option<i64>) -> i64 {
    let ended = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
    if text(pod, &["spec", "nodeName"]).is_empty() || ended {
        return 0;
    }
    let period = requested
        .or_else(|| number(pod, &["spec", "terminationGracePeriodSeconds"]))
        .unwrap_or(0);
    if period < 0 { 1 } else { period }
}
