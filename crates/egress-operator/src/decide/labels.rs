//! Which gateway label to add or remove next. Two nodes never have them, and the last node keeps
//! them until the floating IP is known to be elsewhere.

use super::assessment::Assessment;
use crate::world::{CandidateNode, LabelState, LabelTarget, Step};

/// Which labels to remove because several nodes have them: all but one node's, wherever the
/// floating IP is.
pub(super) fn remove_surplus_labels(scene: &Assessment<'_>, chosen: &CandidateNode) -> Option<Step> {
    let labelled = || scene.gateway_health.iter().map(|(node, _)| *node);
    if labelled().count() < 2 {
        return None;
    }
    let seen = scene.observed.floating_ip.observed.as_ref();
    let holds = |node: &&CandidateNode| seen.is_some_and(|s| s.server.is_some() && s.server == node.server);
    let kept = labelled()
        .find(|node| node.name == chosen.name)
        .or_else(|| labelled().find(holds))
        .or_else(|| labelled().min_by_key(|node| &node.name))?;
    let mut wrong = labelled().filter(|node| node.name != kept.name);
    wrong.next().and_then(strip_label)
}

/// The remaining label changes once `chosen` holds the floating IP.
pub(super) fn settle_labels(scene: &Assessment<'_>, chosen: &CandidateNode) -> Option<Step> {
    let others = scene.observed.nodes.iter();
    let others = others.filter(|node| node.name != chosen.name);
    others
        .map(strip_label)
        .find(Option::is_some)
        .flatten()
        .or_else(|| add_label(chosen))
}

fn strip_label(node: &CandidateNode) -> Option<Step> {
    let on = if node.labels != LabelState::None {
        LabelTarget::Node
    } else if node.cilium.is_some_and(|labels| labels != LabelState::None) {
        // The agent of a dead node never removes it.
        LabelTarget::CiliumNode
    } else {
        return None;
    };
    let node = node.name.clone();
    Some(Step::Strip { node, on })
}

fn add_label(node: &CandidateNode) -> Option<Step> {
    let on = if node.labels != LabelState::All {
        LabelTarget::Node
    } else if node.cilium.is_some_and(|labels| labels != LabelState::All) {
        LabelTarget::CiliumNode
    } else {
        return None;
    };
    let node = node.name.clone();
    Some(Step::Label { node, on })
}
