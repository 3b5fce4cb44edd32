//! The budget in virtual time, with waiters that come, go and are dropped.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::join_all;
use http::{HeaderMap, HeaderValue};
use tokio::time::{sleep, timeout};

use super::super::dialect::KUBERNETES;
use super::*;
use crate::error::ErrorClass;
use crate::leadership::fence::Fence;
use crate::ratelimit::LimitLaneConfig;

const URGENT: LimitLane = LimitLane(0);
const USUAL: LimitLane = LimitLane(1);

fn budget(rate: f64, burst: u32, reserve: u32, concurrency: usize) -> RateLimiter {
    let lane = |name: &str, reserve, slots| LimitLaneConfig {
        name: name.to_owned(),
        reserve,
        slots,
    };
    let config = LimitConfig {
        rate,
        burst,
        concurrency,
        lanes: vec![lane("urgent", reserve, 1), lane("usual", 0, 0)],
        header_formats: vec![KUBERNETES],
        ramp: Duration::from_secs(2),
        longest_wait: Duration::from_secs(3600),
    };
    RateLimiter::new("cloud", config, Telemetry::default(), Clock::system())
}

fn in_seconds(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

fn retry_after(text: &str) -> HeaderMap {
    let value = HeaderValue::from_str(text).expect("a header");
    HeaderMap::from_iter([(http::header::RETRY_AFTER, value)])
}

async fn drain(budget: &RateLimiter, lane: LimitLane, calls: usize) {
    for _ in 0..calls {
        drop(budget.acquire(lane, in_seconds(0)).await.expect("a token"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_comes_too_late_is_refused_at_once() {
    let budget = budget(0.1, 5, 0, 10);
    drain(&budget, USUAL, 5).await;
    let begin = Instant::now();
    let error = budget
        .acquire(USUAL, in_seconds(9))
        .await
        .expect_err("ten seconds a token");
    assert_eq!(
        (error.class(), begin.elapsed()),
        (ErrorClass::Throttled, Duration::ZERO)
    );
    let until = error.until().expect("a time") - begin;
    assert!((10.0..10.1).contains(&until.as_secs_f64()), "{until:?}");
    drop(budget.acquire(USUAL, in_seconds(11)).await.expect("in time"));
    assert!(begin.elapsed() >= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_at_the_rate() {
    let budget = budget(10.0, 1, 0, 100);
    drain(&budget, USUAL, 1).await;
    let served: Mutex<Vec<(u64, u128)>> = Mutex::default();
    let begin = Instant::now();
    let calls = (0..50).map(|number| {
        let (budget, served) = (&budget, &served);
        async move {
            drop(budget.acquire(USUAL, in_seconds(60)).await.expect("a turn"));
            served.lock().unwrap().push((number, begin.elapsed().as_millis()));
        }
    });
    join_all(calls).await;
    let served = served.into_inner().unwrap();
    for (at, (number, millis)) in (0u64..).zip(&served) {
        assert_eq!(*number, at);
        assert!(*millis >= u128::from(at + 1) * 100 - 1, "{number} at {millis} ms");
    }
    assert!(served[49].1 <= 5_100, "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_leaves_no_gap() {
    let budget = budget(1.0, 1, 0, 10);
    drain(&budget, USUAL, 1).await;
    let mut first = Box::pin(budget.acquire(USUAL, in_seconds(60)));
    let mut second = Box::pin(budget.acquire(USUAL, in_seconds(60)));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    let begin = Instant::now();
    let dropped = async {
        sleep(Duration::from_millis(500)).await;
        drop(first);
    };
    let (permit, ()) = tokio::join!(second, dropped);
    drop(permit.expect("a turn"));
    assert!(begin.elapsed() <= Duration::from_millis(1002), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn unused_grant_is_returned() {
    let budget = budget(0.001, 3, 0, 1);
    let held = budget.acquire(USUAL, in_seconds(1)).await.expect("a turn");
    let mut waiting = Box::pin(budget.acquire(USUAL, in_seconds(1)));
    assert!(waiting.as_mut().now_or_never().is_none(), "no slot");
    drop(held);
    drop(waiting);
    let lane = &budget.snapshot().lanes[1];
    assert_eq!((lane.in_flight, lane.waiting), (0, 0));
    assert!((2.0..2.1).contains(&lane.tokens), "{}", lane.tokens);
}

#[tokio::test(start_paused = true)]
async fn refusal_reaches_existing_waiters() {
    let budget = budget(1.0, 1, 0, 10);
    let held = budget.acquire(USUAL, in_seconds(1)).await.expect("a turn");
    let begin = Instant::now();
    let refuse = async {
        sleep(Duration::from_millis(200)).await;
        held.record_answer(429, &retry_after("60"));
    };
    let wait = || budget.acquire(USUAL, in_seconds(5));
    let (first, second, ()) = tokio::join!(wait(), wait(), refuse);
    for error in [first.expect_err("closed"), second.expect_err("closed")] {
        assert!(error.until().expect("a time") >= begin + Duration::from_secs(60));
    }
    assert_eq!(begin.elapsed(), Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn invalid_headers_neither_panic_nor_close_forever() {
    let now = Instant::now();
    for text in [
        "-5",
        "NaN",
        "1e30",
        "99999999999999999999",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "soon",
    ] {
        let budget = budget(10.0, 10, 0, 10);
        let permit = budget.acquire(USUAL, in_seconds(1)).await.expect("a turn");
        permit.record_answer(429, &retry_after(text));
        let until = budget.closed_until().expect("closed for a while");
        assert!(until <= now + Duration::from_secs(3600), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_reserve_lane_is_first_after_the_reset() {
    let budget = budget(10.0, 20, 5, 100);
    let permit = budget.acquire(USUAL, in_seconds(1)).await.expect("a turn");
    permit.record_answer(429, &retry_after("30"));
    drop(permit);
    let order: Mutex<Vec<LimitLane>> = Mutex::default();
    let begin = Instant::now();
    let calls = (0..30).map(|number| {
        let (budget, order) = (&budget, &order);
        let lane = if number < 25 { USUAL } else { URGENT };
        async move {
            drop(budget.acquire(lane, in_seconds(120)).await.expect("a turn"));
            assert!(begin.elapsed() >= Duration::from_secs(30));
            order.lock().unwrap().push(lane);
        }
    });
    join_all(calls).await;
    assert_eq!(order.into_inner().unwrap()[..5], [URGENT; 5]);
}

#[tokio::test(start_paused = true)]
async fn an_effect_has_a_turn_a_fence_and_a_deadline() {
    let budget = budget(10.0, 10, 0, 10);
    let fence = Fence::closed();
    let never = async |_: Permit| -> Result<()> { panic!("without the lease nothing happens") };
    let refused = budget.call(USUAL, in_seconds(1), &fence, "assign", never).await;
    assert_eq!(refused.expect_err("no lease").class(), ErrorClass::Unavailable);

    assert_eq!(budget.telemetry().writes.stale_effects("cloud"), 0);
    fence.extend_until(in_seconds(60));
    let lost = fence.clone();
    let done = budget.call(USUAL, in_seconds(1), &fence, "assign", async move |permit: Permit| {
        permit.record_answer(200, &HeaderMap::new());
        lost.revoke();
        Ok(7)
    });
    assert_eq!(done.await.expect("the effect still happened"), 7);

    assert_eq!(budget.telemetry().writes.stale_effects("cloud"), 1);
    let open = Fence::always_open();
    let begin = Instant::now();
    let hangs = |permit| async move {
        let _held: Permit = permit;
        std::future::pending::<Result<()>>().await
    };
    let error = budget
        .call(USUAL, in_seconds(2), &open, "assign", hangs)
        .await
        .expect_err("late");
    assert_eq!(
        (error.class(), begin.elapsed()),
        (ErrorClass::Unavailable, Duration::from_secs(2))
    );
    assert_eq!(budget.snapshot().lanes[1].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_free_wakes_the_next() {
    let budget = budget(1000.0, 1000, 0, 2);
    let held = budget.acquire(USUAL, in_seconds(1)).await.expect("a turn");
    let late = timeout(Duration::from_secs(3), budget.acquire(USUAL, in_seconds(2)));
    assert_eq!(
        late.await.expect("not hanging").expect_err("no slot").class(),
        ErrorClass::Throttled
    );
    let free = async {
        sleep(Duration::from_secs(1)).await;
        drop(held);
    };
    let begin = Instant::now();
    let (next, ()) = tokio::join!(budget.acquire(USUAL, in_seconds(5)), free);
    drop(next.expect("a turn"));
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
}

/// On threads of their own, because nothing awaits between the look and the take.
#[tokio::test]
async fn revoked_grant_leaves_no_call_and_no_waiter() {
    for _ in 0..500 {
        let budget = budget(1000.0, 1000, 0, 1000);
        let heard = budget.acquire(USUAL, in_seconds(1)).await.expect("a token");
        let begun = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !begun.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                heard.record_answer(429, &retry_after("3600"));
            });
            begun.store(true, Ordering::Release);
            while budget.closed_until().is_none() {
                drop(budget.acquire(USUAL, in_seconds(1)).now_or_never());
            }
        });
        drop(heard);
        let lane = &budget.snapshot().lanes[USUAL.0];
        assert_eq!((lane.waiting, lane.in_flight), (0, 0));
    }
}
