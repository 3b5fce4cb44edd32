//! Paths: the origin gets the path that its rule matched, in any notation a client uses.

use aplomb_tunnel_gateway::routing::RouteAction;
use http::{Method, Request, Version};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::lab::{Client, Lab, OriginBehavior, echo, forward, full, route, text, with_timeout};

fn prefix(value: &str) -> Value {
    json!({"path": {"type": "PathPrefix", "value": value}})
}

/// A tunnel that exposes only `/webhooks`.
fn webhooks() -> Lab {
    let lab = Lab::new();
    lab.routes(vec![route(0, prefix("/webhooks"), json!([]), forward("a:80"))]);
    lab
}

/// Sends a request target unchanged, and returns the whole response.
async fn send_raw(lab: &Lab, target: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(lab.listen(false).await).await.expect("connected");
    let head = format!("GET {target} HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.expect("written");
    let mut response = Vec::new();
    let read = stream.read_to_end(&mut response);
    with_timeout("a response", read).await.expect("read");
    String::from_utf8_lossy(&response).into_owned()
}

fn status(response: &str) -> u16 {
    let code = response.split(' ').nth(1);
    code.and_then(|it| it.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn no_encoding_of_a_path_leaves_the_exposed_prefix() {
    let lab = webhooks();
    for target in [
        "/webhooks/../admin",
        "/webhooks/%2e%2e/admin",
        "/webhooks/.%2E/admin",
        "/webhooks//../admin",
        "//webhooks/../admin",
        "http://a.example.com/webhooks/../admin",
        "http://a.example.com/webhooks/%2e%2e/admin",
        "/webhooks/../../admin",
        "/webhooks/..",
    ] {
        let response = send_raw(&lab, target, "").await;
        assert_eq!(status(&response), 404, "{target}: {response}");
    }
    for target in [
        "/webhooks/..;/admin",
        "/webhooks/.;x/../admin",
        "/webhooks/..%3b/admin",
        "/webhooks/..%2fadmin",
        "/webhooks/%2e%2e%2fadmin",
        "/webhooks/..%5cadmin",
        "/webhooks/..\\admin",
        "/webhooks/%252e%252e/admin",
        "/webhooks/%c0%ae%c0%ae/admin",
        "/webhooks/x%00",
        "/webhooks/%zz",
        "/webhooks/%2",
        "http://a.example.com/webhooks/..;/admin",
    ] {
        let response = send_raw(&lab, target, "").await;
        let refused = status(&response) == 400 && response.contains("x-aplomb-reason: BadRequest");
        assert!(refused, "{target}: {response}");
    }
    assert_eq!(lab.dialer.dials.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_origin_gets_the_path_that_was_matched_and_the_query_as_it_was() {
    let lab = webhooks();
    let long = format!("/webhooks/{}", "a/../".repeat(2000));
    for (target, forwarded) in [
        ("/webhooks", "/webhooks"),
        ("/x/../webhooks/a", "/webhooks/a"),
        ("//webhooks//a/", "/webhooks/a/"),
        ("/%77ebhooks/./a?b=/../c%2e#d", "/webhooks/a?b=/../c%2e"),
        ("/webhooks/group%2fproject?x=%2f", "/webhooks/group%2Fproject?x=%2f"),
        ("/webhooks/a%20b;v=1", "/webhooks/a%20b;v=1"),
        ("/webhooks/.../x", "/webhooks/.../x"),
        ("http://a.example.com/a/../webhooks/b", "/webhooks/b"),
        (&long, "/webhooks/"),
    ] {
        let response = send_raw(&lab, target, "").await;
        let line = format!("GET {forwarded}\n");
        assert!(response.contains(&line), "{target}: {response}");
    }
}

#[tokio::test]
async fn http2_and_upgrades_are_compared_in_the_same_way() {
    let lab = webhooks();
    let address = lab.listen(false).await;
    let (mut client, _open) = Client::connect(&lab.tasks, address, true).await;
    let mut ask = async |path: &str| {
        let request = Request::builder()
            .method(Method::GET)
            .version(Version::HTTP_2)
            .uri(format!("http://a.example.com{path}"))
            .body(full(""));
        let response = client.send(request.expect("a request")).await;
        let response = response.expect("a response");
        (response.status().as_u16(), text(response.into_body()).await)
    };
    assert_eq!(ask("/webhooks/../admin").await.0, 404);
    assert_eq!(ask("/webhooks/%2e%2e/admin").await.0, 404);
    assert_eq!(ask("/webhooks/..;/admin").await.0, 400);
    let (status_code, seen) = ask("/a/..//webhooks/x?y").await;
    assert_eq!(status_code, 200);
    assert!(seen.starts_with("GET /webhooks/x?y\n"), "{seen}");
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let upgrade = |target| send_raw(&lab, target, upgrade);
    assert_eq!(status(&upgrade("/webhooks/../admin").await), 404);
    assert_eq!(status(&upgrade("/webhooks/..%2fadmin").await), 400);
}

#[tokio::test]
async fn an_encoded_slash_does_not_bypass_a_rule() {
    let lab = Lab::new();
    lab.dialer.set_origin("admin", OriginBehavior::Service(echo()));
    lab.routes(vec![
        route(0, prefix("/"), json!([]), forward("a:80")),
        route(1, prefix("/projects/admin"), json!([]), forward("admin")),
        route(2, prefix("/@me"), json!([]), forward("admin")),
    ]);
    for (path, wanted) in [
        ("/projects/group%2Fproject", 200),
        ("/projects%2Fadmin", 400),
        ("/projects/admin%2Fx", 400),
        ("/projects/admin/a%2Fb", 200),
        ("/projects%252Fadmin", 400),
        ("/projects/admin;x", 400),
        ("/projects;%2fx/admin", 400),
        ("/projects;x/y", 200),
        ("/projects/admin%3Fx", 400),
        ("/projects/%2561dmin", 400),
        ("/projects/%61dmin", 200),
        ("/%40me", 400),
        ("/@me/%40you", 200),
        ("/%40you", 200),
        ("/search/100%25", 200),
    ] {
        let (code, seen) = lab.get(&format!("http://a.example.com{path}")).await;
        assert_eq!(code, wanted, "{path}: {seen}");
    }
}

#[tokio::test]
async fn a_path_that_leads_to_another_match_of_the_same_rule_is_served() {
    let lab = Lab::new();
    let action = forward("a:80");
    lab.routes(vec![
        route(0, prefix("/projects"), json!([]), action.clone()),
        route(0, prefix("/projects/admin"), json!([]), action),
        route(1, prefix("/projects/secret"), json!([]), forward("a:80")),
    ]);
    for (path, wanted) in [
        ("/projects/admin%2Fx", 200),
        ("/projects/admin;v=1/x", 200),
        ("/projects/secret%2Fx", 400),
    ] {
        let (code, seen) = lab.get(&format!("http://a.example.com{path}")).await;
        assert_eq!(code, wanted, "{path}: {seen}");
    }
}

#[tokio::test]
async fn filters_change_the_path_that_was_matched() {
    let lab = Lab::new();
    let rewrite = json!([{"type": "URLRewrite", "urlRewrite": {
        "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v2"}}}]);
    let redirect = json!([{"type": "RequestRedirect", "requestRedirect": {
        "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"}}}]);
    lab.routes(vec![
        route(0, prefix("/api"), rewrite, forward("a:80")),
        route(1, prefix("/old"), redirect, RouteAction::Redirect),
    ]);
    let (_, seen) = lab.get("http://a.example.com/x/..//%61pi/../api/a?b").await;
    assert!(seen.starts_with("GET /v2/a?b\n"), "{seen}");
    let request = Request::get("http://a.example.com/old/../old//a?b").body(full(""));
    let response = lab.send(request.expect("a request")).await;
    assert_eq!(response.headers()["location"], "http://a.example.com/new/a?b");
    let (code, _) = lab.get("http://a.example.com/old/../../api%2f..%2fadmin").await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn a_proof_is_asked_for_by_the_normalized_path() {
    let lab = webhooks();
    for path in ["/.well-known/aplomb/proof", "/webhooks/..//.well-known/%61plomb/proof"] {
        let (code, said) = lab.get(&format!("http://a.example.com{path}")).await;
        assert!(code == 400 && said.contains("BadRequest"), "{path}: {said}");
    }
}

#[tokio::test]
async fn an_asterisk_is_only_for_options() {
    let lab = webhooks();
    for (method, wanted) in [(Method::OPTIONS, 404), (Method::GET, 400)] {
        let request = Request::builder().method(method).uri("*");
        let request = request.header("host", "a.example.com").body(full(""));
        let response = lab.send(request.expect("a request")).await;
        assert_eq!(response.status().as_u16(), wanted);
    }
}
