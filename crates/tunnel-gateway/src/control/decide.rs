//! Builds the routing table: the same input always gives the same table.
//!
//! Pure and synchronous: no clock, no IO, no state. A problem with a route is reported for that route and does not
//! affect others. Ownership of a hostname follows from UIDs alone, never from what an object claims about itself.

mod admission;
mod backend;
mod hostname_claims;
mod omissions;
mod rules;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use admission::AcceptedGateway;

use crate::control::inputs::{TableInputs, TablePlan};
use crate::routing::{self, RoutingTable, TunnelInfo, VirtualHost};
pub(crate) use admission::controlling_proxy;
use hostname_claims::{ServedGateway, ServedHostname};
use omissions::Omissions;

/// The routing table for `world`, and what to say of it.
#[must_use]
pub fn decide(world: &TableInputs) -> TablePlan {
    let mut notes = Omissions::default();
    let admitted = admission::accepted_gateways(world);
    let compiled = rules::compile_routes(world, &admitted, &mut notes);
    let holdings = hostname_claims::served_gateways(world, &admitted, &compiled, &mut notes);
    let mut table = RoutingTable::default();
    for holding in &holdings {
        add_gateway(&mut table, holding);
        backend::add_certificates(&mut table, world, holding);
    }
    add_reserved(&mut table, world);
    TablePlan {
        report: notes.into_report(world, &holdings),
        table,
    }
}

fn add_gateway(table: &mut RoutingTable, holding: &ServedGateway<'_>) {
    let tunnel = Arc::new(tunnel_info(holding));
    for served in &holding.hostnames {
        let ServedHostname { hostname, routes, .. } = served;
        let host = Arc::new(VirtualHost {
            tunnel: tunnel.clone(),
            protocols: served.protocols,
            routes: rules::sort_routes(routes),
        });
        match hostname.strip_prefix("*.") {
            Some(parent) => table.wildcards.insert(parent.to_owned(), host),
            None => table.hosts.insert(hostname.clone(), host),
        };
    }
}

/// Keeps claimed hostnames that are not served from the wildcards that would serve them.
fn add_reserved(table: &mut RoutingTable, world: &TableInputs) {
    let claimed = world.claims.keys();
    let idle = claimed.filter(|name| !table.hosts.contains_key(*name));
    let served = |name: &str, tls| routing::find_host(table, name, tls).is_some();
    let reserved = idle.filter(|name| served(name, false) || served(name, true));
    table.reserved = reserved.cloned().collect();
}

fn tunnel_info(holding: &ServedGateway<'_>) -> TunnelInfo {
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
    tunnel.revision = omissions::tunnel_revision(&tunnel, &holding.hostnames);
    tunnel
}
