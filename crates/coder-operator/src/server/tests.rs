//! A server that a test plays, in virtual time.

mod bypass;
mod coderd;
mod identity;
mod model;
mod rate_limits;
mod reads;
mod secrets;

use std::sync::atomic::{AtomicU64, Ordering};

use aplomb::ObjectKey;
use bytes::Bytes;
use http::{Method, Request, Response};
use tokio::time::sleep;
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use super::*;

const URL: &str = "https://coder.example.com";
const SECRET: &str = "wDv6wBqFxA-ZbQ2hOXASztX0123456789abcdefg";
const PLAIN: &str = "k3yPlainTextOfForty3CharactersLongAbCdEfGhI";
const START: i64 = 1_700_000_000;

/// What the played server says: a status and a body, or nothing at all.
type Said = Option<(u16, String)>;
type Play = Arc<dyn Fn(&Request<Bytes>) -> Said + Send + Sync>;
/// What it was asked: method, path, and whether it should not count.
type Asked = Arc<Mutex<Vec<(Method, String, bool)>>>;

/// A played server and those who call it.
struct Stage {
    servers: ServerPool,
    requests: Asked,
    notified: Arc<Mutex<Vec<ObjectRef>>>,
    play: Arc<Mutex<Play>>,
    latency: Arc<AtomicU64>,
    telemetry: CoderMetrics,
    limiters: LimiterRegistry,
    fence: Fence,
    start: Instant,
}

impl Stage {
    /// Plays what [`usual`] says.
    fn new() -> Self {
        let (asked, told) = (Arc::default(), Arc::<Mutex<Vec<ObjectRef>>>::default());
        let play: Arc<Mutex<Play>> = Arc::new(Mutex::new(Arc::new(default_answer)));
        let latency = Arc::new(AtomicU64::new(20));
        let start = Instant::now();
        let clock = Clock::new(move || timestamp(start));
        let way = transport(&asked, &play, &latency, start);
        let (telemetry, shelf) = (CoderMetrics::default(), LimiterRegistry::default());
        let heard = told.clone();
        let servers = ServerPool::new(ServerPoolSettings {
            connect: Arc::new(move |_| Ok(way.clone())),
            clock,
            telemetry: telemetry.clone(),
            limiters: shelf.clone(),
            seed: 7,
            notify: Arc::new(move |who| heard.lock().expect("no panic").push(who.clone())),
        });
        Self {
            servers,
            requests: asked,
            notified: told,
            play,
            latency,
            telemetry,
            limiters: shelf,
            fence: Fence::always_open(),
            start,
        }
    }

    /// From now on the server says this, and what is usual where it has nothing to say.
    fn play(&self, play: impl Fn(&Request<Bytes>) -> Option<Said> + Send + Sync + 'static) {
        let play = move |request: &Request<Bytes>| play(request).unwrap_or_else(|| default_answer(request));
        *self.play.lock().expect("no panic") = Arc::new(play);
    }

    fn server(&self) -> ServerClient {
        self.server_for_token(SECRET)
    }

    fn server_for_token(&self, token: &str) -> ServerClient {
        let token = ApiToken::new(token).expect("a token");
        self.servers.client(URL, None, &token).expect("a server")
    }

    fn caller<'a>(&'a self, who: &'a ObjectRef) -> Caller<'a> {
        Caller {
            object: who,
            bypass: false,
            fence: &self.fence,
            deadline: Instant::now() + Duration::from_secs(60),
            limited: None,
        }
    }

    /// How often a request was made, by method and the end of its path.
    fn count_requests(&self, method: &Method, end: &str) -> usize {
        let asked = self.requests.lock().expect("no panic");
        let these = asked.iter();
        these
            .filter(|(by, path, _)| by == method && path.ends_with(end))
            .count()
    }

    fn calls(&self) -> usize {
        self.requests.lock().expect("no panic").len()
    }

    fn bypassed(&self) -> usize {
        let asked = self.requests.lock().expect("no panic");
        asked.iter().filter(|(_, _, bypass)| *bypass).count()
    }

    fn latency(&self, latency: Duration) {
        let millis = u64::try_from(latency.as_millis()).expect("short");
        self.latency.store(millis, Ordering::Relaxed);
    }

    /// The samples of a metric.
    fn samples(&self, metric: &str) -> Vec<String> {
        let mut registry = prometheus_client::registry::Registry::default();
        self.telemetry.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string");
        let lines = text.lines().filter(|line| line.starts_with(metric));
        lines.map(str::to_owned).collect()
    }
}

fn timestamp(start: Instant) -> Timestamp {
    let elapsed = i64::try_from(start.elapsed().as_millis()).expect("short");
    Timestamp::from_millisecond(START * 1000 + elapsed).expect("a time")
}

/// A way to the played server, which counts as coderd does within a minute.
fn transport(asked: &Asked, play: &Arc<Mutex<Play>>, latency: &Arc<AtomicU64>, start: Instant) -> Transport {
    let (asked, play, latency) = (asked.clone(), play.clone(), latency.clone());
    let spent = Arc::<Mutex<BTreeMap<(String, i64), u32>>>::default();
    BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        let bypass = request.headers().contains_key("x-coder-bypass-ratelimit");
        let path = request.uri().path().to_owned();
        let line = (request.method().clone(), path.clone(), bypass);
        asked.lock().expect("no panic").push(line);
        let said = play.lock().expect("no panic").clone()(&request);
        let latency = Duration::from_millis(latency.load(Ordering::Relaxed));
        let minute = timestamp(start).as_second() / 60;
        let mut spent = spent.lock().expect("no panic");
        let spent = spent.entry((path, minute)).or_default();
        *spent += u32::from(!bypass && !matches!(said, Some((428 | 429, _))));
        let left = 512 - *spent;
        async move {
            sleep(latency).await;
            let (status, body) = said.ok_or("cut off")?;
            let limit = (!bypass).then_some((left, (minute + 1) * 60));
            Ok(answer(status, limit, timestamp(start)).body(Bytes::from(body))?)
        }
    }))
}

/// The head of an answer, with what is left of the limit until when.
fn answer(status: u16, limit: Option<(u32, i64)>, at: Timestamp) -> http::response::Builder {
    let answer = Response::builder().status(status).header("date", date(at));
    match limit {
        Some((left, reset)) if status != 428 => {
            let left = if status == 429 { 0 } else { left };
            answer
                .header("x-ratelimit-limit", "512")
                .header("x-ratelimit-remaining", left.to_string())
                .header("x-ratelimit-reset", reset.to_string())
        }
        _ => answer,
    }
}

fn date(at: Timestamp) -> String {
    let at = at.to_zoned(jiff::tz::TimeZone::UTC);
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A server of today that has what is asked for.
fn default_answer(request: &Request<Bytes>) -> Said {
    let (method, path) = (request.method(), request.uri().path());
    let proxy = r#"{"id": "p-1", "name": "eu", "display_name": "Europe"}"#;
    let (status, body) = match path.trim_start_matches("/api/v2/") {
        "buildinfo" => (200, r#"{"version": "v2.36.1+abc"}"#.to_owned()),
        "users/me" => (200, r#"{"id": "u-1"}"#.to_owned()),
        "entitlements" => (200, r#"{"features": {}}"#.to_owned()),
        "organizations/default" => (200, r#"{"id": "o-1", "name": "default"}"#.to_owned()),
        "organizations/o-1/provisionerkeys" if method == Method::POST => (201, format!(r#"{{"key": "{PLAIN}"}}"#)),
        "organizations/o-1/provisionerkeys" | "organizations/o-1/provisionerkeys/daemons" => (200, "[]".to_owned()),
        "workspaceproxies/eu" | "workspaceproxies/p-1" if method == Method::GET => (200, proxy.to_owned()),
        "workspaceproxies" | "workspaceproxies/p-1" if method != Method::DELETE => {
            (201, format!(r#"{{"proxy": {proxy}, "proxy_token": "p-1:{PLAIN}"}}"#))
        }
        _ if method == Method::DELETE => (204, String::new()),
        _ => (404, r#"{"message": "Resource not found"}"#.to_owned()),
    };
    Some((status, body))
}

fn object(name: &str) -> ObjectRef {
    ObjectRef {
        kind: "CoderProvisioner".into(),
        key: ObjectKey::new(Some("team"), name),
    }
}

fn is_later<T>(answer: &Result<T, Pushback>) -> bool {
    matches!(answer, Err(Pushback::Later { .. }))
}

fn error_class<T: std::fmt::Debug>(answer: Result<T, Pushback>) -> Option<crate::client::CallErrorClass> {
    answer.expect_err("pushed back").class()
}

const MINUTE: MaxAge = MaxAge::Within(Duration::from_secs(60));
