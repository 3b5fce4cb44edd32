//! An open watch of a trial: events one at a time, with a limit on patience.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

use crate::case_run::CaseRun;

/// Generous: a slow machine may be ten times slower than this one.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long nothing has to happen for "nothing happened".
const QUIET: Duration = Duration::from_millis(400);

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: String,
    /// The object.
    pub object: Value,
}

impl Event {
    /// `metadata.name` of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// `metadata.resourceVersion` of the object.
    ///
    /// # Errors
    /// When there is none.
    pub fn version(&self) -> Result<u64> {
        let text = self.object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        text.parse().with_context(|| format!("no version in {}", self.object))
    }
}

/// An open watch.
pub struct Watch<'t> {
    trial: &'t CaseRun,
    chunks: BoxStream<'static, Result<Vec<u8>, String>>,
    buffer: Vec<u8>,
}

impl<'t> Watch<'t> {
    pub(crate) fn new(trial: &'t CaseRun, body: Body) -> Self {
        let chunks = body.into_data_stream().map(|chunk| match chunk {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(error.to_string()),
        });
        Self {
            trial,
            chunks: chunks.boxed(),
            buffer: Vec::new(),
        }
    }

    /// The next event; `None` when the server ended the stream.
    ///
    /// # Errors
    /// When nothing comes for a minute, or the stream breaks.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        self.next_within(PATIENCE).await
    }

    /// The next event within a limit of the caller's.
    ///
    /// # Errors
    /// When nothing comes in time, or the stream breaks.
    pub async fn next_within(&mut self, limit: Duration) -> Result<Option<Event>> {
        let event = self.receive(limit).await?;
        match &event {
            Some(Event { kind, object }) => {
                self.trial.note_event(kind, object).await;
            }
            None => self.trial.note("watch", "end of stream").await,
        }
        Ok(event)
    }

    /// The next event, unrecorded: for objects that differ by nature.
    ///
    /// # Errors
    /// When nothing comes in time, or the stream breaks.
    pub async fn next_quietly(&mut self) -> Result<Option<Event>> {
        self.receive(PATIENCE).await
    }

    async fn receive(&mut self, limit: Duration) -> Result<Option<Event>> {
        let Ok(line) = timeout(limit, self.line()).await else {
            bail!("no event within {limit:?}");
        };
        let Some(line) = line? else { return Ok(None) };
        let value: Value = serde_json::from_slice(&line).context("an event is not JSON")?;
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        let object = value["object"].clone();
        Ok(Some(Event { kind, object }))
    }

    /// The next event, which has to be of a kind and about a name. Bookmarks come when they like
    /// and are passed over.
    ///
    /// # Errors
    /// When it is not.
    pub async fn expect(&mut self, kind: &str, name: &str) -> Result<Event> {
        let event = loop {
            let event = self.receive(PATIENCE).await?.context("the watch ended")?;
            if event.kind != "BOOKMARK" {
                break event;
            }
        };
        self.trial.note_event(&event.kind, &event.object).await;
        ensure!(
            event.kind == kind && event.name() == name,
            "expected {kind} {name}, got {} {}",
            event.kind,
            event.object
        );
        Ok(event)
    }

    /// Insists that nothing comes for a while.
    ///
    /// # Errors
    /// When something comes.
    pub async fn silent(&mut self) -> Result<()> {
        match timeout(QUIET, self.line()).await {
            Err(_) => Ok(()),
            Ok(Ok(None)) => bail!("the watch ended"),
            Ok(Ok(Some(line))) => bail!("unexpected event {}", String::from_utf8_lossy(&line)),
            Ok(Err(error)) => Err(error),
        }
    }

    async fn line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(Some(line));
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.buffer.extend(chunk),
                Some(Err(error)) => bail!("the watch broke: {error}"),
                None => {
                    ensure!(self.buffer.is_empty(), "the watch ended in the middle of a line");
                    return Ok(None);
                }
            }
        }
    }
}
