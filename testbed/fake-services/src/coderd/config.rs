//! What a simulated coderd is given: users, the limit, its version and the switches.
//!
//! Where versions differ, or documents disagree, there is a switch here, never a guess hidden in
//! the code.

use std::str::FromStr;
use std::time::Duration;

use aplomb_apimachinery::clock::Clock;
use http::StatusCode;

use super::users::{Role, User};

/// The token of the owner where nobody names another.
pub const OWNER_TOKEN: &str = "sim-owner-token";

/// How to set up a simulated coderd.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where time comes from; virtual when tokio's clock is paused.
    pub clock: Clock,
    /// Everything random is drawn from this, keys and tokens too.
    pub seed: u64,
    /// Who may call.
    pub users: Vec<User>,
    /// Names of the organisations; the first is the default one.
    pub organizations: Vec<String>,
    /// Requests a minute, for each identity and path; zero and below is no limit.
    pub limit: i64,
    /// How long after the UTC minute its windows begin.
    pub offset: Duration,
    /// Decides whom the limiter counts, and whether it can be passed by.
    pub version: Version,
    /// Without a licence the paid features are refused.
    pub licensed: bool,
    /// A build without the paid features has none of their paths.
    pub agpl: bool,
    /// Whether deleting a key ends the sessions of its daemons.
    pub ends_sessions: bool,
    /// What those get who may not pass the limiter by: 428, or 412 as some documents have it.
    pub bypass_refusal: StatusCode,
    /// How often daemons say that they live.
    pub heartbeat: Duration,
}

impl Config {
    /// The defaults of a licensed coderd, with one owner called `admin`.
    #[must_use]
    pub fn new(clock: Clock, seed: u64, token: &str) -> Self {
        Self {
            clock,
            seed,
            users: vec![User::new("admin", Role::Owner, token)],
            organizations: vec!["coder".to_owned()],
            limit: 512,
            offset: Duration::ZERO,
            version: Version::new(2, 36),
            licensed: true,
            agpl: false,
            ends_sessions: false,
            bypass_refusal: StatusCode::PRECONDITION_REQUIRED,
            heartbeat: Duration::from_secs(60),
        }
    }
}

/// A version of coderd, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// Version `major.minor`.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Whether the limiter knows users, and lets owners pass.
    pub(super) fn knows_users(self) -> bool {
        self >= Self::new(2, 32)
    }

    /// Whether doubled slashes are one for the limiter.
    pub(super) fn cleans_paths(self) -> bool {
        self >= Self::new(2, 36)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{}.{}.0", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    /// Reads `2.36`, also with a `v` before it and with a patch level after it.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no version: write 2.36");
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut number = || parts.next().and_then(|part| part.parse().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |text: &str| text.parse::<Version>().expect("a version");
        assert!(version("2.9") < version("v2.32.1"));
        assert_eq!(version("2.36").to_string(), "v2.36.0");
        assert!("two".parse::<Version>().is_err());
        assert!("2".parse::<Version>().is_err());
    }
}
