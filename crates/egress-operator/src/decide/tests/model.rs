//! A model of nodes and provider: it runs the steps of a plan, advances time, and checks the
//! invariants after each step.

use std::collections::BTreeSet;
use std::time::Duration;

use aplomb_api::egress::{FloatingIpRef, StableEgress, StableEgressSpec, StableEgressStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::json;

use super::provider::Provider;
use crate::decide::{LabelTarget, MAX_REFUSALS, Plan, Step, decide};
use crate::egress::{
    ActionState, CandidateNode, ClaimFailed, FloatingIpState, LabelState, MoveInProgress, NodeReady, Observed,
    ObservedAction, ProviderTrouble, RemainingCalls,
};
use crate::state::next_attempt;

pub(super) const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) spec: StableEgressSpec,
    pub(super) hold: Option<String>,
    pub(super) nodes: Vec<CandidateNode>,
    pub(super) unwatched: Option<String>,
    pub(super) reported_unusable: BTreeSet<String>,
    pub(super) provider: Provider,
    pub(super) status: StableEgressStatus,
    pub(super) floating_ip: FloatingIpState,
    pub(super) moving: Option<MoveInProgress>,
    pub(super) term: u64,
    pub(super) uptime: Duration,
    /// How far the clock was set back.
    pub(super) set_back: Duration,
    /// When this process began to lead.
    pub(super) leads_since: Duration,
    /// How long a call or a write takes.
    pub(super) latency: Duration,
    /// Every step, and when it was taken.
    pub(super) log: Vec<(Duration, Step)>,
    pub(super) notes: Vec<String>,
    /// How many status writes changed the status.
    pub(super) writes: u32,
}

/// A healthy candidate with server ID `server`.
pub(super) fn node(name: &str, server: i64) -> CandidateNode {
    CandidateNode {
        name: name.to_owned(),
        server: Some(server),
        candidate: true,
        labels: LabelState::None,
        conflicting_label: None,
        cilium: None,
        ready: NodeReady::True,
        cordoned: false,
        terminating: false,
        prepared: true,
        probe_result: None,
    }
}

/// A spec with every default.
pub(super) fn spec() -> StableEgressSpec {
    let object = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "StableEgress",
        "metadata": { "name": "web" }, "spec": { "floatingIP": { "name": "web" } },
    });
    let object: StableEgress = serde_json::from_value(object).expect("a manifest");
    assert_eq!(object.spec.floating_ip.name.as_deref(), Some("web"));
    StableEgressSpec {
        floating_ip: FloatingIpRef {
            name: Some("web".to_owned()),
            id: None,
        },
        ..object.spec
    }
}

impl Model {
    /// Nodes `a` (server 1), `b` (2) and so on, the floating IP on none of them.
    pub(super) fn new_unsettled(nodes: usize) -> Self {
        let names = ["a", "b", "c", "d", "e"];
        let nodes = names.iter().zip(1..).take(nodes);
        let nodes = nodes.map(|(name, server)| node(name, server)).collect();
        Self {
            spec: spec(),
            hold: None,
            nodes,
            unwatched: None,
            reported_unusable: BTreeSet::new(),
            provider: Provider::default(),
            status: StableEgressStatus::default(),
            floating_ip: FloatingIpState {
                resync: 30 * SECOND,
                ..FloatingIpState::default()
            },
            moving: None,
            term: 0,
            uptime: 100 * SECOND,
            set_back: Duration::ZERO,
            leads_since: 100 * SECOND,
            latency: Duration::from_millis(20),
            log: Vec::new(),
            notes: Vec::new(),
            writes: 0,
        }
    }

    /// The same, with `a` as the gateway, settled and just read.
    pub(super) fn new_settled(nodes: usize) -> Self {
        let mut model = Self::new_unsettled(nodes);
        model.provider.server = Some(1);
        model.node("a").labels = LabelState::All;
        model.run();
        assert_eq!(model.status.active_node.as_deref(), Some("a"));
        assert_eq!(model.writes_to_provider(), 0, "there was nothing to do");
        model.log.clear();
        model.notes.clear();
        model
    }

    pub(super) fn node(&mut self, name: &str) -> &mut CandidateNode {
        let mut nodes = self.nodes.iter_mut();
        nodes.find(|node| node.name == name).expect("a node")
    }

    pub(super) fn now(&self) -> Timestamp {
        let start: Timestamp = "2026-03-01T00:00:00Z".parse().expect("a time");
        start + self.uptime - self.set_back
    }

    pub(super) fn observed(&self) -> Observed {
        Observed {
            name: "web".to_owned(),
            spec: self.spec.clone(),
            hold: self.hold.clone(),
            status: self.status.clone(),
            now: self.now(),
            uptime: self.uptime,
            leading_for: self.uptime - self.leads_since,
            nodes: self.nodes.clone(),
            unwatched: self.unwatched.clone(),
            reported_unusable: self.reported_unusable.clone(),
            floating_ip: self.floating_ip.clone(),
            moving: self.moving.clone(),
            term: self.term,
        }
    }

    /// One reconcile: steps until there are none, then the status.
    pub(super) fn run(&mut self) -> Plan {
        for _ in 0..100 {
            self.provider.advance(self.uptime);
            let plan = decide(&self.observed());
            let conditions = std::mem::take(&mut self.status.conditions);
            self.status = plan.status.clone();
            self.status.conditions = conditions;
            if self.status.moving.is_none() {
                self.moving = None;
            }
            let unusable = self.nodes.iter().filter(|node| node.is_unusable());
            self.reported_unusable = unusable.map(|node| node.name.clone()).collect();
            for note in &plan.notes {
                let note = format!("{}: {}", note.reason, note.message);
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
            let Some(step) = plan.step.clone() else {
                self.apply_plan(&plan);
                return plan;
            };
            self.log.push((self.uptime, step.clone()));
            self.execute(step);
            self.uptime += self.latency;
        }
        panic!("steps do not end: {:?}", &self.log[self.log.len() - 6..]);
    }

    /// Advances time by `time`, with a reconcile whenever one is due.
    pub(super) fn advance(&mut self, time: Duration) -> Plan {
        let end = self.uptime + time;
        loop {
            let plan = self.run();
            if self.uptime + plan.requeue_after > end {
                self.uptime = self.uptime.max(end);
                return plan;
            }
            self.uptime += plan.requeue_after;
        }
    }

    fn apply_plan(&mut self, plan: &Plan) {
        let before = self.status.conditions.clone();
        let now = self.now();
        let after = plan.conditions.iter().map(|condition| {
            let was = before.iter().find(|was| was.type_ == condition.type_);
            let same = was.filter(|was| was.status == condition.status.as_str());
            Condition {
                last_transition_time: same.map_or(Time(now), |w| w.last_transition_time.clone()),
                message: condition.message.clone(),
                observed_generation: None,
                reason: condition.reason.clone(),
                status: condition.status.as_str().to_owned(),
                type_: condition.type_.clone(),
            }
        });
        self.status.conditions = after.collect();
        self.writes += u32::from(self.status.conditions != before);
    }

    fn execute(&mut self, step: Step) {
        match step {
            Step::Read { .. } => self.read(),
            Step::WriteTerm => {
                let claimed = self.provider.claim(self.term);
                let times = self.floating_ip.term_failure.take().map_or(0, |failed| failed.failures);
                let seen = self.floating_ip.observed.as_mut().expect("it was read");
                match claimed {
                    Ok(()) => seen.term = self.term,
                    Err(trouble) => {
                        self.floating_ip.term_failure = Some(ClaimFailed {
                            trouble,
                            at: self.uptime,
                            failures: times + 1,
                            replaced_term: seen.term,
                        });
                    }
                }
            }
            Step::Assign { node, server, .. } => self.assign(&node, server),
            Step::Poll { action } => self.poll(action),
            Step::Strip { node, on } => self.set_labels(&node, on, LabelState::None),
            Step::Label { node, on } => self.set_labels(&node, on, LabelState::All),
        }
    }

    fn read(&mut self) {
        let read = self.provider.read(self.uptime);
        let failed = self.floating_ip.troubles;
        self.record_result(read.as_ref().err().cloned());
        if let Ok(seen) = read {
            self.floating_ip.observed = Some(seen);
            if let Some(moving) = &mut self.moving {
                moving.read_since = true;
                if moving.action.is_none() {
                    self.floating_ip.troubles = failed;
                }
            }
        }
    }

    fn assign(&mut self, node: &str, server: i64) {
        let before = self.moving.take();
        let mut moving = MoveInProgress {
            read_since: true,
            ..next_attempt(before.as_ref(), node, server)
        };
        let answer = self.provider.assign(server, self.uptime);
        match &answer {
            Ok(id) => {
                moving.read_since = false;
                moving.locks = 0;
                moving.action = Some(ObservedAction {
                    id: *id,
                    state: self.provider.action(*id).unwrap_or(ActionState::Running),
                    accepted_at: self.uptime,
                    polled_at: self.uptime,
                    polls: 0,
                });
            }
            Err(ProviderTrouble::Throttled) => {}
            Err(ProviderTrouble::Locked) => {
                moving.locks += 1;
                moving.read_since = moving.locks != MAX_REFUSALS;
            }
            Err(trouble) => {
                moving.read_since = false;
                moving.action = None;
                moving.refusals += u32::from(!matches!(trouble, ProviderTrouble::Unreachable(_)));
            }
        }
        self.moving = Some(moving);
        self.record_result(answer.err());
    }

    fn poll(&mut self, id: i64) {
        let answer = self.provider.action(id);
        let action = self.moving.as_mut().and_then(|m| m.action.as_mut());
        let action = action.expect("only a known action is polled");
        action.polls += 1;
        action.polled_at = self.uptime;
        if let Ok(state) = &answer {
            action.state = state.clone();
        }
        if let (Ok(state), Some(moving)) = (&answer, &mut self.moving) {
            moving.read_since = moving.read_since && *state == ActionState::Running;
            moving.refusals += u32::from(matches!(state, ActionState::Error(_)));
        }
        self.record_result(answer.err());
    }

    fn record_result(&mut self, trouble: Option<ProviderTrouble>) {
        let failed = trouble.is_some();
        self.floating_ip.trouble = trouble;
        self.floating_ip.trouble_since = self.floating_ip.trouble_since.or(Some(self.uptime));
        self.floating_ip.trouble_at = failed.then_some(self.uptime);
        self.floating_ip.troubles = if failed { self.floating_ip.troubles + 1 } else { 0 };
        if !failed {
            self.floating_ip.trouble_since = None;
        }
    }

    fn set_labels(&mut self, name: &str, on: LabelTarget, labels: LabelState) {
        let others = self.labeled_nodes().iter().filter(|n| **n != name).count();
        let holder = self.provider.server;
        let holds = holder.is_some() && self.node(name).server == holder;
        match labels {
            LabelState::None if on == LabelTarget::Node => {
                assert!(!holds || others > 0, "{name} holds the floating IP");
            }
            LabelState::None => {}
            _ => assert_eq!(others, 0, "two nodes are labeled"),
        }
        let node = self.node(name);
        match on {
            LabelTarget::Node => node.labels = labels,
            LabelTarget::CiliumNode => node.cilium = node.cilium.map(|_| labels),
        }
    }

    /// This process dies and another takes over: only the object and the nodes remain.
    pub(super) fn restart(&mut self) {
        self.floating_ip = FloatingIpState {
            resync: self.floating_ip.resync,
            budget: None::<RemainingCalls>,
            ..FloatingIpState::default()
        };
        self.moving = None;
        self.leads_since = self.uptime;
        self.term += u64::from(self.term > 0);
        // The status is serialized, so that state that is not in it is lost.
        let text = serde_json::to_string(&self.status).expect("serialised");
        self.status = serde_json::from_str(&text).expect("read back");
    }
}
