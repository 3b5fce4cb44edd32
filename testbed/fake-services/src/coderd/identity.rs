//! Whom the limiter counts a request against, and what it calls the path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, Request};

use super::config::Version;
use super::users::digest;
use crate::service::Peer;

/// The header that carries a session token.
pub(super) const SESSION: &str = "coder-session-token";
/// The header that asks to pass the limiter by.
pub(super) const BYPASS: &str = "x-coder-bypass-ratelimit";
/// The header that carries the key of a daemon.
pub(super) const DAEMON_KEY: &str = "coder-provisioner-daemon-key";
/// What every path of the API begins with.
pub(super) const ROOT: &str = "/api/v2";

/// Text of a header.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a request asks to pass the limiter by. Read as Go reads a bool; anything else is no.
pub(super) fn asks_bypass(headers: &HeaderMap) -> bool {
    let value = header(headers, BYPASS).unwrap_or_default();
    ["1", "t", "T", "TRUE", "true", "True"].contains(&value)
}

/// Where a request comes from; in the same process, from loopback.
pub(super) fn address<B>(request: &Request<B>) -> String {
    let peer = request.extensions().get::<Peer>();
    let ip = peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.0.ip());
    network(ip).to_string()
}

/// IPv6 clients are counted by their /64.
fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => IpAddr::V4(four),
            None => {
                let [a, b, c, d, ..] = six.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
        },
    }
}

/// The path as the limiter counts it.
pub(super) fn counted_path(version: Version, path: &str) -> String {
    match version.cleans_paths() {
        true => shown_path(&clean(path)),
        false => shown_path(path),
    }
}

/// A path without empty parts, `.` and `..`.
pub(super) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The path as it may be kept: a daemon puts its key there, of which the digest's beginning stays.
pub(super) fn shown_path(path: &str) -> String {
    let root = format!("{ROOT}/provisionerkeys/");
    match clean(path).strip_prefix(&root) {
        Some(key) => format!("{root}[{}]", &digest(key)[..12]),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bool_is_read_as_go_reads_it() {
        let asks = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(BYPASS, http::HeaderValue::from_static(value));
            asks_bypass(&headers)
        };
        for value in ["1", "t", "T", "TRUE", "true", "True"] {
            assert!(asks(value), "{value}");
        }
        for value in ["", "0", "false", "yes", "tRUE", "on"] {
            assert!(!asks(value), "{value}");
        }
    }

    #[test]
    fn ipv6_counts_by_network_and_a_mapped_address_is_ipv4() {
        let of = |text: &str| network(text.parse().expect("an address")).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
    }

    #[test]
    fn doubled_slashes_are_one_from_2_36_on() {
        let path = "//api/v2//users/./x/../me/";
        assert_eq!(counted_path(Version::new(2, 36), path), "/api/v2/users/me");
        assert_eq!(counted_path(Version::new(2, 35), path), path);
    }

    #[test]
    fn a_key_in_the_path_is_not_shown() {
        let path = "//api/v2/provisionerkeys/secret";
        assert_eq!(shown_path(path), "/api/v2/provisionerkeys/[2bb80d537b1d]");
        let path = "/api/v2/organizations/x/provisionerkeys/name";
        assert_eq!(shown_path(path), path);
    }
}
