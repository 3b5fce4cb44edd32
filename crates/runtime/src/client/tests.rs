//! The gate in front of servers that are functions, in virtual time.

use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use http_body_util::{BodyExt, Full, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::client::retry::RetryPolicy;
use serde_json::json;
use tower::retry::RetryLayer;
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::client::*;
use crate::client::{REQUEST_DEADLINE, limit_client};
use crate::clock::Clock;
use crate::ratelimit::{LimitConfig, RateLimiter};
use crate::telemetry::Telemetry;

type Full429 = Response<http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, BoxError>>;

fn respond(code: u16, headers: &[(&str, &str)], body: &str) -> Full429 {
    let mut builder = Response::builder().status(code);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let body = Full::new(bytes::Bytes::from(body.to_owned()));
    let body = body.map_err(|never| match never {}).boxed_unsync();
    builder.body(body).expect("a response")
}

/// A server, behind the retries that kube's clients have, behind the gate.
struct Server {
    client: Client,
    budget: RateLimiter,
    telemetry: Telemetry,
    seen: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Server {
    fn new<F>(answer: impl Fn(usize) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Full429> + Send + 'static,
    {
        let seen: Arc<Mutex<Vec<(Duration, String)>>> = Arc::default();
        let log = seen.clone();
        let started = Instant::now();
        let service = service_fn(move |request: Request<Body>| {
            let number = {
                let mut log = log.lock().unwrap();
                log.push((
                    started.elapsed(),
                    format!("{} {}", request.method(), request.uri().path()),
                ));
                log.len()
            };
            let answer = answer(number);
            async move { Ok::<_, BoxError>(answer.await) }
        });
        let stack = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::server_retry()))
            .service(service);
        let telemetry = Telemetry::default();
        let config = LimitConfig::api_server();
        let budget = RateLimiter::new("api", config, telemetry.clone(), Clock::system());
        let gate = ClientLimits::new(budget.clone(), telemetry.clone());
        Self {
            client: limit_client(Client::new(stack.boxed(), "default"), gate),
            budget,
            telemetry,
            seen,
        }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn in_flight(&self) -> usize {
        self.budget.snapshot().lanes.iter().map(|lane| lane.in_flight).sum()
    }

    fn metrics(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        self.telemetry.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }
}

fn map() -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string()
}

#[tokio::test(start_paused = true)]
async fn refusal_keeps_its_class_and_retry_time_through_kube() {
    let server = Server::new(async |_| respond(429, &[("retry-after", "7")], "Too many requests"));
    let begin = Instant::now();
    let error = Error::from(server.maps().get("a").await.unwrap_err());
    assert_eq!(error.class(), ErrorClass::Throttled);
    assert_eq!(error.until(), Some(begin + Duration::from_secs(7)));
    assert_eq!(server.requests(), 1, "no layer below the gate retries");
    let again = Error::from(server.maps().get("b").await.unwrap_err());
    assert_eq!((again.class(), server.requests()), (ErrorClass::Throttled, 2));
    assert!(
        begin.elapsed() >= Duration::from_secs(7),
        "within the deadline, so it waited"
    );
}

#[tokio::test(start_paused = true)]
async fn retry_time_in_the_body_alone_is_respected() {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429,
        "reason": "TooManyRequests", "message": "slow down", "details": {"retryAfterSeconds": 30},
    });
    let server = Server::new(move |_| {
        let status = status.to_string();
        async move { respond(429, &[], &status) }
    });
    let begin = Instant::now();
    let error = Error::from(
        server
            .maps()
            .create(&PostParams::default(), &ConfigMap::default())
            .await
            .unwrap_err(),
    );
    assert_eq!(error.until(), Some(begin + Duration::from_secs(30)));
    assert!(error.to_string().ends_with("slow down"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn missing_response_head_costs_only_its_deadline() {
    let server = Server::new(async |_| pending().await);
    let begin = Instant::now();
    let error = Error::from(server.maps().get("a").await.unwrap_err());
    assert_eq!(
        (error.class(), begin.elapsed()),
        (ErrorClass::Unavailable, REQUEST_DEADLINE)
    );
    assert_eq!(server.in_flight(), 0);
    let text = server.metrics();
    assert!(
        text.contains(r#"aplomb_request_deadline_exceeded_total{target="api",verb="get",resource="configmaps"} 1"#),
        "{text}"
    );
    assert!(
        text.contains(r#"rest_client_requests_total{code="<error>",method="GET",host="api"} 1"#),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up_at_the_deadline() {
    let server = Server::new(async |_| {
        let body = StreamBody::new(futures::stream::pending::<
            Result<http_body::Frame<bytes::Bytes>, BoxError>,
        >());
        Response::new(body.boxed_unsync())
    });
    let begin = Instant::now();
    let error = Error::from(server.maps().get("a").await.unwrap_err());
    assert_eq!(
        (error.class(), begin.elapsed()),
        (ErrorClass::Unavailable, REQUEST_DEADLINE)
    );
    assert!(error.to_string().contains("configmaps"), "{error}");
    assert_eq!(server.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_must_be_over_sooner_gives_its_calls_less_time() {
    let server = Server::new(async |_| pending().await);
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs(3);
    let scope = CallContext {
        deadline,
        lane: api::STATUS,
    };
    let maps = server.maps();
    scope.run(maps.get("a")).await.unwrap_err();
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
    assert!(
        server
            .metrics()
            .contains(r#"aplomb_budget_wait_seconds_count{target="api",lane="status"} 1"#)
    );
}

#[tokio::test(start_paused = true)]
async fn a_page_in_the_background_may_take_as_long_as_its_watch_allows() {
    let server = Server::new(async |_| pending().await);
    let begin = Instant::now();
    let scope = CallContext {
        deadline: begin + REQUEST_DEADLINE * 6,
        lane: api::BACKGROUND,
    };
    let (maps, all) = (server.maps(), ListParams::default());
    scope.run(maps.list(&all)).await.unwrap_err();
    assert_eq!(begin.elapsed(), REQUEST_DEADLINE * 6);
}

#[tokio::test(start_paused = true)]
async fn a_watch_lives_on_and_holds_no_slot() {
    let server = Server::new(async |_| {
        let body = StreamBody::new(futures::stream::pending::<
            Result<http_body::Frame<bytes::Bytes>, BoxError>,
        >());
        Response::new(body.boxed_unsync())
    });
    let request = Request::get("/api/v1/configmaps?watch=true").body(Vec::new()).unwrap();
    let mut stream = std::pin::pin!(server.client.request_stream(request).await.unwrap());
    assert_eq!(server.in_flight(), 0);
    let hour = Duration::from_secs(3600);
    let mut line = String::new();
    let read = futures::AsyncBufReadExt::read_line(&mut stream, &mut line);
    assert!(tokio::time::timeout(hour, read).await.is_err(), "it is still open");
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_not_ready_delays_only_its_readers() {
    let status = json!({
        "kind": "Status", "metadata": {}, "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "storage is (re)initializing", "details": {"retryAfterSeconds": 5},
    });
    let server = Server::new(move |number| {
        let answer = if number == 1 {
            (429, status.to_string())
        } else {
            (200, map())
        };
        async move { respond(answer.0, &[], &answer.1) }
    });
    let begin = Instant::now();
    let first = Error::from(server.maps().list(&ListParams::default()).await.unwrap_err());
    assert_eq!(first.until(), Some(begin + Duration::from_secs(5)));
    let second = Error::from(server.maps().list(&ListParams::default()).await.unwrap_err());
    assert_eq!(
        (second.class(), server.requests()),
        (ErrorClass::Throttled, 1),
        "the server is not called again"
    );
    server
        .maps()
        .get("a")
        .await
        .expect("other collections are not affected");
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn refusal_applies_before_its_body_arrives() {
    let server = Server::new(async |_| {
        let (head, _) = respond(429, &[("retry-after", "60")], "").into_parts();
        let body = StreamBody::new(futures::stream::pending::<
            Result<http_body::Frame<bytes::Bytes>, BoxError>,
        >());
        Response::from_parts(head, body.boxed_unsync())
    });
    let maps = server.maps();
    let other = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        maps.get("b").await
    };
    let (slow, other) = tokio::join!(maps.get("a"), other);
    for error in [slow.unwrap_err(), other.unwrap_err()] {
        assert_eq!(Error::from(error).class(), ErrorClass::Throttled);
    }
    assert_eq!(server.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn refused_eviction_does_not_close_the_server() {
    let server = Server::new(async |_| respond(429, &[("retry-after", "10")], "Cannot evict pod"));
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::default_namespaced(server.client.clone());
    let error = pods.evict("a", &Default::default()).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 429),
        "{error}"
    );
    assert_eq!(server.budget.closed_until(), None);
}

#[tokio::test(start_paused = true)]
async fn unavailable_server_is_called_once() {
    let server = Server::new(async |_| respond(503, &[], "down"));
    let begin = Instant::now();
    let error = Error::from(server.maps().get("a").await.unwrap_err());
    assert_eq!((error.class(), server.requests()), (ErrorClass::Unavailable, 1));
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn dropped_caller_releases_its_permit() {
    let server = Server::new(async |_| pending().await);
    let maps = server.maps();
    let short = Duration::from_secs(1);
    assert!(tokio::time::timeout(short, maps.get("a")).await.is_err());
    assert_eq!(server.in_flight(), 0);
}
