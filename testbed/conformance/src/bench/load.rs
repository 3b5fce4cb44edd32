//! What is asked of both servers, and how long it took.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use http::header::CONTENT_TYPE;
use http::request::Builder;
use tokio::time::Instant;

use super::connection::Connection;

/// In this order: each works on what the one before left.
pub const VERBS: [&str; 5] = ["create", "apply", "get", "update", "delete"];

/// Requests and the time they took together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    requests: usize,
    took: Duration,
}

impl Rates {
    /// Requests in a second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    fn add(&mut self, requests: usize, took: Duration) {
        self.requests += requests;
        self.took += took;
    }
}

/// Config maps of about two kilobytes in one namespace. Requests are written before the clock starts, and
/// answers are read to their end and not looked into: what is measured is the server, not its client.
pub struct Load<'a> {
    connection: &'a mut Connection,
    filling: String,
}

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

impl<'a> Load<'a> {
    /// On the server of `connection`.
    #[must_use]
    pub fn new(connection: &'a mut Connection) -> Self {
        Self {
            connection,
            filling: "x".repeat(1700),
        }
    }

    /// One verb on every object of a slice, one after another.
    ///
    /// # Errors
    /// The first answer that is not a success.
    pub fn slice(&mut self, verb: &str, objects: Range<usize>, rates: &mut Rates) -> Result<()> {
        let written = |n| {
            let request = self.request(verb, &format!("bench-{n}"))?;
            self.connection.written(&request)
        };
        let requests: Vec<Vec<u8>> = objects.map(written).collect::<Result<_>>()?;
        let began = Instant::now();
        for request in &requests {
            self.connection.send(request).with_context(|| verb.to_owned())?;
        }
        rates.add(requests.len(), began.elapsed());
        Ok(())
    }

    /// The whole collection once; returns how many objects it holds.
    ///
    /// # Errors
    /// When the list is refused.
    pub fn list(&mut self, rates: &mut Rates) -> Result<usize> {
        let request = Request::get(COLLECTION).body(Vec::new())?;
        let request = self.connection.written(&request)?;
        let began = Instant::now();
        let body = self.connection.send(&request)?;
        rates.add(1, began.elapsed());
        // Counted after the clock: one object has one name.
        let text = String::from_utf8_lossy(&body);
        Ok(text.matches("\"name\":\"bench-").count())
    }

    fn request(&self, verb: &str, name: &str) -> Result<Request<Vec<u8>>> {
        let object = format!("{COLLECTION}/{name}");
        let json = "application/json";
        let (builder, body) = match verb {
            "create" => (with(Request::post(COLLECTION), json), self.manifest(name, "a")),
            "update" => (with(Request::put(object), json), self.manifest(name, "b")),
            "apply" => {
                let uri = format!("{object}?fieldManager=bench&force=true");
                let builder = with(Request::patch(uri), "application/apply-patch+yaml");
                (builder, self.manifest(name, "c"))
            }
            "get" => (Request::get(object), Vec::new()),
            _ => (Request::delete(object), Vec::new()),
        };
        Ok(builder.body(body)?)
    }

    fn manifest(&self, name: &str, value: &str) -> Vec<u8> {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"data":{{"key":"{value}","filling":"{}"}}}}"#,
            self.filling
        )
        .into_bytes()
    }
}

fn with(builder: Builder, media_type: &str) -> Builder {
    builder.header(CONTENT_TYPE, media_type)
}
