//! Reads that are shared, in virtual time.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::join_all;
use tokio::time::{sleep, timeout};

use super::*;
use crate::error::ErrorClass;

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
async fn what_many_want_is_read_once_and_kept_for_a_moment() {
    let flight = SingleFlight::new(MINUTE, 10);
    let count = Arc::default();
    let all = join_all((0..100).map(|_| flight.get(&"ips", || read(&count)))).await;
    assert!(all.iter().all(|value| matches!(value, Ok(1))));
    sleep(MINUTE - Duration::from_secs(1)).await;
    assert_eq!(flight.get(&"ips", || read(&count)).await.unwrap(), 1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(flight.get(&"ips", || read(&count)).await.unwrap(), 2);
    flight.forget(&"ips");
    assert_eq!(flight.get(&"ips", || read(&count)).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_read_goes_on_when_who_began_it_is_dropped() {
    let flight = SingleFlight::new(MINUTE, 10);
    let count = Arc::default();
    let begun = timeout(Duration::from_millis(500), flight.get(&1, || read(&count)));
    let (begun, follower) = tokio::join!(begun, flight.get(&1, || read(&count)));
    assert!(begun.is_err());
    assert_eq!(follower.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_all_gave_up_is_begun_anew() {
    let flight = SingleFlight::new(MINUTE, 10);
    let hung = timeout(
        Duration::from_secs(1),
        flight.get(&1, pending::<Result<u32>>),
    );
    assert!(hung.await.is_err());
    assert_eq!(flight.get(&1, || async { Ok(5) }).await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_to_all_and_kept_for_nobody() {
    let flight: SingleFlight<u8, u32> = SingleFlight::new(MINUTE, 10);
    let until = Instant::now() + MINUTE;
    let fails = || async move {
        sleep(Duration::from_secs(1)).await;
        Err(Error::throttled("empty", until))
    };
    let (first, second) = tokio::join!(flight.get(&1, fails), flight.get(&1, fails));
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(
            (error.class(), error.until()),
            (ErrorClass::Throttled, Some(until))
        );
    }
    assert_eq!(flight.get(&1, || async { Ok(1) }).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_meanwhile_is_not_kept() {
    let flight = SingleFlight::new(MINUTE, 10);
    let count = Arc::default();
    let written = async {
        sleep(Duration::from_millis(500)).await;
        flight.forget(&1);
    };
    let (old, ()) = tokio::join!(flight.get(&1, || read(&count)), written);
    assert_eq!(old.unwrap(), 1);
    assert_eq!(flight.get(&1, || read(&count)).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_are_kept() {
    let flight = SingleFlight::new(MINUTE, 2);
    for key in 0..5 {
        flight.get(&key, || async move { Ok(key) }).await.unwrap();
    }
    let again = || async { Ok(100) };
    assert_eq!(flight.get(&4, again).await.unwrap(), 4);
    assert_eq!(flight.get(&0, again).await.unwrap(), 100);
}
