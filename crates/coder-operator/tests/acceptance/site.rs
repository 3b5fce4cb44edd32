//! The simulated servers, with helpers for tests.

use std::collections::BTreeSet;
use std::time::Duration;

use aplomb_fake_services::coderd::{Change, Config, Entry, FakeCoderd, Organization, Role, User, Version};
use aplomb_simulation::Cluster;
use http::StatusCode;
use serde_json::{Value, json};

/// The first server.
pub const URL: &str = "https://coder.example.com";
/// The other server.
pub const OTHER_URL: &str = "https://other.example.com";
/// As long as a real token. No part of it may appear anywhere.
pub const TOKEN: &str = "kV3tZ9wQ1n-Rb7yXc5LdJ0hPf8sGm2AuE";
/// Another token of the same user.
pub const NEXT_TOKEN: &str = "Zm8QeR2tYu-6Iw0PaS4dFg1HjK7lXc3VbN";
/// The token of the other server.
pub const OTHER_TOKEN: &str = "q7Zp2mVx9K-fT4wYb8RnL3cHs6DjG5aEuX";
/// The second organization of each server.
pub const SECOND: &str = "second";

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    pub limit: i64,
    pub version: Version,
    pub licensed: bool,
    pub agpl: bool,
    pub role: Role,
    pub bypass_refusal: StatusCode,
    /// Offset of its windows within the minute.
    pub offset: Duration,
    /// Heartbeat interval of daemons; after three missed ones they count as gone.
    pub heartbeat: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limit: 512,
            version: Version::new(2, 36),
            licensed: true,
            agpl: false,
            role: Role::OrganizationAdmin,
            bypass_refusal: StatusCode::PRECONDITION_REQUIRED,
            offset: Duration::from_secs(17),
            heartbeat: Duration::from_secs(60),
        }
    }
}

/// One server. It ends sessions when their key is deleted.
#[derive(Clone)]
pub struct Site {
    pub url: &'static str,
    pub sim: FakeCoderd,
}

impl Site {
    pub fn new(cluster: &Cluster, seed: u64, options: &Options, url: &'static str) -> Self {
        let tokens = match url {
            URL => [TOKEN, NEXT_TOKEN],
            _ => [OTHER_TOKEN, OTHER_TOKEN],
        };
        let clock = cluster.server().clock().clone();
        let seed = seed ^ u64::try_from(url.len()).expect("it is short");
        let mut config = Config::new(clock, seed, tokens[0]);
        config.users = vec![user(options.role, &tokens)];
        config.organizations = vec!["coder".to_owned(), SECOND.to_owned()];
        config.limit = options.limit;
        config.offset = options.offset;
        config.version = options.version;
        config.licensed = options.licensed;
        config.agpl = options.agpl;
        config.bypass_refusal = options.bypass_refusal;
        config.heartbeat = options.heartbeat;
        config.ends_sessions = true;
        let sim = FakeCoderd::new(config);
        Self { url, sim }
    }

    /// Every key: ID of its organization, and its name.
    pub fn keys(&self) -> BTreeSet<(String, String)> {
        let id = |name: &str| Organization::new(name).id;
        let keys = self.sim.keys().into_iter();
        keys.map(|key| (id(&key.organization), key.name)).collect()
    }

    /// The names of the keys.
    pub fn names(&self) -> BTreeSet<String> {
        self.keys().into_iter().map(|(_, name)| name).collect()
    }

    /// The name of the key with this plaintext.
    pub fn key_for_plaintext(&self, plaintext: &str) -> Option<String> {
        self.sim.key_with(plaintext).map(|key| key.name)
    }

    /// How many daemons are connected with a key.
    pub fn connected(&self, key: &str) -> usize {
        let all = self.sim.daemons().into_iter();
        all.filter(|it| it.connected && it.key.as_deref() == Some(key)).count()
    }

    /// The times in which a daemon that was connected had no working key.
    pub fn outages(&self) -> Vec<String> {
        let all = self.sim.outages().into_iter();
        all.map(|it| format!("{it:?}")).collect()
    }

    /// The names of the registered proxies.
    pub fn proxies(&self) -> BTreeSet<String> {
        let all = self.sim.proxies().into_iter().map(|it| it.name);
        all.filter(|name| name != "primary").collect()
    }

    /// The name of the proxy with this token.
    pub fn proxy_for_token(&self, token: &str) -> Option<String> {
        let digest = digest(token);
        let mut all = self.sim.proxies().into_iter();
        all.find(|it| it.token_sha256 == digest).map(|it| it.name)
    }

    /// The display fields of a proxy.
    pub fn proxy_display(&self, name: &str) -> Option<String> {
        let mut all = self.sim.proxies().into_iter();
        all.find(|it| it.name == name).map(|it| it.display_name)
    }

    /// Sets a fault, in the format of the simulator's control API.
    pub fn fault(&self, fault: &Value) {
        let fault = serde_json::from_value(fault.clone()).expect("a fault");
        self.sim.fault(fault);
    }

    /// Refuses everything with 429, with coderd's headers or without.
    pub fn refuse_all(&self, headers: bool) {
        let mut fault = json!({ "path": "/api/v2/", "status": 429 });
        fault["bare"] = (!headers).into();
        self.fault(&fault);
    }

    /// Clears all faults.
    pub fn clear_faults(&self) {
        self.sim.clear_faults(None);
    }

    /// The requests after number `since`.
    pub fn requests(&self, since: u64) -> Vec<Entry> {
        self.sim.requests_since(since)
    }

    /// Accepts another token too.
    pub fn accept_token(&self, token: &str) {
        let users = [user(Role::OrganizationAdmin, &[token, OTHER_TOKEN])];
        let change = Change {
            users: Some(users.to_vec()),
            ..Change::default()
        };
        self.sim.change(change).expect("valid settings");
    }

    /// The number of the last request.
    pub fn last_request(&self) -> u64 {
        self.sim.requests().last().map_or(0, |it| it.n)
    }
}

/// The user of the operator's token.
pub fn user(role: Role, tokens: &[&str]) -> User {
    let user = json!({ "name": "operator", "role": role, "tokens": tokens });
    serde_json::from_value(user).expect("a user")
}

/// SHA-256 in hex, as the simulator keeps secrets.
fn digest(secret: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(secret.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
