//! The HTTP endpoints for kubelets and people, of a process with a fixed state.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use aplomb::admin::{self, AdminRegistry, DebugState, EngineEntry, EngineInspector, TaskState, WatchHealth};
use aplomb::leadership;
use aplomb::telemetry::{MetricsSource, Telemetry, WorkersSet};
use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::lab::{self, Lab, on_real, seconds, wait_until};
use crate::page;

struct FixedState(Mutex<DebugState>);

impl EngineInspector for FixedState {
    fn state(&self) -> DebugState {
        self.0.lock().unwrap().clone()
    }
}

fn process() -> Arc<FixedState> {
    let watch = WatchHealth {
        name: "ConfigMap in all namespaces".to_owned(),
        required: true,
        synced: true,
        age: Some(12.5),
        ..WatchHealth::default()
    };
    let task = TaskState {
        name: "lease".to_owned(),
        dead: None,
    };
    let state = DebugState {
        watches: vec![watch],
        tasks: vec![task],
        ..DebugState::default()
    };
    Arc::new(FixedState(Mutex::new(state)))
}

fn router(process: &Arc<FixedState>) -> Router {
    let own: Counter = Counter::default();
    own.inc();
    let telemetry = Telemetry::default();
    telemetry.emit(WorkersSet {
        controller: "demo",
        concurrency: 8,
    });
    let pages = MetricsSource::new(move |registry| {
        let own = own.clone();
        registry.register("demo_pages", "A metric of the program itself", own);
    });
    let mut shown = EngineEntry::new("demo", process.clone(), telemetry);
    shown.metrics = vec![pages];
    let board = AdminRegistry::default();
    // Registered for the rest of the test.
    std::mem::forget(board.register(shown));
    board.router()
}

async fn get(router: &Router, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn engines_of_one_process_share_one_state() {
    let (board, telemetry) = (AdminRegistry::default(), Telemetry::default());
    let (one, other) = (process(), process());
    other.0.lock().unwrap().watches[0].name = "Secret in default".to_owned();
    let mut changed = board.subscribe();
    let _one = board.register(EngineEntry::new("one", one, telemetry.clone()));
    let showing = board.register(EngineEntry::new("other", other.clone(), telemetry));
    assert!(changed.has_changed().unwrap(), "followers see the change");
    let names = |board: &AdminRegistry| -> Vec<String> {
        let state = board.state();
        state.watches.into_iter().map(|watch| watch.name).collect()
    };
    assert_eq!(names(&board), ["ConfigMap in all namespaces", "Secret in default"]);
    let metrics = board.metrics();
    let families = metrics.matches("# TYPE aplomb_cache_objects ").count();
    assert_eq!(families, 1, "shared counters appear once: {metrics}");
    other.0.lock().unwrap().tasks[0].dead = Some("panicked".to_owned());
    let (status, _) = get(&board.router(), "/livez").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    changed.mark_unchanged();
    drop(showing);
    assert!(changed.has_changed().unwrap());
    assert_eq!(names(&board), ["ConfigMap in all namespaces"]);
    let (status, _) = get(&board.router(), "/livez").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_dead_task_is_a_failed_health_check() {
    let process = process();
    let router = router(&process);
    assert_eq!(get(&router, "/livez").await, (StatusCode::OK, "ok".into()));
    process.0.lock().unwrap().tasks[0].dead = Some("panicked".to_owned());
    let (status, text) = get(&router, "/livez").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        text,
        "[-]task/lease failed: the task ended: panicked\nlivez check failed\n"
    );
}

#[tokio::test]
async fn readiness_is_withdrawn_with_its_reason_when_a_cache_is_not_fresh() {
    let process = process();
    let router = router(&process);
    let (status, text) = get(&router, "/readyz?verbose").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.starts_with("[+]watch/ConfigMap in all namespaces ok\n"), "{text}");
    process.0.lock().unwrap().watches[0].reconnecting = Some(31.0);
    let (status, text) = get(&router, "/readyz").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("[-]watch/ConfigMap in all namespaces failed: down for 31 s\n"));
    assert_eq!(
        get(&router, "/livez").await.0,
        StatusCode::OK,
        "livez passes because a restart would not help"
    );
}

#[tokio::test]
async fn metrics_are_open_metrics_and_include_those_of_the_program() {
    let (status, text) = get(&router(&process()), "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("demo_pages_total 1\n"), "{text}");
    let theirs = r#"controller_runtime_max_concurrent_reconciles{controller="demo"} 8"#;
    assert!(text.contains(theirs), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_state_is_json_with_ages() {
    let (status, text) = get(&router(&process()), "/debug/state.json").await;
    assert_eq!(status, StatusCode::OK);
    let state: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(state["watches"][0]["age"], 12.5);
    assert_eq!(state["tasks"][0]["name"], "lease");
}

/// Sends a request over a socket, as a kubelet does.
async fn http_get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn it_is_served_on_a_socket_until_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(admin::serve(listener, router(&process()), shutdown.clone()));
    let answer = http_get(address, "/livez").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"));
    shutdown.cancel();
    serving.await.unwrap().unwrap();
}

/// The example operator with a lease, and its own endpoints.
async fn operator_reports_state(lab: Lab) {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let pages = lab::page(&lab).await;
    let operator = page::operator(lab.client("operator").0).configure(|settings| {
        settings.admin = Some(address);
        settings.lease = Some(leadership::LeaseConfig::new("default", "pages", "one"));
    });
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(operator.run(shutdown.clone().cancelled_owned()));
    wait_until(seconds(20), "the page is ready", || async {
        let status = pages.get("front").await.unwrap().status;
        status.is_some_and(|status| !status.conditions.is_empty())
    })
    .await;
    for path in ["/livez", "/readyz"] {
        let answer = http_get(address, path).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{path}: {answer}");
    }
    let metrics = http_get(address, "/metrics").await;
    for metric in [
        r#"controller_runtime_reconcile_total{controller="page",result="success"}"#,
        r#"leader_election_master_status{name="pages"} 1"#,
        "workqueue_adds_total",
    ] {
        assert!(metrics.contains(metric), "{metric} in {metrics}");
    }
    let journal = http_get(address, "/debug/journal/Page/default/front").await;
    for what in ["triggered", "started", "wrote", "ended"] {
        assert!(journal.contains(&format!(r#""what":"{what}""#)), "{journal}");
    }
    let state = http_get(address, "/debug/state.json").await;
    let (_, state) = state.split_once("\r\n\r\n").unwrap();
    let state: Value = serde_json::from_str(state).unwrap();
    assert_eq!(state["leases"][0]["leading"], true, "{state}");
    assert_eq!(state["controllers"][0]["name"], "page");
    assert!(state["watches"][0]["age"].is_number(), "{state}");
    assert_eq!(state["budgets"][0]["target"], "apiserver");
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[test]
#[ignore = "needs the real control plane"]
fn real_operator_reports_state() {
    on_real(operator_reports_state);
}
