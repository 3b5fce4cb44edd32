//! The watches of a run: opened before the first operation, for each kind one on everything, one
//! with a label selector and one with a field selector, and compared between barriers.
//!
//! A barrier is a write to a marker object of the kind: when a watch has shown it, everything
//! before it has been shown too, so no comparison waits for a time to pass.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::sync::Notify;

use super::catalog::{BARRIER, Catalog, Kind, WATCHED};
use super::peer::{Lines, Peer};

const PATIENCE: Duration = Duration::from_secs(20);

/// What a watch selects; every one of them selects the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Everything, in all namespaces.
    All,
    /// By label, in all namespaces.
    Label,
    /// By field, in the marker's namespace.
    Field,
}

impl Selection {
    /// How the report names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Label => " selected",
            Self::Field => " by field",
        }
    }

    fn target(self, kind: &Kind) -> String {
        let namespace = kind.barrier().0.filter(|_| self == Self::Field);
        let selector = match self {
            Self::All => String::new(),
            Self::Label => format!("&labelSelector={}", WATCHED.replace('=', "%3D")),
            Self::Field => "&fieldSelector=metadata.name%21%3Dtwo".to_owned(),
        };
        let collection = kind.collection(namespace);
        format!("{collection}?watch=true&timeoutSeconds=3600{selector}")
    }
}

/// One stream of events.
#[derive(Debug)]
pub struct Watch {
    /// Index into the catalog.
    pub kind: usize,
    /// What it shows of them.
    pub selection: Selection,
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
        for selection in [Selection::All, Selection::Label, Selection::Field] {
            let lines = peer.watch(&selection.target(kind)).await?;
            let events = Arc::new(Inbox::default());
            let task = tokio::spawn(pump(lines, Arc::clone(&events)));
            watches.push(Watch {
                kind: index,
                selection,
                events,
                task,
            });
        }
    }
    Ok(watches)
}

async fn pump(mut lines: Lines, inbox: Arc<Inbox>) {
    while let Some(event) = lines.next().await {
        inbox.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
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
        let mut events = self.events.events.lock().unwrap_or_else(PoisonError::into_inner);
        let marker = |event: &Value| {
            let metadata = &event["object"]["metadata"];
            metadata["name"] == BARRIER && metadata["annotations"]["barrier"].as_str() == Some(&number.to_string())
        };
        let end = events.iter().position(marker)?;
        Some(events.drain(..=end).collect())
    }
}
