//! How many requests reads of floating IPs cost.

use futures::future::join_all;
use tokio::time::{sleep, sleep_until};

use super::*;

/// Objects that read at the given intervals, each with its own phase. Returns the requests of the
/// busiest hour.
async fn run_hours(resyncs: &[u64]) -> usize {
    const HOURS: u64 = 6;
    let bench = Bench::new(resyncs.len() as u64, |_| {});
    let end = Instant::now() + Duration::from_secs(HOURS * 3600);
    let objects = (0u64..).zip(resyncs).map(|(at, resync)| {
        let bench = &bench;
        async move {
            let mut rng = fastrand::Rng::with_seed(at);
            sleep(Duration::from_millis(rng.u64(..resync * 1000))).await;
            while Instant::now() < end {
                bench.read_routine(at, *resync).await.expect("seen");
                sleep(Duration::from_millis(resync * 1000 + rng.u64(..resync * 50))).await;
            }
        }
    });
    join_all(objects).await;
    let log = bench.requests(0);
    let first = log[0].time;
    let hour = |entry: &Entry| entry.time.duration_since(first).as_secs() / 3600;
    (0..HOURS as i64)
        .map(|number| log.iter().filter(|entry| hour(entry) == number).count())
        .max()
        .expect("hours")
}

#[tokio::test(start_paused = true)]
async fn ten_objects_on_one_token_cost_one_read_per_resync() {
    assert!(run_hours(&[30]).await <= 120);
    assert!(run_hours(&[30; 10]).await <= 120);
    assert!(run_hours(&[60; 10]).await <= 60);
    let mixed = run_hours(&[60, 60, 60, 30, 60, 90, 120, 60, 600, 60]).await;
    assert!((80..=120).contains(&mixed), "the shortest interval counts: {mixed}");
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_a_read() {
    let bench = Bench::new(10, |_| {});
    let seen = join_all((0..10).map(|at| bench.read_routine(at, 30))).await;
    assert!(seen.iter().all(Result::is_ok), "{seen:?}");
    assert!(bench.count() <= 2, "one is read by name, several as a list");
    assert!(bench.read_with(3, 0, true).await.is_ok());
    assert_eq!(bench.count(), 3, "an urgent read calls the provider");
    assert!(bench.read_routine(7, 30).await.is_ok());
    assert_eq!(bench.count(), 3, "and its result serves the others");
}

#[tokio::test(start_paused = true)]
async fn one_is_found_by_name_once_and_read_by_id_then() {
    let bench = Bench::new(1, |_| {});
    for _ in 0..3 {
        let seen = bench.read_routine(0, 30).await.expect("seen");
        assert_eq!((seen.id, seen.server, seen.at), (10, Some(1), bench.clouds.uptime()));
        sleep(Duration::from_secs(30)).await;
    }
    let paths: Vec<_> = bench.requests(0).into_iter().map(|entry| entry.path).collect();
    let by_id = "/v1/floating_ips/10";
    assert_eq!(paths, ["/v1/floating_ips", by_id, by_id]);
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read_and_then_only_what_is_needed() {
    let bench = Bench::new(120, |_| {});
    for at in [0, 60, 119] {
        bench.read_routine(at, 30).await.expect("seen");
    }
    let before = bench.count();
    sleep(Duration::from_secs(30)).await;
    for at in [0, 60, 119] {
        bench.read_routine(at, 30).await.expect("seen");
    }
    assert_eq!(bench.count() - before, 3, "three pages, or three by ID");
    assert!(bench.read_with(60, 0, true).await.is_ok());
    assert_eq!(bench.count() - before, 4, "a move reads only its own");
}

#[tokio::test(start_paused = true)]
async fn a_missing_floating_ip_is_reported_and_found_when_created() {
    let bench = Bench::new(1, |_| {});
    assert_eq!(bench.read_routine(5, 30).await, Err(ProviderTrouble::NotFound));
    bench.read_routine(0, 30).await.expect("seen");
    let before = bench.count();
    assert_eq!(bench.read_routine(5, 30).await, Err(ProviderTrouble::NotFound));
    assert_eq!(bench.count(), before, "known until the next resync");
    let both = json!({"floating_ips": [
        {"id": 10, "name": "ip-0", "ip": "198.51.100.0", "server": 1},
        {"id": 77, "name": "ip-5", "ip": "2001:db8::/64", "blocked": true},
    ]});
    bench.hetzner.change(change(both)).expect("it fits");
    sleep(Duration::from_secs(30)).await;
    let seen = bench.read_routine(5, 30).await.expect("it came");
    assert_eq!((seen.id, seen.server, seen.blocked), (77, None, true));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_made_anew_or_renamed_is_found_by_its_name() {
    let bench = Bench::new(1, |_| {});
    bench.read_routine(0, 30).await.expect("seen");
    for (id, others) in [(20, "gone"), (21, "renamed")] {
        let mut ips = vec![json!({"id": id, "name": "ip-0", "ip": "198.51.100.9"})];
        if others == "renamed" {
            ips.push(json!({"id": 20, "name": "old", "ip": "198.51.100.8"}));
        }
        let state = json!({ "floating_ips": ips });
        bench.hetzner.change(change(state)).expect("it fits");
        let before = bench.count();
        let seen = bench.read_with(0, 0, true).await.expect("seen");
        assert_eq!(seen.id, id, "{others}");
        assert_eq!(bench.count() - before, 2, "by its old ID, then by its name");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_cached_for_routine_reads() {
    let bench = Bench::new(10, |_| {});
    join_all((0..10).map(|at| bench.read_routine(at, 30))).await;
    sleep_until(Instant::now() + Duration::from_secs(31)).await;
    let fault = serde_json::from_value(json!({"status": 502})).expect("a fault");
    bench.hetzner.fault(fault);
    let before = bench.count();
    for at in 0..10 {
        let failed = bench.read_routine(at, 30).await.expect_err("it is down");
        assert!(matches!(failed, ProviderTrouble::Unreachable(_)), "{failed:?}");
    }
    assert_eq!(bench.count() - before, 1);
    assert!(bench.read_with(0, 0, true).await.is_err());
    assert_eq!(bench.count() - before, 2, "a move makes its own call");
    bench.hetzner.clear_faults(None);
    sleep(Duration::from_secs(11)).await;
    assert!(bench.read_routine(4, 30).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_refused_does_not_answer() {
    let bench = Bench::new(1, |_| {});
    bench.read_routine(0, 30).await.expect("seen");
    for (status, code) in [
        (410, "deprecated_api_endpoint"),
        (400, "json_error"),
        (412, "precondition_failed"),
        (422, "invalid_input"),
        (409, "conflict"),
        (423, "locked"),
    ] {
        let fault = json!({"status": status, "code": code});
        let fault = serde_json::from_value(fault).expect("a fault");
        bench.hetzner.fault(fault);
        let seen = bench.read_with(0, 0, true).await;
        let refused = matches!(&seen, Err(ProviderTrouble::Unreachable(why)) if why.contains("read refused"));
        assert!(refused, "{code}: {seen:?}");
        bench.hetzner.clear_faults(None);
    }
}
