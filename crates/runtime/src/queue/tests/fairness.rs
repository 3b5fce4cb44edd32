//! The two documented guarantees of the lanes, against adversarial load.

use proptest::prelude::*;

use super::*;

prop_compose! {
    fn config()(lanes in prop::array::uniform4((1_u32..12, 10_u64..400))) -> QueueConfig {
        let lane = |(weight, bound): (u32, u64)| LaneConfig { weight, bound: Some(at(bound)), pace: None };
        let [edit, input, retry, resync] = lanes.map(lane);
        QueueConfig { edit, input, retry, resync }
    }
}

/// For each step: how many keys each lane gets, and how long until the next dispatch.
fn load() -> impl Strategy<Value = Vec<([u8; 4], u64)>> {
    // Up to ten pushed for each one taken, in all lanes together or in one alone.
    let burst = prop_oneof![prop::array::uniform4(0_u8..4), prop::array::uniform4(0_u8..=1)];
    prop::collection::vec((burst, 0_u64..40), 1..250)
}

/// A queue under load, with new keys only, and a record of how each lane was served.
struct Loaded {
    queue: FairQueue<(usize, u64)>,
    pushed: [u64; 4],
    popped: [u64; 4],
    dispatches: u64,
    now: Duration,
}

impl Loaded {
    fn new(config: QueueConfig) -> Self {
        Self {
            queue: FairQueue::new(config),
            pushed: [0; 4],
            popped: [0; 4],
            dispatches: 0,
            now: Duration::ZERO,
        }
    }

    fn push(&mut self, lane: usize) {
        let key = (lane, self.pushed[lane]);
        self.pushed[lane] += 1;
        self.queue.push(&key, Lane::ALL[lane], RunReason::Changed, self.now);
    }

    /// Takes one key, and returns its lane. Also checks the order inside a lane.
    fn pop(&mut self) -> Result<Option<usize>, TestCaseError> {
        let Some(run) = self.queue.pop(self.now) else {
            return Ok(None);
        };
        let (lane, number) = run.key;
        prop_assert_eq!(number, self.popped[lane], "first in, first out");
        self.popped[lane] += 1;
        self.dispatches += 1;
        self.queue.complete(run.ticket, NextRun::Idle, self.now);
        Ok(Some(lane))
    }

    fn oldest(&self, lane: usize) -> Option<Duration> {
        self.queue.oldest(Lane::ALL[lane], self.now)
    }
}

proptest! {
    #[test]
    fn a_lane_that_is_late_is_served_within_eight_dispatches(config in config(), load in load()) {
        let mut loaded = Loaded::new(config);
        // Dispatches of others since each lane was called.
        let (mut passed_over, mut passed_over_alone) = ([0; 4], [0; 4]);
        for (pushes, gap) in load {
            for (lane, count) in pushes.into_iter().enumerate() {
                (0..count).for_each(|_| loaded.push(lane));
            }
            let called = std::array::from_fn::<_, 4, _>(|lane| {
                let bound = config.lane(Lane::ALL[lane]).bound.expect("every lane has one");
                loaded.oldest(lane).is_some_and(|age| age >= bound / 2)
            });
            let alone = called.iter().filter(|called| **called).count() == 1;
            let served = loaded.pop()?;
            for lane in (0..4).filter(|lane| Some(*lane) != served) {
                passed_over[lane] = if called[lane] { passed_over[lane] + 1 } else { 0 };
                let alone = called[lane] && alone;
                passed_over_alone[lane] = if alone { passed_over_alone[lane] + 1 } else { 0 };
                prop_assert!(passed_over[lane] < 8 && passed_over_alone[lane] < 2);
            }
            if let Some(lane) = served {
                (passed_over[lane], passed_over_alone[lane]) = (0, 0);
            }
            loaded.now += at(gap);
        }
    }

    #[test]
    fn lane_is_served_within_its_bound_of_sixteen_dispatches(config in config(), load in load()) {
        let mut loaded = Loaded::new(config);
        let shortest = Lane::ALL.map(|lane| config.lane(lane).bound).into_iter().flatten().min();
        let gap = shortest.expect("every lane has one") / 16;
        // Since when each lane has had work and not been served.
        let mut since: [Option<Duration>; 4] = [None; 4];
        for (pushes, _) in load {
            for (lane, count) in pushes.into_iter().enumerate() {
                (0..count).for_each(|_| loaded.push(lane));
                if loaded.oldest(lane).is_some() {
                    since[lane].get_or_insert(loaded.now);
                }
            }
            if let Some(lane) = loaded.pop()? {
                let unserved = loaded.now - since[lane].expect("it had work");
                prop_assert!(Some(unserved) <= config.lane(Lane::ALL[lane]).bound);
                since[lane] = loaded.oldest(lane).map(|_| loaded.now);
            }
            for lane in 0..4 {
                let unserved = since[lane].map(|since| loaded.now - since);
                prop_assert!(unserved <= config.lane(Lane::ALL[lane]).bound);
            }
            loaded.now += gap;
        }
    }

    #[test]
    fn lane_gets_its_share_under_any_load(config in config(), load in load()) {
        let mut loaded = Loaded::new(config);
        let weight = |lane: usize| u64::from(config.lane(Lane::ALL[lane]).weight);
        let all: u64 = (0..4).map(weight).sum();
        // By when each key must be dispatched, counted in dispatches.
        let mut latest: [std::collections::VecDeque<u64>; 4] = Default::default();
        for (pushes, gap) in load {
            for (lane, count) in pushes.into_iter().enumerate() {
                for _ in 0..count {
                    let before = loaded.pushed[lane] - loaded.popped[lane];
                    loaded.push(lane);
                    let w = weight(lane);
                    let within = 2 * (all - w + all * (before + 1).div_ceil(w));
                    latest[lane].push_back(loaded.dispatches + within);
                }
            }
            if let Some(lane) = loaded.pop()? {
                let latest = latest[lane].pop_front().expect("it was pushed");
                prop_assert!(loaded.dispatches <= latest, "{} > {latest}", loaded.dispatches);
            }
            loaded.now += at(gap);
        }
    }
}

/// Strict priority: an urgent lane with work keeps every other lane waiting, without limit.
fn strict() -> QueueConfig {
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

#[test]
fn strict_priority_starves_a_lane() {
    let mut loaded = Loaded::new(strict());
    loaded.push(Lane::Resync.index());
    for _ in 0..10_000 {
        loaded.push(Lane::Edit.index());
        loaded.pop().expect("in order");
        loaded.now += at(100);
    }
    assert_eq!(loaded.popped[Lane::Resync.index()], 0);
}

#[test]
fn without_a_bound_a_lane_of_small_weight_waits_for_its_share() {
    let lane = |weight, bound| LaneConfig {
        weight,
        bound,
        pace: None,
    };
    let wait = |bound| {
        let mut config = strict();
        (config.edit, config.resync) = (lane(1_000, None), lane(1, bound));
        let mut loaded = Loaded::new(config);
        loaded.push(Lane::Resync.index());
        while loaded.popped[Lane::Resync.index()] == 0 {
            loaded.push(Lane::Edit.index());
            loaded.pop().expect("in order");
            loaded.now += at(100);
        }
        loaded.now
    };
    assert!(wait(None) > Duration::from_secs(100));
    assert!(wait(Some(Duration::from_secs(10))) <= Duration::from_secs(6));
}
