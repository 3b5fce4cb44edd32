//! The node agent: adds floating IPs to an interface of this node, each with its own route.
//!
//! A gateway can only send from an address that it has, so every candidate is prepared before one of them is elected.
//! Each address gets a /32 on the interface, a rule that sends traffic from it to its own table, and in that table a
//! route to the gateway and a default route through it. The agent does not know which node is the gateway and does not
//! call the provider.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod endpoint;
mod keeper;
mod message;
mod names;
mod netlink;
mod plan;

use std::net::{IpAddr, SocketAddr};

use aplomb::Tasks;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::keeper::AddressKeeper;

#[derive(Clone, Debug)]
pub struct NodeSettings {
    pub addresses: Vec<IpAddr>,
    /// StableEgress objects whose addresses are added.
    pub stable_egresses: Vec<String>,
    /// The interface; default: the one of the default route.
    pub interface: Option<String>,
    /// The gateway for addresses of its family; default: Hetzner's.
    pub gateway: Option<IpAddr>,
    /// The table of the first address; each further address uses the next one.
    pub table: u32,
    pub priority: u32,
    pub listen: SocketAddr,
}

impl NodeSettings {
    fn table_for(&self, number: usize) -> u32 {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.table.saturating_add(number)
    }

    fn validate(&self) -> Result<(), Error> {
        let slots = self.slots().len();
        if slots == 0 {
            return Err(Error::NoAddress);
        }
        let mut tables = (0..slots).map(|number| self.table_for(number));
        match tables.find(|table| matches!(*table, 0 | 253..=255 | u32::MAX)) {
            Some(table) => Err(Error::Table(table)),
            None => Ok(()),
        }
    }

    fn slots(&self) -> Vec<Slot> {
        let given = self.addresses.iter().map(|ip| Slot {
            name: None,
            ip: Some(*ip),
        });
        let named = self.stable_egresses.iter().map(|name| Slot {
            name: Some(name.clone()),
            ip: None,
        });
        given.chain(named).collect()
    }
}

/// An address to add, possibly not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    /// The StableEgress it is read from.
    name: Option<String>,
    ip: Option<IpAddr>,
}

/// Keeps the node prepared until `shutdown`, then removes what it added. `client` is needed if a StableEgress is named.
///
/// # Errors
/// A setting is invalid, the capability is missing, or something could not be removed at the end.
pub async fn run(
    settings: NodeSettings,
    client: Option<kube::Client>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    settings.validate()?;
    let tasks = Tasks::on_runtime();
    let standing = watch::Sender::new(Err("the node was not checked yet".to_owned()));
    let _endpoint = endpoint::serve(settings.listen, standing.subscribe(), &tasks).await?;
    let (slots, named) = (settings.slots(), !settings.stable_egresses.is_empty());
    let slots = watch::Sender::new(slots);
    let keeper = AddressKeeper::new(settings, &tasks, standing).await?;
    let read = slots.subscribe();
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let _names = match client {
        Some(client) if named => {
            let engine = names::engine(client, slots.clone());
            Some(tasks.spawn_critical("names", async move {
                if let Err(error) = engine.run(stop.cancelled_owned()).await {
                    tracing::error!(%error, "Stopped watching StableEgress addresses");
                }
            }))
        }
        None if named => return Err(Error::NoCluster),
        _ => None,
    };
    keeper.run(read, shutdown).await
}

/// An error of the node agent; it names the flag or capability and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no address: set --address or --stable-egress")]
    NoAddress,
    /// A StableEgress is named, but no cluster to read it from is configured.
    #[error("--stable-egress needs a cluster: set --kubeconfig, or run in a pod")]
    NoCluster,
    #[error("--table {0} is reserved by the kernel or out of range: use 1 to 252, or a number above 255")]
    Table(u32),
    #[error("interface {0:?} does not exist: list interfaces with `ip link` and correct --interface")]
    NoInterface(String),
    #[error("no interface has a default route: set --interface")]
    NoDefaultRoute,
    #[error("cannot change {0}: add NET_ADMIN under securityContext.capabilities.add, or run as root")]
    NotPermitted(String),
    #[error("cannot add {0}: another entry is in its place; choose another --table or --priority")]
    Occupied(String),
    #[error("cannot change {0}: {1}")]
    Refused(String, std::io::Error),
    #[error("cannot read network state: {0}")]
    Unread(String),
    #[error("cannot open a netlink socket: {0}")]
    Socket(std::io::Error),
    #[error("cannot listen on {0} (--listen): {1}")]
    Listen(SocketAddr, std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(table: u32, addresses: &[&str]) -> NodeSettings {
        NodeSettings {
            addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
            stable_egresses: Vec::new(),
            interface: None,
            gateway: None,
            table,
            priority: 2010,
            listen: ([127, 0, 0, 1], 0).into(),
        }
    }

    #[test]
    fn without_an_address_the_flags_are_named() {
        let error = settings(2010, &[]).validate().unwrap_err().to_string();
        assert!(
            error.contains("--address") && error.contains("--stable-egress"),
            "{error}"
        );
    }

    #[test]
    fn no_table_of_the_kernel_is_taken_by_any_address() {
        let two = ["203.0.113.7", "203.0.113.8"];
        assert!(settings(2010, &two).validate().is_ok());
        for table in [0, 252, 254, u32::MAX - 1] {
            let error = settings(table, &two).validate().unwrap_err().to_string();
            assert!(error.contains("--table"), "{table}: {error}");
        }
    }

    #[test]
    fn every_address_has_a_table_of_its_own() {
        let settings = settings(2010, &[]);
        assert_eq!([settings.table_for(0), settings.table_for(1)], [2010, 2011]);
    }
}
