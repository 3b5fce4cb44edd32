//! What a request is about, read from its method and URL alone, and the pattern that selects some.
//!
//! Bodies are not looked at: the layer must be able to pass them on unread.

use std::fmt;

use http::{Method, Request};

use aplomb_apiserver::call::Verb;

/// The resource a request addresses. Requests that address none (discovery, health) have an
/// empty `resource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What it wants done.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
    /// Namespace, if the path has one.
    pub namespace: Option<String>,
    /// Object name, if the path has one.
    pub name: Option<String>,
    /// `status` and the like.
    pub subresource: Option<String>,
}

impl Target {
    /// Reads the method and URL of a request.
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => ("", "", &[][..]),
        };
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let name = rest.get(1).map(|name| (*name).to_owned());
        Self {
            verb: verb(request.method(), name.is_some(), is_watch(request.uri().query())),
            group: group.to_owned(),
            version: version.to_owned(),
            resource: rest.first().copied().unwrap_or_default().to_owned(),
            namespace: namespace.map(str::to_owned),
            name,
            subresource: rest.get(2).map(|part| (*part).to_owned()),
        }
    }

    /// Whether an answer may stand for a change of stored state.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }
}

fn is_watch(query: Option<&str>) -> bool {
    let pairs = query.unwrap_or_default().split('&');
    pairs
        .into_iter()
        .any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"))
}

fn verb(method: &Method, named: bool, watch: bool) -> Verb {
    match method.as_str() {
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "DELETE" if named => Verb::Delete,
        "DELETE" => Verb::DeleteCollection,
        _ if watch => Verb::Watch,
        _ if named => Verb::Get,
        _ => Verb::List,
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.as_str(), self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        for part in [&self.namespace, &self.name, &self.subresource].into_iter().flatten() {
            write!(f, "/{part}")?;
        }
        Ok(())
    }
}

/// Selects requests. Starts as "any"; each call narrows it.
#[derive(Clone, Debug, Default)]
pub struct Match {
    verbs: Vec<Verb>,
    writes: bool,
    group: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<Option<String>>,
}

impl Match {
    /// Every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Everything but get, list and watch.
    #[must_use]
    pub fn writes() -> Self {
        Self {
            writes: true,
            ..Self::default()
        }
    }

    /// Watches.
    #[must_use]
    pub fn watches() -> Self {
        Self::any().verb(Verb::Watch)
    }

    /// Also (or only) this verb.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Only this plural resource name, of any group.
    #[must_use]
    pub fn resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.to_owned());
        self
    }

    /// Only this API group.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only this object name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only this subresource; the empty name means the object itself.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        self.subresource = Some(Some(name.to_owned()).filter(|name| !name.is_empty()));
        self
    }

    /// Whether `target` is selected.
    #[must_use]
    pub fn accepts(&self, target: &Target) -> bool {
        fn same(wanted: Option<&String>, found: Option<&String>) -> bool {
            wanted.is_none() || wanted == found
        }
        (self.verbs.is_empty() || self.verbs.contains(&target.verb))
            && (!self.writes || target.is_write())
            && same(self.group.as_ref(), Some(&target.group))
            && same(self.resource.as_ref(), Some(&target.resource))
            && same(self.namespace.as_ref(), target.namespace.as_ref())
            && same(self.name.as_ref(), target.name.as_ref())
            && self
                .subresource
                .as_ref()
                .is_none_or(|wanted| *wanted == target.subresource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: &str, uri: &str) -> String {
        let request = Request::builder().method(method).uri(uri).body(()).expect("a request");
        Target::of(&request).to_string()
    }

    #[test]
    fn urls_are_read_as_the_server_reads_them() {
        let cases = [
            ("GET", "/api/v1/namespaces", "list namespaces"),
            ("GET", "/api/v1/namespaces/a", "get namespaces/a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/a/finalize"),
            ("GET", "/api/v1/namespaces/a/pods?watch=true&x=1", "watch pods/a"),
            ("POST", "https://192.0.2.1/api/v1/namespaces/a/pods", "create pods/a"),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection deployments.apps/a",
            ),
            (
                "PATCH",
                "/apis/e.com/v1/xs/b/status?force=true",
                "patch xs.e.com/b/status",
            ),
            ("GET", "/version", "list "),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(target(method, uri), expected);
        }
    }

    #[test]
    fn a_match_narrows() {
        let request = Request::put("/api/v1/namespaces/a/pods/b/status")
            .body(())
            .expect("a request");
        let target = Target::of(&request);
        let pods = || Match::any().resource("pods");
        assert!(Match::writes().accepts(&target));
        assert!(pods().namespace("a").name("b").subresource("status").accepts(&target));
        assert!(!pods().subresource("").accepts(&target));
        assert!(!pods().verb(Verb::Patch).accepts(&target));
        assert!(pods().verb(Verb::Patch).verb(Verb::Update).accepts(&target));
        assert!(!Match::any().resource("pods").group("apps").accepts(&target));
        assert!(!Match::watches().accepts(&target));
    }
}
