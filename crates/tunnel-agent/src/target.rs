//! Targets that may be dialed: hosts with ports, normalized for comparison. Names are not resolved here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A host and a port. `localhost`, 127.0.0.1 and ::1 are the same host; names are case-insensitive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExposedTarget {
    host: String,
    port: u16,
}

impl ExposedTarget {
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    #[must_use]
    pub fn is_local(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        self.host == "localhost"
            || matches!(
                ip,
                Ok(IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST))
            )
    }

    fn is_same(&self, other: &Self) -> bool {
        self.port == other.port && (self.host == other.host || (self.is_local() && other.is_local()))
    }
}

impl FromStr for ExposedTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fix = || format!("{text:?} is not a host with a port: use a form like localhost:3000");
        let (host, port) = text.rsplit_once(':').ok_or_else(fix)?;
        let port = port.parse::<u16>().ok().filter(|port| *port > 0);
        let port = port.ok_or_else(fix)?;
        let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = match bracketed {
            Some(inside) => inside.parse::<Ipv6Addr>().map_err(|_| fix())?.to_string(),
            None => normalize_host(host).ok_or_else(fix)?,
        };
        Ok(Self { host, port })
    }
}

/// A name or an IPv4 address in canonical form.
fn normalize_host(host: &str) -> Option<String> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let fits = (1..=253).contains(&host.len()) && host.chars().all(known);
    fits.then(|| host.to_ascii_lowercase())
}

impl fmt::Display for ExposedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The exposed targets of an agent. No other target is ever dialed.
#[derive(Clone, Debug, Default)]
pub struct ExposedTargets(Vec<ExposedTarget>);

impl ExposedTargets {
    /// Exposes exactly these targets.
    #[must_use]
    pub fn new(targets: Vec<ExposedTarget>) -> Self {
        Self(targets)
    }

    /// The target named by `text`, if it is exposed.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<ExposedTarget> {
        let wanted = text.parse::<ExposedTarget>().ok()?;
        self.0.iter().any(|target| target.is_same(&wanted)).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposed(text: &str) -> ExposedTargets {
        ExposedTargets::new(vec![text.parse().expect("a target")])
    }

    #[test]
    fn this_machine_has_three_names() {
        for told in ["localhost:3000", "127.0.0.1:3000", "[::1]:3000"] {
            for asked in ["localhost:3000", "LOCALHOST:3000", "127.0.0.1:3000", "[::1]:3000"] {
                assert!(exposed(told).find(asked).is_some(), "{told} {asked}");
            }
        }
    }

    #[test]
    fn nothing_else_is_exposed() {
        let exposed = exposed("127.0.0.1:3000");
        for asked in [
            "127.0.0.1:3001",
            "127.0.0.2:3000",
            "localhost.example.com:3000",
            "0.0.0.0:3000",
            "[::]:3000",
            "[::ffff:127.0.0.1]:3000",
            "2130706433:3000",
            "localhost",
            "localhost:03000x",
            ":3000",
            "",
        ] {
            assert!(exposed.find(asked).is_none(), "{asked}");
        }
    }

    #[test]
    fn a_target_is_written_as_it_is_read() {
        for text in ["localhost:3000", "192.0.2.7:80", "[2001:db8::1]:443"] {
            let target: ExposedTarget = text.parse().expect("a target");
            assert_eq!(target.to_string(), text);
        }
        let long = "a".repeat(254);
        for text in ["a b:1", "host:0", "host:65536", "http://host:1", &format!("{long}:1")] {
            assert!(text.parse::<ExposedTarget>().is_err(), "{text}");
        }
    }
}
