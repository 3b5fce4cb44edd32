//! When each stage was first reached for the current generation. A recorded time never changes.

use aplomb_api::tunnel::TunnelTimeline;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::conditions::TunnelAssessment;
use crate::world::{ChildrenState, Observed};

pub(super) fn timeline(world: &Observed, facts: &TunnelAssessment<'_>, ready: bool) -> TunnelTimeline {
    let generation = world.proxy.metadata.generation;
    let stored = world.proxy.status.as_ref();
    let stored = stored.and_then(|status| status.timeline.as_ref());
    let known = [stored, world.progress.timeline.as_ref()];
    let mut line = TunnelTimeline {
        generation,
        ..TunnelTimeline::default()
    };
    for known in known.into_iter().flatten() {
        if known.generation == generation {
            keep_known_times(&mut line, known);
        }
    }
    let written = matches!(world.progress.written, Some(ChildrenState::Children(_)));
    set_stage(&mut line.created, true, world.started_at);
    set_stage(&mut line.accepted, facts.hostname_claims.step.is_none(), world.now);
    set_stage(&mut line.children_written, written, world.now);
    set_stage(&mut line.programmed, written && facts.is_programmed(), world.now);
    // Times of an earlier generation do not count for this one.
    let programmed = line.programmed.is_some();
    set_stage(&mut line.proven, ready && programmed, world.now);
    line
}

/// Copies the times that are not set yet.
fn keep_known_times(line: &mut TunnelTimeline, known: &TunnelTimeline) {
    let take = |to: &mut Option<MicroTime>, from: &Option<MicroTime>| {
        if to.is_none() {
            to.clone_from(from);
        }
    };
    take(&mut line.created, &known.created);
    take(&mut line.accepted, &known.accepted);
    take(&mut line.children_written, &known.children_written);
    take(&mut line.programmed, &known.programmed);
    take(&mut line.proven, &known.proven);
}

fn set_stage(stage: &mut Option<MicroTime>, reached: bool, now: Timestamp) {
    if reached && stage.is_none() {
        *stage = Some(MicroTime(now));
    }
}
