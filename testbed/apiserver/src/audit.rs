//! The audit log: one `audit.k8s.io/v1` Event per line, at level Metadata, when an answer is
//! complete (and, for a watch, when it starts).
//!
//! Request and response bodies are never written.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use aplomb_apimachinery::clock::Clock;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::auth::AuthorizationDecision;
use crate::call::User;

/// Where audit events go. Cheap to clone; clones write to the same place.
#[derive(Clone)]
pub struct Log(Arc<Mutex<dyn Write + Send>>);

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}

/// What a request is about, as an audit event names it.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct AuditObjectRef {
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub group: String,
    pub version: String,
    pub resource_version: String,
    pub subresource: String,
}

/// Everything known about one request so far.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Record {
    pub audit_id: String,
    pub request_uri: String,
    pub verb: String,
    pub user: User,
    pub impersonated: Option<User>,
    pub source_ip: String,
    pub user_agent: String,
    pub object: Option<AuditObjectRef>,
    pub received: Timestamp,
    pub decision: Option<AuthorizationDecision>,
    /// What admission noted.
    pub annotations: BTreeMap<String, String>,
}

impl Record {
    /// Adds what the body of a write says about the object.
    pub fn note_object(&mut self, body: &Bytes) {
        let Some(object) = &mut self.object else {
            return;
        };
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            return;
        };
        let text = |member: &str| aplomb_apimachinery::object::meta_str(&value, member).to_owned();
        let fill = |field: &mut String, member: &str| {
            if field.is_empty() {
                *field = text(member);
            }
        };
        fill(&mut object.namespace, "namespace");
        fill(&mut object.name, "name");
        fill(&mut object.uid, "uid");
        fill(&mut object.resource_version, "resourceVersion");
    }

    /// The event of one stage. `status` is the Status that was sent, if one was.
    #[must_use]
    pub fn event(&self, stage: &str, code: u16, status: Option<&Value>, now: Timestamp) -> Value {
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.audit_id,
            "stage": stage,
            "requestURI": self.request_uri,
            "verb": self.verb,
            "user": user_info(&self.user),
            "sourceIPs": [self.source_ip],
            "responseStatus": response_status(code, status),
            "requestReceivedTimestamp": micros(self.received),
            "stageTimestamp": micros(now),
        });
        if !self.user_agent.is_empty() {
            event["userAgent"] = self.user_agent.as_str().into();
        }
        if let Some(user) = &self.impersonated {
            event["impersonatedUser"] = user_info(user);
            event["authenticationMetadata"] = json!({ "impersonationConstraint": "impersonate:user-info" });
        }
        if let Some(object) = &self.object {
            event["objectRef"] = object.to_json();
        }
        if let Some(decision) = &self.decision {
            event["annotations"] = json!({
                "authorization.k8s.io/decision": if decision.allowed { "allow" } else { "forbid" },
                "authorization.k8s.io/reason": decision.reason,
            });
        }
        for (key, value) in &self.annotations {
            event["annotations"][key] = value.as_str().into();
        }
        event
    }
}

impl AuditObjectRef {
    fn to_json(&self) -> Value {
        let members = [
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiGroup", &self.group),
            ("apiVersion", &self.version),
            ("resourceVersion", &self.resource_version),
            ("subresource", &self.subresource),
        ];
        let present = members.into_iter().filter(|(_, value)| !value.is_empty());
        Value::Object(
            present
                .map(|(key, value)| (key.to_owned(), value.as_str().into()))
                .collect(),
        )
    }
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    for (key, value) in [("username", &user.name), ("uid", &user.uid)] {
        if !value.is_empty() {
            info.insert(key.into(), value.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.clone().into());
    }
    Value::Object(info)
}

fn response_status(code: u16, status: Option<&Value>) -> Value {
    let mut written = json!({ "metadata": {}, "code": code });
    for member in ["status", "message", "reason", "details"] {
        if let Some(value) = status.and_then(|status| status.get(member)) {
            written[member] = value.clone();
        }
    }
    written
}

/// `metav1.MicroTime`.
fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

impl Log {
    /// Writes events to `writer`, one line each, unbuffered.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(writer)))
    }

    /// Writes one event. A log that cannot be written must not fail the request it is about.
    pub fn write(&self, event: &Value) {
        let line = format!("{event}\n");
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writer.write_all(line.as_bytes()).and_then(|()| writer.flush()) {
            tracing::error!(%error, "Audit log could not be written");
        }
    }

    /// Writes the last stage of a request.
    pub fn complete(&self, record: &Record, stage: &str, code: u16, status: Option<&Value>, clock: &Clock) {
        self.write(&record.event(stage, code, status, clock.now()));
    }

    /// Writes the start of a stream; the end is written when the returned guard is dropped, be it
    /// by the stream's end or because nobody reads on.
    #[must_use]
    pub fn started(&self, record: Record, code: u16, clock: &Clock) -> StreamEnd {
        self.write(&record.event("ResponseStarted", code, None, clock.now()));
        StreamEnd {
            log: self.clone(),
            record,
            code,
            clock: clock.clone(),
        }
    }
}

/// Writes the end of a stream when dropped.
#[derive(Debug)]
pub struct StreamEnd {
    log: Log,
    record: Record,
    code: u16,
    clock: Clock,
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        self.log
            .complete(&self.record, "ResponseComplete", self.code, None, &self.clock);
    }
}
