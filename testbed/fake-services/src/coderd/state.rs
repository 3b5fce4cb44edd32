//! The whole state, as the control plane shows and takes it.
//!
//! A `Change` replaces the lists it names and leaves the others alone; it is checked as a whole
//! before anything is replaced.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::core::CoderdCore;
use super::daemons::{Daemon, Outage};
use super::limiter;
use super::model::{Key, Organization, Proxy};
use super::servers::FakeProxyServer;
use super::store::Store;
use super::users::{User, id_of};

/// Everything there is.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct State {
    /// Requests a minute and path.
    pub limit: i64,
    /// Whether the paid features may be used.
    pub licensed: bool,
    /// Whether deleting a key ends the sessions of its daemons.
    pub ends_sessions: bool,
    /// Who may call.
    pub users: Vec<User>,
    /// The first is the default one.
    pub organizations: Vec<Organization>,
    /// All provisioner keys.
    pub keys: Vec<Key>,
    /// All workspace proxies, the primary one first, and those that were deleted.
    pub proxies: Vec<Proxy>,
    /// All daemons that run.
    pub daemons: Vec<Daemon>,
    /// All proxy servers that run.
    pub proxy_servers: Vec<FakeProxyServer>,
    /// When daemons that were connected had no working key.
    pub outages: Vec<Outage>,
    /// Jobs that did not end by themselves.
    pub jobs_cut: u64,
    /// What the limiter has counted.
    pub buckets: Vec<Bucket>,
}

/// What the limiter has counted for somebody on a path.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The id of a user, or an address.
    pub identity: String,
    /// The path.
    pub path: String,
    /// Requests in this window.
    pub current: u64,
    /// Requests in the last one.
    #[serde(default)]
    pub previous: u64,
}

/// What to replace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// Requests a minute and path from now on.
    pub limit: Option<i64>,
    /// Whether the paid features may be used.
    pub licensed: Option<bool>,
    /// Whether deleting a key ends the sessions of its daemons.
    pub ends_sessions: Option<bool>,
    /// All users from now on.
    pub users: Option<Vec<User>>,
    /// All organisations from now on.
    pub organizations: Option<Vec<Organization>>,
    /// All keys from now on. The daemons of those that are gone notice.
    pub keys: Option<Vec<Key>>,
    /// All proxies from now on.
    pub proxies: Option<Vec<Proxy>>,
    /// Daemons that are not in it are gone; the others stay as they are.
    pub daemons: Option<Vec<Daemon>>,
    /// Proxy servers that are not in it are gone; the others stay as they are.
    pub proxy_servers: Option<Vec<FakeProxyServer>>,
    /// All outages from now on.
    pub outages: Option<Vec<Outage>>,
    /// Jobs that did not end by themselves.
    pub jobs_cut: Option<u64>,
    /// What the limiter is to have counted; what is not named stays.
    pub buckets: Option<Vec<Bucket>>,
}

impl CoderdCore {
    pub(super) fn state(&self, now: Timestamp) -> State {
        let counted = self.limiter.counted(now);
        State {
            limit: self.limiter.limit(),
            licensed: self.config.licensed,
            ends_sessions: self.config.ends_sessions,
            users: self.store.users.clone(),
            organizations: self.store.organizations.clone(),
            keys: self.store.keys.clone(),
            proxies: self.store.proxies.clone(),
            daemons: self.daemons.all(),
            proxy_servers: self.proxy_servers.all(&self.store),
            outages: self.daemons.outages.clone(),
            jobs_cut: self.daemons.jobs_cut,
            buckets: counted
                .map(|(key, current, previous)| Bucket {
                    identity: key.identity.clone(),
                    path: key.path.clone(),
                    current,
                    previous,
                })
                .collect(),
        }
    }

    pub(super) fn change(&mut self, now: Timestamp, change: Change) -> Result<(), String> {
        let mut next = self.store.clone();
        next.replace(now, &change)?;
        let gone = self.store.keys.iter().map(|key| key.id.clone());
        let gone: Vec<String> = gone.filter(|id| !next.keys.iter().any(|key| key.id == *id)).collect();
        for id in &gone {
            self.drop_key(now, id);
        }
        self.store = next;
        self.config.licensed = change.licensed.unwrap_or(self.config.licensed);
        self.config.ends_sessions = change.ends_sessions.unwrap_or(self.config.ends_sessions);
        if let Some(limit) = change.limit {
            self.limiter.set_limit(limit);
        }
        self.keep_processes(now, &change);
        for it in change.buckets.into_iter().flatten() {
            let key = limiter::Key {
                identity: it.identity,
                path: it.path,
            };
            self.limiter.set(now, key, it.current, it.previous);
        }
        if let Some(outages) = change.outages {
            self.daemons.outages = outages;
        }
        self.daemons.jobs_cut = change.jobs_cut.unwrap_or(self.daemons.jobs_cut);
        Ok(())
    }

    fn keep_processes(&mut self, now: Timestamp, change: &Change) {
        if let Some(kept) = &change.daemons {
            let gone = self.daemons.all().into_iter().map(|it| it.id);
            let gone = gone.filter(|id| !kept.iter().any(|it| it.id == *id));
            gone.collect::<Vec<_>>()
                .into_iter()
                .for_each(|id| self.daemons.kill(now, id));
        }
        if let Some(kept) = &change.proxy_servers {
            let running = self.proxy_servers.all(&self.store);
            let gone = running.iter().map(|it| it.id);
            gone.filter(|id| !kept.iter().any(|it| it.id == *id))
                .for_each(|id| self.proxy_servers.stop(id));
        }
    }
}

impl Store {
    fn replace(&mut self, now: Timestamp, change: &Change) -> Result<(), String> {
        if let Some(organizations) = &change.organizations {
            let named = organizations.iter().map(|it| match it.id.is_empty() {
                true => Organization::new(&it.name),
                false => it.clone(),
            });
            self.organizations = named.collect();
            unique("organization", self.organizations.iter().map(|it| &it.name))?;
        }
        if let Some(users) = &change.users {
            self.users = users.iter().cloned().map(User::complete).collect();
            unique("user", self.users.iter().map(|it| &it.name))?;
        }
        if let Some(proxies) = &change.proxies {
            let complete = |it: &Proxy| {
                let id = || id_of(&format!("proxy {}", it.name));
                it.clone().complete(now, id)
            };
            self.proxies = proxies.iter().map(complete).collect();
            let there = self.proxies.iter().filter(|it| !it.deleted);
            unique("proxy", there.map(|it| &it.name))?;
        }
        match &change.keys {
            Some(keys) => self.replace_keys(now, keys),
            None => Ok(()),
        }
    }

    fn replace_keys(&mut self, now: Timestamp, keys: &[Key]) -> Result<(), String> {
        let mut next = Vec::new();
        for key in keys {
            let mut key = key.clone();
            let word = match key.organization.as_str() {
                "" => "default",
                name => name,
            };
            let found = self.organization(word);
            let found = found.ok_or_else(|| format!("key {}: no organization {word}", key.name))?;
            key.organization = found.name.clone();
            key.name = key.name.to_lowercase();
            let known = self.key(&key.organization, &key.name);
            let known = known.map(|known| known.id.clone());
            let id = known.unwrap_or_else(|| id_of(&format!("key {} {now}", key.name)));
            next.push(key.complete(now, || id));
        }
        self.keys = next;
        let names = self.keys.iter();
        let names: Vec<_> = names.map(|key| format!("{}/{}", key.organization, key.name)).collect();
        unique("key", names.iter())
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() {
            return Err(format!("{what}: the name is missing"));
        }
        if !seen.insert(name) {
            return Err(format!("{what} {name}: the name is given twice"));
        }
    }
    Ok(())
}
