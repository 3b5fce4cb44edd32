//! Which gateway label goes or comes next. Never two nodes with it, and none without it before the
//! floating IP is known to be elsewhere.

use super::scene::Scene;
use crate::world::{Labels, Node, On, Step};

/// What must go because several nodes have the labels: all but one, wherever the floating IP is.
pub(super) fn surplus(scene: &Scene<'_>, chosen: &Node) -> Option<Step> {
    let labelled = || scene.standings.iter().map(|(node, _)| *node);
    if labelled().count() < 2 {
        return None;
    }
    let seen = scene.world.cloud.seen.as_ref();
    let holds = |node: &&Node| seen.is_some_and(|s| s.server.is_some() && s.server == node.server);
    let kept = labelled()
        .find(|node| node.name == chosen.name)
        .or_else(|| labelled().find(holds))
        .or_else(|| labelled().min_by_key(|node| &node.name))?;
    let mut wrong = labelled().filter(|node| node.name != kept.name);
    wrong.next().and_then(strip)
}

/// What is left to do about labels now that `chosen` holds the floating IP.
pub(super) fn settle(scene: &Scene<'_>, chosen: &Node) -> Option<Step> {
    let others = scene.world.nodes.iter();
    let others = others.filter(|node| node.name != chosen.name);
    others
        .map(strip)
        .find(Option::is_some)
        .flatten()
        .or_else(|| label(chosen))
}

fn strip(node: &Node) -> Option<Step> {
    let on = if node.labels != Labels::None {
        On::Node
    } else if node.cilium.is_some_and(|labels| labels != Labels::None) {
        // The agent of a dead node never takes it away itself.
        On::CiliumNode
    } else {
        return None;
    };
    let node = node.name.clone();
    Some(Step::Strip { node, on })
}

fn label(node: &Node) -> Option<Step> {
    let on = if node.labels != Labels::All {
        On::Node
    } else if node.cilium.is_some_and(|labels| labels != Labels::All) {
        On::CiliumNode
    } else {
        return None;
    };
    let node = node.name.clone();
    Some(Step::Label { node, on })
}
