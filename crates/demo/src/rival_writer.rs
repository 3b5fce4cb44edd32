//! Another writer that is always faster: it sits between an operator's client and the API server and
//! writes the same object just before the operator does.
//!
//! The operator's applies carry no resource version, so another writer alone cannot make them fail. During the storm
//! they get the version from before the other write, as an update has; the API server then responds with 409.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use aplomb_api::tunnel::HttpProxy;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{BoxError, service_fn};

/// The field manager of the other writer.
pub(crate) const RIVAL_MANAGER: &str = "label-sync";
const NOTE_ANNOTATION: &str = "example.com/label-sync";

/// The other writer. Clones share one.
#[derive(Clone)]
pub(crate) struct RivalWriter {
    proxies: Api<HttpProxy>,
    storm: Arc<Mutex<Storm>>,
}

/// The conflicts that are still to come.
#[derive(Debug, Default)]
struct Storm {
    /// The object's name; empty before the storm begins.
    name: String,
    remaining: u32,
    answers: Vec<Answer>,
}

/// The server's response to a write of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) at: Instant,
    pub(crate) status: u16,
}

impl RivalWriter {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self {
            proxies: Api::namespaced(client, namespace),
            storm: Arc::default(),
        }
    }

    /// From now on, writes first before the next `times` status writes of the HTTPProxy `name`.
    pub(crate) fn start_storm(&self, name: &str, times: u32) {
        *self.lock() = Storm {
            name: name.to_owned(),
            remaining: times,
            answers: Vec::new(),
        };
    }

    /// The server's responses to the operator's writes of that object since then.
    pub(crate) fn write_answers(&self) -> Vec<Answer> {
        self.lock().answers.clone()
    }

    /// The same client, with this writer in front of the server.
    pub(crate) fn wrap_client(&self, client: &Client) -> Client {
        let (rival, inner) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| -> Sent {
            let (rival, inner) = (rival.clone(), inner.clone());
            Box::pin(async move { rival.forward(&inner, request).await })
        });
        Client::new(service, client.default_namespace())
    }

    async fn forward(&self, inner: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let Some(turn) = self.take_turn(&request) else {
            return Ok(inner.send(request).await?);
        };
        let request = match turn {
            0 => request,
            turn => self.write_first(turn, request).await?,
        };
        let answer = inner.send(request).await?;
        self.lock().answers.push(Answer {
            at: Instant::now(),
            status: answer.status().as_u16(),
        });
        Ok(answer)
    }

    /// For a status write of the object: how many more will be preceded, including this one.
    fn take_turn(&self, request: &Request<Body>) -> Option<u32> {
        let mut storm = self.lock();
        let wanted = format!("/httpproxies/{}/status", storm.name);
        let is_it = request.method() == Method::PATCH && request.uri().path().ends_with(&wanted);
        if storm.name.is_empty() || !is_it {
            return None;
        }
        let turn = storm.remaining;
        storm.remaining = turn.saturating_sub(1);
        Some(turn)
    }

    /// Writes first, and sets the version from before on the operator's write.
    async fn write_first(&self, turn: u32, request: Request<Body>) -> Result<Request<Body>> {
        let name = self.lock().name.clone();
        let before = self.proxies.get(&name).await?.resource_version();
        self.write_note(&name, &turn.to_string()).await?;
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let mut body: Value = serde_json::from_slice(&body).context("an apply is JSON")?;
        body["metadata"]["resourceVersion"] = json!(before);
        head.headers.remove(http::header::CONTENT_LENGTH);
        let body = Body::from(serde_json::to_vec(&body)?);
        Ok(Request::from_parts(head, body))
    }

    /// The other write: a note in an annotation.
    async fn write_note(&self, name: &str, note: &str) -> Result<()> {
        let params = PatchParams {
            field_manager: Some(RIVAL_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let note = json!({ "metadata": { "annotations": { NOTE_ANNOTATION: note } } });
        self.proxies.patch(name, &params, &Patch::Merge(note)).await?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Storm> {
        self.storm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Sent = BoxFuture<'static, Result<Response<Body>, BoxError>>;
