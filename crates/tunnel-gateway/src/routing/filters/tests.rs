//! Tests of filters, as tables.

use serde_json::{Value, json};

use super::*;

fn filter(value: Value) -> Vec<RouteFilter> {
    vec![serde_json::from_value(value).expect("a filter")]
}

fn uri(text: &str) -> Uri {
    text.parse().expect("an address")
}

#[test]
fn headers_are_set_then_added_then_removed() {
    let filters = filter(json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {
        "set": [{"name": "X-Set", "value": "new"}],
        "add": [{"name": "X-Add", "value": "2"}],
        "remove": ["X-Gone"],
    }}));
    let mut headers = HeaderMap::new();
    for (name, value) in [("x-set", "old"), ("x-add", "1"), ("x-gone", "1")] {
        headers.append(name, HeaderValue::from_static(value));
    }
    apply_to_response(&filters, &mut headers);
    assert_eq!(headers["x-set"], "old", "it applies to the request only");
    apply_to_request(&filters, &mut headers);
    assert_eq!(headers["x-set"], "new");
    let added: Vec<_> = headers.get_all("x-add").iter().collect();
    assert_eq!(added, ["1", "2"]);
    assert_eq!(headers.get("x-gone"), None);
}

#[test]
fn a_prefix_is_replaced_with_the_slashes_of_the_gateway_api() {
    let table = [
        ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
        ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
        ("/foo", "/foo", "/xyz", "/xyz"),
        ("/foo/", "/foo", "/xyz", "/xyz/"),
        ("/foo/bar", "/foo", "", "/bar"),
        ("/foo/", "/foo", "", "/"),
        ("/foo", "/foo", "", "/"),
        ("/foo/", "/foo", "/", "/"),
        ("/foo", "/foo", "/", "/"),
        ("/foo", "/", "/xyz", "/xyz/foo"),
    ];
    for (asked, prefix, new, wanted) in table {
        let filters = filter(json!({"type": "URLRewrite", "urlRewrite": {
            "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": new}}}));
        let got = rewritten_path(&filters, &uri(asked), prefix);
        assert_eq!(got.as_str(), wanted, "{asked} {prefix} {new:?}");
        let got = rewritten_path(&filters, &uri(&format!("{asked}?a=b")), prefix);
        assert_eq!(got.as_str(), format!("{wanted}?a=b"));
    }
}

#[test]
fn a_whole_path_and_the_host_are_replaced() {
    let filters = filter(json!({"type": "URLRewrite", "urlRewrite": {
        "hostname": "inner.example.com",
        "path": {"type": "ReplaceFullPath", "replaceFullPath": "/one"}}}));
    assert_eq!(rewritten_path(&filters, &uri("/a/b?c=d"), "/").as_str(), "/one?c=d");
    assert_eq!(rewritten_host(&filters).expect("a host"), "inner.example.com");
    assert_eq!(rewritten_path(&[], &uri("/a/b?c=d"), "/").as_str(), "/a/b?c=d");
    assert_eq!(rewritten_host(&[]), None);
}

#[test]
fn a_redirect_changes_what_it_names_and_keeps_the_rest() {
    let table = [
        (json!({}), "http://a.example.com/x?y=z", 302),
        (json!({"scheme": "https"}), "https://a.example.com/x?y=z", 302),
        (
            json!({"scheme": "https", "statusCode": 301}),
            "https://a.example.com/x?y=z",
            301,
        ),
        (json!({"hostname": "b.example.com"}), "http://b.example.com/x?y=z", 302),
        (json!({"port": 8080}), "http://a.example.com:8080/x?y=z", 302),
        (json!({"port": 80}), "http://a.example.com/x?y=z", 302),
        (
            json!({"scheme": "https", "port": 443}),
            "https://a.example.com/x?y=z",
            302,
        ),
        (
            json!({"scheme": "http", "port": 443}),
            "http://a.example.com:443/x?y=z",
            302,
        ),
        (
            json!({"path": {"type": "ReplaceFullPath", "replaceFullPath": "/new"}, "statusCode": 308}),
            "http://a.example.com/new?y=z",
            308,
        ),
        (
            json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"}}),
            "http://a.example.com/new?y=z",
            302,
        ),
    ];
    for (said, location, status) in table {
        let filters = filter(json!({"type": "RequestRedirect", "requestRedirect": said}));
        check_filter(&filters[0]).expect("the filter is valid");
        let got = redirect_location(&filters, ("a.example.com", false), &uri("/x?y=z"), "/x");
        let (code, to) = got.expect("a redirect");
        assert_eq!((to.to_str().expect("text"), code.as_u16()), (location, status));
    }
    assert_eq!(redirect_location(&[], ("a", false), &uri("/"), "/"), None);
}

#[test]
fn what_cannot_be_done_is_found_before_a_request_comes() {
    let table = [
        json!({"type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": "a b", "value": "1"}]}}),
        json!({"type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": "a", "value": "1\n"}]}}),
        json!({"type": "ResponseHeaderModifier",
            "responseHeaderModifier": {"add": [{"name": "Transfer-Encoding", "value": "x"}]}}),
        json!({"type": "RequestHeaderModifier",
            "requestHeaderModifier": {"remove": ["Content-Length"]}}),
        json!({"type": "RequestRedirect", "requestRedirect": {"statusCode": 200}}),
        json!({"type": "RequestRedirect", "requestRedirect": {"port": 0}}),
        json!({"type": "URLRewrite", "urlRewrite": {
            "path": {"type": "ReplaceFullPath", "replaceFullPath": "no slash"}}}),
    ];
    for value in table {
        check_filter(&filter(value.clone())[0]).expect_err(&value.to_string());
    }
}
