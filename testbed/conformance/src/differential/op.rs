//! One operation, the same for every server, and how it becomes the request of one of them.
//!
//! Strings starting with `$` in a query or a body stand for what a server said earlier (a version,
//! a UID, a continue token); each server gets its own.

use serde_json::{Value, json};

use super::catalog::{Kind, overlay};
use super::track::{Key, Tracked};

/// What an operation does, as the report counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Verb {
    Get,
    List,
    Create,
    Update,
    JsonPatch,
    MergePatch,
    Apply,
    StrategicPatch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The name in the report.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::JsonPatch => "json-patch",
            Self::MergePatch => "merge-patch",
            Self::Apply => "apply",
            Self::StrategicPatch => "strategic-patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// The HTTP method.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Get | Self::List => "GET",
            Self::Create => "POST",
            Self::Update => "PUT",
            Self::JsonPatch | Self::MergePatch | Self::Apply | Self::StrategicPatch => "PATCH",
            Self::Delete | Self::DeleteCollection => "DELETE",
        }
    }

    /// The body's type unless the operation says otherwise.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::JsonPatch => "application/json-patch+json",
            Self::MergePatch => "application/merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
            Self::StrategicPatch => "application/strategic-merge-patch+json",
            _ => "application/json",
        }
    }
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Body {
    /// Nothing.
    Empty,
    /// This.
    Json(Value),
    /// What the server last showed of the object, with these fragments laid over.
    Edited(Vec<Value>),
    /// These bytes.
    Text(String),
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Op {
    /// What it does.
    pub verb: Verb,
    /// Index into the catalog.
    pub kind: usize,
    /// Namespace of the path.
    pub namespace: Option<String>,
    /// Name in the path (or, for a create, in the body).
    pub name: Option<String>,
    /// Addresses `/status`.
    pub status: bool,
    /// Addresses another subresource of the object.
    pub sub: Option<&'static str>,
    /// Query parameters.
    pub query: Vec<(&'static str, String)>,
    /// What is sent.
    pub body: Body,
    /// Instead of the verb's own.
    pub content_type: Option<&'static str>,
    /// Instead of JSON.
    pub accept: Option<&'static str>,
}

/// A request of one server.
#[derive(Clone, Debug)]
pub struct Wire {
    /// HTTP method.
    pub method: &'static str,
    /// Path and query.
    pub target: String,
    /// Headers besides authentication.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: String,
}

impl Op {
    /// An operation without query and body.
    #[must_use]
    pub fn new(verb: Verb, kind: usize, namespace: Option<&str>, name: Option<&str>) -> Self {
        Self {
            verb,
            kind,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            status: false,
            sub: None,
            query: Vec::new(),
            body: Body::Empty,
            content_type: None,
            accept: None,
        }
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn param(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Whether nothing is stored whatever the answer.
    #[must_use]
    pub fn dry_run(&self) -> bool {
        let in_query = self.query.iter().any(|(name, _)| *name == "dryRun");
        in_query || matches!(&self.body, Body::Json(body) if body.get("dryRun").is_some())
    }

    /// The object it is about.
    #[must_use]
    pub fn key(&self, kind: &Kind) -> Option<Key> {
        let name = self.name.as_ref()?;
        Some(Key::new(&kind.storage(), self.namespace.as_deref().unwrap_or(""), name))
    }

    /// The request one server gets.
    #[must_use]
    pub fn wire(&self, kind: &Kind, tracked: &Tracked) -> Wire {
        let mut target = kind.collection(self.namespace.as_deref());
        let named = !matches!(self.verb, Verb::Create | Verb::List | Verb::DeleteCollection);
        if let (true, Some(name)) = (named || self.sub.is_some(), &self.name) {
            target.push('/');
            target.push_str(&percent(name));
        }
        if self.status {
            target.push_str("/status");
        }
        if let Some(sub) = self.sub {
            target.push('/');
            target.push_str(sub);
        }
        let key = self.key(kind);
        for (index, (name, value)) in self.query.iter().enumerate() {
            let value = tracked.fill(key.as_ref(), &self.scope(kind), value);
            target.push(if index == 0 { '?' } else { '&' });
            target.push_str(&format!("{name}={}", percent(&value)));
        }
        let body = self.render(kind, tracked, key.as_ref());
        let accept = self.accept.unwrap_or("application/json").to_owned();
        let mut headers = vec![("accept", accept), ("user-agent", "differ/1.0".to_owned())];
        if !matches!(self.body, Body::Empty) {
            let content_type = self.content_type.unwrap_or(self.verb.content_type());
            headers.push(("content-type", content_type.to_owned()));
        }
        Wire {
            method: self.verb.method(),
            target,
            headers,
            body,
        }
    }

    /// What a continue token belongs to.
    #[must_use]
    pub fn scope(&self, kind: &Kind) -> String {
        format!("{}|{}", kind.collection(self.namespace.as_deref()), self.verb.as_str())
    }

    fn render(&self, kind: &Kind, tracked: &Tracked, key: Option<&Key>) -> String {
        let mut body = match &self.body {
            Body::Empty => return String::new(),
            Body::Text(text) => return text.clone(),
            Body::Json(value) => value.clone(),
            Body::Edited(fragments) => {
                let mut object = key.and_then(|key| tracked.object(key)).unwrap_or_else(|| {
                    let name = self.name.as_deref().unwrap_or("");
                    let mut plain = kind.identity(self.namespace.as_deref(), name);
                    overlay(&mut plain, &kind.base, false);
                    plain
                });
                object["apiVersion"] = json!(kind.api_version);
                object["kind"] = json!(kind.kind);
                for fragment in fragments {
                    overlay(&mut object, fragment, false);
                }
                object
            }
        };
        tracked.fill_all(key, &self.scope(kind), &mut body);
        body.to_string()
    }
}

/// Percent-encodes everything a query or a path segment may not hold as is.
fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
