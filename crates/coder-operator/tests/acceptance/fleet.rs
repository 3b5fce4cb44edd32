//! Guarantee: many objects share one rate limiter. The server never refuses a call, all converge,
//! and the time is within 10 % of what its limit allows. For comparison, the cost of independent
//! backoffs is computed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::lab::{Around, Lab, minutes, seconds, tally, until};
use crate::operator::Replica;

/// coderd's limiter: two windows of a minute; it refuses a request if `round(rate) + 1` exceeds the
/// limit.
#[derive(Clone, Debug)]
struct Windows {
    limit: f64,
    counts: BTreeMap<u64, f64>,
}

impl Windows {
    fn new(limit: u32) -> Self {
        Self {
            limit: f64::from(limit),
            counts: BTreeMap::new(),
        }
    }

    /// Whether a request is admitted this many milliseconds after the start of a window.
    fn admit(&mut self, at: u64) -> bool {
        let (window, within) = (at / 60_000, at % 60_000);
        let count = |window: Option<u64>| {
            let counted = window.and_then(|window| self.counts.get(&window));
            counted.copied().unwrap_or_default()
        };
        let left = f64::from(u32::try_from(60_000 - within).expect("a minute")) / 60_000.0;
        let rate = count(window.checked_sub(1)) * left + count(Some(window));
        let fits = rate.round() + 1.0 <= self.limit;
        if fits {
            *self.counts.entry(window).or_default() += 1.0;
        }
        fits
    }
}

/// The shortest time in which a limit admits `calls` calls, with the first this long after the
/// start of a window.
fn fastest_time(limit: u32, calls: usize, first: Duration) -> Duration {
    let mut windows = Windows::new(limit);
    let first = u64::try_from(first.as_millis()).expect("short");
    let (mut at, mut admitted) = (first, 0);
    while admitted < calls {
        match windows.admit(at) {
            true => admitted += 1,
            false => at += 50,
        }
    }
    Duration::from_millis(at - first)
}

/// The cost of objects with independent backoffs: time until the last is admitted, refusals, sum of
/// waits.
fn independent_backoffs(limit: u32, objects: u64) -> (Duration, u64, Duration) {
    let mut windows = Windows::new(limit);
    let mut random = fastrand::Rng::with_seed(7);
    let mut queue: BTreeMap<(u64, u64), u32> = (0..objects).map(|it| ((0, it), 0)).collect();
    let (mut last, mut refused, mut waited) = (0, 0, 0);
    while let Some(((at, object), attempt)) = queue.pop_first() {
        last = at;
        if windows.admit(at) {
            continue;
        }
        refused += 1;
        let step = (2_000_u64 << attempt.min(6)).min(120_000);
        let jitter = 800 + random.u64(0..=400);
        let wait = (step * jitter / 1_000).min(120_000);
        waited += wait;
        queue.insert((at + wait, object), attempt + 1);
    }
    let time = Duration::from_millis;
    (time(last), refused, time(waited))
}

/// Result of a fleet.
#[derive(Debug)]
struct Came {
    duration: Duration,
    /// Calls on the busiest path, and when in a window the first was sent.
    calls: usize,
    first: Duration,
    refused: usize,
    /// The most calls on one path in any 60 s.
    max_per_minute: usize,
    creates: usize,
}

async fn fleet(lab: Lab, objects: usize) -> Came {
    for number in 0..objects {
        lab.provisioner(&format!("team-{number:03}"), &json!({ "replicas": 1 }))
            .await;
    }
    let began = Instant::now();
    let _replica = Replica::start(&lab, "first");
    let mut unready: Vec<String> = (0..objects).map(|it| format!("team-{it:03}")).collect();
    let all_ready = || {
        // Ready objects are not read again: there are many, and reads are expensive.
        while unready.last().is_some_and(|name| lab.is_ready(name)) {
            unready.pop();
        }
        unready.is_empty()
    };
    until(minutes(120), "all are ready", all_ready).await;
    let took = began.elapsed();
    for number in 0..objects {
        let name = format!("team-{number:03}");
        assert!(lab.is_ready(&name), "{name}: {:?}", lab.status(&name));
    }
    measure(&lab, took)
}

fn measure(lab: &Lab, took: Duration) -> Came {
    let requests = lab.coderd.requests(0);
    let busiest = tally(requests.iter().map(|it| it.path.clone()));
    let (path, calls) = busiest.into_iter().max_by_key(|it| it.1).expect("calls");
    let on_path: Vec<_> = requests.iter().filter(|it| it.path == path).collect();
    let most = (0..on_path.len()).map(|at| {
        let until = on_path[at].time + jiff::SignedDuration::from_secs(60);
        on_path[at..].iter().take_while(|it| it.time < until).count()
    });
    let offset = i64::try_from(crate::site::Options::default().offset.as_secs()).expect("short");
    let second = (on_path[0].time.as_second() - offset).rem_euclid(60);
    Came {
        duration: took,
        calls,
        first: seconds(u64::try_from(second).expect("it is positive")),
        refused: requests.iter().filter(|it| it.status == Some(429)).count(),
        max_per_minute: most.max().unwrap_or_default(),
        creates: requests.iter().filter(|it| it.method == "POST").count(),
    }
}

fn check_fleet(objects: usize, limit: u32) {
    let around = Around::with_seed(8)
        .with_server(|it| it.limit = i64::from(limit))
        .long_running();
    let came = around.run(move |lab| fleet(lab, objects));
    let bound = fastest_time(limit, came.calls, came.first);
    let (last, refusals, sum) = independent_backoffs(limit, objects as u64);
    println!(
        "{objects} objects, limit {limit}/min: all Ready after {:.0?}; {} calls on the busiest path, {} of all calls create; {} refused; at most {} in any minute",
        came.duration, came.calls, came.creates, came.refused, came.max_per_minute
    );
    println!(
        "  formula: call {} is admitted when prev x (60 - elapsed)/60 + cur first allows it: {bound:.0?}; took {:.1} % of it",
        came.calls,
        100.0 * came.duration.as_secs_f64() / bound.as_secs_f64()
    );
    println!(
        "  {objects} independent backoffs: the last after {last:.0?}, {refusals} refusals, {sum:.0?} of waits in sum"
    );
    assert_eq!(came.refused, 0, "it never has to refuse");
    assert_eq!(came.creates, objects, "one key each");
    assert!(
        came.calls <= objects + objects / 10 + 5,
        "{} calls where {objects} are needed",
        came.calls
    );
    let most = bound.mul_f64(1.1) + seconds(15);
    assert!(came.duration <= most, "{:?} of {bound:?}", came.duration);
}

#[test]
fn fifty_objects_share_a_limit_of_twelve_a_minute() {
    check_fleet(50, 12);
}

#[test]
fn five_hundred_objects_share_a_limit_of_sixty_a_minute() {
    check_fleet(500, 60);
}
