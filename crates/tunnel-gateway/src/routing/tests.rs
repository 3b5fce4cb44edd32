//! Tests of matching, as tables.

use aplomb_api::tunnel::{HeaderMatch, QueryMatch};
use http::Request;

use super::*;
use crate::routing::{Protocols, RouteAction, TunnelInfo};

/// `=/a` exact, `/a` prefix, `~/a.*` expression, empty for no path; then `METHOD`, `h:name=value`,
/// `q:name=value`, where a value may begin with `~`.
fn route(rule: usize, text: &str) -> TableRoute {
    let mut matches = CompiledMatch {
        wanted: RouteMatch::default(),
        path: None,
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
    };
    for word in text.split_whitespace() {
        add(&mut matches, word);
    }
    TableRoute {
        rule,
        protocols: Protocols::ALL,
        matches,
        filters: Vec::new(),
        action: RouteAction::Redirect,
        timeout: None,
    }
}

fn add(matches: &mut CompiledMatch, word: &str) {
    let wanted = &mut matches.wanted;
    if let Some(value) = word.strip_prefix('=') {
        wanted.path = Some(path(PathMatchType::Exact, value));
    } else if let Some(value) = word.strip_prefix('~') {
        wanted.path = Some(path(PathMatchType::RegularExpression, value));
        matches.path = Some(expression(value));
    } else if word.starts_with('/') {
        wanted.path = Some(path(PathMatchType::PathPrefix, word));
    } else if let Some((name, value)) = word.strip_prefix("h:").and_then(|it| it.split_once('=')) {
        let (kind, value) = kind(value);
        if kind == ValueMatchType::RegularExpression {
            let index = wanted.headers.len();
            matches.headers.insert(index, expression(value));
        }
        let (name, value) = (name.to_owned(), value.to_owned());
        wanted.headers.push(HeaderMatch { kind, name, value });
    } else if let Some((name, value)) = word.strip_prefix("q:").and_then(|it| it.split_once('=')) {
        let (kind, value) = kind(value);
        if kind == ValueMatchType::RegularExpression {
            let index = wanted.query_params.len();
            matches.query.insert(index, expression(value));
        }
        let (name, value) = (name.to_owned(), value.to_owned());
        wanted.query_params.push(QueryMatch { kind, name, value });
    } else {
        let method = serde_json::from_value(word.into()).expect("a method");
        wanted.method = Some(method);
    }
}

fn kind(value: &str) -> (ValueMatchType, &str) {
    match value.strip_prefix('~') {
        Some(value) => (ValueMatchType::RegularExpression, value),
        None => (ValueMatchType::Exact, value),
    }
}

fn path(kind: PathMatchType, value: &str) -> PathMatch {
    let value = value.to_owned();
    PathMatch { kind, value }
}

fn expression(text: &str) -> regex::Regex {
    regex::Regex::new(&format!("^(?:{text})$")).expect("an expression")
}

fn build_host(routes: &[&str]) -> VirtualHost {
    let mut routes: Vec<TableRoute> = (0..).zip(routes).map(|(n, text)| route(n, text)).collect();
    sort_routes(&mut routes);
    VirtualHost {
        protocols: Protocols::ALL,
        tunnel: Arc::new(TunnelInfo {
            namespace: "default".to_owned(),
            name: "x".to_owned(),
            uid: "uid".to_owned(),
            generation: 1,
            revision: "1".to_owned(),
        }),
        routes,
    }
}

/// `METHOD /path?query name=value ...`
fn parse_request(text: &str) -> Parts {
    let mut words = text.split_whitespace();
    let method = words.next().expect("a method");
    let mut request = Request::builder().method(method).uri(words.next().expect("a path"));
    for (name, value) in words.filter_map(|word| word.split_once('=')) {
        request = request.header(name, value);
    }
    request.body(()).expect("a request").into_parts().0
}

fn rule(routes: &[&str], request: &str) -> Option<usize> {
    match_route(&build_host(routes), &parse_request(request), false).map(|route| route.rule)
}

#[test]
fn a_path_matches_or_not() {
    let table = [
        ("=/foo", "/foo", true),
        ("=/foo", "/foo/", false),
        ("=/foo", "/Foo", false),
        ("/foo", "/foo", true),
        ("/foo", "/foo/", true),
        ("/foo", "/foo/bar", true),
        ("/foo", "/foobar", false),
        ("/foo/", "/foo", true),
        ("/foo/", "/foo/bar", true),
        ("/foo/", "/foobar", false),
        ("/", "/anything", true),
        ("", "/anything", true),
        ("~/v[0-9]+/.*", "/v2/x", true),
        ("~/v[0-9]+/.*", "/av2/x", false),
        ("~/v[0-9]+", "/v2/x", false),
    ];
    for (wanted, path, fits) in table {
        let got = rule(&[wanted], &format!("GET {path}")).is_some();
        assert_eq!(got, fits, "{wanted} {path}");
    }
}

#[test]
fn the_most_specific_route_serves() {
    let table: [(&[&str], &str, usize); 10] = [
        (&["/", "/foo", "/foo/bar", "=/foo/bar"], "GET /foo/bar", 3),
        (&["/", "/foo", "/foo/bar"], "GET /foo/bar/baz", 2),
        (&["/", "/foo", "/foo/bar"], "GET /foo/baz", 1),
        (&["~/foo/.*", "/foo"], "GET /foo/bar", 1),
        (&["/", "~/foo/.*"], "GET /foo/bar", 1),
        (&["", "GET"], "GET /", 1),
        (&["h:a=1 h:b=2", "GET"], "GET / a=1 b=2", 1),
        (&["h:a=1", "h:a=1 h:b=2"], "GET / a=1 b=2", 1),
        (&["q:x=1 q:y=2", "h:a=1"], "GET /?x=1&y=2 a=1", 1),
        (&["q:x=1", "q:x=1 q:y=2"], "GET /?x=1&y=2", 1),
    ];
    for (routes, request, wanted) in table {
        assert_eq!(rule(routes, request), Some(wanted), "{routes:?} {request}");
    }
}

#[test]
fn of_equals_the_first_serves() {
    assert_eq!(rule(&["/a", "/a"], "GET /a"), Some(0));
    assert_eq!(rule(&["h:a=1", "h:b=1"], "GET / a=1 b=1"), Some(0));
}

#[test]
fn all_conditions_must_match() {
    let wanted = "/foo POST h:x-env=~can.*y q:version=~[0-9]+";
    let table = [
        ("POST /foo?version=2 x-env=canary", true),
        ("POST /foo?a=b&version=2 X-Env=canary", true),
        ("GET /foo?version=2 x-env=canary", false),
        ("POST /foo?version=x x-env=canary", false),
        ("POST /foo x-env=canary", false),
        ("POST /foo?version=2 x-env=prod", false),
        ("POST /foo?version=2", false),
    ];
    for (request, fits) in table {
        assert_eq!(rule(&[wanted], request).is_some(), fits, "{request}");
    }
}

#[test]
fn a_query_is_compared_decoded() {
    assert!(rule(&["q:a=b/c"], "GET /?a=b%2Fc").is_some());
    assert!(rule(&["q:a=1"], "GET /?a=1&a=2").is_some());
    assert!(rule(&["q:a=2"], "GET /?a=1&a=2").is_none());
}

#[test]
fn a_second_match_of_the_same_name_is_ignored() {
    assert!(rule(&["h:a=1 h:A=2"], "GET / a=1").is_some());
    assert!(rule(&["q:a=1 q:a=2"], "GET /?a=1").is_some());
}

#[test]
fn the_exact_hostname_wins_then_the_longest_wildcard() {
    let hosts = |name: &str| (name.to_owned(), Arc::new(build_host(&[])));
    let mut table = RoutingTable::default();
    table.hosts.extend([hosts("a.b.example.com")]);
    table.wildcards.extend([hosts("example.com"), hosts("b.example.com")]);
    let same = |name: &str, wanted: Option<&Arc<VirtualHost>>| {
        let got = find_host(&table, name, false);
        assert_eq!(got.map(Arc::as_ptr), wanted.map(Arc::as_ptr), "{name}");
    };
    same("a.b.example.com", table.hosts.get("a.b.example.com"));
    same("c.b.example.com", table.wildcards.get("b.example.com"));
    same("x.y.b.example.com", table.wildcards.get("b.example.com"));
    same("b.example.com", table.wildcards.get("example.com"));
    same("example.com", None);
    same("localhost", None);
}
