//! Which versions gateways must have acknowledged, and whether they have.
//!
//! A recorded version is kept while the fields that gateways read stay the same. A status write also changes
//! the version of an object, and must not make a served tunnel look unserved.

use aplomb::key::ResourceVersion;
use aplomb_api::tunnel::{AppliedVersions, ChildRevision};
use serde_json::json;

use crate::children::spec_digest;
use crate::world::{ChildrenState, ClaimState, Observed, ObservedReplica};

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

/// Whether a gateway has acknowledged a revision.
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
