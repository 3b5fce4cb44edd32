//! Limits of the gateway. A limit that is reached rejects the excess and affects neither requests in flight
//! nor other tenants.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerLimits {
    /// Maximum size of a request head in bytes.
    pub header_bytes: usize,
    pub headers: usize,
    /// Timeout for the next request head on a connection, and for a TLS handshake.
    pub header_timeout: Duration,
    /// How long a body may make no progress, in either direction.
    pub body_idle: Duration,
    /// How long an upgraded connection may be idle in both directions.
    pub upgrade_idle: Duration,
    /// Timeout for connecting to an origin.
    pub dial_timeout: Duration,
    /// Timeout from the sent request to the response head, if the route sets none.
    pub response_timeout: Duration,
    pub connections: usize,
    /// Maximum connections from one address (one /64 for IPv6).
    pub connections_per_client: usize,
    /// Maximum concurrent requests on one HTTP/2 connection.
    pub streams_per_connection: u32,
    /// Maximum concurrent requests of one tunnel, including upgraded ones.
    pub requests_per_tunnel: usize,
    /// How long an idle connection to an origin is kept.
    pub idle_connection: Duration,
    /// Maximum idle connections to one origin.
    pub idle_connections_per_origin: usize,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            header_bytes: 64 * 1024,
            headers: 100,
            header_timeout: Duration::from_secs(30),
            body_idle: Duration::from_secs(300),
            upgrade_idle: Duration::from_secs(3600),
            dial_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(120),
            connections: 16_384,
            connections_per_client: 4096,
            streams_per_connection: 250,
            requests_per_tunnel: 1024,
            idle_connection: Duration::from_secs(60),
            idle_connections_per_origin: 64,
        }
    }
}

/// A limit on concurrent uses per key.
#[derive(Debug)]
pub(crate) struct KeyedLimit<K: Ord + Clone> {
    max: usize,
    in_use: Mutex<BTreeMap<K, usize>>,
}

/// One use. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct LimitSlot<K: Ord + Clone> {
    quota: Arc<KeyedLimit<K>>,
    key: K,
}

impl<K: Ord + Clone> KeyedLimit<K> {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            max: most,
            in_use: Mutex::default(),
        })
    }

    pub(crate) fn try_acquire(self: &Arc<Self>, key: K) -> Option<LimitSlot<K>> {
        let mut taken = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let many = taken.get(&key).copied().unwrap_or_default();
        if many >= self.max {
            return None;
        }
        taken.insert(key.clone(), many + 1);
        drop(taken);
        let quota = self.clone();
        Some(LimitSlot { quota, key })
    }
}

impl<K: Ord + Clone> Drop for LimitSlot<K> {
    fn drop(&mut self) {
        let mut taken = self.quota.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.key) {
            Some(many) if *many > 1 => *many -= 1,
            _ => drop(taken.remove(&self.key)),
        }
    }
}

/// The key of a connection's client: its address, or for IPv6 its /64, which one customer has.
pub(crate) fn client_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0_u128 << 64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_at_its_limit_leaves_room_for_another() {
        let quota = KeyedLimit::new(2);
        let first = quota.try_acquire("a").expect("room");
        let _second = quota.try_acquire("a").expect("room");
        assert!(quota.try_acquire("a").is_none());
        assert!(quota.try_acquire("b").is_some());
        drop(first);
        assert!(quota.try_acquire("a").is_some());
    }

    #[test]
    fn an_unused_key_is_removed() {
        let quota = KeyedLimit::new(1);
        drop(quota.try_acquire("a"));
        assert!(quota.in_use.lock().expect("whole").is_empty());
    }

    #[test]
    fn addresses_of_one_64_are_one_client() {
        let parse = |text: &str| client_address(text.parse().expect("an address"));
        assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:2"));
        assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
        assert_eq!(parse("::ffff:192.0.2.1"), parse("192.0.2.1"));
        assert_ne!(parse("192.0.2.1"), parse("192.0.2.2"));
    }
}
