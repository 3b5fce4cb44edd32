//! The well-known path for proofs.

use std::sync::Arc;
use std::time::Duration;

use aplomb_tunnel_gateway::origin::DialError;
use aplomb_tunnel_gateway::routing::{Addresses, OriginAddress, OriginTarget, RouteAction};
use aplomb_tunnel_protocol::{ConnectorId, Proof, ProofStatement};
use base64::Engine;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use http::{Request, Response};
use serde_json::json;
use tokio::time::timeout;

use crate::lab::{Lab, OriginBehavior, echo, forward, full, route, text};

fn statement() -> ProofStatement {
    ProofStatement {
        nonce: "00ff".to_owned(),
        tunnel: "uid-a".to_owned(),
        generation: 3,
        connector: connector("default", "u1"),
        session: "s".to_owned(),
    }
}

fn connector(namespace: &str, uid: &str) -> ConnectorId {
    ConnectorId {
        namespace: namespace.to_owned(),
        uid: uid.to_owned(),
    }
}

async fn request_proof(
    lab: &Lab,
    rule: &str,
    statement: &ProofStatement,
) -> Response<aplomb_tunnel_gateway::proxy::ResponseBody> {
    let json = serde_json::to_vec(statement).expect("JSON");
    let url = format!("http://a.example.com/.well-known/aplomb/proof{rule}");
    let request = Request::get(url)
        .header("x-aplomb-proof", URL_SAFE_NO_PAD.encode(json))
        .body(full(""));
    lab.send(request.expect("a request")).await
}

async fn outcome(lab: &Lab, rule: &str, statement: &ProofStatement) -> (u16, String) {
    let response = request_proof(lab, rule, statement).await;
    let word = response.headers().get("x-aplomb-reason");
    let word = word.map_or("", |it| it.to_str().expect("text")).to_owned();
    (response.status().as_u16(), word)
}

#[tokio::test]
async fn a_proof_comes_back_as_the_agent_gave_it() {
    let lab = Lab::new();
    let response = request_proof(&lab, "?rule=0", &statement()).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-aplomb-revision"], "rev-a");
    let proof = text(response.into_body()).await;
    let proof: Proof = serde_json::from_str(&proof).expect("a proof");
    assert_eq!(proof.statement, statement());
    assert_eq!(proof.signature, "signed");
    let dials = lab.dialer.dials.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(dials, 0, "the agent checks the origin itself");
}

#[tokio::test]
async fn a_proof_is_for_this_tunnel_at_this_generation() {
    let lab = Lab::new();
    let other = ProofStatement {
        generation: 2,
        ..statement()
    };
    let got = outcome(&lab, "", &other).await;
    assert_eq!(got, (409, "OtherGeneration".to_owned()));
    let other = ProofStatement {
        tunnel: "uid-b".to_owned(),
        ..statement()
    };
    let got = outcome(&lab, "", &other).await;
    assert_eq!(got, (409, "OtherGeneration".to_owned()));
    let got = outcome(&lab, "?rule=7", &statement()).await;
    assert_eq!(got, (404, "NoRoute".to_owned()));
    let got = outcome(&lab, "?rule=x", &statement()).await;
    assert_eq!(got, (400, "BadRequest".to_owned()));
}

#[tokio::test]
async fn a_proof_is_for_the_connector_that_the_gateway_looked_up() {
    let lab = Lab::new();
    for (namespace, uid) in [("mallory", "u1"), ("default", "u2"), ("", "")] {
        let other = ProofStatement {
            connector: connector(namespace, uid),
            ..statement()
        };
        let got = outcome(&lab, "", &other).await;
        assert_eq!(got, (409, "OtherSession".to_owned()), "{namespace}/{uid}");
    }
    let mut old = serde_json::to_value(statement()).expect("JSON");
    old.as_object_mut().expect("an object").remove("connector");
    let request = Request::get("http://a.example.com/.well-known/aplomb/proof")
        .header("x-aplomb-proof", URL_SAFE_NO_PAD.encode(old.to_string()))
        .body(full(""));
    let response = lab.send(request.expect("a request")).await;
    assert_eq!(response.status(), 400, "a statement of version 1");
}

#[tokio::test]
async fn a_failed_proof_has_a_reason() {
    let lab = Lab::new();
    lab.dialer.set_origin("a:80", OriginBehavior::Error(DialError::Offline));
    let got = outcome(&lab, "", &statement()).await;
    assert_eq!(got, (503, "ConnectorOffline".to_owned()));
    let url = "http://a.example.com/.well-known/aplomb/proof";
    assert_eq!(lab.get(url).await.0, 400, "without a statement");
    let padded = Request::get(url)
        .header("x-aplomb-proof", URL_SAFE.encode("{}"))
        .body(full(""));
    let response = lab.send(padded.expect("a request")).await;
    assert_eq!(response.status(), 400);
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_before_the_prober_gives_up() {
    let lab = Lab::new();
    lab.dialer
        .set_origin("a:80", OriginBehavior::DelayedError(DialError::Offline));
    for (query, patience) in [("?rule=0", 1_200), ("?rule=0&within=250", 250), ("?within=600", 600)] {
        let about = statement();
        let asked = outcome(&lab, query, &about);
        let answered = timeout(Duration::from_millis(patience), asked).await;
        let said = answered.unwrap_or_else(|_| panic!("{query}: no response within {patience} ms"));
        assert_eq!(said, (503, "ConnectorOffline".to_owned()), "{query}");
    }
    let said = outcome(&lab, "?within=soon", &statement()).await;
    assert_eq!(said, (400, "BadRequest".to_owned()));
}

#[tokio::test]
async fn rules_without_an_agent_are_reached_or_not() {
    let lab = Lab::new();
    let address = RouteAction::Forward(Arc::new(OriginTarget {
        target: OriginAddress::Addresses(Addresses {
            names: vec!["192.0.2.1:80".to_owned()],
            open_networks: Vec::new(),
        }),
        authority: "192.0.2.1:80".to_owned(),
        tls: None,
    }));
    let redirect = json!([{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]);
    let path = |value: &str| json!({"path": {"type": "PathPrefix", "value": value}});
    lab.routes(vec![
        route(0, path("/a"), json!([]), address),
        route(1, path("/b"), redirect, RouteAction::Redirect),
        route(2, path("/"), json!([]), forward("a:80")),
    ]);
    let got = outcome(&lab, "?rule=0", &statement()).await;
    assert_eq!(got, (502, "OriginUnreachable".to_owned()));
    lab.dialer.set_origin("192.0.2.1:80", OriginBehavior::Service(echo()));
    for rule in ["?rule=0", "?rule=1"] {
        let response = request_proof(&lab, rule, &statement()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(text(response.into_body()).await, r#"{"reached":true}"#);
    }
    assert_eq!(outcome(&lab, "?rule=2", &statement()).await.0, 200);
}

#[tokio::test]
async fn a_proof_is_answered_before_any_rule() {
    let lab = Lab::new();
    let wanted = json!({"path": {"type": "Exact", "value": "/only"}});
    lab.routes(vec![route(0, wanted, json!([]), forward("a:80"))]);
    assert_eq!(outcome(&lab, "?rule=0", &statement()).await.0, 200);
}
