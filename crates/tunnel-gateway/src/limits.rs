//! How much the gateway takes on. A limit that is reached refuses what is too much and touches nothing
//! that is already under way, nor anybody else.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Every limit of the public listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerLimits {
    /// How many bytes the head of a request may have.
    pub header_bytes: usize,
    /// How many headers a request may have.
    pub headers: usize,
    /// How long a connection may wait for the head of its next request, and for a TLS handshake.
    pub header_timeout: Duration,
    /// How long a body may stand still, in either direction.
    pub body_idle: Duration,
    /// How long nothing may come over an upgraded connection, from neither side.
    pub upgrade_idle: Duration,
    /// How long a connection to an origin may take.
    pub dial_timeout: Duration,
    /// How long a response may take to begin after the request was sent, where the route says nothing.
    pub response_timeout: Duration,
    /// How many connections there may be.
    pub connections: usize,
    /// How many of them may come from one address (one /64 of IPv6).
    pub connections_per_client: usize,
    /// How many requests of one HTTP/2 connection may be under way.
    pub streams_per_connection: u32,
    /// How many requests of one tunnel may be under way, upgraded ones among them.
    pub requests_per_tunnel: usize,
    /// How long an unused connection to an origin is kept.
    pub idle_connection: Duration,
    /// How many unused connections to one origin are kept.
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

/// So many at once for each key.
#[derive(Debug)]
pub(crate) struct KeyedLimit<K: Ord + Clone> {
    max: usize,
    in_use: Mutex<BTreeMap<K, usize>>,
}

/// One of them. Dropping it makes room for another.
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

    /// One more, if there is room.
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
        let mut taken = self
            .quota
            .in_use
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.key) {
            Some(many) if *many > 1 => *many -= 1,
            _ => drop(taken.remove(&self.key)),
        }
    }
}

/// Whom a connection counts for: an address, or the /64 that one customer has of IPv6.
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
