//! Each call over a transport with a prepared response.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Response};
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use super::*;

const SECRET: &str = "wDv6wBqFxA-ZbQ2hOXASztX0123456789abcdefg";
const KEY: &str = "k3yPlainTextOfForty3CharactersLongAbCdEfGhI";

type Asked = Arc<Mutex<Vec<Request<Bytes>>>>;

fn clone_request(request: &Request<Bytes>) -> Request<Bytes> {
    let mut copy = Request::new(request.body().clone());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

/// A client whose every request gets `status` and `body`, and the requests it has sent.
fn client_with_answer(status: u16, body: &str) -> (CoderClient, Asked) {
    let asked = Asked::default();
    let (log, body) = (asked.clone(), Bytes::from(body.to_owned()));
    let transport = BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        log.lock().expect("no panic").push(clone_request(&request));
        let answer = Response::builder()
            .status(status)
            .header("x-ratelimit-remaining", "17")
            .header("location", "http://192.0.2.1/")
            .header("x-echo", SECRET)
            .body(body.clone());
        async move { answer.map_err(Into::into) }
    }));
    (client(transport), asked)
}

fn client(transport: Transport) -> CoderClient {
    let base = ServerUrl::parse("http://coder.example.com/sub/").expect("an address");
    let token = ApiToken::new(SECRET).expect("a token");
    CoderClient::new(transport, base, token)
}

fn tags() -> BTreeMap<String, String> {
    [("scope".to_owned(), "organization".to_owned())].into()
}

#[tokio::test]
async fn a_key_is_requested_by_name_and_tags_and_the_headers_are_kept() {
    let (client, asked) = client_with_answer(201, &format!(r#"{{"key": "{KEY}"}}"#));
    let ask = CoderCall::create_key("o-1", "team", &tags()).expect("names");
    let made = client.send(&ask, true).await.expect("made");
    assert_eq!((made.status, made.body.reveal()), (201, KEY));
    assert_eq!(made.headers["x-ratelimit-remaining"], "17");
    let asked = asked.lock().expect("no panic");
    assert_eq!(asked.len(), 1, "one call, one request");
    assert_eq!(asked[0].method(), Method::POST);
    let uri = "http://coder.example.com/sub/api/v2/organizations/o-1/provisionerkeys";
    assert_eq!(asked[0].uri().to_string(), uri);
    assert_eq!(asked[0].headers()["coder-session-token"], SECRET);
    assert_eq!(asked[0].headers()["x-coder-bypass-ratelimit"], "true");
    assert_eq!(asked[0].body(), r#"{"name":"team","tags":{"scope":"organization"}}"#);
}

#[tokio::test]
async fn without_the_option_there_is_no_bypass_header() {
    let (client, asked) = client_with_answer(200, r#"{"id": "u-1", "username": "x"}"#);
    let user = client.send(&CoderCall::user(), false).await.expect("a user");
    assert_eq!(user.body.id, "u-1");
    let asked = asked.lock().expect("no panic");
    assert!(!asked[0].headers().contains_key("x-coder-bypass-ratelimit"));
}

#[tokio::test]
async fn no_token_is_sent_where_none_is_requested() {
    let (client, asked) = client_with_answer(200, r#"{"id": "u-1", "version": "v2.36.1", "features": {}}"#);
    client.send(&CoderCall::build_info(), true).await.expect("told");
    client.send(&CoderCall::entitlements(), true).await.expect("told");
    client.send(&CoderCall::user(), true).await.expect("told");
    let asked = asked.lock().expect("no panic");
    let tokens = asked.iter().map(|it| it.headers().values().any(|it| it == SECRET));
    assert_eq!(tokens.collect::<Vec<_>>(), [false, false, true]);
    let none = CoderEndpoint::ALL.iter().filter(|it| !it.needs_token());
    assert!(none.clone().all(|it| it.is_read() && !it.may_bypass()));
    assert_eq!(none.count(), 2);
}

#[tokio::test]
async fn lists_are_read_with_what_is_missing_and_what_is_new() {
    let (client, _) = client_with_answer(200, "null");
    let ask = CoderCall::keys("o-1").expect("a name");
    let none = client.send(&ask, false).await.expect("a list");
    assert_eq!(none.body, []);
    let one = r#"[{"key": {"id": "k", "created_at": "2026-08-17T10:00:00.5Z", "name": "team",
        "tags": null, "organization": "o-1"}, "daemons": [{"id": "d", "status": null}]}]"#;
    let (client, asked) = client_with_answer(200, one);
    let ask = CoderCall::daemons("o-1").expect("a name");
    let daemons = client.send(&ask, false).await.expect("a list").body;
    assert_eq!(daemons[0].daemons.as_ref().map(Vec::len), Some(1));
    let path = asked.lock().expect("no panic")[0].uri().path().to_owned();
    assert!(path.ends_with("/organizations/o-1/provisionerkeys/daemons"));
}

#[tokio::test]
async fn what_the_license_does_not_name_it_does_not_allow() {
    let body = r#"{"features": {"external_provisioner_daemons":
        {"entitlement": "grace_period", "enabled": true, "limit": null}}, "has_license": true}"#;
    let (client, _) = client_with_answer(200, body);
    let read = client.send(&CoderCall::entitlements(), true).await.expect("read");
    assert_eq!(read.body.provisioners.entitlement, Entitlement::GracePeriod);
    assert_eq!(read.body.proxies, Feature::default());
}

#[tokio::test]
async fn a_proxy_is_patched_as_a_whole_and_keeps_its_token_if_it_may() {
    let body = r#"{"proxy": {"id": "p-1", "name": "eu", "icon_url": "/i.svg"}, "proxy_token": ""}"#;
    let (client, asked) = client_with_answer(200, body);
    let looks = ProxyDisplay {
        name: "eu".to_owned(),
        display_name: "Europe".to_owned(),
        icon: "/i.svg".to_owned(),
    };
    let ask = CoderCall::patch_proxy("p-1", &looks, false).expect("an id");
    let patched = client.send(&ask, false).await.expect("patched").body;
    assert_eq!(patched.token, None);
    let asked = asked.lock().expect("no panic");
    assert_eq!(asked[0].method(), Method::PATCH);
    let body = r#"{"id":"p-1","name":"eu","display_name":"Europe","icon":"/i.svg","regenerate_token":false}"#;
    assert_eq!(asked[0].body(), body);
}

#[tokio::test]
async fn names_are_escaped_and_cannot_climb() {
    let (client, asked) = client_with_answer(204, "");
    let ask = CoderCall::delete_key("o/../1", "a b?\u{e4}#%2e").expect("names");
    client.send(&ask, false).await.expect("gone");
    let uri = asked.lock().expect("no panic")[0].uri().to_string();
    let path = "/api/v2/organizations/o%2F..%2F1/provisionerkeys/a%20b%3F%C3%A4%23%252e";
    assert!(uri.ends_with(path), "{uri}");
    for name in ["", ".", ".."] {
        let error = CoderCall::organization(name).expect_err("no name");
        assert_eq!((error.class, error.status), (CallErrorClass::Invalid, None));
        assert!(CoderCall::delete_key("o-1", name).is_err());
        assert!(CoderCall::delete_proxy(name).is_err());
    }
}

#[tokio::test]
async fn each_status_is_of_its_class() {
    for (status, class) in [
        (302, CallErrorClass::Server),
        (308, CallErrorClass::Server),
        (400, CallErrorClass::Invalid),
        (401, CallErrorClass::Token),
        (403, CallErrorClass::Forbidden),
        (404, CallErrorClass::Missing),
        (405, CallErrorClass::Invalid),
        (408, CallErrorClass::Server),
        (409, CallErrorClass::Exists),
        (412, CallErrorClass::Invalid),
        (422, CallErrorClass::Invalid),
        (428, CallErrorClass::Invalid),
        (429, CallErrorClass::Limited),
        (500, CallErrorClass::Server),
        (503, CallErrorClass::Server),
    ] {
        for body in ["<html>oops</html>", "", r#"{"message": "so"}"#, "[]", "7"] {
            let (client, asked) = client_with_answer(status, body);
            let ask = CoderCall::delete_proxy("p-1").expect("an id");
            let error = client.send(&ask, false).await.expect_err("refused");
            assert_eq!((error.class, error.status), (class, Some(status)), "{body}");
            assert_eq!(error.headers["x-ratelimit-remaining"], "17");
            assert!(!error.message.is_empty());
            assert_eq!(asked.lock().expect("no panic").len(), 1, "not followed");
        }
    }
}

#[tokio::test]
async fn the_bypass_is_refused_only_if_it_was_requested() {
    for status in [412, 428] {
        let (client, _) = client_with_answer(status, "Precondition Required\n");
        let ask = CoderCall::keys("o-1").expect("a name");
        let error = client.send(&ask, true).await.expect_err("refused");
        assert_eq!(error.class, CallErrorClass::BypassRefused);
        let error = client.send(&ask, false).await.expect_err("refused");
        assert_eq!(error.class, CallErrorClass::Invalid);
    }
}

#[tokio::test]
async fn the_reason_is_reported_in_one_line() {
    let body = r#"{"message": "Bad key.", "detail": "too\nlong",
        "validations": [{"field": "name", "detail": "at most 64"}]}"#;
    let (client, _) = client_with_answer(400, body);
    let error = client.send(&CoderCall::user(), false).await.expect_err("refused");
    assert_eq!(error.to_string(), "read user: Bad key. / too long / name: at most 64");
}

#[tokio::test]
async fn success_that_cannot_be_read_may_have_happened() {
    let odd = [
        "<html></html>".to_owned(),
        String::new(),
        r#"{"key": ""}"#.to_owned(),
        format!(r#""{KEY}""#),
        format!(r#"{{"key": ["{KEY}"]}}"#),
        format!(r#"{{"key": "{KEY}""#),
    ];
    for body in odd {
        let (client, _) = client_with_answer(201, &body);
        let ask = CoderCall::create_key("o-1", "team", &tags()).expect("names");
        let error = client.send(&ask, false).await.expect_err("odd");
        assert_eq!((error.class, error.status), (CallErrorClass::NoAnswer, Some(201)));
        assert_eq!(
            error.to_string(),
            "create key: responded 201 with a body that cannot be decoded"
        );
    }
}

/// Asserts that no part of a secret is in `text`.
fn assert_no_secret(text: &str) {
    for secret in [SECRET, KEY] {
        for at in 0..=secret.len() - 20 {
            assert!(!text.contains(&secret[at..at + 20]), "{text}");
        }
    }
}

#[tokio::test]
async fn a_server_that_repeats_every_secret_is_not_repeated() {
    let text = format!("token {SECRET} key {KEY}");
    let bodies = [
        text.clone(),
        format!(r#"{{"message": "{text}", "detail": "{text}"}}"#),
        format!(r#"{{"message": "", "validations": [{{"field": "{KEY}", "detail": "{SECRET}"}}]}}"#),
        format!(r#"["{text}"]"#),
        format!(r#"{{"message": "{}{KEY}"}}"#, "x ".repeat(140)),
    ];
    for status in [200, 201, 301, 400, 401, 403, 404, 409, 412, 422, 428, 429, 500, 502] {
        for body in &bodies {
            let (client, _) = client_with_answer(status, body);
            let ask = CoderCall::create_key("o-1", "team", &tags()).expect("names");
            let error = client.send(&ask, true).await.expect_err("refused");
            assert!(error.message.chars().count() <= 300);
            for text in [
                format!("{error}"),
                format!("{error:?}"),
                format!("{error:#?}"),
                format!("{client:?} {ask:?}"),
            ] {
                assert_no_secret(&text);
            }
        }
    }
}

#[tokio::test]
async fn what_was_made_cannot_be_printed() {
    let body = format!(r#"{{"proxy": {{"id": "p-1", "name": "eu"}}, "proxy_token": "p-1:{KEY}", "key": "{KEY}"}}"#);
    let (client, _) = client_with_answer(201, &body);
    let ask = CoderCall::create_key("o-1", "team", &tags()).expect("names");
    let key = client.send(&ask, false).await.expect("made");
    let ask = CoderCall::create_proxy(&ProxyDisplay::default());
    let proxy = client.send(&ask, false).await.expect("made");
    assert_no_secret(&format!("{:?} {:?}", key.body, proxy.body));
    let token = proxy.body.token.expect("a token");
    assert_eq!(token.reveal(), format!("p-1:{KEY}"));
}

#[tokio::test]
async fn a_transport_failure_has_no_answer_and_holds_no_secret() {
    let transport = BoxCloneSyncService::new(service_fn(|_: Request<Bytes>| async {
        Err(aplomb_http_client::BoxError::from(format!("saw {SECRET}")))
    }));
    let error = client(transport).send(&CoderCall::user(), false).await;
    let error = error.expect_err("lost");
    assert_eq!((error.class, error.status), (CallErrorClass::NoAnswer, None));
    assert_eq!(error.to_string(), "read user: saw [redacted]");
}
