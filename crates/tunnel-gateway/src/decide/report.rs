//! What is to be said of a table: what it takes into account, what it leaves out, what it needs.

use std::collections::BTreeMap;

use aplomb::{View, version::Version};
use aplomb_api::tunnel::{Applied, Quarantined};

use super::admission::Whose;
use super::hostname::beside;
use super::stakes::Holding;
use crate::table::{Action, Target};
use crate::views::Metadata;
use crate::world::{Report, Wanted, World};

/// How much of a reason is told. A tenant's regular expression may be in it: were it told whole, the record of
/// this replica could be refused for its size, and the replica would count as dead.
const TOLD: usize = 512;
/// The longest relay that a record takes.
const RELAY: usize = 400;

/// What had to be left out.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// HTTPProxies' first: a list that is cut must not lose them.
    quarantined: BTreeMap<(bool, String, String), String>,
}

impl Notes {
    /// Says why an object, or a part of it, is not served. What was said of it first comes first.
    pub(super) fn quarantine(&mut self, meta: &Metadata, whose: Whose, reason: &str) {
        let plain = whose == Whose::Plain;
        let key = (plain, meta.namespace().to_owned(), meta.name.to_string());
        let said = self.quarantined.entry(key).or_default();
        if said.is_empty() {
            *said = reason.chars().take(TOLD).collect();
        } else if !said.contains(reason) && said.len() + reason.len() < TOLD {
            *said = format!("{said}; {reason}");
        }
    }

    pub(super) fn report(self, world: &World, holdings: &[Holding<'_>]) -> Report {
        let quarantined = self.quarantined.into_iter();
        let relays = world.relays.iter().map(ToString::to_string);
        Report {
            applied: applied(world),
            relays: relays.filter(|it| it.len() <= RELAY).collect(),
            tunnels: holdings.len(),
            quarantined: quarantined
                .map(|((_, namespace, name), reason)| Quarantined {
                    namespace,
                    name,
                    reason,
                })
                .collect(),
            wanted: wanted(world, holdings),
        }
    }
}

/// The versions that are taken into account. A Gateway whose HTTPProxy is still to be seen is not.
fn applied(world: &World) -> Applied {
    let awaited = world.gateways.iter().map(|gateway| gateway.meta());
    let awaited = awaited.filter(|meta| world.awaited.contains(meta.uid));
    let before = awaited.filter_map(|meta| match meta.version() {
        Version::Number(number) => Some(number.saturating_sub(1)),
        Version::Opaque(_) => None,
    });
    let mut applied = world.versions.clone();
    if let (Some(before), Ok(passed)) = (before.min(), applied.gateways.parse::<u64>()) {
        applied.gateways = before.min(passed).to_string();
    }
    applied
}

fn wanted(world: &World, holdings: &[Holding<'_>]) -> BTreeMap<aplomb::Key, Wanted> {
    let routes = holdings.iter().flat_map(Holding::routes);
    let matches = routes.flat_map(|route| &route.matches);
    let mut wanted = BTreeMap::new();
    for ranked in matches {
        let Action::Forward(origin) = &ranked.route.action else {
            continue;
        };
        let Target::Connector(target) = &origin.target else {
            continue;
        };
        let key = beside(&target.namespace, &target.name);
        let listed = world.connectors.get(&key).is_some_and(|it| it.listed);
        let target = target.clone();
        wanted.entry(key).or_insert(Wanted { target, listed });
    }
    wanted
}
