//! The watches of a run: opened before the first operation, one on everything and one with a label
//! selector for each kind, and compared between barriers.
//!
//! A barrier is a write to a marker object of the kind: when a watch has shown it, everything
//! before it has been shown too, so no comparison waits for a time to pass.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::sync::Notify;

use super::catalog::{BARRIER, Catalog, WATCHED};
use super::peer::{Lines, Peer};

const PATIENCE: Duration = Duration::from_secs(20);

/// One stream of events.
#[derive(Debug)]
pub struct Watch {
    /// Index into the catalog.
    pub kind: usize,
    /// Selects by label.
    pub selected: bool,
    events: Arc<Inbox>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Inbox {
    events: Mutex<Vec<Value>>,
    arrived: Notify,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens all watches of one server.
///
/// # Errors
/// A watch that is refused.
pub async fn open(catalog: &Catalog, peer: &Peer) -> Result<Vec<Watch>> {
    let mut watches = Vec::new();
    for (index, kind) in catalog.kinds.iter().enumerate() {
        for selected in [false, true] {
            let mut target = format!("{}?watch=true&timeoutSeconds=3600", kind.collection(None));
            if selected {
                target.push_str(&format!("&labelSelector={}", WATCHED.replace('=', "%3D")));
            }
            let lines = peer.watch(&target).await?;
            let events = Arc::new(Inbox::default());
            let task = tokio::spawn(pump(lines, Arc::clone(&events)));
            watches.push(Watch {
                kind: index,
                selected,
                events,
                task,
            });
        }
    }
    Ok(watches)
}

async fn pump(mut lines: Lines, inbox: Arc<Inbox>) {
    while let Some(event) = lines.next().await {
        inbox
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event);
        inbox.arrived.notify_one();
    }
}

impl Watch {
    /// Everything that came before the marker carried this number, the marker's event included.
    ///
    /// # Errors
    /// The marker did not come.
    pub async fn until(&self, number: usize) -> Result<Vec<Value>> {
        let wait = async {
            loop {
                if let Some(events) = self.take(number) {
                    return events;
                }
                self.events.arrived.notified().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .with_context(|| format!("watch {} never showed barrier {number}", self.kind))
    }

    fn take(&self, number: usize) -> Option<Vec<Value>> {
        let mut events = self
            .events
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let marker = |event: &Value| {
            let metadata = &event["object"]["metadata"];
            metadata["name"] == BARRIER
                && metadata["annotations"]["barrier"].as_str() == Some(&number.to_string())
        };
        let end = events.iter().position(marker)?;
        Some(events.drain(..=end).collect())
    }
}
