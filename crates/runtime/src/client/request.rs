//! The name of a request in metrics, spans and errors. Derived from method and path. The query may
//! contain private data and is used only to recognize a watch.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Limited};
use kube::core::Status;
use tower::BoxError;

use crate::ratelimit::{LimitLane, api};

/// The name of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiRequest {
    pub(super) verb: &'static str,
    /// Plural name, group and subresource: `deployments.apps/status`. Never the name of an object.
    pub(super) resource: String,
    /// The path of its collection.
    pub(super) collection: String,
    /// The response is a stream without an end.
    pub(super) is_streaming: bool,
}

impl ApiRequest {
    pub(super) fn from_request<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => ("", &[][..]),
        };
        let rest = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => rest,
            ["namespaces", _, rest @ ..] => rest,
            _ => rest,
        };
        let watch = has_query_flag(request.uri().query(), "watch");
        let mut resource = rest.first().copied().unwrap_or("none").to_owned();
        if !group.is_empty() {
            resource = format!("{resource}.{group}");
        }
        if let Some(subresource) = rest.get(2) {
            resource = format!("{resource}/{subresource}");
        }
        let below = rest.len().saturating_sub(1);
        let collection = &parts[..parts.len() - below];
        Self {
            verb: verb(request.method(), rest.len() > 1, watch),
            resource,
            collection: collection.join("/"),
            is_streaming: watch || has_query_flag(request.uri().query(), "follow"),
        }
    }

    /// A 429 for an eviction is about a disruption budget, not about the API server's rate limit.
    pub(super) fn is_eviction(&self) -> bool {
        self.verb == "create" && self.resource == "pods/eviction"
    }

    /// A 429 for it can only mean that there are too many requests.
    pub(super) fn is_rate_limit_only(&self) -> bool {
        !self.is_eviction() && !self.is_watch() && !self.is_list()
    }

    pub(super) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    pub(super) fn is_list(&self) -> bool {
        self.verb == "list"
    }
}

impl fmt::Display for ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)
    }
}

fn has_query_flag(query: Option<&str>, what: &str) -> bool {
    let pairs = query.unwrap_or_default().split('&');
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "true")))
        .any(|(name, value)| name == what && matches!(value, "true" | "1" | ""))
}

fn verb(method: &Method, named: bool, watch: bool) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ if watch => "watch",
        _ if named => "get",
        _ => "list",
    }
}

/// Maximum size of a Status; a proxy's page may be longer.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// The maximum length of a message in errors.
const MAX_MESSAGE_CHARS: usize = 200;

/// The content of a 429.
#[derive(Debug, Default)]
pub(super) struct ThrottleResponse {
    pub(super) body: Bytes,
    status: Option<Status>,
}

/// The callers that a refusal affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThrottleScope {
    /// All callers of this server.
    Server,
    /// Readers of this collection: its cache is not ready, or a watch of it was rejected. Other
    /// calls continue; otherwise one broken kind would delay all the others. If the server has no room
    /// for them either, it rejects them itself.
    Collection,
    /// This request alone: a disruption budget, not a rate limit.
    Request,
}

impl ThrottleResponse {
    pub(super) async fn read(body: kube::client::Body) -> Result<Self, BoxError> {
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await?.to_bytes();
        Ok(Self {
            status: serde_json::from_slice(&body).ok(),
            body,
        })
    }

    /// The headers, with the wait that is only in the body.
    pub(super) fn hints(&self, headers: &HeaderMap) -> HeaderMap {
        let mut hints = headers.clone();
        let details = self.status.as_ref().and_then(|status| status.details.as_ref());
        let seconds = details.map(|details| details.retry_after_seconds);
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0) {
            hints.entry(RETRY_AFTER).or_insert(seconds.into());
        }
        hints
    }

    pub(super) fn scope(&self, call: &ApiRequest, lane: LimitLane) -> ThrottleScope {
        // A Status comes from the collection itself, plain text from the filter in front of all of them.
        let about_it = self.status.is_some() || lane == api::BACKGROUND;
        if call.is_eviction() {
            ThrottleScope::Request
        } else if call.is_watch() || (call.is_list() && about_it) {
            ThrottleScope::Collection
        } else {
            ThrottleScope::Server
        }
    }

    /// The server's message.
    pub(super) fn message(&self) -> String {
        let text = match &self.status {
            Some(status) => status.message.clone(),
            None => String::from_utf8_lossy(&self.body).trim().to_owned(),
        };
        text.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}

/// How long not to call a collection.
pub(super) fn retry_delay(hints: &HeaderMap) -> Duration {
    let text = hints.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = text.and_then(|text| text.trim().parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds).clamp(Duration::from_millis(100), Duration::from_secs(3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, uri: &str) -> ApiRequest {
        let request = Request::builder().method(method).uri(uri).body(());
        ApiRequest::from_request(&request.expect("a request"))
    }

    #[test]
    fn a_call_is_named_without_the_names_in_it() {
        let cases = [
            ("GET", "/api/v1/namespaces/a", "get namespaces"),
            ("GET", "/api/v1/namespaces/a/secrets/b?x=y", "get secrets"),
            ("GET", "/api/v1/pods?watch=true", "watch pods"),
            (
                "PATCH",
                "/apis/e.com/v1/xs/b/status?force=true",
                "patch xs.e.com/status",
            ),
            ("POST", "/api/v1/namespaces/a/pods/b/eviction", "create pods/eviction"),
            ("GET", "/version", "list none"),
        ];
        for (method, uri, name) in cases {
            assert_eq!(call(method, uri).to_string(), name);
        }
        assert!(call("POST", "/api/v1/namespaces/a/pods/b/eviction").is_eviction());
    }

    #[test]
    fn only_watches_are_streaming() {
        assert!(call("GET", "/api/v1/pods?labelSelector=a&watch=1").is_streaming);
        assert!(call("GET", "/api/v1/namespaces/a/pods/b/log?follow=true").is_streaming);
        assert!(!call("GET", "/api/v1/pods?watch=false").is_streaming);
        assert!(!call("GET", "/api/v1/pods?fieldSelector=watch").is_streaming);
    }

    #[test]
    fn an_object_and_its_list_have_one_collection() {
        let one = call("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale").collection;
        let all = call("GET", "/apis/apps/v1/namespaces/a/deployments").collection;
        assert_eq!(one, all);
    }
}
