//! The listener of a request determines which routes it can reach.

use std::sync::Arc;

use aplomb::ObjectKey;
use aplomb_tunnel_gateway::control::decide::decide;
use aplomb_tunnel_gateway::control::inputs::{ConnectorInfo, TableInputs};
use aplomb_tunnel_gateway::proxy::ResponseBody;
use http::{Request, Response};
use serde_json::{Value, json};

use crate::lab::{Lab, OriginBehavior, PEER, echo, full, text};

/// The standard setup: one route on the listener `http` that redirects, one on `https` with the backend.
fn redirect_inputs() -> TableInputs {
    let meta = |name: &str| {
        json!({ "namespace": "default", "name": name, "uid": name, "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1 })
    };
    let gateway = json!({ "metadata": meta("web"), "spec": { "gatewayClassName": "aplomb", "listeners": [
        { "name": "http", "hostname": "a.example.com", "port": 80, "protocol": "HTTP" },
        { "name": "https", "hostname": "a.example.com", "port": 443, "protocol": "HTTPS",
            "tls": { "certificateRefs": [{ "name": "cert" }] } },
    ] } });
    let route = |name: &str, section: &str, rule: Value| {
        let parent = json!({ "name": "web", "sectionName": section });
        json!({ "metadata": meta(name), "spec": { "parentRefs": [parent], "rules": [rule] } })
    };
    let redirect = json!({ "filters": [{ "type": "RequestRedirect",
        "requestRedirect": { "scheme": "https", "statusCode": 301 } }] });
    let backend = json!({ "backendRefs": [
        { "group": "aplomb.dev", "kind": "Connector", "name": "laptop", "port": 8080 } ] });
    let details = json!({ "publicKey": { "id": "ab".repeat(32), "addresses": [] }, "session": "s" });
    let connector = ConnectorInfo {
        uid: "c-uid".to_owned(),
        details: serde_json::from_value(details).expect("details"),
        released: false,
        gateway_listed: true,
    };
    let routes = [route("redirect", "http", redirect), route("site", "https", backend)];
    let routes = routes.map(|it| Arc::new(serde_json::from_value(it).expect("a route")));
    TableInputs {
        gateways: vec![Arc::new(serde_json::from_value(gateway).expect("a Gateway"))],
        routes: routes.into(),
        connectors: [(ObjectKey::new(Some("default"), "laptop"), connector)].into(),
        ..TableInputs::default()
    }
}

async fn get(lab: &Lab, url: &str, tls: bool) -> Response<ResponseBody> {
    let claims = if tls { "http" } else { "https" };
    let request = Request::get(url)
        .header("host", "a.example.com")
        .header("x-forwarded-proto", claims)
        .header("forwarded", format!("proto={claims}"))
        .body(full(""));
    let request = request.expect("a request");
    lab.server.handle(request, PEER, tls).await
}

#[tokio::test]
async fn a_redirect_to_https_is_followed_once_and_ends_at_the_backend() {
    let lab = Lab::new();
    lab.dialer.set_origin("localhost:8080", OriginBehavior::Service(echo()));
    lab.table.store(Arc::new(decide(&redirect_inputs()).table));
    for url in ["/x?y", "https://a.example.com/x?y", "http://a.example.com/x?y"] {
        let response = get(&lab, url, false).await;
        assert_eq!(response.status(), 301, "{url} over http");
        let location = response.headers()["location"].to_str().expect("text");
        assert_eq!(location, "https://a.example.com/x?y");
        let response = get(&lab, url, true).await;
        assert_eq!(response.status(), 200, "{url} over https");
        let seen = text(response.into_body()).await;
        assert!(seen.starts_with("GET /x?y\n"), "{seen}");
        assert!(seen.contains("x-forwarded-proto: https"), "{seen}");
    }
}
