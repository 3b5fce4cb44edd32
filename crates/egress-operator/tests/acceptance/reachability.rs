//! Which nodes respond to a probe, and from where.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_egress_operator::probe::NodeProbe;
use futures::future::BoxFuture;
use tokio::time::sleep;

/// A network. Clones share it.
#[derive(Clone, Default)]
pub struct Reach(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    silent: BTreeSet<IpAddr>,
    /// Replicas that cannot reach an address that others reach.
    blind: BTreeSet<(String, IpAddr)>,
}

impl Reach {
    /// Makes an address unreachable for all, or reachable again.
    pub fn set_silent(&self, address: IpAddr, silent: bool) {
        let mut state = self.0.lock().unwrap();
        if silent {
            state.silent.insert(address);
        } else {
            state.silent.remove(&address);
        }
    }

    /// Makes an address unreachable for this replica only.
    pub fn block_from(&self, replica: &str, address: IpAddr) {
        let mut state = self.0.lock().unwrap();
        state.blind.insert((replica.to_owned(), address));
    }

    /// The network as seen from a replica.
    pub fn probe_from(&self, replica: &str) -> Arc<dyn NodeProbe> {
        Arc::new(Vantage {
            reach: self.clone(),
            replica: replica.to_owned(),
        })
    }

    fn is_reachable(&self, replica: &str, addresses: &[IpAddr]) -> bool {
        let state = self.0.lock().unwrap();
        let silent = |address: &IpAddr| {
            let blind = (replica.to_owned(), *address);
            state.silent.contains(address) || state.blind.contains(&blind)
        };
        !addresses.iter().all(silent)
    }
}

struct Vantage {
    reach: Reach,
    replica: String,
}

impl NodeProbe for Vantage {
    fn dial<'a>(&'a self, addresses: &'a [IpAddr], _port: u16, limit: Duration) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            if self.reach.is_reachable(&self.replica, addresses) {
                sleep(Duration::from_millis(1)).await;
                return Ok(());
            }
            sleep(limit).await;
            Err(format!("no response within {limit:?}"))
        })
    }
}
