//! The whole state, as the control plane shows and takes it.
//!
//! A `Change` replaces the lists it names and leaves the others alone; it is checked as a whole
//! before anything is replaced.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::model::{ActionRecord, FloatingIp, Server, Status};
use super::store::Store;

/// Everything there is.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct State {
    /// All servers, by id.
    pub servers: Vec<Server>,
    /// All floating IPs, by id.
    pub floating_ips: Vec<FloatingIp>,
    /// All actions, by id.
    pub actions: Vec<ActionRecord>,
    /// The rate limits.
    pub buckets: Vec<BucketState>,
}

/// A rate limit, by the name of its project or token.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct BucketState {
    /// The project, or `token-1` for the first line of the token file.
    pub name: String,
    /// What a full one holds; absent leaves it as it is.
    #[serde(default)]
    pub limit: Option<u64>,
    /// What is left; absent leaves it as it is.
    #[serde(default)]
    pub remaining: Option<u64>,
    /// What it gains per second; absent leaves it as it is.
    #[serde(default)]
    pub refill_per_second: Option<f64>,
}

/// What to replace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// All servers from now on. Floating IPs of servers that are gone are free.
    pub servers: Option<Vec<Server>>,
    /// All floating IPs from now on.
    pub floating_ips: Option<Vec<FloatingIp>>,
    /// All actions from now on.
    pub actions: Option<Vec<ActionRecord>>,
    /// Buckets to set; those not named stay.
    pub buckets: Option<Vec<BucketState>>,
}

impl Store {
    /// Replaces what the change names.
    ///
    /// # Errors
    /// What does not fit together; nothing has changed then.
    pub fn replace(&mut self, now: Timestamp, change: Change) -> Result<(), String> {
        let mut next = self.clone();
        next.reserve_ids(&change);
        if let Some(servers) = change.servers {
            next.servers = next.numbered(servers, now)?;
            next.detach_lost();
        }
        if let Some(floating_ips) = change.floating_ips {
            next.floating_ips = next.numbered(floating_ips, now)?;
            next.check_holders()?;
        }
        if let Some(actions) = change.actions {
            next.set_actions(actions, now)?;
        }
        next.settle(now);
        *self = next;
        Ok(())
    }

    /// Ids that were given are never made up again.
    fn reserve_ids(&mut self, change: &Change) {
        let servers = change.servers.iter().flatten().map(|s| s.id);
        let floating_ips = change.floating_ips.iter().flatten().map(|f| f.id);
        let actions = change.actions.iter().flatten().map(|a| a.id);
        let given = servers.chain(floating_ips).chain(actions).max();
        self.last_id = self.last_id.max(given.unwrap_or(0));
    }

    fn numbered<T: Named>(&mut self, given: Vec<T>, now: Timestamp) -> Result<BTreeMap<u64, T>, String> {
        let mut names = BTreeSet::new();
        let mut numbered = BTreeMap::new();
        for mut one in given {
            let name = (one.project().map(str::to_owned), one.name().to_owned());
            let known = T::all(self).values();
            let known = known.filter(|old| old.project() == one.project());
            let known = known.filter(|old| old.name() == one.name());
            let known = known.map(Named::id).next();
            let id = match one.id() {
                0 => known.unwrap_or_else(|| self.fresh_id()),
                given => given,
            };
            one.complete(id, now);
            let shown = format!("{} {id} ({})", T::KIND, name.1);
            if !names.insert(name) {
                return Err(format!("{shown}: the name is given twice"));
            }
            if numbered.insert(id, one).is_some() {
                return Err(format!("{shown}: the id is given twice"));
            }
        }
        Ok(numbered)
    }

    fn check_holders(&self) -> Result<(), String> {
        for floating_ip in self.floating_ips.values() {
            let Some(server) = floating_ip.server else {
                continue;
            };
            if !self.servers.contains_key(&server) {
                let name = &floating_ip.name;
                return Err(format!("floating_ip {name}: there is no server {server}"));
            }
        }
        Ok(())
    }

    fn set_actions(&mut self, actions: Vec<ActionRecord>, now: Timestamp) -> Result<(), String> {
        self.actions.clear();
        self.running.clear();
        for mut action in actions {
            if action.id == 0 {
                action.id = self.fresh_id();
            }
            let id = action.id;
            action.started.get_or_insert(now);
            match action.status {
                Status::Running => drop(self.running.insert(id)),
                Status::Success | Status::Error => drop(action.finished.get_or_insert(now)),
            }
            if self.actions.insert(id, action).is_some() {
                return Err(format!("action {id}: the id is given twice"));
            }
        }
        Ok(())
    }
}

/// What servers and floating IPs have in common.
trait Named: Sized {
    const KIND: &'static str;
    fn all(store: &Store) -> &BTreeMap<u64, Self>;
    fn id(&self) -> u64;
    fn name(&self) -> &str;
    fn project(&self) -> Option<&str>;
    fn complete(&mut self, id: u64, now: Timestamp);
}

impl Named for Server {
    const KIND: &'static str = "server";

    fn all(store: &Store) -> &BTreeMap<u64, Self> {
        &store.servers
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    fn complete(&mut self, id: u64, now: Timestamp) {
        self.id = id;
        self.created.get_or_insert(now);
    }
}

impl Named for FloatingIp {
    const KIND: &'static str = "floating_ip";

    fn all(store: &Store) -> &BTreeMap<u64, Self> {
        &store.floating_ips
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    fn complete(&mut self, id: u64, now: Timestamp) {
        self.id = id;
        self.created.get_or_insert(now);
    }
}
