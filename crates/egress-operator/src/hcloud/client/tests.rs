//! Each call over a transport with a prepared response.

use std::sync::Mutex;

use http::Response;
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use super::*;
use crate::hcloud::error::NO_ANSWER;

const SECRET: &str = "jEheVytlAoFl7F8MqUQ7jAo2hOXASztX0123456789abcdefghijklmnopqrstuv";

type Asked = Arc<Mutex<Vec<(Method, String, String)>>>;

/// A client whose every request gets `status` and `body`, and the requests it has sent.
fn client_with_answer(status: u16, body: String) -> (HcloudClient, Asked) {
    let asked = Asked::default();
    let log = asked.clone();
    let transport = BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        let text = String::from_utf8_lossy(request.body()).into_owned();
        let line = (request.method().clone(), request.uri().to_string(), text);
        log.lock().expect("no panic").push(line);
        let answer = Response::builder()
            .status(status)
            .header("ratelimit-remaining", "17")
            .body(Bytes::from(body.clone()));
        async move { answer.map_err(Into::into) }
    }));
    let token = ApiToken::new(SECRET).expect("a token");
    let client = HcloudClient::new(transport, "http://sim.example.com/v1/", token);
    (client, asked)
}

#[tokio::test]
async fn a_name_is_escaped_and_the_headers_are_kept() {
    let (client, asked) = client_with_answer(200, r#"{"floating_ips": []}"#.to_owned());
    let query = FloatingIpQuery {
        name: Some("a b&c/\u{e4}".to_owned()),
        page: 2,
    };
    let page = client.floating_ips(&query).await.expect("a page");
    assert_eq!(page.headers["ratelimit-remaining"], "17");
    let uri = "http://sim.example.com/v1/floating_ips?per_page=50&page=2&name=a%20b%26c%2F%C3%A4";
    assert_eq!(asked.lock().expect("no panic")[0].1, uri);
}

#[tokio::test]
async fn an_assign_names_the_server_and_returns_the_action() {
    let body = r#"{"action": {"id": 9, "status": "running", "error": null}}"#;
    let (client, asked) = client_with_answer(201, body.to_owned());
    let begun = client.assign(3, 42).await.expect("begun");
    assert_eq!((begun.status, begun.body.id), (201, 9));
    let asked = asked.lock().expect("no panic");
    assert_eq!(asked[0].0, Method::POST);
    assert!(asked[0].1.ends_with("/floating_ips/3/actions/assign"));
    assert_eq!(asked[0].2, r#"{"server":42}"#);
}

#[tokio::test]
async fn the_code_counts_and_not_the_status() {
    let body = r#"{"error": {"code": "protected", "message": "no", "details": {"a": 1}}}"#;
    let (client, _) = client_with_answer(423, body.to_owned());
    let error = client.floating_ip(1).await.expect_err("refused");
    assert_eq!((error.code.as_str(), error.status), ("protected", Some(423)));
    assert_eq!(error.headers["ratelimit-remaining"], "17");
}

#[tokio::test]
async fn an_html_answer_of_a_gateway_is_classified_by_its_status() {
    for (status, code) in [(502, "bad_gateway"), (504, "timeout"), (429, "rate_limit_exceeded")] {
        let (client, _) = client_with_answer(status, "<html>oops</html>".to_owned());
        let error = client.action(1).await.expect_err("refused");
        assert_eq!(error.code, code);
    }
    let (client, _) = client_with_answer(302, String::new());
    assert_eq!(client.action(1).await.expect_err("moved").code, "http_302");
}

#[tokio::test]
async fn no_part_of_the_token_is_in_any_error() {
    let echo = format!(
        r#"{{"error": {{"code": "rate_limit_exceeded {SECRET}", "message": "limit of 3600 for token {}..."}}}}"#,
        &SECRET[..32]
    );
    for (status, body) in [
        (429, echo.clone()),
        (200, format!("[{SECRET}]")),
        (500, SECRET.to_owned()),
    ] {
        let (client, _) = client_with_answer(status, body);
        let error = client.floating_ip(1).await.expect_err("refused");
        for text in [
            format!("{error}"),
            format!("{error:?}"),
            format!("{error:#?}"),
            format!("{client:?}"),
        ] {
            for at in 0..=SECRET.len() - 8 {
                assert!(!text.contains(&SECRET[at..at + 8]), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn a_transport_failure_has_no_answer_and_holds_no_secret() {
    let transport = BoxCloneSyncService::new(service_fn(|_: Request<Bytes>| async {
        Err(aplomb_http_client::BoxError::from(format!("proxy saw Bearer {SECRET}")))
    }));
    let token = ApiToken::new(SECRET).expect("a token");
    let client = HcloudClient::new(transport, ENDPOINT, token).with_lane("failover");
    let error = client.assign(1, 2).await.expect_err("lost");
    assert_eq!((error.code.as_str(), error.status), (NO_ANSWER, None));
    assert_eq!(error.to_string(), "no_answer: proxy saw Bearer [redacted]");
}
