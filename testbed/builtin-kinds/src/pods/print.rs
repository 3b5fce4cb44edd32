//! The Table cells of a pod: how many containers are ready, and the one word for its state.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::print::{NONE, age, name, or, since};
use super::super::value::{at, has, list, number, text};

/// Cells of a pod.
pub(crate) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let mut state = State::of(pod);
    state.read(pod);
    let restarts = match (state.restarts, state.last_restart.as_str()) {
        (0, _) | (_, "") => state.restarts.to_string(),
        (restarts, last) => format!("{restarts} ({} ago)", since(last, now)),
    };
    vec![
        name(pod),
        format!("{}/{}", state.ready, state.total).into(),
        state.reason.into(),
        restarts.into(),
        age(pod, now),
        or(
            list(pod, &["status", "podIPs"])
                .first()
                .map_or("", |ip| text(ip, &["ip"])),
            NONE,
        )
        .into(),
        or(text(pod, &["spec", "nodeName"]), NONE).into(),
        or(text(pod, &["status", "nominatedNodeName"]), NONE).into(),
        readiness_gates(pod).into(),
    ]
}

/// Clients leave rows of Pods that have ended out unless asked for all.
pub(crate) fn row_conditions(pod: &Value) -> Option<Value> {
    let phase = text(pod, &["status", "phase"]);
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    let ended = json!({"type": "Completed", "status": "True", "reason": phase, "message": message});
    Some(json!([ended]))
}

struct State {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: String,
}

impl State {
    fn of(pod: &Value) -> Self {
        let phase = text(pod, &["status", "phase"]);
        let reason = or(text(pod, &["status", "reason"]), phase);
        let gated = conditions(pod)
            .any(|(kind, condition)| kind == "PodScheduled" && text(condition, &["reason"]) == "SchedulingGated");
        let sidecars = list(pod, &["spec", "initContainers"])
            .iter()
            .filter(|c| is_sidecar(c))
            .count();
        Self {
            reason: if gated { "SchedulingGated".to_owned() } else { reason },
            ready: 0,
            total: list(pod, &["spec", "containers"]).len() + sidecars,
            restarts: 0,
            last_restart: String::new(),
        }
    }

    fn read(&mut self, pod: &Value) {
        let initializing = self.init_containers(pod);
        if !initializing || condition_is_true(pod, "Initialized") {
            self.containers(pod);
        }
        let deleting = has(pod, &["metadata", "deletionTimestamp"]);
        if deleting && text(pod, &["status", "reason"]) == "NodeLost" {
            self.reason = "Unknown".to_owned();
        } else if deleting && !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
            self.reason = "Terminating".to_owned();
        }
    }

    /// Counts restarts and says whether initialization still goes on.
    fn init_containers(&mut self, pod: &Value) -> bool {
        let specs = list(pod, &["spec", "initContainers"]);
        let statuses = list(pod, &["status", "initContainerStatuses"]);
        let (mut restarts, mut last) = (0, String::new());
        for (index, status) in statuses.iter().enumerate() {
            self.restarts += number(status, &["restartCount"]).unwrap_or(0);
            later(&mut self.last_restart, status);
            let sidecar = specs
                .iter()
                .any(|c| text(c, &["name"]) == text(status, &["name"]) && is_sidecar(c));
            if sidecar {
                restarts += number(status, &["restartCount"]).unwrap_or(0);
                later(&mut last, status);
            }
            let terminated = at(status, &["state", "terminated"]);
            if !terminated.is_null() && number(terminated, &["exitCode"]).unwrap_or(0) == 0 {
                continue;
            }
            if sidecar && at(status, &["started"]) == true {
                self.ready += usize::from(at(status, &["ready"]) == true);
                continue;
            }
            let waiting = text(status, &["state", "waiting", "reason"]);
            self.reason = match waiting {
                _ if !terminated.is_null() => format!("Init:{}", ended(terminated)),
                "" | "PodInitializing" => format!("Init:{index}/{}", specs.len()),
                why => format!("Init:{why}"),
            };
            return true;
        }
        self.restarts = restarts;
        self.last_restart = last;
        false
    }

    fn containers(&mut self, pod: &Value) {
        let (mut running, mut failure) = (false, String::new());
        for status in list(pod, &["status", "containerStatuses"]).iter().rev() {
            self.restarts += number(status, &["restartCount"]).unwrap_or(0);
            later(&mut self.last_restart, status);
            let waiting = text(status, &["state", "waiting", "reason"]);
            let terminated = at(status, &["state", "terminated"]);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !terminated.is_null() {
                self.reason = ended(terminated);
                if number(terminated, &["exitCode"]).unwrap_or(0) != 0 {
                    failure.clone_from(&self.reason);
                }
            } else if at(status, &["ready"]) == true && has(status, &["state", "running"]) {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && condition_is_true(pod, "Ready") {
                self.reason = "Running".to_owned();
            } else if !failure.is_empty() {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    match (
        text(terminated, &["reason"]),
        number(terminated, &["signal"]).unwrap_or(0),
    ) {
        ("", 0) => format!("ExitCode:{}", number(terminated, &["exitCode"]).unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn later(last: &mut String, status: &Value) {
    let finished = text(status, &["lastState", "terminated", "finishedAt"]);
    if finished > last.as_str() {
        *last = finished.to_owned();
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, &["restartPolicy"]) == "Always"
}

fn conditions(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    list(pod, &["status", "conditions"])
        .iter()
        .map(|condition| (text(condition, &["type"]), condition))
}

fn condition_is_true(pod: &Value, kind: &str) -> bool {
    conditions(pod)
        .find(|(k, _)| *k == kind)
        .is_some_and(|(_, c)| text(c, &["status"]) == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| condition_is_true(pod, text(gate, &["conditionType"])))
        .count();
    format!("{open}/{}", gates.len())
}
