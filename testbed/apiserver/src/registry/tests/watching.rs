//! Watches.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;

use super::*;

async fn watch(server: &ApiServer, set: impl FnOnce(&mut Call)) -> BoxStream<'static, WatchEvent> {
    let mut watch = call(server, Verb::Watch);
    set(&mut watch);
    match server.call(watch).await.expect("a watch") {
        Outcome::Watch(stream) => stream,
        other => panic!("expected a watch, got {other:?}"),
    }
}

/// What arrives without waiting.
async fn ready(stream: &mut BoxStream<'static, WatchEvent>) -> Vec<String> {
    let mut lines = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, stream.next()).await {
        lines.push(line(&event));
    }
    lines
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_nowhere_begins_with_what_is_there() {
    let server = server();
    create(&server, &widget("a")).await.expect("valid");
    let mut events = watch(&server, |_| {}).await;
    create(&server, &widget("b")).await.expect("valid");
    merge(&server, "a", &json!({"spec": {"color": "red"}}))
        .await
        .expect("valid");
    delete(&server, "b").await.expect("there");
    let at = server.store().revision();
    let expected = [
        format!("ADDED a {}", at - 3),
        format!("ADDED b {}", at - 2),
        format!("MODIFIED a {}", at - 1),
        format!("DELETED b {at}"),
    ];
    assert_eq!(ready(&mut events).await, expected);
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_entering_and_leaving() {
    let server = server();
    let mut events = watch(&server, |watch| {
        watch.options.label_selector = Some("on=yes".into());
    })
    .await;
    create(&server, &widget("a")).await.expect("valid");
    merge(&server, "a", &json!({"metadata": {"labels": {"on": "yes"}}}))
        .await
        .expect("valid");
    merge(&server, "a", &json!({"metadata": {"labels": {"on": "no"}}}))
        .await
        .expect("valid");
    let at = server.store().revision();
    assert_eq!(
        ready(&mut events).await,
        [format!("ADDED a {}", at - 1), format!("DELETED a {at}")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_before_the_window_is_an_error_event() {
    let server = server();
    create(&server, &widget("a")).await.expect("valid");
    server.store().compact(server.store().revision());
    let at = server.store().revision();
    let mut events = watch(&server, |watch| watch.options.resource_version = Some("1".into())).await;
    assert_eq!(
        ready(&mut events).await,
        [format!("ERROR 410 too old resource version: 1 ({at})")]
    );
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout() {
    let server = server();
    let started = tokio::time::Instant::now();
    let events = watch(&server, |watch| watch.options.timeout_seconds = Some(10)).await;
    assert_eq!(events.count().await, 0);
    assert_eq!(started.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_when_other_writes_moved_the_version() {
    let server = server();
    let at = server.store().revision();
    let mut events = watch(&server, |watch| {
        watch.options.resource_version = Some(at.to_string());
        watch.options.allow_watch_bookmarks = true;
        watch.options.timeout_seconds = Some(100);
    })
    .await;
    let maps = server.resource("", "v1", "configmaps").expect("served");
    let body = json!({"metadata": {"name": "other"}});
    object(&server, Call::new(Verb::Create, maps).namespace("default").body(&body))
        .await
        .expect("valid");
    let started = tokio::time::Instant::now();
    let first = events.next().await.expect("a bookmark");
    assert_eq!(
        (line(&first), started.elapsed().as_secs()),
        (format!("BOOKMARK {}", at + 1), 60)
    );
    events.next().await.expect("a bookmark before the end");
    assert_eq!(started.elapsed().as_secs(), 98);
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_marked_bookmark() {
    let server = server();
    create(&server, &widget("a")).await.expect("valid");
    let mut events = watch(&server, |watch| {
        watch.options.send_initial_events = Some(true);
        watch.options.resource_version_match = Some("NotOlderThan".into());
        watch.options.allow_watch_bookmarks = true;
    })
    .await;
    events.next().await.expect("the object");
    let Some(WatchEvent::Bookmark(mark)) = events.next().await else {
        panic!("expected a bookmark")
    };
    assert_eq!(mark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_is_silent_until_then() {
    let server = server();
    let at = server.store().revision();
    let mut events = watch(&server, |watch| {
        watch.options.resource_version = Some((at + 1).to_string())
    })
    .await;
    create(&server, &widget("a")).await.expect("valid");
    create(&server, &widget("b")).await.expect("valid");
    assert_eq!(ready(&mut events).await, [format!("ADDED b {}", at + 2)]);
}
