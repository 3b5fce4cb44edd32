//! Error responses of the gateway: a status and a reason for each cause, which origins cannot forge.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use aplomb_tunnel_gateway::access::AccessLog;
use aplomb_tunnel_gateway::limits::ListenerLimits;
use aplomb_tunnel_gateway::origin::DialError;
use aplomb_tunnel_gateway::proxy::ProxySettings;
use aplomb_tunnel_gateway::reason;
use aplomb_tunnel_gateway::routing::RouteAction;
use aplomb_tunnel_protocol::StreamRefusal;
use futures::FutureExt;
use http::{Request, Response};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::lab::{Lab, OriginBehavior, forward, full, route, text};

async fn get_reason(lab: &Lab, url: &str) -> (u16, String) {
    let request = Request::get(url).body(full("")).expect("a request");
    let response = lab.send(request).await;
    let word = response.headers().get("x-aplomb-reason");
    let word = word.map(|it| it.to_str().expect("text").to_owned());
    (response.status().as_u16(), word.unwrap_or_default())
}

#[tokio::test]
async fn a_host_that_names_the_machine_means_the_default_host_where_there_is_one() {
    let machine = ["127.0.0.1:18080", "[::1]:18080", "localhost", "192.0.2.7"];
    let (plain, lab) = (Lab::new(), {
        let default_host = Some("a.example.com".to_owned());
        Lab::with(ProxySettings {
            default_host,
            ..ProxySettings::default()
        })
    });
    for host in machine {
        let url = format!("http://{host}/");
        assert_eq!(get_reason(&lab, &url).await, (200, String::new()), "{host}");
        let unknown = (404, reason::UNKNOWN_HOST.to_owned());
        assert_eq!(get_reason(&plain, &url).await, unknown, "{host}");
    }
    let other = get_reason(&lab, "http://unknown.example.com/").await;
    assert_eq!(other, (404, reason::UNKNOWN_HOST.to_owned()));
}

#[tokio::test]
async fn each_cause_has_its_status_and_its_reason() {
    let lab = Lab::new();
    let unreachable = || "no listener".to_owned();
    let refused = |refusal| DialError::Refused(refusal, String::new());
    let table = [
        (DialError::Offline, 503, reason::CONNECTOR_OFFLINE),
        (DialError::Unreachable(unreachable()), 502, reason::ORIGIN_UNREACHABLE),
        (DialError::Forbidden(unreachable()), 403, reason::UNAUTHORISED),
        (DialError::TimedOut, 504, reason::ORIGIN_TIMEOUT),
        (refused(StreamRefusal::NotExposed), 403, reason::ORIGIN_NOT_EXPOSED),
        (refused(StreamRefusal::OtherConnector), 403, reason::UNAUTHORISED),
        (
            refused(StreamRefusal::OriginUnreachable),
            502,
            reason::ORIGIN_UNREACHABLE,
        ),
        (refused(StreamRefusal::TooMany), 503, reason::TOO_MANY),
    ];
    for (error, status, word) in table {
        lab.dialer.set_origin("a:80", OriginBehavior::Error(error.clone()));
        let got = get_reason(&lab, "http://a.example.com/").await;
        assert_eq!(got, (status, word.to_owned()), "{error:?}");
    }
    let unknown = get_reason(&lab, "http://unknown.example.com/").await;
    assert_eq!(unknown, (404, reason::UNKNOWN_HOST.to_owned()));
    let wanted = json!({"path": {"type": "Exact", "value": "/only"}});
    let nowhere = RouteAction::NoBackend {
        status: 503,
        reason: reason::CONNECTOR_NOT_FOUND,
    };
    lab.routes(vec![route(0, wanted, json!([]), nowhere)]);
    let only = get_reason(&lab, "http://a.example.com/only").await;
    assert_eq!(only, (503, reason::CONNECTOR_NOT_FOUND.to_owned()));
    let other = get_reason(&lab, "http://a.example.com/other").await;
    assert_eq!(other, (404, reason::NO_ROUTE.to_owned()));
    let absent = get_reason(&lab, "/").await;
    assert_eq!(absent, (400, reason::BAD_REQUEST.to_owned()));
}

#[tokio::test]
async fn a_broken_origin_and_a_slow_origin_have_different_errors() {
    let limits = ListenerLimits {
        response_timeout: Duration::from_secs(2),
        ..ListenerLimits::default()
    };
    let lab = Lab::with(ProxySettings {
        limits,
        ..ProxySettings::default()
    });
    let hangs_up = |mut stream: tokio::io::DuplexStream| {
        let work = async move {
            let mut some = [0; 16];
            stream.read_exact(&mut some).await.expect("a request");
        };
        work.boxed()
    };
    lab.dialer.set_origin("a:80", OriginBehavior::Pipe(Arc::new(hangs_up)));
    let got = get_reason(&lab, "http://a.example.com/").await;
    assert_eq!(got, (502, reason::ORIGIN_BROKEN.to_owned()));
    let babbles = |mut stream: tokio::io::DuplexStream| {
        let work = async move {
            let text = b"220 mail.example.com ESMTP\r\n\r\n";
            stream.write_all(text).await.expect("written");
            std::future::pending::<()>().await;
        };
        work.boxed()
    };
    lab.dialer.set_origin("a:80", OriginBehavior::Pipe(Arc::new(babbles)));
    let got = get_reason(&lab, "http://a.example.com/").await;
    assert_eq!(got, (502, reason::ORIGIN_BROKEN.to_owned()));
    lab.origin(|_| std::future::pending());
    let got = get_reason(&lab, "http://a.example.com/").await;
    assert_eq!(got, (504, reason::ORIGIN_TIMEOUT.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_rules_own_timeout_counts_from_the_request() {
    let lab = Lab::new();
    lab.origin(|_| std::future::pending());
    let mut slow = route(0, json!({}), json!([]), forward("a:80"));
    slow.timeout = Some(Duration::from_secs(7));
    lab.routes(vec![slow]);
    let began = tokio::time::Instant::now();
    let got = get_reason(&lab, "http://a.example.com/").await;
    assert_eq!(got, (504, reason::ORIGIN_TIMEOUT.to_owned()));
    assert_eq!(began.elapsed(), Duration::from_secs(7));
}

#[tokio::test]
async fn an_origins_own_errors_are_its_own() {
    let lab = Lab::new();
    lab.origin(|_| async {
        let response = Response::builder()
            .status(503)
            .header("x-aplomb-reason", "ConnectorOffline")
            .header("x-aplomb-revision", "forged");
        response.body(full("mine")).expect("a response")
    });
    let request = Request::get("http://a.example.com/").body(full(""));
    let response = lab.send(request.expect("a request")).await;
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers().get("x-aplomb-reason"), None);
    assert_eq!(response.headers()["x-aplomb-revision"], "rev-a");
    assert_eq!(text(response.into_body()).await, "mine");
}

#[tokio::test]
async fn a_browser_gets_a_page_and_a_program_a_line() {
    let lab = Lab::new();
    let ask = async |accept: &str| {
        let request = Request::get("http://unknown.example.com/")
            .header("accept", accept)
            .body(full(""));
        let response = lab.send(request.expect("a request")).await;
        let kind = response.headers()["content-type"].clone();
        (kind, text(response.into_body()).await)
    };
    let (kind, page) = ask("text/html,*/*").await;
    assert_eq!(kind, "text/html; charset=utf-8");
    assert!(page.contains("<h1>404 Not Found</h1>"), "{page}");
    let (kind, page) = ask("*/*").await;
    assert_eq!(kind, "text/plain; charset=utf-8");
    assert!(
        page.starts_with("This hostname does not belong to a tunnel.\n"),
        "{page}"
    );
}

#[tokio::test]
async fn a_switch_turns_the_headers_off() {
    let lab = Lab::with(ProxySettings {
        headers: false,
        ..ProxySettings::default()
    });
    for url in ["http://a.example.com/", "http://unknown.example.com/"] {
        let request = Request::get(url).body(full("")).expect("a request");
        let response = lab.send(request).await;
        let ours = |name: &http::HeaderName| name.as_str().starts_with("x-aplomb");
        assert!(!response.headers().keys().any(ours));
    }
    // The operator needs the reason, and the page contains it anyway.
    let url = "http://a.example.com/.well-known/aplomb/proof";
    let request = Request::get(url).body(full("")).expect("a request");
    let response = lab.send(request).await;
    assert_eq!(response.headers()["x-aplomb-reason"], reason::BAD_REQUEST);
}

#[tokio::test]
async fn a_service_that_is_not_exposed_is_not_named_to_the_public() {
    let lab = Lab::new();
    let message = "\"10.1.2.3:80\" is not exposed by this agent".to_owned();
    let refused = DialError::Refused(StreamRefusal::NotExposed, message);
    lab.dialer.set_origin("a:80", OriginBehavior::Error(refused));
    for accept in ["text/html", "*/*"] {
        let request = Request::get("http://a.example.com/").header("accept", accept);
        let response = lab.send(request.body(full("")).expect("a request")).await;
        let page = text(response.into_body()).await;
        assert!(page.contains("does not expose this service"), "{page}");
        assert!(!page.contains("10.1.2.3"), "{page}");
    }
}

struct LineWriter(mpsc::Sender<String>);

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        // The test may have stopped receiving.
        let _ = self.0.send(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_access_log_has_each_request_and_no_secret() {
    let (send, lines) = mpsc::channel();
    let lab = Lab::with(ProxySettings {
        access_log: Some(AccessLog::new(LineWriter(send)).expect("a log")),
        ..ProxySettings::default()
    });
    let request = Request::post("http://a.example.com/path?token=secret1")
        .header("authorization", "secret2")
        .header("x-request-id", "r-1")
        .body(full("12345"));
    let response = lab.send(request.expect("a request")).await;
    let said = text(response.into_body()).await;
    assert!(said.contains("secret2"), "the origin gets the query");
    let line = lines.recv().expect("a line");
    assert!(!line.contains("secret"), "{line}");
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    for (name, value) in [
        ("tunnel", json!("default/a")),
        ("method", json!("POST")),
        ("host", json!("a.example.com")),
        ("path", json!("/path")),
        ("status", json!(200)),
        ("client", json!("192.0.2.7")),
        ("revision", json!("rev-a")),
        ("requestId", json!("r-1")),
        ("sent", json!(said.len())),
    ] {
        assert_eq!(line[name], value, "{name}");
    }
    assert_eq!(lab.get("http://unknown.example.com/").await.0, 404);
    let line = lines.recv().expect("a line");
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(line["reason"], "UnknownHost");
}
