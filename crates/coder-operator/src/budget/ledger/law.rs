//! The ledger against a limiter of its own making: other arithmetic (whole microseconds, a list of what
//! came when), another clock, a way that takes time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::budget::hint::WindowHeaders;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;

/// coderd's limiter. Time is in microseconds from the beginning of the test.
struct Limiter {
    limit: u64,
    /// What its clock shows at the beginning. Windows begin at any fraction of a second.
    wall: u64,
    phase: u64,
    counts: BTreeMap<u64, u64>,
    refused_at: Vec<u64>,
}

impl Limiter {
    fn window(&self, at: u64) -> (u64, u64) {
        let since = self.wall + at - self.phase;
        (since / MINUTE, since % MINUTE)
    }

    /// The rounded rate, half away from zero, as Go rounds.
    fn rate(&self, at: u64) -> u64 {
        let (window, elapsed) = self.window(at);
        let count = |window| self.counts.get(&window).copied().unwrap_or(0);
        let previous = window.checked_sub(1).map_or(0, count);
        (2 * (previous * (MINUTE - elapsed) + count(window) * MINUTE) + MINUTE) / (2 * MINUTE)
    }

    fn allows(&self, at: u64) -> bool {
        self.rate(at) < self.limit
    }

    fn call(&mut self, at: u64) -> (u16, WindowHeaders) {
        let (window, _) = self.window(at);
        let taken = self.allows(at);
        let rate = self.rate(at) + u64::from(taken);
        match taken {
            true => *self.counts.entry(window).or_default() += 1,
            false => self.refused_at.push(window),
        }
        let reading = WindowHeaders {
            limit: u32::try_from(self.limit).expect("a limit"),
            remaining: self.limit as i64 - rate as i64,
            reset: ((self.phase + (window + 1) * MINUTE) / SECOND) as i64,
        };
        (if taken { 201 } else { 429 }, reading)
    }

    /// When the last of `many` calls is taken that are all made as soon as they may be: the first
    /// at once, the others when its answer has come, before which the limit is unknown.
    fn fastest_time(mut self, many: usize, (first, answered): (u64, u64)) -> u64 {
        let mut at = first;
        for call in 0..many {
            if call == 1 {
                at = answered;
            }
            while !self.allows(at) {
                // Coarse steps first: a refused limiter takes nothing for long.
                let step = [MINUTE / 10, SECOND, SECOND / 100];
                let ahead = step.into_iter().find(|step| !self.allows(at + step));
                at += ahead.unwrap_or(SECOND / 100);
            }
            self.call(at);
        }
        at
    }
}

enum Event {
    Request(u32),
    Arrive {
        who: u32,
        sent: u64,
    },
    Answer {
        sent: u64,
        status: u16,
        reading: WindowHeaders,
        date: i64,
    },
    Lost,
    ForeignCall,
}

struct Play {
    limiter: Limiter,
    ledger: Ledger<u32>,
    begin: Instant,
    events: BTreeMap<(u64, u64), Event>,
    calls: u64,
    rng: fastrand::Rng,
    /// The longest way in one direction.
    latency: u64,
    /// One answer of this many gets lost; none if zero.
    loss_rate: u64,
    waiting: BTreeSet<u32>,
    /// When the first call arrived, and when its answer did.
    first: Option<(u64, u64)>,
    last: u64,
}

impl Play {
    fn new(limit: u64, seed: u64) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let wall = 1_700_000_000 * SECOND + dice.u64(0..7200 * SECOND);
        let limiter = Limiter {
            limit,
            wall,
            phase: dice.u64(0..MINUTE),
            counts: BTreeMap::new(),
            refused_at: Vec::new(),
        };
        Self {
            limiter,
            ledger: Ledger::default(),
            begin: Instant::now() + Duration::from_secs(7200),
            events: BTreeMap::new(),
            calls: 0,
            rng: dice,
            latency: SECOND / 4,
            loss_rate: 0,
            waiting: BTreeSet::new(),
            first: None,
            last: 0,
        }
    }

    /// The same, with some seconds to go in its first window. Where a burst meets the end of a window, the
    /// way of each call decides which one it counts in, and luck is not what is measured.
    fn started_early(limit: u64, seed: u64) -> Self {
        let mut play = Self::new(limit, seed);
        let (_, elapsed) = play.limiter.window(0);
        if elapsed > 57 * SECOND {
            play.limiter.phase += elapsed;
        }
        play
    }

    fn at(&mut self, when: u64, event: Event) {
        self.calls += 1;
        self.events.insert((when, self.calls), event);
    }

    fn schedule_request(&mut self, who: u32, when: u64) {
        self.waiting.insert(who);
        self.at(when, Event::Request(who));
    }

    fn instant(&self, at: u64) -> Instant {
        self.begin + Duration::from_micros(at)
    }

    fn wake(&mut self, now: u64, who: Vec<u32>) {
        for who in who {
            let late = self.rng.u64(0..SECOND / 50);
            self.at(now + late, Event::Request(who));
        }
    }

    fn run(&mut self) {
        while let Some(((now, _), event)) = self.events.pop_first() {
            match event {
                Event::Request(who) => self.handle_request(who, now),
                Event::Arrive { who, sent } => self.handle_arrival(who, sent, now),
                Event::Answer {
                    sent,
                    status,
                    reading,
                    date,
                } => {
                    let hint = Hint {
                        status,
                        reading: Some(reading),
                        date: Some(date),
                        retry_after: None,
                    };
                    let (sent, at) = (self.instant(sent), self.instant(now));
                    let ready = self.ledger.record_answer("/keys", &hint, sent, at);
                    self.wake(now, ready);
                }
                Event::Lost => {
                    let ready = self.ledger.record_no_answer("/keys", self.instant(now));
                    self.wake(now, ready);
                }
                Event::ForeignCall => {
                    if self.limiter.allows(now) {
                        self.limiter.call(now);
                    }
                }
            }
        }
        assert!(self.waiting.is_empty(), "{} never went", self.waiting.len());
    }

    fn handle_request(&mut self, who: u32, now: u64) {
        if !self.waiting.contains(&who) {
            return;
        }
        let lane = [CallPriority::Delete, CallPriority::Write, CallPriority::Read][who as usize % 3];
        let (step, ready) = self.ledger.turn(&who, lane, "/keys", self.instant(now));
        self.wake(now, ready);
        match step {
            Step::Now => {
                self.waiting.remove(&who);
                let way = self.rng.u64(0..=self.latency);
                self.at(now + way, Event::Arrive { who, sent: now });
            }
            Step::Later { until, .. } => {
                let until = until.saturating_duration_since(self.begin).as_micros();
                let late = self.rng.u64(0..SECOND / 50);
                self.at(until as u64 + 1 + late, Event::Request(who));
            }
        }
    }

    fn handle_arrival(&mut self, who: u32, sent: u64, now: u64) {
        let (status, reading) = self.limiter.call(now);
        self.last = self.last.max(now);
        if status == 429 {
            self.schedule_request(who, now + SECOND);
        }
        let date = ((self.limiter.wall + now) / SECOND) as i64;
        let back = now + self.rng.u64(0..=self.latency);
        // At a server in an unknown state, at least one call must be made.
        let known = self.first.is_some();
        self.first.get_or_insert((now, back));
        match known && self.loss_rate > 0 && self.rng.u64(0..self.loss_rate) == 0 {
            true => self.at(back, Event::Lost),
            false => self.at(
                back,
                Event::Answer {
                    sent,
                    status,
                    reading,
                    date,
                },
            ),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_single_client_is_never_throttled(
        limit in prop_oneof![1u64..20, 1u64..600], seed in any::<u64>(),
        way in 0..SECOND, loses in prop_oneof![Just(0u64), 2u64..20],
        bursts in prop::collection::vec((0..600 * SECOND, 1u32..120), 1..8),
    ) {
        let mut play = Play::new(limit, seed);
        (play.latency, play.loss_rate) = (way, loses);
        let mut who = 0;
        for (when, many) in bursts {
            for _ in 0..many {
                who += 1;
                play.schedule_request(who, when);
            }
        }
        play.run();
        prop_assert_eq!(play.limiter.refused_at.len(), 0);
    }

    #[test]
    fn a_fleet_takes_little_longer_than_the_limit_allows(
        (limit, many) in (5u64..600).prop_flat_map(|limit| {
            (Just(limit), 1..=(limit as usize * 12).min(2000))
        }),
        seed in any::<u64>(),
    ) {
        let mut play = Play::started_early(limit, seed);
        for who in 0..many {
            play.schedule_request(who as u32, 0);
        }
        play.run();
        prop_assert_eq!(play.limiter.refused_at.len(), 0);
        let first = play.first.expect("a call");
        let best = Play::started_early(limit, seed).limiter.fastest_time(many, first);
        let most = best + best / 10 + 3 * SECOND;
        prop_assert!(play.last <= most, "{} s, and {} s is possible",
            play.last / SECOND, best / SECOND);
    }

    #[test]
    fn where_others_spend_too_one_refusal_a_window_is_the_most(
        limit in 5u64..300, seed in any::<u64>(), share in 1u64..100, many in 1u32..300,
    ) {
        let mut play = Play::new(limit, seed);
        for noise in 0..(limit * share / 100 + 1) * 10 {
            let when = play.rng.u64(0..10 * MINUTE);
            play.at(when, Event::ForeignCall);
            play.at(noise % 2, Event::ForeignCall);
        }
        for who in 0..many.min(limit as u32 * 4) {
            play.schedule_request(who, 2);
        }
        play.run();
        let refused = &play.limiter.refused_at;
        let windows: BTreeSet<_> = refused.iter().collect();
        prop_assert_eq!(windows.len(), refused.len(), "{:?}", refused);
    }
}

/// The figures behind the documentation; `--nocapture` prints them.
#[test]
fn two_thousand_at_the_default_limit() {
    let mut play = Play::started_early(512, 7);
    for who in 0..2000 {
        play.schedule_request(who, 0);
    }
    play.run();
    let first = play.first.expect("a call");
    let best = Play::started_early(512, 7).limiter.fastest_time(2000, first);
    println!(
        "2000 calls at 512 a minute: {} s, possible {} s",
        play.last / SECOND,
        best / SECOND
    );
    assert!(play.last <= best + best / 10 + 3 * SECOND);
}
