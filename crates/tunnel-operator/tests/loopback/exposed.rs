//! Tunnels to services that their agent does not expose: the status names the missing flag, and public
//! responses do not reveal the address.

use aplomb_tunnel_agent::ExposedTarget;
use serde_json::{Value, json};

use crate::lab::{Lab, VICTIM, backend, hostname};
use crate::service::{Service, get};

fn https(host: &str) -> Value {
    json!({
        "endpoint": format!("https://{host}"),
        "connector": { "name": "laptop" },
        "tls": { "hostname": "localhost" },
    })
}

/// Waits until the conditions of a tunnel name the flag that its agent lacks.
async fn wait_flag_named(lab: &Lab, tunnel: &str, target: &str) {
    let ready = lab.wait_ready(VICTIM, tunnel, "OriginNotExposed").await;
    let expected =
        format!("OriginNotExposed: agent \"laptop\" does not expose {target}; restart it with --expose {target}");
    assert_eq!(format!("{}: {}", ready.reason, ready.message), expected);
    let origin = lab.condition(VICTIM, tunnel, "OriginReachable").await;
    let origin = origin.expect("the condition is set");
    assert_eq!((origin.status, origin.message), ("False".to_owned(), ready.message));
    assert!(target.parse::<ExposedTarget>().is_ok(), "--expose accepts {target}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_not_exposed_is_named_with_the_flag_to_add() {
    let (lab, service) = (Lab::start().await, Service::start("open").await);
    let address = service.address.to_string();
    let agent = lab.start_agent(VICTIM, "laptop", 1, &["localhost:1"]);
    let tunnels = [
        ("v4", backend("127.0.0.1:9", "laptop"), "127.0.0.1:9"),
        ("v6", backend("[::1]:80", "laptop"), "[::1]:80"),
        ("name", backend("localhost:3000", "laptop"), "localhost:3000"),
        ("bare", backend("printer", "laptop"), "printer:80"),
        ("tls", https("127.0.0.1:8443"), "127.0.0.1:8443"),
        ("tls6", https("[2001:db8::7]"), "[2001:db8::7]:443"),
        ("live", backend(&address, "laptop"), &address),
    ];
    for (name, backend, _) in &tunnels {
        lab.create_tunnel(VICTIM, name, backend).await;
    }
    for (name, _, target) in &tunnels {
        wait_flag_named(&lab, name, target).await;
        let got = get(lab.listener, &hostname(name)).await;
        assert!(got.is_gateway_error(403, "OriginNotExposed"), "{got:?}");
        let host = target.rsplit_once(':').expect("a port").0;
        assert!(!got.text.contains(host), "{got:?}");
    }
    // With the flag it works.
    agent.stop().await;
    let expose: Vec<&str> = tunnels.iter().map(|(_, _, target)| *target).collect();
    let _agent = lab.start_agent(VICTIM, "laptop", 1, &expose);
    lab.wait_ready(VICTIM, "live", "Proven").await;
    assert_eq!(get(lab.listener, &hostname("live")).await.status, 200);
    lab.wait_ready(VICTIM, "v4", "OriginUnreachable").await;
    lab.wait_ready(VICTIM, "v6", "OriginUnreachable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flag_is_named_where_gateways_send_no_headers() {
    let lab = Lab::with(false).await;
    let _agent = lab.start_agent(VICTIM, "laptop", 1, &["localhost:1"]);
    lab.create_tunnel(VICTIM, "hidden", &backend("127.0.0.1:9", "laptop"))
        .await;
    wait_flag_named(&lab, "hidden", "127.0.0.1:9").await;
    let got = get(lab.listener, &hostname("hidden")).await;
    assert!(got.status == 403 && !got.text.contains("x-aplomb"), "{got:?}");
}
