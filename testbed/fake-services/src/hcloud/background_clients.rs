//! Other clients of the same budget: who they are and when they wake.
//!
//! They are driven by the clock and not by tasks: what was due since the last look is done, in
//! order, before anybody looks. What they do when they wake is in `errand`.

mod client_task;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub(super) use client_task::ClientTask;

/// A noise client.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct BackgroundClients {
    /// Its name in the log. One of the same name is replaced.
    pub name: String,
    /// Whose habits it has; absent: reads at random at its rate.
    pub shape: Option<Shape>,
    /// Requests per second (`csi`: volumes per second); absent: the habit's own.
    pub rate: Option<f64>,
    /// `caph`: how many objects it watches over; absent: one per server.
    pub objects: Option<u64>,
    /// Spends whatever is above a level drawn anew from 0 to this one at every refill.
    pub hold_at: Option<u64>,
    /// Which bucket it draws from; absent: that of the first token.
    pub bucket: Option<String>,
}

/// Habits of well-known clients.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Cluster API: reads each server and its actions; a refused object rests for 5 minutes.
    Caph,
    /// Cloud controller manager: lists all servers.
    Ccm,
    /// CSI driver: attaches volumes, which locks servers, and polls.
    Csi,
}

impl BackgroundClients {
    /// Reads at random at a rate.
    #[must_use]
    pub fn rate(name: &str, per_second: f64) -> Self {
        Self {
            name: name.to_owned(),
            rate: Some(per_second),
            ..Self::default()
        }
    }

    /// Keeps the bucket within some tokens of empty.
    #[must_use]
    pub fn hold_at(name: &str, tokens: u64) -> Self {
        Self {
            name: name.to_owned(),
            hold_at: Some(tokens),
            ..Self::default()
        }
    }

    /// A well-known client with its usual rate.
    #[must_use]
    pub fn shape(name: &str, shape: Shape) -> Self {
        Self {
            name: name.to_owned(),
            shape: Some(shape),
            ..Self::default()
        }
    }

    /// What is wrong with it, if anything.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        let kinds = u8::from(self.shape.is_some()) + u8::from(self.hold_at.is_some());
        let bad_rate = |rate: f64| !(rate > 0.0 && rate <= 10_000.0);
        if self.name.is_empty() {
            Some("name: a noise client needs one")
        } else if kinds > 1 {
            Some("shape and hold_at exclude each other")
        } else if kinds == 0 && self.rate.is_none() {
            Some("give a shape (caph, ccm, csi), a rate, or hold_at")
        } else if self.rate.is_some_and(bad_rate) {
            Some("rate: requests per second, above 0 and at most 10000")
        } else if self.objects == Some(0) {
            Some("objects: at least 1")
        } else {
            None
        }
    }
}

/// One thing a client is about to do.
#[derive(Debug)]
pub(super) struct Wake {
    pub(super) client: BackgroundClients,
    pub(super) errand: ClientTask,
    pub(super) rng: fastrand::Rng,
}

#[derive(Debug)]
struct Client {
    noise: BackgroundClients,
    rng: fastrand::Rng,
    due: BTreeMap<(Timestamp, u64), ClientTask>,
    planned: u64,
}

/// All noise clients, by name.
#[derive(Debug, Default)]
pub(super) struct Clients(BTreeMap<String, Client>);

impl Clients {
    /// Adds a client and what it does first.
    pub(super) fn add(
        &mut self,
        noise: BackgroundClients,
        rng: fastrand::Rng,
        first: impl IntoIterator<Item = (Timestamp, ClientTask)>,
    ) {
        let name = noise.name.clone();
        let client = Client {
            noise,
            rng,
            due: BTreeMap::new(),
            planned: 0,
        };
        self.0.insert(name.clone(), client);
        for (at, errand) in first {
            self.plan(&name, at, errand);
        }
    }

    /// Removes one, or all. Returns how many are gone.
    pub(super) fn remove(&mut self, name: Option<&str>) -> usize {
        let before = self.0.len();
        self.0.retain(|known, _| name.is_some_and(|name| name != known));
        before - self.0.len()
    }

    pub(super) fn all(&self) -> Vec<BackgroundClients> {
        self.0.values().map(|client| client.noise.clone()).collect()
    }

    /// When the next one wakes.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let first = self.0.values().filter_map(|client| client.due.keys().next());
        first.map(|(at, _)| *at).min()
    }

    /// Takes what is due at a moment that `next` gave; clients by name.
    pub(super) fn wake(&mut self, at: Timestamp) -> Option<Wake> {
        let due = |client: &&mut Client| client.due.keys().next().is_some_and(|key| key.0 <= at);
        let client = self.0.values_mut().find(due)?;
        let (_, errand) = client.due.pop_first()?;
        Some(Wake {
            client: client.noise.clone(),
            errand,
            rng: client.rng.fork(),
        })
    }

    /// Plans what a client does later. A client that is gone does nothing.
    pub(super) fn plan(&mut self, name: &str, at: Timestamp, errand: ClientTask) {
        if let Some(client) = self.0.get_mut(name) {
            client.planned += 1;
            client.due.insert((at, client.planned), errand);
        }
    }
}
