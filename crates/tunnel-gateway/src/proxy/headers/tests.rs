//! Tests of headers between connections.

use http::Request;

use super::*;

fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

#[test]
fn the_hostname_is_found_wherever_it_stands() {
    let table = [
        ("/", Some("a.example.com"), Some("a.example.com")),
        ("/", Some("A.Example.COM:8080"), Some("a.example.com")),
        ("/", Some("a.example.com."), Some("a.example.com")),
        ("http://b.example.com/", Some("a.example.com"), Some("b.example.com")),
        ("http://b.example.com:81/", None, Some("b.example.com")),
        ("/", None, None),
        ("/", Some(""), None),
        ("/", Some("user@a.example.com"), None),
        ("/", Some("a b"), None),
    ];
    for (uri, host, wanted) in table {
        let host: Vec<_> = host.map(|it| ("host", it)).into_iter().collect();
        let got = authority(&head(uri, &host)).ok().map(|it| it.0);
        assert_eq!(got.as_deref(), wanted, "{uri} {host:?}");
    }
    let twice = head("/", &[("host", "a.example.com"), ("host", "b.example.com")]);
    assert!(authority(&twice).is_err());
}

#[test]
fn what_belongs_to_one_connection_stays_there() {
    let mut head = head(
        "/",
        &[
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "secret"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("trailer", "x-sum"),
            ("accept", "*/*"),
        ],
    );
    strip_hop_by_hop(&mut head.headers);
    let mut left: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["accept", "trailer"]);
}

fn forwarded_headers(given: &[(&str, &str)], trusted: bool) -> HeaderMap {
    let mut head = head("/", given);
    let host = HeaderValue::from_static("a.example.com");
    let asked = ForwardedInfo {
        client: "::ffff:192.0.2.7".parse().expect("an address"),
        tls: true,
        host: &host,
        trusted,
    };
    set_forwarded_headers(&mut head.headers, asked);
    head.headers
}

#[test]
fn a_client_cannot_forge_forwarded_headers() {
    let lies = [
        ("x-forwarded-for", "203.0.113.1"),
        ("x-forwarded-proto", "gopher"),
        ("x-forwarded-host", "bank.example.com"),
        ("forwarded", "for=203.0.113.1"),
    ];
    let headers = forwarded_headers(&lies, false);
    assert_eq!(headers["x-forwarded-for"], "192.0.2.7");
    assert_eq!(headers["x-forwarded-proto"], "https");
    assert_eq!(headers["x-forwarded-host"], "a.example.com");
    assert_eq!(headers.get("forwarded"), None);
}

#[test]
fn forwarded_headers_of_a_trusted_proxy_are_kept() {
    let said = [("x-forwarded-for", "203.0.113.1"), ("x-forwarded-proto", "http")];
    let headers = forwarded_headers(&said, true);
    assert_eq!(headers["x-forwarded-for"], "203.0.113.1, 192.0.2.7");
    assert_eq!(headers["x-forwarded-proto"], "http");
    assert_eq!(headers["x-forwarded-host"], "a.example.com");
}

#[test]
fn only_a_harmless_request_id_is_kept() {
    let id = |value| client_request_id(&head("/", &[("x-request-id", value)]).headers);
    assert_eq!(id("a-1").as_deref(), Some("a-1"));
    assert_eq!(id("a b"), None);
    assert_eq!(id(&"x".repeat(65)), None);
}
