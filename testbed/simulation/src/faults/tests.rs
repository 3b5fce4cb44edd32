//! Every fault, in front of a server small enough to see what reached it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body as RequestBody;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use super::answer::{Body, json_response};
use super::*;
use crate::trace::Trace;

const OBJECT: &str = "/api/v1/namespaces/a/configmaps/b";
const WATCH: &str = "/api/v1/namespaces/a/configmaps?watch=true&resourceVersion=5";

/// Versions 1 to 9 exist; writes are counted; a watch sends versions 6 to 9, one each second.
#[derive(Clone, Default)]
struct Server {
    writes: Arc<AtomicU64>,
}

impl Server {
    async fn answer(self, request: Request<RequestBody>) -> Result<Response<Body>, BoxError> {
        let uri = request.uri().to_string();
        if request.method() != "GET" {
            let write = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
            return Ok(json_response(200, &json!({ "write": write, "uri": uri })));
        }
        if uri.contains("watch=true") {
            let lines = stream::iter(6..=9).then(|version| async move {
                sleep(Duration::from_secs(1)).await;
                Ok(Bytes::from(event(version)))
            });
            return Ok(Response::new(super::stream::body(lines.boxed())));
        }
        let object = json!({ "metadata": { "name": "b", "uri": uri } });
        if Target::of(&request).name.is_some() {
            return Ok(json_response(200, &object));
        }
        let items = json!([object]);
        Ok(json_response(
            200,
            &json!({ "kind": "ConfigMapList", "apiVersion": "v1", "items": items }),
        ))
    }
}

fn event(version: u64) -> String {
    let object = json!({ "metadata": { "resourceVersion": version.to_string() } });
    format!("{}\n", json!({ "type": "MODIFIED", "object": object }))
}

/// A client with these faults, the server behind it, and the trace.
struct Setup {
    faults: Faults,
    server: Server,
    trace: Trace,
}

impl Setup {
    fn new() -> Self {
        let trace = Trace::new();
        Self {
            faults: Faults::new("client", &trace),
            server: Server::default(),
            trace,
        }
    }

    fn with(fault: Fault) -> Self {
        let setup = Self::new();
        setup.faults.add(Rule::new(fault));
        setup
    }

    async fn send(&self, method: &str, uri: &str) -> Result<Response<Body>, BoxError> {
        let server = self.server.clone();
        let service = service_fn(move |request| server.clone().answer(request));
        let request = Request::builder().method(method).uri(uri).body(RequestBody::empty())?;
        self.faults.layer(service).ready().await?.call(request).await
    }

    /// Code and body of an answer.
    async fn text(&self, method: &str, uri: &str) -> (u16, String) {
        let response = self.send(method, uri).await.expect("an answer");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        (code, String::from_utf8(bytes.to_vec()).expect("text"))
    }

    fn writes(&self) -> u64 {
        self.server.writes.load(Ordering::Relaxed)
    }
}

/// Everything a watch sends, with its arrival in seconds; `None` is an error, the last entry the end.
async fn arrivals(response: Response<Body>) -> Vec<(u64, Option<String>)> {
    let begin = Instant::now();
    let mut body = response.into_body().into_data_stream();
    let mut seen = Vec::new();
    while let Ok(item) = tokio::time::timeout(Duration::from_secs(100), body.next()).await {
        let after = begin.elapsed().as_secs();
        match item {
            Some(Ok(bytes)) => {
                seen.push((after, Some(String::from_utf8_lossy(&bytes).into_owned())));
            }
            Some(Err(_)) => seen.push((after, None)),
            None => {
                seen.push((after, Some("end".to_owned())));
                break;
            }
        }
    }
    seen
}

fn at(seconds: u64, version: u64) -> (u64, Option<String>) {
    (seconds, Some(event(version)))
}

fn end(seconds: u64) -> (u64, Option<String>) {
    (seconds, Some("end".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn without_faults_everything_passes() {
    let setup = Setup::new();
    assert_eq!(setup.text("PUT", OBJECT).await.0, 200);
    let watch = setup.send("GET", WATCH).await.expect("a watch");
    assert_eq!(arrivals(watch).await, [at(1, 6), at(2, 7), at(3, 8), at(4, 9), end(4)]);
    assert_eq!(setup.trace.lines(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn refusals_are_in_the_servers_words_and_reach_no_server() {
    let cases = [
        (Fault::Conflict, 409, "\"reason\":\"Conflict\""),
        (
            Fault::TooManyRequests { retry_after: 2 },
            429,
            "\"retryAfterSeconds\":2",
        ),
        (Fault::InternalError, 500, "etcdserver: leader changed"),
        (Fault::ServiceUnavailable, 503, "ServiceUnavailable"),
        (Fault::Timeout { committed: false }, 504, "\"reason\":\"Timeout\""),
        (Fault::Unauthorized, 401, "Unauthorized"),
        (Fault::Gone, 410, "\"reason\":\"Expired\""),
    ];
    for (fault, expected, words) in cases {
        let setup = Setup::with(fault.clone());
        let (code, body) = setup.text("PUT", OBJECT).await;
        assert_eq!((code, setup.writes()), (expected, 0), "{fault}");
        assert!(body.contains(words), "{fault}: {body}");
        let line = format!("0.000000 client fault {fault} update configmaps/a/b");
        assert_eq!(setup.trace.lines(), [line]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_500_has_no_reason() {
    let (_, body) = Setup::with(Fault::InternalError).text("PUT", OBJECT).await;
    let status: Value = serde_json::from_str(&body).expect("a Status");
    assert_eq!(status.get("reason"), None);
}

#[tokio::test(start_paused = true)]
async fn overload_is_text_with_a_retry_after_header() {
    let setup = Setup::with(Fault::TooManyRequestsText { retry_after: 7 });
    let response = setup.send("PUT", OBJECT).await.expect("an answer");
    assert_eq!(response.headers()["retry-after"], "7");
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(
        setup.text("PUT", OBJECT).await.1,
        "Too many requests, please try again later.\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_may_hide_a_commit() {
    for committed in [false, true] {
        let setup = Setup::with(Fault::Timeout { committed });
        assert_eq!(setup.text("PUT", OBJECT).await.0, 504);
        assert_eq!(setup.writes(), u64::from(committed));
        let setup = Setup::with(Fault::Reset { committed });
        let error = setup.send("PUT", OBJECT).await.expect_err("no answer");
        assert_eq!(error.to_string(), "connection reset by peer");
        assert_eq!(setup.writes(), u64::from(committed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_body_keeps_its_code() {
    let setup = Setup::with(Fault::Truncated { keep: 5 });
    assert_eq!(setup.text("GET", OBJECT).await, (200, "{\"met".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn latency_adds_to_other_faults() {
    let setup = Setup::with(Fault::Latency(Latency::Fixed(Duration::from_secs(3))));
    setup.faults.add(Rule::new(Fault::InternalError));
    let begin = Instant::now();
    assert_eq!(setup.text("GET", OBJECT).await.0, 500);
    assert_eq!(begin.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_rival_writes_the_object_first() {
    let setup = Setup::new();
    setup.faults.add(Rule::new(Fault::Rival).first(2));
    let (_, body) = setup.text("PUT", &format!("{OBJECT}/status")).await;
    assert!(body.contains("\"write\":2"), "the rival's write came before: {body}");
    setup.text("PUT", OBJECT).await;
    setup.text("PUT", OBJECT).await;
    assert_eq!(setup.writes(), 5);
    assert!(setup.trace.lines()[1].contains("fault rival-wrote(200) update configmaps/a/b/status"));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_refused_once() {
    let setup = Setup::new();
    setup.faults.add(Rule::new(Fault::Unauthorized).once());
    assert_eq!(setup.text("GET", OBJECT).await.0, 401);
    assert_eq!(setup.text("GET", OBJECT).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn faults_stop_when_cleared() {
    let setup = Setup::with(Fault::InternalError);
    setup.faults.sample(Sampler::new(1).with(1.0, Fault::Gone));
    assert_eq!(setup.text("GET", OBJECT).await.0, 500);
    setup.faults.clear();
    assert_eq!(setup.text("GET", OBJECT).await.0, 200);
    setup.faults.sample(Sampler::new(1).with(1.0, Fault::Gone));
    assert_eq!(setup.text("GET", OBJECT).await.0, 410);
}

async fn watched(fault: WatchFault) -> Vec<(u64, Option<String>)> {
    let setup = Setup::with(Fault::Watch(fault));
    arrivals(setup.send("GET", WATCH).await.expect("a watch")).await
}

#[tokio::test(start_paused = true)]
async fn watches_are_held_lagged_dropped_and_swallowed() {
    let seconds = Duration::from_secs;
    let lagged = watched(WatchFault::Lagged(seconds(10))).await;
    assert_eq!(lagged, [at(11, 6), at(12, 7), at(13, 8), at(14, 9), end(14)]);
    let held = watched(WatchFault::Held(seconds(10))).await;
    assert_eq!(
        held.first().map(|(after, _)| *after),
        Some(11),
        "nothing is read while it is held"
    );
    assert_eq!(held.len(), 5);
    let dropped = watched(WatchFault::Dropped(Duration::from_millis(2500))).await;
    assert_eq!(dropped, [at(1, 6), at(2, 7), end(2)]);
    let swallowed = watched(WatchFault::BlackHoled(Duration::from_millis(2500))).await;
    assert_eq!(swallowed, [at(1, 6), at(2, 7)], "it never ends");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_cut_in_the_middle_of_a_line() {
    let seen = watched(WatchFault::CutMidLine(1)).await;
    let half = event(7)[..event(7).len() / 2].to_owned();
    assert_eq!(seen, [at(1, 6), (2, Some(half)), end(2)]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_is_an_error_event_in_a_200() {
    let setup = Setup::with(Fault::Watch(WatchFault::Expired));
    let (code, body) = setup.text("GET", WATCH).await;
    let event: Value = serde_json::from_str(&body).expect("one event");
    assert_eq!((code, &event["type"]), (200, &json!("ERROR")));
    assert_eq!(
        (&event["object"]["code"], &event["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_cuts_watches_then_refuses_then_initializes() {
    let setup = Setup::new();
    let watch = setup.send("GET", WATCH).await.expect("a watch");
    let begins = Instant::now() + Duration::from_millis(1500);
    setup
        .faults
        .outages()
        .restart_at(begins, Duration::from_secs(2), Duration::from_secs(2));
    assert_eq!(arrivals(watch).await, [at(1, 6), (1, None), end(1)]);
    let error = setup.send("PUT", OBJECT).await.expect_err("nobody listens");
    assert_eq!(error.to_string(), "connection refused");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(
        setup.text("PUT", OBJECT).await.0,
        200,
        "writes do not need the watch cache"
    );
    let (code, body) = setup.text("GET", WATCH).await;
    assert!(
        code == 429 && body.contains("storage is (re)initializing"),
        "{code} {body}"
    );
    sleep(Duration::from_secs(2)).await;
    let watch = setup.send("GET", WATCH).await.expect("a watch");
    assert_eq!(arrivals(watch).await.len(), 5);
}

fn stale(revision: u64, until: Option<Duration>, reads: StaleReads) -> Fault {
    Fault::Stale(Stale { revision, until, reads })
}

#[tokio::test(start_paused = true)]
async fn a_stale_server_reads_at_an_exact_older_version() {
    let setup = Setup::with(stale(5, None, StaleReads::All));
    let (code, object) = setup.text("GET", OBJECT).await;
    let expected = "/api/v1/namespaces/a/configmaps\
        ?fieldSelector=metadata.name%3Db&resourceVersion=5&resourceVersionMatch=Exact";
    let object: Value = serde_json::from_str(&object).expect("an object");
    assert_eq!((code, &object["metadata"]["uri"]), (200, &json!(expected)));
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    let uri = "/api/v1/configmaps?labelSelector=a&resourceVersion=0";
    assert!(
        setup
            .text("GET", uri)
            .await
            .1
            .contains("labelSelector=a&resourceVersion=5&")
    );
    let (code, body) = setup.text("GET", "/api/v1/configmaps?resourceVersion=6").await;
    assert!(code == 504 && body.contains("ResourceVersionTooLarge"), "{code} {body}");
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_leaves_consistent_reads_alone() {
    let setup = Setup::with(stale(5, None, StaleReads::CacheOnly));
    assert!(!setup.text("GET", OBJECT).await.1.contains("Exact"));
    assert!(
        setup
            .text("GET", &format!("{OBJECT}?resourceVersion=0"))
            .await
            .1
            .contains("Exact")
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_watch_stands_still_until_it_catches_up() {
    let setup = Setup::with(stale(7, Some(Duration::from_secs(30)), StaleReads::All));
    let watch = setup.send("GET", WATCH).await.expect("a watch");
    let seen = arrivals(watch).await;
    assert_eq!(seen[..3], [at(1, 6), at(2, 7), at(30, 8)]);
    let never = Setup::with(stale(7, None, StaleReads::All));
    let watch = never.send("GET", WATCH).await.expect("a watch");
    assert_eq!(arrivals(watch).await, [at(1, 6), at(2, 7)]);
}

#[tokio::test(start_paused = true)]
async fn a_stale_watch_without_a_version_begins_with_the_old_state() {
    let setup = Setup::with(stale(5, None, StaleReads::All));
    let uri = "/api/v1/namespaces/a/configmaps?watch=true&sendInitialEvents=true";
    let mut body = setup
        .send("GET", uri)
        .await
        .expect("a watch")
        .into_body()
        .into_data_stream();
    let mut next = || {
        let bytes = body
            .next()
            .now_or_never()
            .flatten()
            .expect("an event")
            .expect("no error");
        serde_json::from_slice::<Value>(&bytes).expect("JSON")
    };
    assert_eq!(next()["type"], "ADDED");
    let bookmark = next();
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], "5");
}
