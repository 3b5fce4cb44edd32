//! All of the simulator that is state, behind one lock: buckets, resources, faults, log.
//!
//! Time passes only in `advance`, which runs what was due in the order it was due, so that a
//! lazily driven simulator is the same as one that never slept.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::background_clients::{BackgroundClients, Clients};
use super::bucket::Bucket;
use super::config::{Config, Scope};
use super::fault::ActionFault;
use super::log::Entry;
use super::state::{BucketState, Change, State};
use super::store::{Course, Store};
use crate::service::control::read;
use crate::service::{self, Faults, Log, Outcome};

/// Who pays for a request.
#[derive(Clone, Debug)]
pub(super) struct Payer {
    /// Index of the token; an unknown token has none.
    pub(super) token: Option<usize>,
    pub(super) bucket: String,
}

impl Payer {
    /// A name for a token that says nothing of its text.
    pub(super) fn label(token: usize) -> String {
        format!("token-{}", token + 1)
    }
}

/// Everything the lock guards.
#[derive(Debug)]
pub struct HcloudCore {
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) faults: Faults<ActionFault>,
    pub(super) log: Log<Entry>,
    pub(super) noise: Clients,
    buckets: BTreeMap<String, Bucket>,
    rng: fastrand::Rng,
}

impl HcloudCore {
    pub(super) fn new(config: Config) -> Self {
        let rng = fastrand::Rng::with_seed(config.seed);
        let mut core = Self {
            faults: Faults::new(config.seed),
            config,
            store: Store::default(),
            log: Log::default(),
            noise: Clients::default(),
            buckets: BTreeMap::new(),
            rng,
        };
        for token in 0..core.config.tokens.len() {
            let name = core.bucket_name(token);
            core.bucket(&name);
        }
        core
    }

    /// Who pays: an unknown token draws from the first bucket, since every request counts.
    pub(super) fn payer(&self, bearer: Option<&str>) -> Payer {
        let tokens = &self.config.tokens;
        let token = bearer.and_then(|text| tokens.iter().position(|token| token.text == text));
        Payer {
            token,
            bucket: self.bucket_name(token.unwrap_or(0)),
        }
    }

    /// The name of the bucket a token draws from.
    pub(super) fn bucket_name(&self, token: usize) -> String {
        match (self.config.per, self.config.tokens.get(token)) {
            (Scope::Project, Some(token)) => token.project.clone(),
            (Scope::Token, _) | (_, None) => Payer::label(token),
        }
    }

    pub(super) fn bucket(&mut self, name: &str) -> &mut Bucket {
        let config = &self.config;
        let full = || Bucket::new(config.limit, config.refill(), config.drain_on_refusal);
        self.buckets.entry(name.to_owned()).or_insert_with(full)
    }

    /// How the next action goes if no fault bends it.
    pub(super) fn draw_course(&mut self) -> Course {
        let (low, high) = self.config.action_time.clone().into_inner();
        Course::success(low + (high - low).mul_f64(self.rng.f64()))
    }

    /// An id for the answer to the request that was logged last.
    pub(super) fn correlation(&self) -> u64 {
        let seed = self.config.seed.rotate_left(32) ^ self.log.next();
        fastrand::Rng::with_seed(seed).u64(..)
    }

    pub(super) fn state(&mut self, now: Timestamp) -> State {
        let mut buckets = Vec::new();
        for (name, bucket) in &mut self.buckets {
            let level = bucket.peek(now);
            buckets.push(BucketState {
                name: name.clone(),
                limit: Some(level.limit),
                remaining: Some(level.remaining),
                refill_per_second: Some(bucket.refill_per_second()),
            });
        }
        State {
            servers: self.store.servers.values().cloned().collect(),
            floating_ips: self.store.floating_ips.values().cloned().collect(),
            actions: self.store.actions.values().cloned().collect(),
            buckets,
        }
    }

    pub(super) fn change(&mut self, now: Timestamp, mut change: Change) -> Result<(), String> {
        let buckets = change.buckets.take().unwrap_or_default();
        for wanted in &buckets {
            self.check_bucket(&wanted.name)?;
        }
        self.store.replace(now, change)?;
        for wanted in buckets {
            self.set_bucket(now, &wanted);
        }
        Ok(())
    }

    /// Whether a noise client can be what it wants to be.
    pub(super) fn check_noise(&self, noise: &BackgroundClients) -> Result<(), String> {
        if let Some(mistake) = noise.mistake() {
            return Err(mistake.to_owned());
        }
        noise.bucket.iter().try_for_each(|name| self.check_bucket(name))
    }

    fn check_bucket(&self, name: &str) -> Result<(), String> {
        if self.buckets.contains_key(name) {
            return Ok(());
        }
        let known: Vec<_> = self.buckets.keys().map(String::as_str).collect();
        Err(format!("there is no bucket {name}: have {}", known.join(", ")))
    }

    fn set_bucket(&mut self, now: Timestamp, wanted: &BucketState) {
        let bucket = self.bucket(&wanted.name);
        if wanted.limit.is_some() || wanted.refill_per_second.is_some() {
            let limit = wanted.limit.unwrap_or(bucket.peek(now).limit);
            let refill = wanted.refill_per_second;
            let refill = refill.unwrap_or_else(|| bucket.refill_per_second());
            bucket.set_limit(now, limit, refill);
        }
        if let Some(remaining) = wanted.remaining {
            bucket.set(now, remaining);
        }
    }
}

impl service::FakeService for HcloudCore {
    type Action = ActionFault;

    fn advance(&mut self, now: Timestamp) {
        loop {
            let end = self.store.next_end().filter(|end| *end <= now);
            let wake = self.noise.next().filter(|wake| *wake <= now);
            match (end, wake) {
                (None, None) => break,
                (Some(end), wake) if wake.is_none_or(|wake| end <= wake) => self.store.settle(end),
                (_, Some(at)) => {
                    if let Some(wake) = self.noise.wake(at) {
                        self.run_errand(at, wake);
                    }
                }
                (Some(_), None) => break,
            }
        }
    }

    fn exchange(&mut self, now: Timestamp, request: &Request<Bytes>) -> Outcome {
        self.serve(now, request)
    }

    fn show(&mut self, now: Timestamp) -> Value {
        json!(self.state(now))
    }

    fn put(&mut self, now: Timestamp, body: &[u8]) -> Result<(), String> {
        self.change(now, read(body)?)
    }

    fn requests(&self, n: u64) -> (Value, u64) {
        (json!(self.log.since(n)), self.log.next())
    }

    fn faults(&mut self) -> &mut Faults<ActionFault> {
        &mut self.faults
    }

    fn clients(&self) -> Value {
        json!(self.noise.all())
    }

    fn add_client(&mut self, now: Timestamp, body: &[u8]) -> Result<(), String> {
        let noise: BackgroundClients = read(body)?;
        self.check_noise(&noise)?;
        self.add_noise(now, noise);
        Ok(())
    }

    fn remove_clients(&mut self, _: Timestamp, name: Option<&str>) -> usize {
        self.noise.remove(name)
    }
}
