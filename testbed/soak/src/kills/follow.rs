//! Watchers: each follows a kind across kills, from the last version it saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::timeout;

use super::kinds::{FOLLOWED, Kind, Known, Listed, known, version};
use super::ledger::Ledger;
use crate::wire::Connection;

/// How long a watch may take to show what is there already.
const PATIENCE: Duration = Duration::from_secs(30);

/// One watcher. Clones are the same watcher.
#[derive(Clone)]
pub(super) struct Follower {
    kind: Kind,
    ledger: Arc<Mutex<Ledger>>,
    state: Arc<Mutex<State>>,
}

/// What it has seen.
#[derive(Default)]
struct State {
    /// The version to go on from.
    last: u64,
    /// Where it began, so that what was promised before is not asked of it.
    began: u64,
    objects: BTreeMap<String, Known>,
    seen: BTreeSet<u64>,
    expired: usize,
}

impl Follower {
    /// A watcher of each followed kind, from the present.
    pub(super) async fn all(client: &Connection, ledger: &Arc<Mutex<Ledger>>) -> Result<Vec<Self>> {
        let mut followers = Vec::new();
        for kind in FOLLOWED {
            let follower = Self {
                kind,
                ledger: ledger.clone(),
                state: Arc::default(),
            };
            follower.list(client).await?;
            followers.push(follower);
        }
        Ok(followers)
    }

    pub(super) fn events(&self) -> usize {
        self.lock().seen.len()
    }

    pub(super) fn expired(&self) -> usize {
        self.lock().expired
    }

    async fn list(&self, client: &Connection) -> Result<()> {
        let listed = self.kind.list(client).await?;
        let mut state = self.lock();
        state.last = listed.version;
        state.began = listed.version;
        state.objects = listed.objects;
        Ok(())
    }

    /// Follows until the server is gone.
    pub(super) async fn follow(self, client: Connection) -> Result<()> {
        self.follow_to(&client, u64::MAX).await
    }

    /// Follows until a version has been seen.
    pub(super) async fn catch_up(&self, client: &Connection, wanted: u64) -> Result<()> {
        let caught_up = timeout(PATIENCE, self.follow_to(client, wanted)).await;
        caught_up.context("a watch does not show what is there")??;
        ensure!(self.lock().last >= wanted, "a watch ended before its time");
        Ok(())
    }

    async fn follow_to(&self, client: &Connection, wanted: u64) -> Result<()> {
        loop {
            let from = self.lock().last;
            if from >= wanted {
                return Ok(());
            }
            let path = format!("{}?watch=true&resourceVersion={from}", self.kind.path);
            let Ok(mut lines) = client.watch(&path).await else {
                return Ok(());
            };
            // No line means that the server is gone, in the middle of one or between two.
            while let Some(line) = lines.next().await {
                let event: Value = serde_json::from_slice(&line)?;
                if event["type"] == "ERROR" {
                    ensure!(event["object"]["code"] == 410, "a watch failed: {event}");
                    self.lock().expired += 1;
                    self.list(client).await?;
                    break;
                }
                if self.take(&event)? >= wanted {
                    return Ok(());
                }
            }
            if self.lock().last == from {
                return Ok(());
            }
        }
    }

    /// Takes in an event, and says at which version it is.
    fn take(&self, event: &Value) -> Result<u64> {
        let (object, deleted) = (&event["object"], event["type"] == "DELETED");
        let name = object["metadata"]["name"].as_str();
        let name = name.unwrap_or_default().to_owned();
        let at = version(object)?;
        let known = known(object);
        let number = known.as_ref().filter(|_| !deleted).map(|it| it.number);
        let mut ledger = self.ledger.lock().expect("nobody panics with it");
        ledger.saw(self.kind, &name, at, number)?;
        drop(ledger);
        let mut state = self.lock();
        ensure!(
            at > state.last,
            "{name}: an event of version {at} after one of {}",
            state.last
        );
        state.last = at;
        state.seen.insert(at);
        match known.filter(|_| !deleted) {
            Some(known) => state.objects.insert(name, known),
            None => state.objects.remove(&name),
        };
        Ok(at)
    }

    /// What was seen adds up to what is there, and nothing that was promised was missed.
    pub(super) fn compare(&self, listed: &Listed) -> Result<()> {
        let ledger = self.ledger.lock().expect("nobody panics with it");
        let promised = ledger.promised(self.kind);
        drop(ledger);
        let state = self.lock();
        let missed = promised
            .iter()
            .find(|version| **version > state.began && !state.seen.contains(version));
        ensure!(
            missed.is_none(),
            "{}: a watch did not see version {missed:?}",
            self.kind.kind
        );
        ensure!(
            state.objects == listed.objects,
            "{}: events add up to {:?}, and there is {:?}",
            self.kind.kind,
            state.objects,
            listed.objects
        );
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }
}
