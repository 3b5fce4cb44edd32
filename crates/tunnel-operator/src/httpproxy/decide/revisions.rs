//! Which versions gateways must have acknowledged, and whether they have.
//!
//! A recorded version is kept while the fields that gateways read stay the same. A status write also changes
//! the version of an object, and must not make a served tunnel look unserved.

use aplomb::key::ResourceVersion;
use aplomb_api::tunnel::{AppliedVersions, ChildRevision, TunnelTimeline};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;

use super::conditions::TunnelAssessment;
use crate::httpproxy::children::spec_digest;
use crate::httpproxy::{ChildrenState, ClaimState, Observed, ObservedReplica};

/// The kind of a connector's revision.
pub(super) const CONNECTOR: &str = "Connector";
const CLAIM: &str = "HostnameClaim";

/// Every revision that gateways must have seen, in a stable order.
pub(super) fn revisions(world: &Observed) -> Vec<ChildRevision> {
    let mut all = Vec::new();
    match &world.progress.written {
        Some(ChildrenState::Children(children)) => {
            for child in children {
                match child.changed {
                    true => all.push(child.revision.clone()),
                    false => all.push(keep_unchanged(world, child.revision.clone())),
                }
            }
        }
        _ => all.extend(
            stored_revisions(world)
                .filter(|it| it.kind != CONNECTOR && it.kind != CLAIM)
                .cloned(),
        ),
    }
    for (hostname, claim) in &world.claims {
        if let ClaimState::Own(version, uid) = claim {
            let digest = uid.clone();
            all.push(keep_unchanged(world, new_revision(CLAIM, hostname, version, digest)));
        }
    }
    for (name, seen) in &world.connectors {
        let details = seen.as_ref().and_then(|seen| Some((seen, seen.details.as_ref()?)));
        if let Some((seen, details)) = details {
            let digest = spec_digest(&json!([seen.uid, details]));
            all.push(keep_unchanged(
                world,
                new_revision(CONNECTOR, name, &seen.version, digest),
            ));
        }
    }
    all
}

fn new_revision(kind: &str, name: &str, version: &str, digest: String) -> ChildRevision {
    ChildRevision {
        kind: kind.to_owned(),
        name: name.to_owned(),
        version: version.to_owned(),
        digest,
    }
}

/// The recorded revision with the same content, if there is one.
fn keep_unchanged(world: &Observed, revision: ChildRevision) -> ChildRevision {
    let same =
        |it: &&ChildRevision| it.kind == revision.kind && it.name == revision.name && it.digest == revision.digest;
    stored_revisions(world).find(same).cloned().unwrap_or(revision)
}

fn stored_revisions(world: &Observed) -> impl Iterator<Item = &ChildRevision> {
    let status = world.proxy.status.as_ref();
    status.into_iter().flat_map(|status| &status.revisions)
}

pub(super) fn is_acknowledged(replica: &ObservedReplica, revision: &ChildRevision) -> bool {
    let seen = applied_version(&replica.applied, &revision.kind);
    ResourceVersion::parse(seen).includes(&ResourceVersion::parse(&revision.version)) == Some(true)
}

fn applied_version<'a>(applied: &'a AppliedVersions, kind: &str) -> &'a str {
    match kind {
        "Gateway" => &applied.gateways,
        "HTTPRoute" => &applied.http_routes,
        "EndpointSlice" => &applied.endpoint_slices,
        CLAIM => &applied.claims,
        _ => &applied.connectors,
    }
}

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
