//! What tests read from a model at the end.

use std::time::Duration;

use aplomb_api::egress::conditions::AVAILABLE;

use super::model::Model;
use crate::decide::{LabelTarget, Step};
use crate::egress::LabelState;

impl Model {
    /// The nodes with gateway labels.
    pub(super) fn labeled_nodes(&self) -> Vec<&str> {
        let nodes = self.nodes.iter().filter(|n| n.labels != LabelState::None);
        nodes.map(|node| node.name.as_str()).collect()
    }

    /// How many writes the provider received.
    pub(super) fn writes_to_provider(&self) -> usize {
        self.count(|step| matches!(step, Step::Assign { .. } | Step::WriteTerm))
    }

    pub(super) fn assigns(&self) -> usize {
        self.count(|step| matches!(step, Step::Assign { .. }))
    }

    pub(super) fn reads(&self) -> usize {
        self.count(|step| matches!(step, Step::Read { .. }))
    }

    pub(super) fn label_changes(&self) -> usize {
        self.count(|step| matches!(step, Step::Strip { .. } | Step::Label { .. }))
    }

    pub(super) fn count(&self, which: impl Fn(&Step) -> bool) -> usize {
        self.log.iter().filter(|(_, step)| which(step)).count()
    }

    /// When `which` was first true.
    pub(super) fn first_time(&self, which: impl Fn(&Step) -> bool) -> Option<Duration> {
        let mut log = self.log.iter();
        log.find(|(_, step)| which(step)).map(|(at, _)| *at)
    }

    /// The steps as short texts, without reads and polls.
    pub(super) fn step_log(&self) -> Vec<String> {
        let steps = self.log.iter().filter_map(|(_, step)| {
            let on = |on: &LabelTarget| match on {
                LabelTarget::Node => "",
                LabelTarget::CiliumNode => " (cilium)",
            };
            match step {
                Step::Read { .. } | Step::Poll { .. } => None,
                Step::WriteTerm => Some("claim".to_owned()),
                Step::Assign { node, .. } => Some(format!("assign {node}")),
                Step::Strip { node, on: o } => Some(format!("strip {node}{}", on(o))),
                Step::Label { node, on: o } => Some(format!("label {node}{}", on(o))),
            }
        });
        steps.collect()
    }

    /// A condition's status and reason, as `False NoCandidate`.
    pub(super) fn condition_reason(&self, kind: &str) -> String {
        let mut conditions = self.status.conditions.iter();
        conditions
            .find(|condition| condition.type_ == kind)
            .map_or_else(String::new, |c| format!("{} {}", c.status, c.reason))
    }

    pub(super) fn available_reason(&self) -> String {
        self.condition_reason(AVAILABLE)
    }

    /// The message of a condition.
    pub(super) fn condition_message(&self, kind: &str) -> &str {
        let mut conditions = self.status.conditions.iter();
        let condition = conditions.find(|condition| condition.type_ == kind);
        condition.map_or("", |condition| condition.message.as_str())
    }

    /// Asserts that `node` holds the floating IP, that only it has the labels, and that the status
    /// agrees.
    pub(super) fn assert_gateway(&self, node: &str, server: i64) {
        assert_eq!(self.provider.server, Some(server), "{:?}", self.step_log());
        assert_eq!(self.labeled_nodes(), [node], "{:?}", self.step_log());
        assert_eq!(self.status.active_node.as_deref(), Some(node));
        assert_eq!(self.available_reason(), "True Serving");
    }
}
