//! The ledger under every order of events.

use proptest::prelude::*;

use super::super::dialect::{KUBERNETES, QuotaModel};
use super::super::lesson::{LimitHint, RemainingQuota};
use super::*;
use crate::ratelimit::LimitLaneConfig;

const FIRST: LimitLane = LimitLane(0);
const LAST: LimitLane = LimitLane(2);

fn lanes(reserves: [u32; 3], slots: [usize; 3]) -> Vec<LimitLaneConfig> {
    let lane = |(reserve, slots)| LimitLaneConfig {
        name: String::new(),
        reserve,
        slots,
    };
    reserves.into_iter().zip(slots).map(lane).collect()
}

fn config(rate: f64, burst: u32, reserves: [u32; 3]) -> LimitConfig {
    LimitConfig {
        rate,
        burst,
        concurrency: 1000,
        lanes: lanes(reserves, [0, 0, 0]),
        header_formats: vec![KUBERNETES],
        ramp: Duration::from_secs(4),
        longest_wait: Duration::from_secs(3600),
    }
}

fn refused(seconds: u64) -> LimitHint {
    LimitHint {
        refused: true,
        wait: Some(Duration::from_secs(seconds)),
        ..LimitHint::default()
    }
}

fn left(remaining: f64, over: u64, quota: QuotaModel) -> LimitHint {
    let left = RemainingQuota {
        remaining,
        reset_after: Duration::from_secs(over),
        quota,
        refill: None,
    };
    LimitHint {
        remaining_quota: Some(left),
        ..LimitHint::default()
    }
}

fn drained(seconds: Option<u64>) -> LimitHint {
    LimitHint {
        refused: true,
        wait: seconds.map(Duration::from_secs),
        steady: true,
        ..LimitHint::default()
    }
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn enqueue_many(ledger: &mut BucketModel, lane: LimitLane, many: usize) -> Vec<WaitTicket> {
    (0..many).map(|_| ledger.enqueue(lane)).collect()
}

#[test]
fn a_reserve_is_there_however_many_others_call() {
    let mut ledger = BucketModel::new(config(1.0, 20, [5, 0, 0]));
    enqueue_many(&mut ledger, LAST, 100);
    assert_eq!(ledger.grant_ready(Duration::ZERO).len(), 15);
    let urgent = enqueue_many(&mut ledger, FIRST, 5);
    assert_eq!(ledger.grant_ready(Duration::ZERO), urgent);
}

#[test]
fn refusal_serves_reserve_lane_first_and_no_call_early() {
    let mut ledger = BucketModel::new(config(8.0, 100, [5, 0, 0]));
    ledger.apply_hint(&refused(60), Duration::ZERO);
    let last = enqueue_many(&mut ledger, LAST, 50);
    let first = enqueue_many(&mut ledger, FIRST, 5);
    assert_eq!(ledger.grant_ready(secs(59.999)), []);
    assert_eq!(ledger.grant_ready(secs(60.0)), [], "a ramp and no step");
    let mut served = Vec::new();
    for tick in 0..600 {
        served.extend(ledger.grant_ready(secs(60.0 + f64::from(tick) * 0.05)));
    }
    assert_eq!(served[..5], first);
    assert_eq!(served[5..], last, "in the order they came");
}

#[test]
fn unsent_grants_wait_again_after_refusal() {
    let mut ledger = BucketModel::new(config(10.0, 10, [0, 0, 0]));
    let tickets = enqueue_many(&mut ledger, LAST, 3);
    assert_eq!(ledger.grant_ready(Duration::ZERO), tickets);
    assert!(ledger.take_grant(tickets[0]));
    ledger.apply_hint(&refused(10), Duration::ZERO);
    assert!(!ledger.take_grant(tickets[1]));
    assert_eq!(ledger.in_flight(), 1);
    assert_eq!(ledger.grant_ready(secs(60.0)), tickets[1..]);
}

#[test]
fn a_busy_lane_starves_no_other() {
    let mut ledger = BucketModel::new(config(1.0, 20, [10, 0, 0]));
    ledger.apply_hint(&refused(1), Duration::ZERO);
    enqueue_many(&mut ledger, FIRST, 10_000);
    let patient = ledger.enqueue(LAST);
    let within = SHARED_REFILL_RATIO * (FAIR_GRANT_INTERVAL as f64 + 1.0) + 10.0;
    let served = (0..within as u64).any(|at| ledger.grant_ready(Duration::from_secs(at)).contains(&patient));
    assert!(served);
}

#[test]
fn slots_have_lanes_too() {
    let mut config = config(1000.0, 1000, [0, 0, 0]);
    config.concurrency = 4;
    config.lanes = lanes([0, 0, 0], [2, 0, 0]);
    let mut ledger = BucketModel::new(config);
    let slow = enqueue_many(&mut ledger, LAST, 5);
    assert_eq!(ledger.grant_ready(Duration::ZERO), slow[..2]);
    let urgent = enqueue_many(&mut ledger, FIRST, 3);
    assert_eq!(ledger.grant_ready(Duration::ZERO), urgent[..2]);
    assert_eq!(ledger.next_grant_at(), None, "no time brings a slot");
    slow[..2].iter().for_each(|ticket| assert!(ledger.take_grant(*ticket)));
    ledger.complete(LAST);
    assert_eq!(ledger.grant_ready(Duration::ZERO), urgent[2..], "the urgent lane first");
}

#[test]
fn a_window_is_spent_evenly_and_closed_when_it_is_spent() {
    let mut ledger = BucketModel::new(config(100.0, 10, [0, 0, 0]));
    ledger.apply_hint(&left(30.0, 60, QuotaModel::Window), Duration::ZERO);
    enqueue_many(&mut ledger, LAST, 1000);
    assert_eq!(ledger.grant_ready(Duration::ZERO).len(), 10);
    let within: usize = (1..60)
        .map(|at| ledger.grant_ready(Duration::from_secs(at)).len())
        .sum();
    assert!((15..=20).contains(&within), "{within} of the 20 that were left");
    ledger.apply_hint(&left(0.0, 30, QuotaModel::Window), secs(60.0));
    assert_eq!(ledger.closed_until(secs(60.0)), Some(secs(90.0)));
}

#[test]
fn remaining_tokens_are_kept_for_the_reserve() {
    let mut ledger = BucketModel::new(config(1.0, 3600, [10, 0, 0]));
    ledger.apply_hint(&left(8.0, 3592, QuotaModel::Leaky), Duration::ZERO);
    enqueue_many(&mut ledger, LAST, 10);
    assert_eq!(ledger.grant_ready(Duration::ZERO), []);
    let urgent = enqueue_many(&mut ledger, FIRST, 9);
    assert_eq!(ledger.grant_ready(Duration::ZERO), urgent[..8]);
}

#[test]
fn refusals_without_a_hint_close_it_longer_each_time() {
    let mut ledger = BucketModel::new(config(1.0, 10, [0, 0, 0]));
    let unhinted = LimitHint {
        refused: true,
        ..LimitHint::default()
    };
    let mut now = Duration::ZERO;
    for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
        // Ten that were on their way together count once.
        for _ in 0..10 {
            ledger.apply_hint(&unhinted, now);
        }
        let until = ledger.closed_until(now).expect("closed");
        assert_eq!(until - now, Duration::from_secs(expected));
        now = until;
    }
    ledger.apply_hint(&LimitHint::default(), now);
    ledger.apply_hint(&unhinted, now);
    assert_eq!(ledger.closed_until(now), Some(now + Duration::from_secs(1)));
}

#[test]
fn empty_bucket_admits_one_call_per_refill_in_first_lane() {
    for wait in [Some(2), None] {
        let mut ledger = BucketModel::new(config(0.5, 3600, [30, 0, 0]));
        enqueue_many(&mut ledger, FIRST, 100);
        ledger.grant_ready(Duration::ZERO);
        ledger.apply_hint(&drained(wait), Duration::ZERO);
        enqueue_many(&mut ledger, LAST, 10);
        for attempt in 1..=50 {
            let next = ledger.next_grant_at().expect("a call waits");
            assert_eq!(next, Duration::from_secs(2 * attempt));
            assert_eq!(ledger.grant_ready(next - Duration::from_millis(1)), []);
            let granted = ledger.grant_ready(next);
            assert_eq!(granted.len(), 1, "attempt {attempt}");
            assert!(ledger.take_grant(granted[0]));
            ledger.complete(FIRST);
            ledger.apply_hint(&drained(wait), next);
        }
        assert_eq!(ledger.lanes[2].waiting.len(), 10);
    }
}

#[test]
fn fast_refill_does_not_exceed_configured_rate() {
    let mut ledger = BucketModel::new(config(0.1, 10, [0, 0, 0]));
    ledger.apply_hint(&drained(Some(1)), Duration::ZERO);
    enqueue_many(&mut ledger, FIRST, 5);
    assert_eq!(ledger.next_grant_at(), Some(Duration::from_secs(10)));
    assert_eq!(ledger.forecast(LAST), Duration::from_secs(60) + Duration::from_nanos(1));
}

#[test]
fn no_answer_closes_the_limiter_forever() {
    let mut ledger = BucketModel::new(config(1.0, 10, [0, 0, 0]));
    assert!(
        ledger.apply_hint(&refused(u64::MAX / 2), Duration::ZERO),
        "not believed"
    );
    assert_eq!(ledger.closed_until(Duration::ZERO), Some(secs(3600.0)));
}

#[derive(Clone, Debug)]
enum Op {
    Enqueue(usize),
    Take,
    Finish,
    Cancel(usize),
    Refuse(u64),
    Drain(u64),
    Window(u32, u64),
    Leaky(u32),
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0usize..3).prop_map(Op::Enqueue),
        4 => Just(Op::Take),
        3 => Just(Op::Finish),
        2 => (0usize..20).prop_map(Op::Cancel),
        1 => (0u64..20).prop_map(Op::Refuse),
        1 => (0u64..20).prop_map(Op::Drain),
        1 => (0u32..30, 0u64..20).prop_map(|(left, over)| Op::Window(left, over)),
        1 => (0u32..30).prop_map(Op::Leaky),
        6 => (1u64..3000).prop_map(Op::Pass),
    ];
    proptest::collection::vec(op, 1..200)
}

/// What an onlooker knows: who waits, who was granted and who called, and when.
#[derive(Default)]
struct Onlooker {
    now: Duration,
    waiting: Vec<(WaitTicket, usize)>,
    granted: Vec<(WaitTicket, usize)>,
    flying: Vec<usize>,
    calls: Vec<Duration>,
    closed: Option<(Duration, Duration)>,
    /// Calls that are there when it opens: the one of a bucket that was empty.
    there: f64,
}

impl Onlooker {
    fn act(&mut self, ledger: &mut BucketModel, op: &Op) {
        match op {
            Op::Enqueue(lane) => self.waiting.push((ledger.enqueue(LimitLane(*lane)), *lane)),
            Op::Take => {
                if let Some((ticket, lane)) = self.granted.pop() {
                    assert!(ledger.take_grant(ticket));
                    self.flying.push(lane);
                    self.calls.push(self.now);
                }
            }
            Op::Finish => {
                if let Some(lane) = self.flying.pop() {
                    ledger.complete(LimitLane(lane));
                }
            }
            Op::Cancel(at) => {
                let all = self.waiting.iter().chain(&self.granted);
                if let Some((ticket, _)) = all.copied().nth(*at) {
                    ledger.cancel(ticket);
                    self.waiting.retain(|(waiting, _)| *waiting != ticket);
                    self.granted.retain(|(granted, _)| *granted != ticket);
                }
            }
            Op::Refuse(wait) => {
                ledger.apply_hint(&refused(*wait), self.now);
                self.there = 0.0;
            }
            Op::Drain(wait) => {
                self.there = 1.0;
                ledger.apply_hint(&drained(Some(*wait).filter(|wait| *wait > 0)), self.now);
            }
            Op::Window(remaining, over) => {
                ledger.apply_hint(&left(f64::from(*remaining), *over, QuotaModel::Window), self.now);
            }
            Op::Leaky(remaining) => {
                ledger.apply_hint(&left(f64::from(*remaining), 60, QuotaModel::Leaky), self.now);
            }
            Op::Pass(millis) => self.now += Duration::from_millis(*millis),
        }
        self.record_close(ledger);
    }

    fn record_close(&mut self, ledger: &BucketModel) {
        if let Some(until) = ledger.closed_until(self.now) {
            self.closed = Some((self.now, until));
            let revoked = self.granted.extract_if(.., |(ticket, _)| !ledger.is_granted(*ticket));
            self.waiting.extend(revoked);
            self.waiting.sort_unstable();
        }
    }

    fn grant_and_check(&mut self, ledger: &mut BucketModel) {
        let before: Vec<f64> = ledger.lanes.iter().map(|lane| lane.reserve.level()).collect();
        let granted = ledger.grant_ready(self.now);
        for (lane, before) in before.iter().enumerate() {
            let own = granted.iter().any(|ticket| self.lane_of(*ticket) == lane);
            assert!(
                own || ledger.lanes[lane].reserve.level() >= *before,
                "a reserve was spent"
            );
        }
        for ticket in granted {
            let at = self.waiting.iter().position(|(waiting, _)| *waiting == ticket);
            let served = self.waiting.remove(at.expect("who waited"));
            let ahead = |other: &&(WaitTicket, usize)| other.1 == served.1 && other.0 < ticket;
            assert!(
                !self.waiting.iter().any(|other| ahead(&other)),
                "first come, first served"
            );
            self.granted.push(served);
        }
    }

    fn lane_of(&self, ticket: WaitTicket) -> usize {
        let found = self.waiting.iter().find(|(waiting, _)| *waiting == ticket);
        found.expect("who waited").1
    }

    fn check(&self, ledger: &BucketModel, rate: f64, burst: f64) {
        let tokens = ledger.tokens();
        assert!((0.0..=burst + 1e-6).contains(&tokens), "{tokens} tokens");
        assert_eq!(ledger.in_flight(), self.flying.len() + self.granted.len());
        if let Some((from, until)) = self.closed {
            let early = self.calls.iter().filter(|at| **at > from && **at < until);
            assert_eq!(early.count(), 0, "a call while closed");
            let since = self.calls.iter().filter(|at| **at >= until).count() as f64;
            let most = self.there + rate * self.now.saturating_sub(until).as_secs_f64();
            assert!(since <= most + 1e-3, "{since} calls, {most} at the most");
        }
        for (first, from) in self.calls.iter().enumerate() {
            let span = (self.now - *from).as_secs_f64();
            let calls = (self.calls.len() - first) as f64;
            assert!(
                calls <= burst + rate * span + self.calls.len() as f64 * 1e-6,
                "{calls} in {span} s"
            );
        }
    }
}

proptest! {
    #[test]
    fn no_lane_is_overspent_or_skipped(ops in ops(), rate in 0.5f64..20.0) {
        let burst = 12;
        let mut config = config(rate, burst, [3, 0, 2]);
        config.concurrency = 6;
        config.lanes = lanes([3, 0, 2], [1, 0, 1]);
        let mut ledger = BucketModel::new(config);
        let mut onlooker = Onlooker::default();
        for op in &ops {
            onlooker.act(&mut ledger, op);
            onlooker.grant_and_check(&mut ledger);
            onlooker.check(&ledger, rate, f64::from(burst));
        }
    }

    #[test]
    fn grant_comes_at_its_forecast(ops in ops(), rate in 0.5f64..20.0) {
        let mut ledger = BucketModel::new(config(rate, 12, [3, 0, 2]));
        let mut onlooker = Onlooker::default();
        for op in &ops {
            onlooker.act(&mut ledger, op);
            onlooker.grant_and_check(&mut ledger);
            let Some(next) = ledger.next_grant_at() else { continue };
            prop_assert!(next >= onlooker.now);
            let tick = Duration::from_millis(1);
            if next > onlooker.now + tick {
                onlooker.now = next - tick;
                prop_assert_eq!(ledger.grant_ready(onlooker.now), []);
            }
            onlooker.now = next;
            let waiting = onlooker.waiting.len();
            onlooker.grant_and_check(&mut ledger);
            prop_assert!(onlooker.waiting.len() < waiting, "no call served at {:?}", next);
        }
    }

    #[test]
    fn every_ticket_is_served_eventually(ops in ops(), rate in 0.5f64..20.0) {
        let mut ledger = BucketModel::new(config(rate, 12, [3, 0, 2]));
        let mut onlooker = Onlooker::default();
        for op in &ops {
            onlooker.act(&mut ledger, op);
            onlooker.grant_and_check(&mut ledger);
        }
        for _ in 0..=onlooker.waiting.len() {
            onlooker.now = ledger.next_grant_at().unwrap_or(onlooker.now);
            onlooker.grant_and_check(&mut ledger);
        }
        prop_assert_eq!(onlooker.waiting.len(), 0);
    }
}
