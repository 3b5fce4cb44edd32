//! One server of a run with everything known about it: what it said, what its UIDs and versions
//! stand for, and its open watches.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::catalog::{BARRIER, Catalog, NAMESPACES, crds};
use super::mask::Mask;
use super::op::{Body, Op, Verb, Wire};
use super::peer::{Answer, Peer};
use super::track::{Key, Tracked};
use super::watches::{self, Selection, Watch};

/// One server.
#[derive(Debug)]
pub struct Side {
    peer: Peer,
    tracked: Tracked,
    mask: Mask,
    watches: Vec<Watch>,
}

/// A request and its answer, as sent and masked.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What was sent.
    pub wire: Wire,
    /// What came back.
    pub answer: Answer,
    /// What both servers should say.
    pub masked: Value,
}

/// One watch's events since the last barrier, masked.
pub type Log = Vec<(Option<Key>, Value)>;

impl Side {
    /// Puts the namespaces, the CRDs and the markers in place and opens the watches.
    ///
    /// # Errors
    /// A server that does not take them.
    pub async fn prepare(catalog: &Catalog, peer: Peer) -> Result<Self> {
        let mut side = Self {
            peer,
            tracked: Tracked::default(),
            mask: Mask::default(),
            watches: Vec::new(),
        };
        for namespace in NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            side.post("/api/v1/namespaces", &object).await?;
        }
        let custom = catalog.kinds.iter().any(|kind| kind.custom);
        for crd in if custom { crds()? } else { Vec::new() } {
            side.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd)
                .await?;
        }
        for kind in &catalog.kinds {
            side.until_served(&kind.collection(None)).await?;
            let (namespace, object) = kind.barrier();
            side.post(&kind.collection(namespace), &object).await?;
        }
        side.watches = watches::open(catalog, &side.peer).await?;
        Ok(side)
    }

    async fn post(&self, path: &str, object: &Value) -> Result<()> {
        let answer = self.peer.send(&wire("POST", path, object)).await?;
        let known = answer.code == 409 && answer.body["reason"] == "AlreadyExists";
        anyhow::ensure!(answer.code == 201 || known, "{}: {path}: {answer:?}", self.peer.name);
        Ok(())
    }

    /// A CRD is served a moment after it is stored, and no watch announces that moment.
    async fn until_served(&self, path: &str) -> Result<()> {
        for _ in 0..200 {
            let answer = self.peer.send(&wire("GET", path, &Value::Null)).await?;
            if answer.code == 200 {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        anyhow::bail!("{}: {path} is not served", self.peer.name)
    }

    /// Carries out one operation.
    ///
    /// # Errors
    /// A connection that broke.
    pub async fn perform(&mut self, catalog: &Catalog, op: &Op) -> Result<Exchange> {
        let kind = &catalog.kinds[op.kind];
        let wire = op.wire(kind, &self.tracked);
        if wire.target.contains("resourceVersion=") {
            // A read that allows an older state may come from a cache that is a moment behind;
            // a consistent read first brings it up.
            let path = kind.collection(op.namespace.as_deref());
            self.peer.send(&self::wire("GET", &path, &Value::Null)).await?;
        }
        let answer = self.peer.send(&wire).await?;
        let key = op.key(kind);
        let masked = self.mask.answer(&kind.storage(), key.as_ref(), &answer);
        self.remember(op, key, &op.scope(kind), &answer);
        Ok(Exchange { wire, answer, masked })
    }

    fn remember(&mut self, op: &Op, key: Option<Key>, scope: &str, answer: &Answer) {
        let ok = answer.code < 300;
        if ok && op.verb == Verb::List {
            return self.tracked.listed(scope, &answer.body);
        }
        let Some(mut key) = key else { return };
        if answer.code == 404 && !op.dry_run() {
            return self.tracked.gone(&key);
        }
        // What a subresource shows may be less than the object.
        if !ok || op.dry_run() || op.accept.is_some() || op.sub.is_some() {
            return;
        }
        let body = &answer.body;
        let held = body["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        if op.verb == Verb::Delete && !held {
            return self.tracked.gone(&key);
        }
        if let Some(name) = body["metadata"]["name"].as_str() {
            name.clone_into(&mut key.name);
            self.tracked.saw(key, body);
        }
    }

    /// Removes an object the servers disagree about, so that one fault is not reported again by
    /// every later operation on it.
    ///
    /// # Errors
    /// A connection that broke.
    pub async fn heal(&mut self, catalog: &Catalog, op: &Op, key: &Key, round: u32) -> Result<()> {
        let kind = &catalog.kinds[op.kind];
        let mut cleanup = Op::new(Verb::MergePatch, op.kind, op.namespace.as_deref(), Some(&key.name));
        let mut metadata = json!({"finalizers": null});
        if kind.keep {
            metadata = json!({
                "finalizers": null, "labels": null, "annotations": null, "ownerReferences": null,
                "managedFields": [{}],
            });
        }
        cleanup.body = Body::Json(json!({"metadata": metadata}));
        self.peer.send(&cleanup.wire(kind, &self.tracked)).await?;
        if !kind.keep {
            cleanup.verb = Verb::Delete;
            cleanup.body = Body::Empty;
            self.peer.send(&cleanup.wire(kind, &self.tracked)).await?;
        }
        self.tracked.forget(key);
        self.mask.reset(key, round);
        Ok(())
    }

    /// Writes every marker.
    ///
    /// # Errors
    /// A marker that cannot be written.
    pub async fn mark(&self, catalog: &Catalog, number: usize) -> Result<()> {
        for kind in &catalog.kinds {
            let (namespace, _) = kind.barrier();
            let path = format!("{}/{BARRIER}", kind.collection(namespace));
            let body = json!({"metadata": {"annotations": {"barrier": number.to_string()}}});
            let mut wire = wire("PATCH", &path, &body);
            wire.headers = vec![("content-type", Verb::MergePatch.content_type().to_owned())];
            let answer = self.peer.send(&wire).await?;
            anyhow::ensure!(answer.code == 200, "{}: {path}: {answer:?}", self.peer.name);
        }
        Ok(())
    }

    /// Every watch's events up to the marker of this number.
    ///
    /// # Errors
    /// A watch that never shows it.
    pub async fn logs(&mut self, catalog: &Catalog, number: usize, skip: &BTreeSet<Key>) -> Result<Vec<Log>> {
        let mut logs = Vec::new();
        for watch in &self.watches {
            let kind = &catalog.kinds[watch.kind];
            let events = watch.until(number).await.with_context(|| {
                let how = watch.selection.as_str();
                format!("{}: {}{how}", self.peer.name, kind.kind)
            })?;
            let mut log = Log::new();
            for event in events {
                let metadata = &event["object"]["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or("");
                let key = Key::new(&kind.storage(), text("namespace"), text("name"));
                if ours(&key) && !skip.contains(&key) {
                    log.push((Some(key), self.mask.event(&kind.storage(), &event)));
                }
            }
            logs.push(log);
        }
        Ok(logs)
    }

    /// Kind and selection of each log of [`Side::logs`].
    pub fn watched(&self) -> impl Iterator<Item = (usize, Selection)> + '_ {
        self.watches.iter().map(|watch| (watch.kind, watch.selection))
    }
}

/// Objects of the run; servers have others of their own.
fn ours(key: &Key) -> bool {
    match key.namespace.as_str() {
        "" => key.storage != "namespaces" || NAMESPACES.contains(&key.name.as_str()),
        namespace => NAMESPACES.contains(&namespace),
    }
}

fn wire(method: &'static str, path: &str, body: &Value) -> Wire {
    let empty = body.is_null();
    Wire {
        method,
        target: path.to_owned(),
        headers: vec![("content-type", "application/json".to_owned())],
        body: if empty { String::new() } else { body.to_string() },
    }
}
