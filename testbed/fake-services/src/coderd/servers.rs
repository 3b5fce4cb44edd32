//! Proxy servers: what runs with a workspace proxy's token, and how healthy that makes the proxy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::model::{PRIMARY, Proxy};
use super::store::Store;
use super::users::digest;

/// A running proxy server, as the state shows it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct FakeProxyServer {
    /// Counts from 1.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Id of the proxy that its token was made for.
    pub proxy: String,
    /// Whether its token is still the proxy's.
    pub accepted: bool,
}

#[derive(Clone, Debug)]
struct Process {
    name: String,
    proxy: String,
    token_sha256: String,
}

/// All proxy servers.
#[derive(Clone, Debug, Default)]
pub(super) struct ProxyServers {
    processes: BTreeMap<u64, Process>,
    last: u64,
}

impl ProxyServers {
    /// Starts a server, which reports at once.
    pub(super) fn start(&mut self, store: &mut Store, name: Option<&str>, token: &str) -> u64 {
        self.last += 1;
        let token_sha256 = digest(token);
        let mut proxies = store.proxies.iter_mut();
        let known = proxies.find(|it| !it.deleted && it.token_sha256 == token_sha256);
        let made_for = token.split(':').next().unwrap_or_default();
        let proxy = match known {
            Some(proxy) => {
                proxy.registered = true;
                proxy.id.clone()
            }
            None => made_for.to_owned(),
        };
        let name = name.map_or_else(|| format!("proxy-server-{}", self.last), str::to_owned);
        let process = Process {
            name,
            proxy,
            token_sha256,
        };
        self.processes.insert(self.last, process);
        self.last
    }

    pub(super) fn stop(&mut self, id: u64) {
        self.processes.remove(&id);
    }

    /// The server's word for how a proxy is.
    pub(super) fn health(&self, proxy: &Proxy) -> &'static str {
        let own = |it: &&Process| it.proxy == proxy.id;
        let accepted = |it: &Process| it.token_sha256 == proxy.token_sha256;
        let mut running = self.processes.values().filter(own).peekable();
        if proxy.deleted {
            "unknown"
        } else if proxy.name == PRIMARY {
            "ok"
        } else if !proxy.registered {
            "unregistered"
        } else if running.peek().is_none() {
            "unreachable"
        } else if running.any(accepted) {
            "ok"
        } else {
            "unhealthy"
        }
    }

    /// All of them.
    pub(super) fn all(&self, store: &Store) -> Vec<FakeProxyServer> {
        let accepted = |it: &Process| {
            let mut proxies = store.proxies.iter();
            let own = |proxy: &Proxy| proxy.id == it.proxy && !proxy.deleted;
            proxies.any(|proxy| own(proxy) && proxy.token_sha256 == it.token_sha256)
        };
        let all = self.processes.iter();
        all.map(|(id, it)| FakeProxyServer {
            id: *id,
            name: it.name.clone(),
            proxy: it.proxy.clone(),
            accepted: accepted(it),
        })
        .collect()
    }
}
