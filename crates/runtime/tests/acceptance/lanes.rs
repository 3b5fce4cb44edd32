//! Promise: no lane waits past its age bound under ten times overload.
//!
//! Simulated millisecond by millisecond, with the queue itself and nothing else. The cold start, which
//! needs the whole engine, is in `cold_start`.

use std::collections::BinaryHeap;
use std::time::Duration;

use aplomb::queue::{Dispatch, FairQueue, Lane, LaneConfig, NextRun, QueueConfig, RunReason, RunTicket};

const WORKERS: usize = 16;
const WORK: Duration = Duration::from_millis(80);
/// The capacity of sixteen workers of 80 ms, per second.
const CAPACITY: u64 = 200;
const TICK: Duration = Duration::from_millis(1);
const SPAN: Duration = Duration::from_secs(100);

/// A lane and a number.
type Object = (usize, u64);

/// Sixteen workers and a queue.
struct Pool {
    queue: FairQueue<Object>,
    now: Duration,
    /// The runs that end first are on top.
    busy: BinaryHeap<std::cmp::Reverse<(Duration, RunTicket)>>,
    /// Since when each lane has had work without being served.
    unserved: [Option<Duration>; 4],
    worst: Worst,
}

/// The worst values, by lane.
#[derive(Clone, Copy, Default)]
struct Worst {
    /// The longest time a lane had work and was not served.
    gap: [Duration; 4],
    /// The longest wait of an object.
    wait: [Duration; 4],
    served: [u64; 4],
}

impl Pool {
    fn new(config: QueueConfig) -> Self {
        Self {
            queue: FairQueue::new(config),
            now: Duration::ZERO,
            busy: BinaryHeap::new(),
            unserved: [None; 4],
            worst: Worst::default(),
        }
    }

    fn push(&mut self, object: Object) {
        let lane = Lane::ALL[object.0];
        self.queue.push(&object, lane, RunReason::Changed, self.now);
        self.unserved[object.0].get_or_insert(self.now);
    }

    fn tick(&mut self) {
        while let Some(std::cmp::Reverse((end, ticket))) = self.busy.peek().copied() {
            if end > self.now {
                break;
            }
            self.busy.pop();
            self.queue.complete(ticket, NextRun::Idle, self.now);
        }
        while self.busy.len() < WORKERS {
            let Some(run) = self.queue.pop(self.now) else {
                break;
            };
            self.started(&run);
            self.busy.push(std::cmp::Reverse((self.now + WORK, run.ticket)));
        }
        for (lane, since) in self.unserved.iter().enumerate() {
            let gap = since.map_or(Duration::ZERO, |since| self.now - since);
            self.worst.gap[lane] = self.worst.gap[lane].max(gap);
        }
        self.now += TICK;
    }

    fn started(&mut self, run: &Dispatch<Object>) {
        let lane = run.key.0;
        self.worst.served[lane] += 1;
        self.worst.wait[lane] = self.worst.wait[lane].max(run.waited);
        let more = self.queue.oldest(Lane::ALL[lane], self.now).is_some();
        self.unserved[lane] = more.then_some(self.now);
    }

    /// Includes objects that still wait: a lane that is never served has no completed wait.
    fn into_worst(mut self) -> Worst {
        for (lane, wait) in self.worst.wait.iter_mut().enumerate() {
            let oldest = self.queue.oldest(Lane::ALL[lane], self.now);
            *wait = oldest.map_or(*wait, |oldest| oldest.max(*wait));
        }
        self.worst
    }
}

/// Ten events for each that can be served; `event` returns the object of the `n`th.
fn overloaded(config: QueueConfig, event: impl Fn(u64) -> Object) -> Worst {
    let mut pool = Pool::new(config);
    let per_tick = 10 * CAPACITY / 1_000;
    let mut n = 0;
    while pool.now < SPAN {
        for _ in 0..per_tick {
            pool.push(event(n));
            n += 1;
        }
        pool.tick();
    }
    pool.into_worst()
}

fn bounds() -> [Duration; 4] {
    let config = QueueConfig::default();
    Lane::ALL.map(|lane| config.lane(lane).bound.expect("every lane has one"))
}

fn is_within_bounds(worst: &[Duration; 4]) -> bool {
    worst.iter().zip(bounds()).all(|(worst, bound)| *worst <= bound)
}

fn print_worst(title: &str, worst: &Worst) {
    println!("{title}");
    for (lane, bound) in Lane::ALL.into_iter().zip(bounds()) {
        let at = lane as usize;
        println!(
            "  {:<7} bound {bound:>4?}  unserved {:>9.3?}  oldest {:>9.3?}  served {}",
            lane.as_str(),
            worst.gap[at],
            worst.wait[at],
            worst.served[at],
        );
    }
}

/// Every lane gets new objects without end: none goes unserved for longer than its bound.
#[test]
fn lane_is_served_within_its_bound_under_ten_times_overload() {
    let flood = |n: u64| ((n % 4) as usize, n);
    let fair = overloaded(QueueConfig::default(), flood);
    print_worst("all lanes flooded with new objects", &fair);
    assert!(is_within_bounds(&fair.gap));

    let strict = overloaded(strict(), flood);
    print_worst("the same under strict priority", &strict);
    assert!(!is_within_bounds(&strict.gap));
}

/// In each lane, as many objects as its guaranteed half share serves within its bound, touched without
/// pause: no object waits longer than the bound.
#[test]
fn object_waits_within_its_bound_under_ten_times_overload() {
    let objects = [50, 120, 180, 350];
    let touch = |n: u64| {
        let lane = (n % 4) as usize;
        (lane, (n / 4) % objects[lane])
    };
    let fair = overloaded(QueueConfig::default(), touch);
    print_worst("700 objects touched 2,000 times a second", &fair);
    assert!(is_within_bounds(&fair.wait));

    let strict = overloaded(strict(), touch);
    print_worst("the same under strict priority", &strict);
    assert!(!is_within_bounds(&strict.wait));
}

/// One lane is flooded, the others get occasional events, which are served within their bounds.
#[test]
fn a_flooded_lane_holds_up_no_other() {
    for flooded in Lane::ALL {
        let flooded = flooded as usize;
        let event = |n: u64| {
            let other = ((n / 100) % 4) as usize;
            let lane = if n.is_multiple_of(100) { other } else { flooded };
            (lane, n)
        };
        let mut fair = overloaded(QueueConfig::default(), event);
        print_worst(&format!("only {} flooded", Lane::ALL[flooded].as_str()), &fair);
        fair.wait[flooded] = Duration::ZERO;
        assert!(is_within_bounds(&fair.wait) && is_within_bounds(&fair.gap));
    }
    let event = |n: u64| {
        if n.is_multiple_of(100) { (3, n) } else { (0, n) }
    };
    assert!(!is_within_bounds(&overloaded(strict(), event).wait));
}

/// Strict priority: an urgent lane with work keeps every other lane waiting, without limit.
pub fn strict() -> QueueConfig {
    let last = LaneConfig {
        weight: 0,
        bound: None,
        pace: None,
    };
    QueueConfig {
        edit: last,
        input: last,
        retry: last,
        resync: last,
    }
}
