//! Builds the routing table: the same input always gives the same table.
//!
//! Pure and synchronous: no clock, no IO, no state. A problem with a route is reported for that route and
//! does not affect others. Ownership of a hostname follows from UIDs alone, never from what an object claims
//! about itself.

mod admission;
mod backend;
mod certificate;
mod filters;
mod hostname;
pub(crate) mod matcher;
mod order;
mod report;
mod revision;
mod rules;
mod stakes;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::route;
use crate::table::{RoutingTable, TunnelInfo, VirtualHost};
use crate::world::{TableInputs, TablePlan};
use admission::AcceptedGateway;
pub(crate) use admission::owner;
use report::Omissions;
use stakes::{ServedGateway, ServedHostname};

/// The routing table for `world`, and what to say of it.
#[must_use]
pub fn decide(world: &TableInputs) -> TablePlan {
    let mut notes = Omissions::default();
    let admitted = admission::admitted(world);
    let compiled = rules::compiled(world, &admitted, &mut notes);
    let holdings = stakes::settled(world, &admitted, &compiled, &mut notes);
    let mut table = RoutingTable::default();
    for holding in &holdings {
        serve(&mut table, holding);
        certificate::present(&mut table, world, holding);
    }
    reserve(&mut table, world);
    TablePlan {
        report: notes.report(world, &holdings),
        table,
    }
}

/// Lays down everything that one Gateway serves.
fn serve(table: &mut RoutingTable, holding: &ServedGateway<'_>) {
    let tunnel = Arc::new(tunnel(holding));
    for served in &holding.served {
        let ServedHostname {
            hostname, routes, ..
        } = served;
        let host = Arc::new(VirtualHost {
            tunnel: tunnel.clone(),
            protocols: served.protocols,
            routes: order::sorted(routes),
        });
        match hostname.strip_prefix("*.") {
            Some(parent) => table.wildcards.insert(parent.to_owned(), host),
            None => table.hosts.insert(hostname.clone(), host),
        };
    }
}

/// Keeps claimed hostnames that are not served from the wildcards that would serve them.
fn reserve(table: &mut RoutingTable, world: &TableInputs) {
    let claimed = world.claims.keys();
    let idle = claimed.filter(|name| !table.hosts.contains_key(*name));
    let served = |name: &str, tls| route::host(table, name, tls).is_some();
    let reserved = idle.filter(|name| served(name, false) || served(name, true));
    table.reserved = reserved.cloned().collect();
}

fn tunnel(holding: &ServedGateway<'_>) -> TunnelInfo {
    let AcceptedGateway { gateway, uid, .. } = &holding.gateway;
    let meta = &gateway.metadata;
    let generations = holding.routes().map(|route| route.generation);
    let mut tunnel = TunnelInfo {
        namespace: meta.namespace().to_owned(),
        name: meta.name.to_string(),
        uid: uid.clone(),
        generation: generations.max().unwrap_or_default(),
        revision: String::new(),
    };
    tunnel.revision = revision::of(&tunnel, &holding.served);
    tunnel
}
