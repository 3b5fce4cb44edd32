//! Which Gateway serves which hostname. Between two that may, the older one does; between a Gateway without
//! an HTTPProxy and a claim, the one that had the hostname first.

use std::collections::{BTreeMap, BTreeSet};

use aplomb_api::tunnel::reasons::HOSTNAME_IN_USE;

use super::admission::{Admitted, Whose};
use super::hostname::{common, entitled, first_plain, is_http, plain};
use super::order::Ranked;
use super::report::Notes;
use super::rules::Compiled;
use crate::views::{Listener, Reference};
use crate::world::World;

/// What one Gateway serves.
#[derive(Debug)]
pub(super) struct Holding<'a> {
    pub(super) gateway: &'a Admitted<'a>,
    pub(super) served: Vec<Served<'a>>,
    attached: Vec<&'a Compiled<'a>>,
}

/// A hostname, and the matches of all routes under it.
#[derive(Debug)]
pub(super) struct Served<'a> {
    pub(super) hostname: String,
    pub(super) routes: Vec<&'a Ranked>,
}

impl<'a> Holding<'a> {
    /// The routes that are attached to it.
    pub(super) fn routes(&self) -> impl Iterator<Item = &'a Compiled<'a>> {
        self.attached.iter().copied()
    }
}

/// What each Gateway serves; those that serve nothing are left out.
pub(super) fn settled<'a>(
    world: &World,
    admitted: &'a [Admitted<'a>],
    compiled: &'a [Compiled<'a>],
    notes: &mut Notes,
) -> Vec<Holding<'a>> {
    let mut attached: BTreeMap<usize, Vec<Attached<'a>>> = BTreeMap::new();
    for route in compiled {
        for (number, how) in &route.parents {
            let attachment = Attached { route, how };
            attached.entry(*number).or_default().push(attachment);
        }
    }
    let first = first_plain(world, admitted);
    let mut taken = BTreeSet::new();
    let mut holdings = Vec::new();
    for (number, gateway) in admitted.iter().enumerate() {
        let attached = attached.remove(&number).unwrap_or_default();
        let mut served = Vec::new();
        for (hostname, routes) in wanted(gateway, &attached, notes) {
            let mut allowed = entitled(world, &first, gateway, &hostname);
            if allowed.is_ok() && !taken.insert(hostname.clone()) {
                allowed = Err(format!(
                    "{HOSTNAME_IN_USE}: {hostname} is served for an older Gateway"
                ));
            }
            match allowed {
                Ok(()) => served.push(Served { hostname, routes }),
                Err(reason) => refuse(gateway, &reason, notes),
            }
        }
        if !served.is_empty() {
            let mut routes: Vec<_> = attached.iter().map(|it| it.route).collect();
            routes.dedup_by(|one, other| std::ptr::eq(*one, *other));
            holdings.push(Holding {
                gateway,
                served,
                attached: routes,
            });
        }
    }
    holdings
}

/// A route, and the reference by which it is attached.
struct Attached<'a> {
    route: &'a Compiled<'a>,
    how: &'a Reference,
}

/// The hostnames that a Gateway asks for, each with the matches under it.
fn wanted<'a>(
    gateway: &Admitted<'_>,
    attached: &[Attached<'a>],
    notes: &mut Notes,
) -> BTreeMap<String, Vec<&'a Ranked>> {
    // By the number of the route, so that one that comes through two listeners counts once.
    let mut wanted: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for listener in &gateway.gateway.spec.listeners {
        let hostname = listener.hostname.as_deref().and_then(plain);
        let Some(hostname) = hostname.filter(|_| is_http(listener)) else {
            let reason = format!(
                "listener {} needs a hostname and HTTP or HTTPS",
                listener.name
            );
            refuse(gateway, &reason, notes);
            continue;
        };
        for (number, it) in attached.iter().enumerate() {
            for hostname in hostnames(it, listener, &hostname) {
                wanted.entry(hostname).or_default().insert(number);
            }
        }
        wanted.entry(hostname).or_default();
    }
    let matches = |numbers: BTreeSet<usize>| {
        let mut routes: Vec<_> = numbers.into_iter().map(|it| attached[it].route).collect();
        routes.dedup_by(|one, other| std::ptr::eq(*one, *other));
        routes
            .into_iter()
            .flat_map(|route| &route.matches)
            .collect()
    };
    let wanted = wanted.into_iter();
    wanted
        .map(|(hostname, numbers)| (hostname, matches(numbers)))
        .collect()
}

/// The hostnames that a route has under a listener.
fn hostnames(attached: &Attached<'_>, listener: &Listener, hostname: &str) -> Vec<String> {
    let how = attached.how;
    let meant = how
        .section_name
        .as_ref()
        .is_none_or(|it| *it == listener.name)
        && how.port.is_none_or(|port| port == listener.port);
    let said = &attached.route.route.spec.hostnames;
    match said.is_empty() {
        _ if !meant => Vec::new(),
        true => vec![hostname.to_owned()],
        false => said
            .iter()
            .filter_map(|it| common(hostname, &plain(it)?))
            .collect(),
    }
}

/// Says why a Gateway does not serve something. Of an HTTPProxy's nothing is said: its hostnames may
/// be claimed in a moment, and its operator waits until they are.
fn refuse(gateway: &Admitted<'_>, reason: &str, notes: &mut Notes) {
    if gateway.whose == Whose::Plain {
        notes.quarantine(&gateway.gateway.metadata, gateway.whose, reason);
    }
}
