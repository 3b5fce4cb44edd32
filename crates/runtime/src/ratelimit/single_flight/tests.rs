//! Reads that are shared, in virtual time.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::join_all;
use tokio::time::{sleep, timeout};

use crate::error::ErrorClass;
use crate::ratelimit::single_flight::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A slow read that counts how often it is begun.
fn read(count: &Arc<AtomicU32>) -> impl Future<Output = Result<u32>> + Send + 'static {
    let number = count.fetch_add(1, Ordering::Relaxed) + 1;
    async move {
        sleep(Duration::from_secs(1)).await;
        Ok(number)
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_reads_share_one_call_and_are_cached() {
    let flight = SingleFlight::new(MINUTE, 10);
    let count = Arc::default();
    let all = join_all((0..100).map(|_| flight.get(&"ips", || read(&count)))).await;
    assert!(all.iter().all(|value| matches!(value, Ok(1))));
    sleep(MINUTE - Duration::from_secs(1)).await;
    assert_eq!(flight.get(&"ips", || read(&count)).await.unwrap(), 1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(flight.get(&"ips", || read(&count)).await.unwrap(), 2);
    flight.invalidate(&"ips");
    assert_eq!(flight.get(&"ips", || read(&count)).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn read_continues_when_its_first_caller_is_dropped() {
    let flight = SingleFlight::new(MINUTE, 10);
    let count = Arc::default();
    let begun = timeout(Duration::from_millis(500), flight.get(&1, || read(&count)));
    let (begun, follower) = tokio::join!(begun, flight.get(&1, || read(&count)));
    assert!(begun.is_err());
    assert_eq!(follower.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn abandoned_read_is_started_again() {
    let flight = SingleFlight::new(MINUTE, 10);
    let hung = timeout(Duration::from_secs(1), flight.get(&1, pending::<Result<u32>>));
    assert!(hung.await.is_err());
    assert_eq!(flight.get(&1, || async { Ok(5) }).await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn failure_reaches_all_waiters_and_is_not_cached() {
    let flight: SingleFlight<u8, u32> = SingleFlight::new(MINUTE, 10);
    let until = Instant::now() + MINUTE;
    let fails = || async move {
        sleep(Duration::from_secs(1)).await;
        Err(Error::throttled("empty", until))
    };
    let (first, second) = tokio::join!(flight.get(&1, fails), flight.get(&1, fails));
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!((error.class(), error.until()), (ErrorClass::Throttled, Some(until)));
    }
    assert_eq!(flight.get(&1, || async { Ok(1) }).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn invalidated_read_is_not_cached() {
    let flight = SingleFlight::new(MINUTE, 10);
    let count = Arc::default();
    let written = async {
        sleep(Duration::from_millis(500)).await;
        flight.invalidate(&1);
    };
    let (old, ()) = tokio::join!(flight.get(&1, || read(&count)), written);
    assert_eq!(old.unwrap(), 1);
    assert_eq!(flight.get(&1, || read(&count)).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn capacity_is_bounded() {
    let flight = SingleFlight::new(MINUTE, 2);
    for key in 0..5 {
        flight.get(&key, || async move { Ok(key) }).await.unwrap();
    }
    let again = || async { Ok(100) };
    assert_eq!(flight.get(&4, again).await.unwrap(), 4);
    assert_eq!(flight.get(&0, again).await.unwrap(), 100);
}
