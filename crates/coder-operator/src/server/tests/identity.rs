//! Whose budget a token spends from.

use super::*;
use crate::client::CallErrorClass;

const OTHER: &str = "aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb";

fn accounts(stage: &Stage) -> Vec<String> {
    let all = stage.limiters.all();
    let mut names: Vec<_> = all.iter().map(|shown| shown.name().to_owned()).collect();
    names.sort();
    names
}

async fn call(stage: &Stage, token: &str) -> Result<(), Pushback> {
    let who = object("red");
    let server = stage.server_for_token(token);
    let answer = server.organization(&stage.caller(&who), "default").await;
    answer.map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn two_tokens_of_one_user_share_an_account() {
    let stage = Stage::new();
    for token in [SECRET, OTHER] {
        call(&stage, token).await.expect("found");
    }
    let names = ["coder/coder.example.com/all", "coder/coder.example.com/u-1"];
    assert_eq!(accounts(&stage), names);
    assert_eq!(stage.count_requests(&Method::GET, "/buildinfo"), 1);
    assert_eq!(stage.count_requests(&Method::GET, "/users/me"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_old_server_counts_all_users_together() {
    let stage = Stage::new();
    stage.play(|request| {
        let version = request.uri().path().ends_with("buildinfo");
        version.then(|| Some((200, r#"{"version": "v2.31.7"}"#.to_owned())))
    });
    for token in [SECRET, OTHER] {
        call(&stage, token).await.expect("found");
    }
    assert_eq!(accounts(&stage), ["coder/coder.example.com/all"]);
    assert_eq!(stage.count_requests(&Method::GET, "/users/me"), 0);
}

#[tokio::test(start_paused = true)]
async fn two_spellings_of_an_address_are_one_server() {
    let stage = Stage::new();
    let token = ApiToken::new(SECRET).expect("a token");
    for url in ["https://coder.example.com", "HTTPS://CODER.example.com:443/"] {
        let server = stage.servers.client(url, None, &token).expect("a server");
        let who = object("red");
        let answer = server.organization(&stage.caller(&who), "default").await;
        answer.expect("found");
    }
    assert_eq!(stage.calls(), 3, "version, user, organisation");
    let odd = stage.servers.client("coder.example.com", None, &token);
    let told = odd.expect_err("no address");
    assert_eq!(told, "server URL must start with http:// or https://");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_refused_at_once() {
    let stage = Stage::new();
    stage.play(|request| {
        let user = request.uri().path().ends_with("/me");
        user.then(|| Some((401, r#"{"message": "signed out"}"#.to_owned())))
    });
    assert_eq!(error_class(call(&stage, SECRET).await), Some(CallErrorClass::Token));
    assert_eq!(stage.calls(), 2);
    stage.play(|_| None);
    call(&stage, SECRET).await.expect("found");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_owner_gives_the_token_its_own_limits_for_a_minute() {
    let stage = Stage::new();
    stage.play(|request| {
        let user = request.uri().path().ends_with("/me");
        user.then(|| Some((500, String::new())))
    });
    call(&stage, SECRET).await.expect("found");
    let names = accounts(&stage);
    assert!(names[1].starts_with("coder/coder.example.com/token-"), "{names:?}");
    sleep(Duration::from_secs(59)).await;
    call(&stage, SECRET).await.expect("found");
    assert_eq!(stage.count_requests(&Method::GET, "/users/me"), 1);
    stage.play(|_| None);
    sleep(Duration::from_secs(2)).await;
    let who = object("red");
    let keys = stage.server().keys(&stage.caller(&who), "o-1", MINUTE).await;
    keys.expect("a list");
    assert_eq!(stage.count_requests(&Method::GET, "/users/me"), 2);
    assert!(accounts(&stage).contains(&"coder/coder.example.com/u-1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_identity_is_read_once_an_hour() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    for _ in 0..180 {
        let fresh = MaxAge::Within(Duration::from_secs(1));
        let read = server.entitlements(&stage.caller(&red), fresh).await;
        read.expect("read");
        sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(stage.count_requests(&Method::GET, "/entitlements"), 180);
    assert_eq!(stage.count_requests(&Method::GET, "/users/me"), 3);
    assert_eq!(stage.count_requests(&Method::GET, "/buildinfo"), 3);
}
