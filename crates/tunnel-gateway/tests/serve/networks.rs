//! Backends in networks that are not public, from the request to the socket.

use std::sync::Arc;

use aplomb_tunnel_gateway::origin::address::AddressDialer;
use aplomb_tunnel_gateway::origin::policy::AddressPolicy;
use aplomb_tunnel_gateway::proxy::{ProxyServer, ProxySettings};
use aplomb_tunnel_gateway::routing::{Addresses, OriginAddress, OriginTarget, RouteAction, RoutingTable};
use aplomb_tunnel_gateway::telemetry::GatewayMetrics;
use arc_swap::ArcSwap;
use http::Request;
use serde_json::json;
use tokio::net::TcpListener;

use crate::lab::{PEER, full, host, route, text, with_timeout};

/// Sends a request to a gateway for one backend; returns status, reason and body.
async fn get_backend(guard: AddressPolicy, backend: &str, opened: &[&str]) -> (u16, String, String) {
    let opened = opened.iter().map(|it| it.parse().expect("a network"));
    let target = OriginAddress::Addresses(Addresses {
        names: vec![backend.to_owned()],
        open_networks: opened.collect(),
    });
    let origin = OriginTarget {
        target,
        authority: backend.to_owned(),
        tls: None,
    };
    let action = RouteAction::Forward(Arc::new(origin));
    let mut table = RoutingTable::default();
    let all = route(0, json!({}), json!([]), action);
    table.hosts.insert("a.example.com".to_owned(), host("a", vec![all]));
    let server = ProxyServer::new(
        ProxySettings::default(),
        Arc::new(ArcSwap::from_pointee(table)),
        Arc::new(AddressDialer::new(guard, None).expect("a dialer")),
        GatewayMetrics::default(),
    );
    let request = Request::get("http://a.example.com/").body(full(""));
    let response = server.handle(request.expect("a request"), PEER, false);
    let response = with_timeout("a response", response).await;
    let word = response.headers().get("x-aplomb-reason");
    let word = word.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let (status, word) = (response.status().as_u16(), word.to_owned());
    (status, word, text(response.into_body()).await)
}

#[tokio::test]
async fn a_private_address_is_refused_and_not_shown_to_the_client() {
    for (backend, shown) in [
        ("10.0.0.1:80", "10.0.0.1"),
        ("172.16.0.1:80", "172.16"),
        ("192.168.0.1:80", "192.168"),
        ("100.64.0.1:80", "100.64"),
        ("127.0.0.1:80", "127.0"),
        ("localhost:80", "localhost"),
        ("[fd00::1]:80", "fd00"),
        ("[::ffff:10.0.0.1]:80", "10.0.0.1"),
        ("[64:ff9b::10.0.0.1]:80", "ff9b"),
        ("2130706433:80", "2130706433"),
        ("0x7f.1:80", "0x7f"),
        ("0:80", "0.0.0.0"),
    ] {
        let (status, word, body) = get_backend(AddressPolicy::default(), backend, &[]).await;
        assert_eq!((status, &*word), (403, "Unauthorised"), "{backend}: {body}");
        assert!(!body.contains(shown), "{backend}: {body}");
    }
    let metadata = get_backend(AddressPolicy::default(), "169.254.169.254:80", &["0.0.0.0/0"]).await;
    assert_eq!(metadata.0, 403);
    let kubelet = get_backend(AddressPolicy::default(), "127.0.0.1:10250", &["127.0.0.0/8"]).await;
    assert_eq!(kubelet.0, 403);
}

#[tokio::test]
async fn an_open_network_leads_anywhere_but_to_the_gateway_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let own = AddressPolicy::new(Vec::new(), &[], &[address.port()]);
    let backend = address.to_string();
    let open = ["127.0.0.0/8"];
    assert_eq!(get_backend(own, &backend, &open).await.0, 403, "its own listener");
    let serve = async {
        drop(listener.accept().await);
        drop(listener);
    };
    let (answer, ()) = tokio::join!(get_backend(AddressPolicy::default(), &backend, &open), serve);
    assert_eq!((answer.0, &*answer.1), (502, "OriginBroken"), "the backend was reached");
    assert_eq!(get_backend(AddressPolicy::default(), &backend, &[]).await.0, 403);
}
