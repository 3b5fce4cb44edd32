//! The same budget in front of other APIs, which are functions here: each with its own headers, its
//! own kind of limit, and a log of all calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb::clock::Clock;
use aplomb::leadership::fence::Fence;
use aplomb::ratelimit::{CODER, HETZNER, HeaderFormat, LimitConfig, LimitLane, LimitLaneConfig, Permit, RateLimiter};
use aplomb::telemetry::Telemetry;
use aplomb::{Error, ErrorClass, Result};
use aplomb_simulation::Simulation;
use futures::future::join_all;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, sleep};

const URGENT: LimitLane = LimitLane(0);
const USUAL: LimitLane = LimitLane(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The result of a call at a time: admitted or not, and the headers.
type Limit = Box<dyn FnMut(Duration) -> (bool, Vec<(&'static str, u64)>) + Send>;

/// Another system.
#[derive(Clone)]
struct Service {
    started: Instant,
    limit: Arc<Mutex<Limit>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    at: Duration,
    lane: LimitLane,
    admitted: bool,
}

impl Service {
    fn new(limit: impl FnMut(Duration) -> (bool, Vec<(&'static str, u64)>) + Send + 'static) -> Self {
        Self {
            started: Instant::now(),
            limit: Arc::new(Mutex::new(Box::new(limit))),
            calls: Arc::default(),
        }
    }

    /// One call over the wire.
    fn answer(&self, lane: LimitLane) -> (u16, HeaderMap) {
        let at = self.started.elapsed();
        let (admitted, headers) = (self.limit.lock().unwrap())(at);
        self.calls.lock().unwrap().push(Call { at, lane, admitted });
        let header = |(name, value)| (HeaderName::from_static(name), HeaderValue::from(value));
        let status = if admitted { 200 } else { 429 };
        (status, headers.into_iter().map(header).collect())
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    fn refused(&self) -> usize {
        self.calls().iter().filter(|call| !call.admitted).count()
    }
}

/// One credential's budget for a service, and whether it reads the responses.
struct Caller {
    budget: RateLimiter,
    service: Service,
    reads_headers: bool,
}

impl Caller {
    async fn call(&self, lane: LimitLane, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        let effect = |permit: Permit| async move {
            let (status, headers) = self.service.answer(lane);
            if self.reads_headers {
                permit.record_answer(status, &headers);
            }
            match status {
                200 => Ok(()),
                _ => Err(Error::new(ErrorClass::Throttled, "refused")),
            }
        };
        let fence = Fence::always_open();
        self.budget.call(lane, deadline, &fence, "call", effect).await
    }

    /// Calls until it is admitted, and retries every second regardless of the response.
    async fn call_until_admitted(&self, lane: LimitLane) {
        while let Err(error) = self.call(lane, MINUTE).await {
            assert_eq!(error.class(), ErrorClass::Throttled);
            sleep(Duration::from_secs(1)).await;
        }
    }
}

fn budget(rate: f64, burst: u32, reserve: u32, dialects: Vec<HeaderFormat>) -> RateLimiter {
    let lane = |name: &str, reserve| LimitLaneConfig {
        name: name.to_owned(),
        reserve,
        slots: 1,
    };
    let config = LimitConfig {
        rate,
        burst,
        concurrency: 20,
        lanes: vec![lane("urgent", reserve), lane("usual", 0)],
        header_formats: dialects,
        ramp: Duration::from_secs(5),
        longest_wait: Duration::from_secs(3600),
    };
    RateLimiter::new("elsewhere", config, Telemetry::default(), Clock::system())
}

fn epoch() -> u64 {
    Clock::system().now().as_second().unsigned_abs()
}

fn world() -> Simulation {
    Simulation::new(6).interpose(aplomb_virtual_time::install)
}

/// coderd's window: no call is admitted before the minute is over.
fn closed_for_a_minute() -> Service {
    let reset = epoch() + 60;
    Service::new(move |at| {
        let admitted = at >= MINUTE;
        let (remaining, reset) = if admitted { (500, reset + 60) } else { (0, reset) };
        let mut headers = vec![
            ("x-ratelimit-limit", 512),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", reset),
        ];
        if !admitted {
            headers.push(("retry-after", 60));
        }
        (admitted, headers)
    })
}

async fn call_from_a_thousand(listens: bool) -> Vec<Call> {
    let service = closed_for_a_minute();
    let caller = Caller {
        budget: budget(10.0, 50, 10, vec![CODER]),
        service: service.clone(),
        reads_headers: listens,
    };
    sleep(Duration::from_secs(20)).await;
    let lanes = (0..1000).map(|_| USUAL).chain((0..5).map(|_| URGENT));
    let insist = join_all(lanes.map(|lane| caller.call_until_admitted(lane)));
    tokio::time::timeout(20 * MINUTE, insist).await.expect("all are served");
    service.calls()
}

#[test]
fn external_api_with_a_reset_time_is_not_called_before_it() {
    let calls = world().run(|_| call_from_a_thousand(true)).value;
    let first = calls[0].at;
    assert!(calls.iter().all(|call| call.at == first || call.at >= MINUTE));
    let after: Vec<_> = calls.iter().filter(|call| call.at >= MINUTE).collect();
    assert!(after[..5].iter().all(|call| call.lane == URGENT), "{:?}", &after[..5]);
    for (number, call) in (1..).zip(&after) {
        let most = 10.0 * (call.at - MINUTE).as_secs_f64();
        assert!(f64::from(number) <= most + 0.1, "{number} calls by {:?}", call.at);
    }

    let deaf = world().run(|_| call_from_a_thousand(false)).value;
    let early = deaf.iter().filter(|call| call.at > first && call.at < MINUTE);
    assert!(early.count() > 300, "without reading the headers, calls continue");
}

/// A window of a minute that admits this many calls, as for most APIs.
fn window(limit: u64) -> Service {
    let begin = epoch();
    let (mut window, mut used) = (0, 0);
    Service::new(move |at| {
        let now = at.as_secs() / 60;
        if now != window {
            (window, used) = (now, 0);
        }
        let admitted = used < limit;
        used += u64::from(admitted);
        let headers = vec![
            ("x-ratelimit-limit", limit),
            ("x-ratelimit-remaining", limit - used),
            ("x-ratelimit-reset", begin + (now + 1) * 60),
        ];
        (admitted, headers)
    })
}

/// How often a window of 120 a minute is exceeded by a budget configured for 600.
async fn overruns(dialects: Vec<HeaderFormat>) -> (usize, Duration) {
    let service = window(120);
    let caller = Caller {
        budget: budget(10.0, 30, 5, dialects),
        service: service.clone(),
        reads_headers: true,
    };
    let begin = Instant::now();
    join_all((0..600).map(|_| caller.call_until_admitted(USUAL))).await;
    (service.refused(), begin.elapsed())
}

#[test]
fn remaining_quota_paces_calls_before_any_refusal() {
    let (refused, took) = world().run(|_| overruns(vec![CODER])).value;
    assert_eq!(refused, 0);
    assert!(took <= 6 * MINUTE, "600 calls at 120 a minute took {took:?}");
    let (refused, _) = world().run(|_| overruns(Vec::new())).value;
    assert!(refused > 0, "without reading the headers, calls are rejected");
}

/// Hetzner's bucket of this size, refilled by one a second; another program takes every second call.
fn shared_bucket(limit: f64) -> Service {
    let (mut level, mut last) = (limit, Duration::ZERO);
    Service::new(move |at| {
        level = (level + 0.5 * (at - last).as_secs_f64()).min(limit);
        last = at;
        let admitted = level >= 1.0;
        level -= f64::from(u8::from(admitted));
        let headers = vec![
            ("ratelimit-limit", limit as u64),
            ("ratelimit-remaining", level as u64),
            ("ratelimit-reset", epoch() + (limit - level) as u64),
        ];
        (admitted, headers)
    })
}

/// Greedy work for half an hour, then thirty urgent calls at once. Returns how many were rejected, and how
/// long the urgent ones took.
async fn failover(reserve: u32) -> (usize, Duration) {
    let service = shared_bucket(600.0);
    let caller = Caller {
        budget: budget(1.0, 600, reserve, vec![HETZNER]),
        service: service.clone(),
        reads_headers: true,
    };
    let greedy = join_all((0..10).map(|_| async {
        loop {
            caller.call_until_admitted(USUAL).await;
        }
    }));
    assert!(tokio::time::timeout(30 * MINUTE, greedy).await.is_err());
    let begin = Instant::now();
    join_all((0..30).map(|_| caller.call_until_admitted(URGENT))).await;
    (service.refused(), begin.elapsed())
}

#[test]
fn reserve_is_available_although_the_credential_is_shared() {
    let (refused, took) = world().run(|_| failover(40)).value;
    assert_eq!((refused, took), (0, Duration::ZERO));
    let (_, without) = world().run(|_| failover(0)).value;
    assert!(without > Duration::from_secs(10), "without a reserve: {without:?}");
}
