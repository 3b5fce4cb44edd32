//! Health checks: progress for `/livez`, complete and fresh inputs for `/readyz`.
//!
//! They use only the state, so that the cause of a failed check is also in `/debug/state.json`.

use super::state::DebugState;

/// A watch without any event for longer than this counts as dead: bookmarks come about every minute.
const MAX_SILENCE_SECONDS: f64 = 90.0;

/// A watch that is down for longer than this is not just reconnecting to another server.
const MAX_RECONNECT_SECONDS: f64 = 30.0;

/// One check, as kube-apiserver prints it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HealthCheck {
    name: String,
    failure: Option<String>,
}

impl HealthCheck {
    fn new(name: impl Into<String>, failure: Option<String>) -> Self {
        Self {
            name: name.into(),
            failure,
        }
    }
}

/// Whether the process makes progress. A replica that fails this should be restarted.
pub(super) fn liveness_checks(state: &DebugState) -> Vec<HealthCheck> {
    let tasks = state.tasks.iter().map(|task| {
        let failure = task.dead.as_ref().map(|why| format!("the task ended: {why}"));
        HealthCheck::new(format!("task/{}", task.name), failure)
    });
    let runs = state.controllers.iter().map(|controller| {
        let stuck = controller.running.iter().find(|run| run.running > run.bound);
        let failure = stuck.map(|run| {
            let (key, running, bound) = (&run.key, run.running, run.bound);
            format!("{key} has been running for {running:.0} s, limit {bound:.0} s")
        });
        HealthCheck::new(format!("runs/{}", controller.name), failure)
    });
    tasks.chain(runs).collect()
}

/// Whether the inputs of the controllers are complete and fresh. A standby can be ready.
pub(super) fn readiness_checks(state: &DebugState) -> Vec<HealthCheck> {
    let watches = state.watches.iter().filter(|watch| watch.required);
    let inputs = watches.map(|watch| {
        let trouble = watch.trouble.as_deref();
        let because = trouble.map(|why| format!(": {why}")).unwrap_or_default();
        let silent = watch.age.filter(|age| *age > MAX_SILENCE_SECONDS);
        let down = watch.reconnecting.filter(|down| *down > MAX_RECONNECT_SECONDS);
        let failure = match (watch.synced, silent, down) {
            (false, ..) => Some(format!("not synced{because}")),
            (_, Some(age), _) => Some(format!("no event for {age:.0} s{because}")),
            (.., Some(down)) => Some(format!("down for {down:.0} s{because}")),
            _ => None,
        };
        HealthCheck::new(format!("watch/{}", watch.name), failure)
    });
    let program = state.unready.clone().map(|why| HealthCheck::new("program", Some(why)));
    inputs.chain(liveness_checks(state)).chain(program).collect()
}

impl DebugState {
    /// The reasons why `/readyz` fails, one per line; empty if it passes.
    #[must_use]
    pub fn readiness_failures(&self) -> Vec<String> {
        let failed = |check: HealthCheck| Some(format!("{}: {}", check.name, check.failure?));
        readiness_checks(self).into_iter().filter_map(failed).collect()
    }
}

/// The checks as text, and whether all passed.
pub(super) fn render_checks(endpoint: &str, checks: &[HealthCheck], verbose: bool) -> (bool, String) {
    let passed = checks.iter().all(|check| check.failure.is_none());
    if passed && !verbose {
        return (true, "ok".to_owned());
    }
    let mut text = String::new();
    for HealthCheck { name, failure } in checks {
        match failure {
            None => text.push_str(&format!("[+]{name} ok\n")),
            Some(why) => text.push_str(&format!("[-]{name} failed: {why}\n")),
        }
    }
    let outcome = if passed { "passed" } else { "failed" };
    text.push_str(&format!("{endpoint} check {outcome}\n"));
    (passed, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::state::{ControllerState, RunState, TaskState, WatchHealth};

    fn healthy_state() -> DebugState {
        DebugState {
            watches: vec![WatchHealth {
                name: "ConfigMap".to_owned(),
                required: true,
                synced: true,
                age: Some(30.0),
                ..WatchHealth::default()
            }],
            controllers: vec![ControllerState {
                name: "demo".to_owned(),
                running: vec![RunState {
                    key: "default/a".to_owned(),
                    running: 5.0,
                    bound: 60.0,
                    ..RunState::default()
                }],
                ..ControllerState::default()
            }],
            tasks: vec![TaskState {
                name: "lease".to_owned(),
                dead: None,
            }],
            ..DebugState::default()
        }
    }

    #[test]
    fn healthy_report_is_ok_unless_verbose() {
        assert_eq!(
            render_checks("livez", &liveness_checks(&healthy_state()), false),
            (true, "ok".into())
        );
        let (passed, text) = render_checks("readyz", &readiness_checks(&healthy_state()), true);
        assert!(passed);
        assert_eq!(
            text,
            "[+]watch/ConfigMap ok\n[+]task/lease ok\n[+]runs/demo ok\nreadyz check passed\n"
        );
    }

    #[test]
    fn a_dead_task_fails_both() {
        let mut state = healthy_state();
        state.tasks[0].dead = Some("panicked".to_owned());
        let (passed, text) = render_checks("livez", &liveness_checks(&state), false);
        assert!(!passed);
        assert!(text.contains("[-]task/lease failed: the task ended: panicked\n"));
        assert!(!render_checks("readyz", &readiness_checks(&state), false).0);
    }

    #[test]
    fn unready_program_is_live_and_not_ready() {
        let mut state = healthy_state();
        state.unready = Some("shutting down".to_owned());
        assert!(render_checks("livez", &liveness_checks(&state), false).0);
        let (passed, text) = render_checks("readyz", &readiness_checks(&state), false);
        assert!(!passed);
        assert!(text.contains("[-]program failed: shutting down\n"));
    }

    #[test]
    fn run_past_its_bound_fails_liveness() {
        let mut state = healthy_state();
        state.controllers[0].running[0].running = 61.0;
        let (passed, text) = render_checks("livez", &liveness_checks(&state), false);
        assert!(!passed);
        assert!(text.contains("default/a has been running for 61 s, limit 60 s"));
    }

    #[test]
    fn silent_required_watch_fails_readiness() {
        let mut state = healthy_state();
        state.watches[0].age = Some(91.0);
        state.watches[0].trouble = Some("connection refused".to_owned());
        let (passed, text) = render_checks("readyz", &readiness_checks(&state), false);
        assert!(!passed);
        assert!(text.contains("[-]watch/ConfigMap failed: no event for 91 s: connection refused\n"));
        state.watches[0].required = false;
        assert!(render_checks("readyz", &readiness_checks(&state), false).0);
    }
}
