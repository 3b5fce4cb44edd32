//! What a URL asks for, as the server's `RequestInfoFactory` reads it.
//!
//! Purely syntactic: whether the resource exists is decided later, because authorization comes
//! first and names resources that do not.

use http::Method;

use aplomb_apimachinery::query::Query;

/// A request, understood as far as its URL and method go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestInfo {
    /// Addresses a resource; otherwise only `path` and `verb` count.
    pub is_resource: bool,
    /// Decoded path.
    pub path: String,
    /// `get`, `list`, ... for resources, the lower-case method otherwise; empty for a method
    /// resources do not have.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Plural resource.
    pub resource: String,
    /// Name; empty for none. A list by `metadata.name=x` has it too, as authorization wants it.
    pub name: String,
    /// Subresource; empty for none.
    pub subresource: String,
    /// Path parts from the resource on.
    pub parts: Vec<String>,
    /// The verb came from a legacy `/watch/` prefix.
    pub legacy_watch: bool,
}

impl RequestInfo {
    /// Reads a request.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub(super) fn read(method: &Method, path: &str, query: &Query) -> Result<Self, String> {
        let mut info = Self {
            path: path.to_owned(),
            verb: method.as_str().to_ascii_lowercase(),
            ..Self::default()
        };
        let parts = split_path(path);
        let Some(parts) = info.take_group_version(&parts) else {
            return Ok(info);
        };
        let parts = info.take_verb(method, parts)?;
        info.take_resource(parts);
        info.refine_verb(query);
        Ok(info)
    }

    fn take_group_version<'a>(&mut self, parts: &'a [String]) -> Option<&'a [String]> {
        let rest = match parts {
            [prefix, rest @ ..] if prefix == "api" && rest.len() >= 2 => rest,
            [prefix, group, rest @ ..] if prefix == "apis" && rest.len() >= 2 => {
                self.group = group.clone();
                rest
            }
            _ => return None,
        };
        self.is_resource = true;
        self.version = rest[0].clone();
        Some(&rest[1..])
    }

    fn take_verb<'a>(&mut self, method: &Method, parts: &'a [String]) -> Result<&'a [String], String> {
        if matches!(parts[0].as_str(), "watch" | "proxy") {
            if parts.len() < 2 {
                return Err(format!(
                    "unable to determine kind and namespace from url, {}",
                    self.path
                ));
            }
            self.legacy_watch = parts[0] == "watch";
            self.verb = parts[0].clone();
            return Ok(&parts[1..]);
        }
        self.verb = match *method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        }
        .to_owned();
        Ok(parts)
    }

    fn take_resource(&mut self, mut parts: &[String]) {
        if parts[0] == "namespaces" && parts.len() > 1 {
            self.namespace = parts[1].clone();
            if parts.len() > 2 && !matches!(parts[2].as_str(), "status" | "finalize") {
                parts = &parts[2..];
            }
        }
        let part = |index: usize| parts.get(index).cloned().unwrap_or_default();
        self.resource = part(0);
        self.name = part(1);
        if self.verb != "proxy" {
            self.subresource = part(2);
        }
        self.parts = parts.to_vec();
    }

    fn refine_verb(&mut self, query: &Query) {
        if !self.name.is_empty() {
            return;
        }
        match self.verb.as_str() {
            "get" => {
                let watch = query.flag("watch").unwrap_or(false);
                self.verb = if watch { "watch" } else { "list" }.to_owned();
                if let Some(name) = query.first("fieldSelector").and_then(exact_name) {
                    self.name = name.to_owned();
                }
            }
            "delete" => self.verb = "deletecollection".to_owned(),
            _ => {}
        }
    }
}

/// The name a field selector pins down, if it does.
fn exact_name(selector: &str) -> Option<&str> {
    selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        let value = value.strip_prefix('=').unwrap_or(value);
        let segment = !value.is_empty() && value != "." && value != "..";
        (segment && !value.contains(['/', '%', '\\', '='])).then_some(value)
    })
}

/// The parts of a path; outer slashes do not count, inner empty parts do.
#[must_use]
pub(super) fn split_path(path: &str) -> Vec<String> {
    let trimmed = path.trim_matches('/');
    if trimmed.is_empty() {
        Vec::new()
    } else {
        trimmed.split('/').map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, url: &str) -> RequestInfo {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        RequestInfo::read(&method, path, &Query::parse(query)).expect("a readable url")
    }

    fn short(info: &RequestInfo) -> [&str; 7] {
        [
            &info.verb,
            &info.group,
            &info.version,
            &info.namespace,
            &info.resource,
            &info.name,
            &info.subresource,
        ]
    }

    #[test]
    fn urls_are_read_as_the_server_reads_them() {
        let cases: &[(&str, &str, [&str; 7])] = &[
            (
                "GET",
                "/api/v1/namespaces",
                ["list", "", "v1", "", "namespaces", "", ""],
            ),
            (
                "GET",
                "/api/v1/namespaces/a",
                ["get", "", "v1", "a", "namespaces", "a", ""],
            ),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                ["update", "", "v1", "a", "namespaces", "a", "finalize"],
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods?watch",
                ["watch", "", "v1", "a", "pods", "", ""],
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods/b/status",
                ["get", "", "v1", "a", "pods", "b", "status"],
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                ["deletecollection", "apps", "v1", "a", "deployments", "", ""],
            ),
            (
                "GET",
                "/api/v1/watch/namespaces/a/pods",
                ["watch", "", "v1", "a", "pods", "", ""],
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name%3Dx",
                ["list", "", "v1", "", "pods", "x", ""],
            ),
            ("FOO", "/api/v1/pods", ["", "", "v1", "", "pods", "", ""]),
        ];
        for (method, url, want) in cases {
            assert_eq!(short(&read(method, url)), *want, "{method} {url}");
        }
    }

    #[test]
    fn short_paths_are_not_resources() {
        for url in ["/", "/api", "/api/v1", "/apis/apps/v1", "/version", "/healthz/etcd/x"] {
            assert!(!read("GET", url).is_resource, "{url}");
        }
    }

    #[test]
    fn a_bare_watch_prefix_is_an_error() {
        let error = RequestInfo::read(&Method::GET, "/api/v1/watch", &Query::default());
        assert!(error.is_err_and(|text| text.contains("unable to determine kind")));
    }
}
