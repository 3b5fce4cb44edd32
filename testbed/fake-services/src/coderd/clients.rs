//! Clients that the simulator plays itself: daemons, proxy servers, and noise that eats the budget.
//!
//! Noise is driven by the clock and not by tasks: what was due since the last look is done before
//! anybody looks. Faults do not meet it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::core::CoderdCore;
use super::daemons::Work;
use super::identity::BYPASS;
use super::users::{Secret, digest};
use crate::service::span::Span;

/// A client to start. One of the same name is replaced.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Client {
    /// Daemons with a key.
    Daemons {
        /// Its name; theirs are made of it.
        name: String,
        /// Plaintext of the key. It is never shown.
        #[serde(skip_serializing)]
        key: Given,
        /// How many.
        #[serde(default = "one")]
        count: u64,
        /// How long the jobs take that they always have; absent: they are idle.
        #[serde(default)]
        job: Option<Span>,
        /// How long they are idle between two jobs.
        #[serde(default)]
        pause: Option<Span>,
    },
    /// Proxy servers with a token.
    Proxies {
        /// Its name; theirs are made of it.
        name: String,
        /// The token. It is never shown.
        #[serde(skip_serializing)]
        token: Given,
        /// How many.
        #[serde(default = "one")]
        count: u64,
    },
    /// Reads of a path by a user.
    Noise {
        /// Its name in the log.
        name: String,
        /// Name of the user; absent: nobody, from loopback.
        #[serde(default)]
        user: Option<String>,
        /// What it reads, with `/api/v2`.
        path: String,
        /// Requests per second, on average.
        rate: f64,
        /// Whether it asks to pass the limiter by.
        #[serde(default)]
        bypass: bool,
    },
    /// One job for every idle daemon of a key, now. Done when it is started, so it is in no list.
    Jobs {
        /// Name of the key.
        key: String,
        /// Name of its organisation; absent: the default one.
        #[serde(default)]
        organization: Option<String>,
        /// How long the job takes.
        job: Span,
    },
}

/// A secret that a tester gives.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct Given(Secret);

impl Given {
    /// Takes a secret.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Secret(text.to_owned()))
    }
}

fn one() -> u64 {
    1
}

#[derive(Debug)]
struct RunningClient {
    client: Client,
    daemons: Vec<u64>,
    servers: Vec<u64>,
    /// When noise makes its next request.
    due: Option<Timestamp>,
}

impl RunningClient {
    fn new(client: Client) -> Self {
        Self {
            client,
            daemons: Vec::new(),
            servers: Vec::new(),
            due: None,
        }
    }
}

/// The names of the programs that a client is made of.
fn numbered(name: &str, count: u64) -> impl Iterator<Item = String> {
    (1..=count).map(move |n| format!("{name}-{n}"))
}

/// All clients, by name.
#[derive(Debug)]
pub(super) struct Clients {
    running: BTreeMap<String, RunningClient>,
    rng: fastrand::Rng,
}

impl Clients {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            running: BTreeMap::new(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    pub(super) fn all(&self) -> Vec<Client> {
        self.running.values().map(|it| it.client.clone()).collect()
    }

    /// When noise makes its next request.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.running.values().filter_map(|it| it.due).min()
    }

    fn wait(&mut self, now: Timestamp, rate: f64) -> Option<Timestamp> {
        let seconds = -(1.0 - self.rng.f64()).ln() / rate;
        let wait = Duration::try_from_secs_f64(seconds).ok()?;
        now.checked_add(SignedDuration::try_from(wait).ok()?).ok()
    }
}

impl CoderdCore {
    pub(super) fn start_client(&mut self, now: Timestamp, client: Client) -> Result<(), String> {
        self.check_client(&client)?;
        let mut running = RunningClient::new(client.clone());
        let name = match client {
            Client::Jobs { key, organization, job } => {
                return self.give_jobs(now, organization.as_deref(), &key, job.0);
            }
            Client::Daemons {
                name,
                key,
                count,
                job,
                pause,
            } => {
                self.stop_clients(now, Some(&name));
                let pause = pause.map_or(Duration::ZERO, |pause| pause.0);
                let work = job.map(|job| Work { job: job.0, pause });
                running.daemons = self.start_daemons(now, numbered(&name, count), &key, work);
                name
            }
            Client::Proxies { name, token, count } => {
                self.stop_clients(now, Some(&name));
                let (servers, store) = (&mut self.proxy_servers, &mut self.store);
                running.servers = numbered(&name, count)
                    .map(|name| servers.start(store, Some(&name), &token.0.0))
                    .collect();
                name
            }
            Client::Noise { name, rate, .. } => {
                running.due = self.clients.wait(now, rate);
                name
            }
        };
        self.clients.running.insert(name, running);
        Ok(())
    }

    fn start_daemons(
        &mut self,
        now: Timestamp,
        names: impl Iterator<Item = String>,
        key: &Given,
        work: Option<Work>,
    ) -> Vec<u64> {
        let secret = digest(&key.0.0);
        names
            .map(|name| self.daemons.start(now, Some(&name), secret.clone(), work))
            .collect()
    }

    fn check_client(&self, client: &Client) -> Result<(), String> {
        let (Client::Daemons { name, .. } | Client::Proxies { name, .. } | Client::Noise { name, .. }) = client else {
            return Ok(());
        };
        if name.is_empty() {
            return Err("name: a client needs one".to_owned());
        }
        let Client::Noise { user, path, rate, .. } = client else {
            return Ok(());
        };
        if !(*rate > 0.0 && *rate <= 10_000.0) {
            return Err("rate: requests per second, above 0 and at most 10000".to_owned());
        }
        if path.parse::<http::Uri>().is_err() || !path.starts_with('/') {
            return Err("path: must begin with a slash".to_owned());
        }
        let known = |name: &String| self.store.users.iter().any(|user| user.name == *name);
        match user.as_ref().filter(|name| !known(name)) {
            Some(name) => Err(format!("there is no user {name}")),
            None => Ok(()),
        }
    }

    fn give_jobs(
        &mut self,
        now: Timestamp,
        organization: Option<&str>,
        key: &str,
        job: Duration,
    ) -> Result<(), String> {
        let word = organization.unwrap_or("default");
        let organization = self.store.organization(word);
        let organization = organization.ok_or_else(|| format!("there is no organization {word}"))?;
        let found = self.store.key(&organization.name, key);
        let id = found.ok_or_else(|| format!("there is no key {key}"))?.id.clone();
        for daemon in self.daemons.with_key(&id) {
            self.daemons.run_job(now, daemon, job);
        }
        Ok(())
    }

    /// Stops a client, or all. Daemons finish their jobs first.
    pub(super) fn stop_clients(&mut self, now: Timestamp, name: Option<&str>) -> usize {
        let all = self.clients.running.keys();
        let gone: Vec<String> = all
            .filter(|known| name.is_none_or(|name| name == **known))
            .cloned()
            .collect();
        for name in &gone {
            let Some(running) = self.clients.running.remove(name) else {
                continue;
            };
            for daemon in running.daemons {
                self.daemons.stop(now, daemon, Duration::MAX);
            }
            running.servers.iter().for_each(|id| self.proxy_servers.stop(*id));
        }
        gone.len()
    }

    /// Makes the requests of noise that are due at a moment that `next` gave.
    pub(super) fn run_noise(&mut self, at: Timestamp) {
        let due = |it: &RunningClient| it.due.is_some_and(|due| due <= at);
        let found = self.clients.running.iter().find(|(_, it)| due(it));
        let Some((name, client)) = found.map(|(name, it)| (name.clone(), it.client.clone())) else {
            return;
        };
        let mut next = None;
        if let Client::Noise {
            user,
            path,
            rate,
            bypass,
            ..
        } = client
        {
            self.make_noise(at, &name, user.as_deref(), &path, bypass);
            next = self.clients.wait(at, rate);
        }
        if let Some(running) = self.clients.running.get_mut(&name) {
            running.due = next;
        }
    }

    fn make_noise(&mut self, at: Timestamp, name: &str, user: Option<&str>, path: &str, bypass: bool) {
        let mut users = self.store.users.iter();
        let user = user.and_then(|user| users.find(|it| it.name == user)).cloned();
        let Ok(mut request) = Request::get(path).body(Bytes::new()) else {
            return;
        };
        if bypass {
            let yes = HeaderValue::from_static("true");
            request.headers_mut().insert(BYPASS, yes);
        }
        let arrival = self.arrival(at, &request, user).named(name);
        self.serve_with(&arrival, None);
    }
}
