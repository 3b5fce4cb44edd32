//! Faults by chance: each request draws from a table of probabilities, from a seed.

use std::time::Duration;

use super::fault::{Fault, Latency, WatchFault};
use super::target::Target;

/// Draws faults from a seed. The same seed and the same sequence of requests draw the same.
#[derive(Clone, Debug)]
pub struct Sampler {
    rng: fastrand::Rng,
    latency: Option<Latency>,
    table: Vec<(f64, Fault)>,
}

impl Sampler {
    /// Draws nothing until told what.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            latency: None,
            table: Vec::new(),
        }
    }

    /// Every request takes a time drawn from this distribution.
    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.latency = Some(latency);
        self
    }

    /// A request it applies to meets `fault` with this probability, if it met none before in the
    /// table.
    #[must_use]
    pub fn with(mut self, probability: f64, fault: Fault) -> Self {
        self.table.push((probability, fault));
        self
    }

    /// A bit of everything an API server does to its clients on a bad day: about `badness` of all
    /// requests, and a third of all watches, meet something.
    #[must_use]
    pub fn bad_day(seed: u64, badness: f64) -> Self {
        let requests = [
            Fault::TooManyRequestsText { retry_after: 1 },
            Fault::TooManyRequests { retry_after: 1 },
            Fault::InternalError,
            Fault::ServiceUnavailable,
            Fault::Timeout { committed: false },
            Fault::Timeout { committed: true },
            Fault::Reset { committed: false },
            Fault::Reset { committed: true },
            Fault::Truncated { keep: 20 },
            Fault::Conflict,
            Fault::Rival,
            Fault::Unauthorized,
        ];
        let watches = [
            WatchFault::Held(Duration::from_secs(5)),
            WatchFault::Lagged(Duration::from_millis(300)),
            WatchFault::Dropped(Duration::from_secs(20)),
            WatchFault::BlackHoled(Duration::from_secs(30)),
            WatchFault::CutMidLine(5),
            WatchFault::Expired,
        ];
        let each = badness / requests.len() as f64;
        let each_watch = 1.0 / (3.0 * watches.len() as f64);
        let latency = Latency::Exponential(Duration::from_millis(4));
        let watches = watches.map(|fault| (each_watch, Fault::Watch(fault)));
        let table = watches.into_iter().chain(requests.map(|fault| (each, fault))).collect();
        Self {
            table,
            ..Self::new(seed).latency(latency)
        }
    }

    /// What this request meets: a delay, and at most one fault.
    pub(super) fn draw(&mut self, target: &Target) -> (Duration, Option<Fault>) {
        let rng = &mut self.rng;
        let delay = self
            .latency
            .as_ref()
            .map_or(Duration::ZERO, |latency| latency.draw(rng));
        let mut applicable = self.table.iter().filter(|(_, fault)| fault.applies_to(target));
        let fault = applicable.find(|(probability, _)| rng.f64() < *probability);
        (delay, fault.map(|(_, fault)| fault.clone()))
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn draws(seed: u64) -> Vec<(Duration, Option<Fault>)> {
        let request = Request::put("/api/v1/namespaces/a/pods/b").body(()).expect("a request");
        let target = Target::of(&request);
        let mut sampler = Sampler::bad_day(seed, 0.5);
        (0..1000).map(|_| sampler.draw(&target)).collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }

    #[test]
    fn about_as_many_faults_as_asked_for_and_none_that_cannot_be() {
        let faults: Vec<Fault> = draws(3).into_iter().filter_map(|(_, fault)| fault).collect();
        assert!((300..500).contains(&faults.len()), "{}", faults.len());
        assert!(!faults.iter().any(|fault| matches!(fault, Fault::Watch(_))));
    }

    #[test]
    fn latencies_follow_their_distribution() {
        let mut rng = fastrand::Rng::with_seed(1);
        let ms = Duration::from_millis;
        let mut mean = |latency: Latency| (0..2000).map(|_| latency.draw(&mut rng)).sum::<Duration>() / 2000;
        assert_eq!(mean(Latency::Fixed(ms(3))), ms(3));
        assert!((ms(14)..ms(16)).contains(&mean(Latency::Uniform(ms(10), ms(20)))));
        assert!((ms(9)..ms(11)).contains(&mean(Latency::Exponential(ms(10)))));
        let bimodal = Latency::Bimodal {
            fast: ms(1),
            slow: ms(101),
            probability: 0.1,
        };
        assert!((ms(8)..ms(14)).contains(&mean(bimodal)));
    }
}
