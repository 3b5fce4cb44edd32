//! Writers: each has a kind and a handful of objects of its own, and creates, replaces, patches,
//! applies and deletes them one after another until the server is gone.

use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::kinds::{Kind, Known, NUMBER, known};
use super::ledger::{Ledger, Slot};
use crate::wire::{Answer, Connection};

/// Objects of one writer.
const OBJECTS: u64 = 6;

/// Everything one writer needs.
pub(super) struct Writer {
    kind: Kind,
    first: u64,
    rng: fastrand::Rng,
    ledger: Arc<Mutex<Ledger>>,
}

impl Writer {
    pub(super) fn new(number: usize, kind: Kind, rng: fastrand::Rng, ledger: Arc<Mutex<Ledger>>) -> Self {
        Self {
            kind,
            first: number as u64 * 100,
            rng,
            ledger,
        }
    }

    /// Writes until the server is gone, with two requests under way.
    pub(super) async fn run(mut self, client: Connection) -> Result<()> {
        let even = Self {
            rng: self.rng.fork(),
            ledger: self.ledger.clone(),
            ..self
        };
        let half = OBJECTS / 2;
        let halves = (
            self.write_some(&client, 0..half),
            even.write_some(&client, half..OBJECTS),
        );
        tokio::try_join!(halves.0, halves.1).map(drop)
    }

    async fn write_some(mut self, client: &Connection, mine: std::ops::Range<u64>) -> Result<()> {
        loop {
            let name = self.kind.name(self.first + self.rng.u64(mine.clone()));
            let number = self.lock().number();
            let slot = self.lock().slot(self.kind, &name);
            let written = self.rng.u8(..);
            let request = self.request(&name, &slot, number, written)?;
            let deletes = request.method == Method::DELETE;
            let sent = (!deletes).then_some(number);
            self.lock().sent(self.kind, &name, sent);
            // The server is gone, and whether the write went through is not known.
            let Ok(answer) = request.send(client).await else {
                return Ok(());
            };
            if self.kind.has_a_life() && answer.code == 409 {
                // Its predecessor is still going.
                self.lock().refused(self.kind, &name);
                continue;
            }
            let fine = matches!(answer.code, 200..=202);
            ensure!(fine, "{} {name}: {answer:?}", self.kind.kind);
            let answer = answer.body;
            let state = known(&answer).filter(|_| !deletes);
            let gone = deletes || self.kind.has_a_life();
            ensure!(state.is_some() || gone, "{name}: no state in {answer}");
            self.lock().acknowledged(self.kind, &name, state)?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nobody panics with it")
    }

    fn request(&self, name: &str, slot: &Slot, number: u64, draw: u8) -> Result<Write> {
        let kind = self.kind;
        let path = format!("{}/{name}", kind.path);
        let body = kind.body(name, number);
        let Some(now) = &slot.acknowledged else {
            // Half of the objects are made by an apply.
            if draw.is_multiple_of(2) {
                return request(Method::POST, kind.path, "application/json", &body);
            }
            return request(Method::PATCH, &apply(&path), "application/apply-patch+yaml", &body);
        };
        match draw % 8 {
            0 | 1 => request(Method::DELETE, &path, "application/json", &json!({})),
            2 | 3 if kind.kind != "CustomResourceDefinition" => {
                let mut body = body;
                body["metadata"]["resourceVersion"] = now.version.to_string().into();
                request(Method::PUT, &path, "application/json", &body)
            }
            4 | 5 => request(Method::PATCH, &apply(&path), "application/apply-patch+yaml", &body),
            _ => {
                let patch = json!({ "metadata": { "annotations": { NUMBER: number.to_string() } } });
                request(Method::PATCH, &path, "application/merge-patch+json", &patch)
            }
        }
    }
}

fn apply(path: &str) -> String {
    format!("{path}?fieldManager=kills&force=true")
}

/// A write that is about to be sent.
struct Write {
    method: Method,
    path: String,
    media: &'static str,
    body: Vec<u8>,
}

impl Write {
    async fn send(self, client: &Connection) -> Result<Answer> {
        client.ask(self.method, &self.path, self.media, self.body).await
    }
}

fn request(method: Method, path: &str, media: &'static str, body: &Value) -> Result<Write> {
    Ok(Write {
        method,
        path: path.to_owned(),
        media,
        body: serde_json::to_vec(body)?,
    })
}

fn state(answer: &Value) -> Result<Known> {
    known(answer).with_context(|| format!("an answer without number or version: {answer}"))
}

/// Writes a mark that everybody who watches the kind comes to see, and says at which version.
pub(super) async fn mark(client: &Connection, kind: Kind, ledger: &Mutex<Ledger>) -> Result<u64> {
    let number = ledger.lock().expect("nobody panics with it").number();
    let name = "mark";
    let path = apply(&format!("{}/{name}", kind.path));
    let body = kind.body(name, number);
    let request = request(Method::PATCH, &path, "application/apply-patch+yaml", &body)?;
    ledger
        .lock()
        .expect("nobody panics with it")
        .sent(kind, name, Some(number));
    let answer = request.send(client).await?;
    let known = state(&answer.body)?;
    let version = known.version;
    let mut ledger = ledger.lock().expect("nobody panics with it");
    ledger.acknowledged(kind, name, Some(known))?;
    Ok(version)
}
