//! Get and list.

use super::*;

async fn names(server: &ApiServer, call: Call) -> (Vec<String>, Option<String>, Option<i64>) {
    match server.call(call).await.expect("a list") {
        Outcome::List {
            items,
            continue_token,
            remaining,
            ..
        } => {
            let names = items.iter().map(|item| object::name(item).to_owned()).collect();
            (names, continue_token.filter(|token| !token.is_empty()), remaining)
        }
        other => panic!("expected a list, got {other:?}"),
    }
}

async fn filled() -> ApiServer {
    let server = server();
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut body = widget(name);
        body["metadata"]["labels"] = json!({"color": color});
        body["spec"] = json!({"color": color});
        create(&server, &body).await.expect("valid");
    }
    server
}

#[tokio::test(start_paused = true)]
async fn pages_show_the_first_pages_version() {
    let server = filled().await;
    let mut page = call(&server, Verb::List);
    page.options.limit = Some(2);
    let (first, token, remaining) = names(&server, page.clone()).await;
    assert_eq!((first, remaining), (vec!["a".to_owned(), "b".to_owned()], Some(1)));
    delete(&server, "c").await.expect("there");
    page.options.continue_token = token;
    let (second, token, _) = names(&server, page).await;
    assert_eq!((second, token), (vec!["c".to_owned()], None));
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_brings_a_fresh_one() {
    let server = filled().await;
    let mut page = call(&server, Verb::List);
    page.options.limit = Some(1);
    let (_, token, _) = names(&server, page.clone()).await;
    page.options.continue_token = token;
    merge(&server, "c", &json!({"spec": {"color": "blue"}}))
        .await
        .expect("valid");
    server.store().compact(server.store().revision());
    let error = server.call(page.clone()).await.expect_err("expired");
    assert_eq!((error.code, error.reason), (410, "Expired"));
    page.options.continue_token = error.continue_token;
    assert_eq!(names(&server, page).await.0, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_select() {
    let server = filled().await;
    let mut by_label = call(&server, Verb::List);
    by_label.options.label_selector = Some("color=red".into());
    assert_eq!(names(&server, by_label).await.0, ["a", "c"]);
    let mut by_field = call(&server, Verb::List);
    by_field.options.field_selector = Some("spec.color!=red,metadata.name=b".into());
    assert_eq!(names(&server, by_field).await.0, ["b"]);
    let mut unknown = call(&server, Verb::List);
    unknown.options.field_selector = Some("spec.size=1".into());
    let error = server.call(unknown).await.expect_err("not selectable");
    assert_eq!(error.message, "field label not supported: spec.size");
}

#[tokio::test(start_paused = true)]
async fn the_past_can_be_listed_exactly() {
    let server = filled().await;
    let then = server.store().revision();
    delete(&server, "a").await.expect("there");
    let mut exact = call(&server, Verb::List);
    exact.options.resource_version = Some(then.to_string());
    exact.options.resource_version_match = Some("Exact".into());
    assert_eq!(names(&server, exact).await.0, ["a", "b", "c"]);
    assert_eq!(
        names(&server.stale(then), call(&server, Verb::List)).await.0,
        ["a", "b", "c"]
    );
    assert_eq!(names(&server, call(&server, Verb::List)).await.0, ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn the_future_is_waited_for_and_then_refused() {
    let server = filled().await;
    let mut get = call(&server, Verb::Get).name("a");
    get.options.resource_version = Some("999".into());
    let started = tokio::time::Instant::now();
    let error = server.call(get).await.expect_err("not there yet");
    assert_eq!(started.elapsed().as_secs(), 3);
    let current = server.store().revision();
    assert_eq!(
        error.message,
        format!("Timeout: Too large resource version: 999, current: {current}")
    );
}
