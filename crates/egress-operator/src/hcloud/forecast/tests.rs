//! The forecast against a simulated bucket that other clients share at random.

use proptest::prelude::*;

use super::*;

/// A bucket as the provider has it, and the other clients.
struct Model {
    limit: f64,
    level: f64,
    refill: f64,
    others: f64,
    now: f64,
    rng: fastrand::Rng,
    /// What the others have spent.
    spent: f64,
}

impl Model {
    fn new(seed: u64, refill: f64, others: f64) -> Self {
        let limit = 3600.0 * refill;
        Self {
            limit,
            level: limit * 0.8,
            refill,
            others,
            now: 0.0,
            rng: fastrand::Rng::with_seed(seed),
            spent: 0.0,
        }
    }

    /// Advances time in small steps; the others spend at random at their mean rate.
    fn advance(&mut self, seconds: f64) {
        const STEP: f64 = 0.05;
        for _ in 0..(seconds / STEP).round() as u64 {
            self.now += STEP;
            self.level = (self.level + self.refill * STEP).min(self.limit);
            if self.rng.f64() < self.others * STEP && self.level >= 1.0 {
                self.level -= 1.0;
                self.spent += 1.0;
            }
        }
    }

    /// One call of ours, and its rate limit: whole tokens, whole seconds.
    fn call(&mut self) -> BudgetSample {
        let admitted = self.level >= 1.0;
        if admitted {
            self.level -= 1.0;
        }
        let full_in = ((self.limit - self.level.floor()) / self.refill).floor();
        BudgetSample {
            at: Duration::from_secs_f64(self.now),
            limit: self.limit as u32,
            remaining: self.level as u32,
            full_in: Some(Duration::from_secs_f64(full_in)),
            own_calls: u32::from(admitted),
        }
    }
}

/// Reads every half minute for a while. Returns the forecast.
fn observe(model: &mut Model, minutes: u64) -> BudgetForecast {
    let mut forecaster = BudgetForecaster::default();
    forecaster.add_sample(model.call());
    for _ in 0..minutes * 2 {
        model.advance(30.0);
        forecaster.add_sample(model.call());
    }
    forecaster
        .forecast(Duration::from_secs_f64(model.now))
        .expect("there were answers")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The documented error: the mean rate of others over the window, to two tokens per window and
    /// two thousandths of the refill.
    #[test]
    fn foreign_spending_is_estimated_within_two_tokens_per_window(
        seed in any::<u64>(), refill in prop::sample::select(vec![0.5, 1.0, 2.0]), share in 0.05f64..3.0,
    ) {
        let mut model = Model::new(seed, refill, refill * share);
        let seen = observe(&mut model, 10);
        let truth = model.spent / 600.0;
        let bound = 2.0 / 600.0 + refill * 2e-3;
        prop_assert!((seen.other_rate - truth).abs() <= bound, "{} for {truth}", seen.other_rate);
        prop_assert!((seen.refill - refill).abs() <= refill * 2e-3);
    }

    /// Others spend at their rate only on average: the bound is three standard deviations of their
    /// remaining spending and of what the window has seen.
    #[test]
    fn the_time_to_empty_is_what_it_turns_out_to_be(seed in any::<u64>(), others in 2.0f64..6.0) {
        let mut model = Model::new(seed, 1.0, others);
        let seen = observe(&mut model, 8);
        prop_assume!(model.level > 30.0);
        let (foretold, level) = (seen.empty_in.expect("it empties").as_secs_f64(), model.level);
        let from = model.now;
        while model.level >= 1.0 {
            model.advance(0.05);
        }
        let took = model.now - from;
        let net = others - 1.0;
        let walk = 3.0 * (others * level / net).sqrt() / net;
        let rate = 3.0 * (others / 480.0).sqrt() + 0.05;
        let bound = walk + foretold * rate / (net - rate).max(0.1) + 2.0;
        prop_assert!((foretold - took).abs() <= bound, "{foretold} s, it took {took} s, {bound}");
    }
}

#[test]
fn a_bucket_that_stays_full_is_not_called_emptying() {
    let mut model = Model::new(1, 1.0, 0.0);
    model.level = model.limit;
    let seen = observe(&mut model, 30);
    assert_eq!((seen.other_rate, seen.empty_in), (0.0, None));
    assert!((seen.own_rate - 1.0 / 30.0).abs() < 1e-3, "{}", seen.own_rate);
}

#[test]
fn a_bucket_that_others_keep_empty_is_seen_to_be() {
    let mut model = Model::new(2, 1.0, 50.0);
    model.level = 3.0;
    let seen = observe(&mut model, 10);
    assert!((0.9..=1.01).contains(&seen.other_rate), "{}", seen.other_rate);
    assert!(seen.remaining < 2.0);
}

#[test]
fn what_should_be_left_goes_on_from_what_was_seen() {
    let mut forecaster = BudgetForecaster::default();
    assert_eq!(forecaster.forecast(Duration::ZERO), None);
    let sample = |at, remaining| BudgetSample {
        at: Duration::from_secs(at),
        limit: 3600,
        remaining,
        full_in: None,
        own_calls: 1,
    };
    forecaster.add_sample(sample(0, 200));
    forecaster.add_sample(sample(100, 99));
    let seen = forecaster.forecast(Duration::from_secs(150)).expect("seen");
    assert!((seen.other_rate - 2.0).abs() < 1e-9, "{}", seen.other_rate);
    assert!((seen.remaining - 49.0).abs() < 1e-9, "{}", seen.remaining);
    let raised = BudgetSample {
        limit: 7200,
        ..sample(160, 7000)
    };
    forecaster.add_sample(raised);
    let seen = forecaster.forecast(Duration::from_secs(160)).expect("seen");
    assert_eq!((seen.refill, seen.other_rate), (2.0, 0.0));
}
