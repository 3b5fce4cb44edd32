//! One of the two servers of a run: raw requests in, raw answers out.

use anyhow::{Context, Result};
use aplomb_apiserver::http::protobuf;
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

use super::op::Wire;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// Media type without parameters.
    pub content_type: String,
    /// Texts of `Warning` headers, in order.
    pub warnings: Vec<String>,
    /// JSON, or the text as a JSON string.
    pub body: Value,
}

impl Answer {
    /// What a handler that panics leaves: a connection closed in the middle.
    fn none() -> Self {
        Self {
            code: 0,
            content_type: String::new(),
            warnings: Vec::new(),
            body: Value::Null,
        }
    }
}

/// Whether a connection that was open is gone without an answer.
fn dropped(error: &kube::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("connection closed before message completed") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A server.
#[derive(Clone)]
pub struct Peer {
    /// `real` or `box`.
    pub name: &'static str,
    client: kube::Client,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Peer {
    /// A server behind a client that must not retry.
    #[must_use]
    pub fn new(name: &'static str, client: kube::Client) -> Self {
        Self { name, client }
    }

    /// A server that already runs.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read.
    pub async fn of_kubeconfig(name: &'static str, file: &std::path::Path) -> Result<Self> {
        let kubeconfig = kube::config::Kubeconfig::read_from(file)?;
        let options = kube::config::KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.default_retry = false;
        config.read_timeout = None;
        Ok(Self::new(name, kube::Client::try_from(config)?))
    }

    /// Sends one request and reads the whole answer.
    ///
    /// # Errors
    /// A connection that broke: the run cannot go on.
    pub async fn send(&self, wire: &Wire) -> Result<Answer> {
        let mut request = Request::builder().method(wire.method).uri(&wire.target);
        for (name, value) in &wire.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::from(wire.body.clone().into_bytes()))?;
        let response = match self.client.send(request).await {
            Ok(response) => response,
            Err(error) if dropped(&error) => return Ok(Answer::none()),
            Err(error) => {
                let what = format!("{}: {} {}", self.name, wire.method, wire.target);
                return Err(error).context(what);
            }
        };
        let code = response.status().as_u16();
        let header = |name: &str| {
            let values = response.headers().get_all(name);
            values.iter().filter_map(|value| value.to_str().ok()).map(str::to_owned)
        };
        let content_type = header("content-type").next().unwrap_or_default();
        let content_type = content_type.split(';').next().unwrap_or_default().to_owned();
        let warnings = header("warning").collect();
        let bytes = response.into_body().collect().await?.to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let body = if content_type == PROTOBUF {
            // What no table of this workspace can read is compared as it is.
            protobuf::decode(&bytes, ("", "")).unwrap_or_else(|_| text())
        } else {
            serde_json::from_slice(&bytes).unwrap_or_else(|_| text())
        };
        Ok(Answer {
            code,
            content_type,
            warnings,
            body,
        })
    }

    /// The body of a watch, line by line, until it ends.
    ///
    /// # Errors
    /// A watch that is refused.
    pub async fn watch(&self, target: &str) -> Result<Lines> {
        let request = Request::get(target).header("accept", "application/json");
        let response = self.client.send(request.body(Body::empty())?).await?;
        anyhow::ensure!(
            response.status() == 200,
            "{}: {target}: {}",
            self.name,
            response.status()
        );
        Ok(Lines {
            body: response.into_body(),
            rest: Vec::new(),
        })
    }
}

/// A body cut into lines.
#[derive(Debug)]
pub struct Lines {
    body: Body,
    rest: Vec<u8>,
}

impl Lines {
    /// The next line as JSON; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&line).ok();
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}
