//! Runs the election: carries out its steps, and updates the fence and followers.
//!
//! One call at a time, each with a deadline. A call is never dropped half-way on
//! shutdown: otherwise an unfinished claim could leave the lease with a process that has
//! exited.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use futures::stream::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::core::ObjectMeta;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::call_context::CallContext;
use crate::error::{Error, ErrorClass, Result};
use crate::key::ResourceVersion;
use crate::leadership::election::{ElectionState, ElectionStep, LeaderElectionRecord};
use crate::leadership::{Shared, Stage};
use crate::ratelimit::api::LEASE;
use crate::telemetry::{LeaseCallFailed, LeaseContended, LeaseGained, LeaseLost, LeaseReleased, LeaseSlowPath};

type Watch = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Object>>> + Send>>;

/// How many times the release is tried: another write or a lost response may come in between.
const RELEASE_ATTEMPTS: usize = 3;

struct Candidate {
    shared: Arc<Shared>,
    election: ElectionState,
    started: Instant,
    /// The object that the election's state was read from. A claim copies its other fields.
    object: Option<Object>,
    watch: Option<Watch>,
    is_leading: bool,
}

pub(super) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    shared.stage.send_replace(Stage::Running);
    shared.telemetry.emit(LeaseContended {
        lease: &shared.config.name,
        identity: &shared.config.identity,
    });
    let mut candidate = Candidate {
        shared: shared.clone(),
        election: ElectionState::new(shared.config.clone()),
        started: Instant::now(),
        object: None,
        watch: None,
        is_leading: false,
    };
    candidate.run_election(&shutdown).await;
    candidate.stop_leading();
    let limit = candidate.started + candidate.now() + shared.config.request_timeout();
    // A lease that cannot be released in time expires by itself.
    drop(timeout_at(limit, candidate.release()).await);
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if self.is_leading {
            self.lose_leadership("Stopped");
        }
        self.shared.stage.send_replace(Stage::Stopped);
    }
}

impl Candidate {
    async fn run_election(&mut self, shutdown: &CancellationToken) {
        loop {
            self.apply_election_state();
            if shutdown.is_cancelled() || self.shared.stop.is_cancelled() {
                return;
            }
            match self.election.next(self.now(), self.shared.clock.now()) {
                ElectionStep::Read => self.read().await,
                ElectionStep::Claim { record, replaces } => self.write_claim(record, replaces).await,
                ElectionStep::Wait(until) => self.wait(until, shutdown).await,
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Publishes the result of the election: the fence first, then everything else.
    fn apply_election_state(&mut self) {
        let held = self.election.held_until();
        let held = held.filter(|until| self.now() < *until);
        if let Some(until) = held {
            self.shared.fence.extend_until(self.started + until);
        }
        // Before it is published, because a new leader first reads its term.
        let (holder, transitions) = (self.election.holder(), self.election.transitions());
        self.shared.with_status(|status| {
            status.holder = holder.map(str::to_owned);
            status.transitions = transitions;
        });
        match (held, self.is_leading) {
            (Some(_), false) => self.start_leading(),
            (None, true) => {
                let reason = match self.election.holder() {
                    Some(other) if other != self.shared.config.identity => "TakenByAnother",
                    _ => "NotRenewedInTime",
                };
                self.lose_leadership(reason);
            }
            _ => {}
        }
        self.shared.with_status(|status| status.leading = self.is_leading);
    }

    fn start_leading(&mut self) {
        self.is_leading = true;
        self.watch = None;
        self.shared.leading.send_replace(true);
        self.shared.telemetry.emit(LeaseGained {
            lease: &self.shared.config.name,
            identity: &self.shared.config.identity,
            transitions: self.election.transitions(),
        });
    }

    fn lose_leadership(&mut self, reason: &str) {
        self.stop_leading();
        let lease = &self.shared.config.name;
        self.shared.telemetry.emit(LeaseLost { lease, reason });
    }

    fn stop_leading(&mut self) {
        self.shared.fence.revoke();
        self.is_leading = false;
        self.shared.leading.send_replace(false);
        self.shared.with_status(|status| status.leading = false);
    }

    async fn wait(&mut self, until: Duration, shutdown: &CancellationToken) {
        // A lost lease must be published even if there is nothing else to do.
        let lapse = self.election.held_until().filter(|_| self.is_leading);
        let until = self.started + lapse.map_or(until, |lapse| lapse.min(until));
        // The watch starts from a version that was just read: after a failure the next read comes first.
        if !self.is_leading && self.watch.is_none() && !self.election.is_stale() {
            self.watch = self.open_watch();
        }
        let shared = self.shared.clone();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = shared.stop.cancelled() => {}
            event = next_event(&mut self.watch) => self.handle_watch_event(event),
            () = sleep_until(until) => {}
        }
    }

    fn open_watch(&self) -> Option<Watch> {
        let version = self.object.as_ref()?.metadata.resource_version.clone()?;
        let api = self.shared.api.clone();
        let this = format!("metadata.name={}", self.shared.config.name);
        let opened = async move {
            let only_this = WatchParams::default().fields(&this);
            api.watch(&only_this, &version).await
        };
        Some(Box::pin(stream::once(opened).try_flatten()))
    }

    fn handle_watch_event(&mut self, event: Option<kube::Result<WatchEvent<Object>>>) {
        match event {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => self.observe_lease(lease),
            Some(Ok(WatchEvent::Deleted(_))) => {
                self.object = None;
                self.watch = None;
                self.election.observe_absence(self.now());
            }
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                self.watch = None;
                self.election.record_watch_end(self.now());
            }
        }
    }

    fn observe_lease(&mut self, lease: Object) {
        let (record, version) = (LeaderElectionRecord::from_lease(&lease), version_of(&lease));
        if self.election.observe_record(record, version, self.now()) {
            self.object = Some(lease);
        }
    }

    async fn read(&mut self) {
        if self.is_leading {
            let lease = &self.shared.config.name;
            self.shared.telemetry.emit(LeaseSlowPath { lease });
        }
        let shared = self.shared.clone();
        let read = shared.api.get_opt(&shared.config.name);
        match self.call(read).await {
            Ok(Some(lease)) => {
                if self.election.check_rollback(&version_of(&lease), self.now()) {
                    // It waits for versions that may never come.
                    self.watch = None;
                }
                self.observe_lease(lease);
            }
            Ok(None) => {
                self.object = None;
                self.election.observe_absence(self.now());
            }
            Err(error) => self.record_failure("read", &error),
        }
    }

    async fn write_claim(&mut self, record: LeaderElectionRecord, replaces: Option<ResourceVersion>) {
        let create = replaces.is_none();
        match self.write(&record, replaces).await {
            Ok(lease) => self.observe_lease(lease),
            Err(error) => match error.class() {
                ErrorClass::Conflict | ErrorClass::Exists => self.election.record_claim_conflict(self.now()),
                ErrorClass::Missing if !create => {
                    self.object = None;
                    self.election.observe_absence(self.now());
                }
                _ => self.record_failure(if create { "create" } else { "update" }, &error),
            },
        }
    }

    async fn write(&mut self, record: &LeaderElectionRecord, replaces: Option<ResourceVersion>) -> Result<Object> {
        let shared = self.shared.clone();
        let (api, name, params) = (&shared.api, &shared.config.name, PostParams::default());
        let Some(version) = replaces else {
            let metadata = ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            };
            let mut lease = Object { metadata, spec: None };
            record.write_to(&mut lease);
            annotate(&mut lease, &shared.config.annotations);
            return self.call(api.create(&params, &lease)).await;
        };
        let mut lease = self.object.clone().unwrap_or_default();
        lease.metadata.name = Some(name.clone());
        lease.metadata.resource_version = Some(version.to_string());
        lease.metadata.managed_fields = None;
        record.write_to(&mut lease);
        annotate(&mut lease, &shared.config.annotations);
        self.call(api.replace(name, &params, &lease)).await
    }

    /// Makes a call with its deadline. A leader's call ends with its right to lead, so that it notices.
    async fn call<T>(&mut self, call: impl Future<Output = kube::Result<T>>) -> Result<T> {
        let limit = Instant::now() + self.shared.config.request_timeout();
        let lapse = self.election.held_until().filter(|_| self.is_leading);
        let deadline = lapse.map_or(limit, |lapse| limit.min(self.started + lapse));
        let scope = CallContext { deadline, lane: LEASE };
        match scope.run(timeout_at(deadline, call)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Error::new(ErrorClass::Unavailable, "no response before the deadline")),
        }
    }

    fn record_failure(&mut self, verb: &'static str, error: &Error) {
        self.shared.telemetry.emit(LeaseCallFailed {
            lease: &self.shared.config.name,
            verb,
            err: &error.to_string(),
            leading: self.is_leading,
        });
        self.election.record_failure(self.now());
    }

    /// Releases the lease, so that the next leader need not wait for it to expire.
    async fn release(&mut self) {
        self.watch = None;
        for _ in 0..RELEASE_ATTEMPTS {
            if !self.election.has_claimed() {
                return;
            }
            if self.election.is_stale() {
                self.read().await;
            }
            let Some((record, version)) = self.election.release(self.shared.clock.now()) else {
                return;
            };
            match self.write(&record, Some(version)).await {
                Ok(_) => {
                    let lease = &self.shared.config.name;
                    self.shared.telemetry.emit(LeaseReleased { lease });
                    return;
                }
                Err(error) => self.record_failure("release", &error),
            }
        }
    }
}

fn version_of(lease: &Object) -> ResourceVersion {
    ResourceVersion::parse(lease.metadata.resource_version.as_deref().unwrap_or(""))
}

/// The next event of the watch, if there is one.
async fn next_event(watch: &mut Option<Watch>) -> Option<kube::Result<WatchEvent<Object>>> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

/// Writes the holder's own annotations, and keeps those of others.
fn annotate(lease: &mut Object, annotations: &BTreeMap<String, String>) {
    if annotations.is_empty() {
        return;
    }
    let own = annotations.clone();
    lease.metadata.annotations.get_or_insert_default().extend(own);
}
