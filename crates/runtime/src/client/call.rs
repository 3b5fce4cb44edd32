//! The name of a request in metrics, spans and errors. Derived from method and path. The query may
//! contain private data and is used only to recognize a watch.

use std::fmt;

use http::{Method, Request};

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
