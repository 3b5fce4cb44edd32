//! Whether a node can be reached: a TCP handshake with one of its addresses.
//!
//! Only the handshake counts: no data is sent or read, so any listener suffices. [`NodeProber`] schedules probes;
//! `decide` interprets failures.

mod prober;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use self::prober::{NodeProber, ProbeOutcome};

/// Checks whether a node can be reached.
pub trait NodeProbe: Send + Sync {
    /// Succeeds if one of `addresses` accepts a connection on `port` within `limit`; otherwise returns why not.
    fn dial<'a>(&'a self, addresses: &'a [IpAddr], port: u16, limit: Duration) -> BoxFuture<'a, Result<(), String>>;
}

/// TCP handshakes with all addresses at once; the first success counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpProbe;

impl NodeProbe for TcpProbe {
    fn dial<'a>(&'a self, addresses: &'a [IpAddr], port: u16, limit: Duration) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            if let Ok(answer) = timeout(limit, connect_any(addresses, port)).await {
                return answer;
            }
            let dialled = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
            let dialled: Vec<_> = dialled.map(|address| address.to_string()).collect();
            Err(format!("no response from {} within {limit:?}", dialled.join(", ")))
        })
    }
}

/// Succeeds with the first address that does; fails when all have failed.
async fn connect_any(addresses: &[IpAddr], port: u16) -> Result<(), String> {
    let dials = addresses.iter().map(|ip| async move {
        let address = SocketAddr::new(*ip, port);
        let connected = TcpStream::connect(address).await;
        connected.map_err(|error| format!("{address}: {error}"))
    });
    let mut dials: FuturesUnordered<_> = dials.collect();
    let mut refusals = Vec::new();
    while let Some(answer) = dials.next().await {
        match answer {
            Ok(_) => return Ok(()),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if refusals.is_empty() {
        return Err("the node has neither an InternalIP nor an ExternalIP".to_owned());
    }
    refusals.sort_unstable();
    Err(refusals.join("; "))
}

/// The addresses to dial, from the `(type, address)` pairs of a node's status: its InternalIPs, then its ExternalIPs.
#[must_use]
pub fn dial_addresses<'a>(status: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<IpAddr> {
    let (mut internal, mut external) = (Vec::new(), Vec::new());
    for (kind, address) in status {
        let list = match kind {
            "InternalIP" => &mut internal,
            "ExternalIP" => &mut external,
            _ => continue,
        };
        list.extend(address.parse::<IpAddr>());
    }
    external.retain(|address| !internal.contains(address));
    internal.append(&mut external);
    internal
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);
    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    async fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[tokio::test]
    async fn a_node_that_listens_is_reached() {
        let (_open, port) = listener().await;
        assert_eq!(TcpProbe.dial(&[LOOPBACK], port, LIMIT).await, Ok(()));
    }

    #[tokio::test]
    async fn a_closed_port_is_a_failure_that_names_it() {
        let (closed, port) = listener().await;
        drop(closed);
        let refused = TcpProbe.dial(&[LOOPBACK], port, LIMIT).await.unwrap_err();
        assert!(refused.contains(&format!("127.0.0.1:{port}")), "{refused}");
    }

    #[tokio::test]
    async fn the_external_address_counts_when_the_internal_one_refuses() {
        let (_open, port) = listener().await;
        let nodes = dial_addresses([("ExternalIP", "127.0.0.1"), ("InternalIP", "127.0.0.2")]);
        assert_eq!(nodes[0].to_string(), "127.0.0.2", "internal first");
        assert_eq!(TcpProbe.dial(&nodes, port, LIMIT).await, Ok(()));
    }

    #[tokio::test]
    async fn a_node_without_an_address_is_a_failure() {
        let nowhere = dial_addresses([("Hostname", "node-1.example.com"), ("InternalIP", "gone")]);
        let refused = TcpProbe.dial(&nowhere, 9962, LIMIT).await.unwrap_err();
        assert!(refused.contains("InternalIP"), "{refused}");
    }

    #[test]
    fn an_address_that_is_listed_twice_is_dialed_once() {
        let twice = [("InternalIP", "192.0.2.1"), ("ExternalIP", "192.0.2.1")];
        assert_eq!(dial_addresses(twice).len(), 1);
    }
}
