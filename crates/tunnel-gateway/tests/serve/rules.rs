//! Rules and filters, from the client's request to the request at the origin.

use std::sync::Arc;

use aplomb_tunnel_gateway::routing::{RouteAction, RoutingTable};
use http::Request;
use serde_json::json;

use crate::lab::{Lab, OriginBehavior, echo, forward, full, route, single_route, text};

#[tokio::test]
async fn the_origin_gets_the_forwarded_headers() {
    let lab = Lab::new();
    let request = Request::get("http://A.example.com:8080/x?y=z")
        .header("x-forwarded-for", "203.0.113.9")
        .header("connection", "x-private")
        .header("x-private", "1")
        .body(full(""));
    let response = lab.send(request.expect("a request")).await;
    let reply = text(response.into_body()).await;
    let has = |line: &str| assert!(reply.lines().any(|it| it == line), "no {line} in\n{reply}");
    has("GET /x?y=z");
    has("host: A.example.com:8080");
    has("x-forwarded-for: 192.0.2.7");
    has("x-forwarded-proto: http");
    has("x-forwarded-host: A.example.com:8080");
    assert!(!reply.contains("x-private"), "{reply}");
}

#[tokio::test]
async fn filters_change_the_request_and_the_response() {
    let lab = Lab::new();
    let filters = json!([
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {
            "set": [{"name": "x-env", "value": "prod"}], "remove": ["x-debug"]}},
        {"type": "ResponseHeaderModifier", "responseHeaderModifier": {
            "add": [{"name": "x-served-by", "value": "us"}]}},
        {"type": "URLRewrite", "urlRewrite": {"hostname": "inner.example.com",
            "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v2"}}},
    ]);
    let wanted = json!({"path": {"type": "PathPrefix", "value": "/api"}});
    lab.routes(vec![route(0, wanted, filters, forward("a:80"))]);
    let request = Request::get("http://a.example.com/api/users?id=1")
        .header("x-env", "test")
        .header("x-debug", "1")
        .body(full(""));
    let response = lab.send(request.expect("a request")).await;
    assert_eq!(response.headers()["x-served-by"], "us");
    let reply = text(response.into_body()).await;
    assert!(reply.starts_with("GET /v2/users?id=1\n"), "{reply}");
    assert!(reply.contains("host: inner.example.com"), "{reply}");
    assert!(reply.contains("x-forwarded-host: a.example.com"), "{reply}");
    assert!(reply.contains("x-env: prod"), "{reply}");
    assert!(!reply.contains("x-debug"), "{reply}");
}

#[tokio::test]
async fn a_redirect_contacts_no_origin() {
    let lab = Lab::new();
    let filters = json!([{"type": "RequestRedirect",
        "requestRedirect": {"scheme": "https", "statusCode": 301}}]);
    lab.routes(vec![route(0, json!({}), filters, RouteAction::Redirect)]);
    let request = Request::get("http://a.example.com/x?y=z").body(full(""));
    let response = lab.send(request.expect("a request")).await;
    assert_eq!(response.status(), 301);
    let location = &response.headers()["location"];
    assert_eq!(location, "https://a.example.com/x?y=z");
    assert_eq!(response.headers()["x-aplomb-revision"], "rev-a");
    assert_eq!(response.headers().get("x-aplomb-reason"), None);
    assert_eq!(lab.dialer.dials.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_most_specific_rule_serves() {
    let lab = Lab::new();
    for name in ["one", "two", "three"] {
        lab.dialer.set_origin(
            name,
            OriginBehavior::Service(crate::lab::service(
                move |_| async move { http::Response::new(full(name)) },
            )),
        );
    }
    let prefix = |value: &str| json!({"path": {"type": "PathPrefix", "value": value}});
    let exact = json!({"path": {"type": "Exact", "value": "/a/b"}});
    lab.routes(vec![
        route(0, prefix("/"), json!([]), forward("one")),
        route(1, prefix("/a"), json!([]), forward("two")),
        route(2, exact, json!([]), forward("three")),
    ]);
    for (path, wanted) in [("/", "one"), ("/a/c", "two"), ("/a/b", "three"), ("/ab", "one")] {
        let got = lab.get(&format!("http://a.example.com{path}")).await;
        assert_eq!(got, (200, wanted.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn a_new_table_serves_the_next_request() {
    let lab = Lab::new();
    assert_eq!(lab.get("http://new.example.com/").await.0, 404);
    let mut table = RoutingTable::clone(&lab.table.load());
    lab.dialer.set_origin("new:80", OriginBehavior::Service(echo()));
    table.hosts.extend([single_route("new", "new:80")]);
    lab.table.store(Arc::new(table));
    assert_eq!(lab.get("http://new.example.com/").await.0, 200);
    lab.table.store(Arc::default());
    assert_eq!(lab.get("http://new.example.com/").await.0, 404);
}

#[tokio::test]
async fn connect_requests_are_refused() {
    let lab = Lab::new();
    let request = Request::connect("a.example.com:443").body(full(""));
    let response = lab.send(request.expect("a request")).await;
    assert_eq!(response.status(), 400);
}
