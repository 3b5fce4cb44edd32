//! One case running on one server: sends requests, keeps the transcript.
//!
//! Everything goes through `kube::Client::send`, so that codes, headers and bodies are seen as they
//! are. A trial has a namespace of its own; what it writes nobody else touches.

use std::sync::Arc;

use anyhow::{Context, Result};
use aplomb_apiserver::http::protobuf;
use http::{Request, Response, header};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::answer::Answer;
use crate::mask::Mask;
use crate::server::Server;
use crate::watch::Watch;

/// The content types of the three patches.
pub const MERGE: &str = "application/merge-patch+json";
/// JSON patch.
pub const JSON_PATCH: &str = "application/json-patch+json";
/// Server-side apply.
pub const APPLY: &str = "application/apply-patch+yaml";
/// Strategic merge patch.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Group of the custom resources every server is given before the cases run.
pub const GROUP: &str = "conformance.example.com";

/// One case on one server.
pub struct CaseRun {
    /// The server, for the few cases that need more than a client.
    pub server: Arc<dyn Server>,
    /// A client that may do everything.
    pub client: Client,
    /// The namespace of this trial.
    pub namespace: String,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    mask: Mask,
    entries: Vec<Value>,
}

impl CaseRun {
    /// Prepares a trial: makes its namespace.
    ///
    /// # Errors
    /// When the namespace cannot be made.
    pub async fn start(server: Arc<dyn Server>, namespace: &str) -> Result<Self> {
        let client = server.client();
        let namespace = namespace.to_owned();
        let trial = Self {
            server,
            client,
            namespace,
            log: Mutex::default(),
        };
        let body = json!({ "metadata": { "name": trial.namespace } });
        trial
            .quiet("POST", "/api/v1/namespaces", &[], body.to_string())
            .await?
            .code(201)?;
        Ok(trial)
    }

    /// What was asked and answered, comparable.
    pub async fn transcript(&self) -> Vec<Value> {
        self.log.lock().await.entries.clone()
    }

    /// Hides a word that legitimately differs between servers.
    pub async fn hide(&self, word: &str, by: &str) {
        self.log.lock().await.mask.mask_word(word, by);
    }

    /// Adds a line of the case's own to the transcript.
    pub async fn note(&self, what: &str, value: impl Into<Value>) {
        let mut log = self.log.lock().await;
        let value = log.mask.apply(&value.into());
        log.entries.push(json!({ what: value }));
    }

    /// Adds an event to the transcript.
    pub async fn note_event(&self, kind: &str, object: &Value) {
        let mut log = self.log.lock().await;
        let event = log.mask.event(kind, object);
        log.entries.push(json!({ "event": event }));
    }

    /// Sends a request and records the answer.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Result<Answer> {
        let answer = self.quiet(method, path, headers, body).await?;
        self.record(&answer).await;
        Ok(answer)
    }

    /// Records an answer got by [`CaseRun::quiet`] or [`CaseRun::as_user`].
    pub async fn record(&self, answer: &Answer) {
        let mut log = self.log.lock().await;
        let request = log.mask.text(&answer.request);
        let body = log.mask.apply(&answer.body);
        let warnings: Vec<_> = answer.warnings.iter().map(|text| log.mask.text(text)).collect();
        log.entries.push(json!({
            "request": request,
            "code": answer.code,
            "contentType": answer.content_type,
            "warnings": warnings,
            "retryAfter": answer.retry_after,
            "body": body,
        }));
    }

    /// Sends a request without recording it: for answers that differ by nature.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn quiet(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Result<Answer> {
        ask(&self.client, method, path, headers, body.into()).await
    }

    /// Sends a request as the user of another client and records the answer.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn as_user(&self, client: &Client, method: &str, path: &str, body: &Value) -> Result<Answer> {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let answer = ask(client, method, path, &[], body).await?;
        self.record(&answer).await;
        Ok(answer)
    }

    /// Opens a watch; its events are recorded as they are read.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn watch(&self, path: &str) -> Result<Watch<'_>> {
        self.watch_as(path, "application/json").await
    }

    /// Opens a watch of another representation, named by its `Accept` header.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn watch_as(&self, path: &str, accept: &str) -> Result<Watch<'_>> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}watch=true");
        let response = respond(&self.client, "GET", &path, &[("accept", accept)], Vec::new()).await?;
        let code = response.status().as_u16();
        if code != 200 {
            let answer = read(format!("GET {path}"), response).await?;
            self.record(&answer).await;
            anyhow::bail!("watch {path} was refused: {code} {}", answer.body);
        }
        Ok(Watch::new(self, response.into_body()))
    }
}

/// Sends one request and reads the whole answer.
///
/// # Errors
/// When no answer came.
pub async fn ask(client: &Client, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Result<Answer> {
    let response = respond(client, method, path, headers, body).await?;
    let request = format!("{method} {path}");
    read(request, response).await
}

async fn respond(
    client: &Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Result<Response<Body>> {
    let mut request = Request::builder().method(method).uri(path);
    let named = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    if !named("accept") {
        request = request.header(header::ACCEPT, "application/json");
    }
    if !named("content-type") && !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    if !named("user-agent") {
        request = request.header(header::USER_AGENT, "conformance/1");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Body::from(body))
        .with_context(|| format!("bad path {path}"))?;
    client
        .send(request)
        .await
        .with_context(|| format!("no answer to {method} {path}"))
}

async fn read(request: String, response: Response<Body>) -> Result<Answer> {
    let (parts, body) = response.into_parts();
    let texts = |name: &str| -> Vec<String> {
        let values = parts.headers.get_all(name).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .map(str::to_owned)
            .collect()
    };
    let bytes = body.collect_bytes().await.context("reading the body")?;
    let content_type = texts("content-type").concat();
    Ok(Answer {
        request,
        code: parts.status.as_u16(),
        body: decode(&content_type, &bytes),
        content_type,
        warnings: texts("warning"),
        retry_after: texts("retry-after").pop(),
    })
}

/// A body as JSON where it is JSON or protobuf (a watch as the list of its events), else as text.
fn decode(content_type: &str, bytes: &[u8]) -> Value {
    let protobuf = content_type.starts_with("application/vnd.kubernetes.protobuf");
    let decoded = if protobuf && content_type.ends_with("stream=watch") {
        protobuf::events(bytes).map(Value::Array).ok()
    } else if protobuf {
        protobuf::decode(bytes, ("", "")).ok()
    } else {
        serde_json::from_slice(bytes).ok()
    };
    decoded.unwrap_or_else(|| String::from_utf8_lossy(bytes).into())
}
