//! Backoff of each object: after a 429 its calls wait, whatever events arrive.
//!
//! The wait doubles from two seconds to two minutes, with a jitter of a fifth; at two minutes it is
//! drawn from the whole upper half, so that objects refused together return one by one. Any other
//! response ends the backoff. It is independent of the rate limiter: this limits an object, the
//! limiter a path.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aplomb_api::coder::RateLimited;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::object::Object;

const BASE: Duration = Duration::from_secs(2);
const CAP: Duration = Duration::from_secs(120);
const FLOOR: Duration = Duration::from_secs(1);
const JITTER: f64 = 0.2;
/// The number of refusals from which the wait is at its maximum.
const CAPPED: u32 = 7;

/// The backoffs of all objects. Clones share them.
#[derive(Clone, Debug)]
pub struct ObjectBackoffs(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Objects that were refused, or whose status was read. An entry stays after the backoff ends,
    /// so that an outdated status does not start it again.
    gates: BTreeMap<Object, Gate>,
    dice: fastrand::Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    /// Consecutive refusals.
    refusals: u32,
    not_before: Option<Instant>,
}

impl ObjectBackoffs {
    /// No backoffs yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            gates: BTreeMap::new(),
            dice: fastrand::Rng::with_seed(seed),
        })))
    }

    /// When `who` may call; `None` if now. `resume` is the rate limit in its status, which counts
    /// until this process has seen a response of its own.
    #[must_use]
    pub fn not_before(
        &self,
        who: &Object,
        resume: Option<&RateLimited>,
        now: (Instant, Timestamp),
    ) -> Option<Instant> {
        let mut state = self.lock();
        let known = state.gates.get(who).copied();
        let gate = match (known, resume) {
            (Some(gate), _) => gate,
            (None, None) => return None,
            (None, Some(episode)) => {
                let gate = Gate::resumed(episode, now, &mut state.dice);
                state.gates.insert(who.clone(), gate);
                gate
            }
        };
        gate.not_before.filter(|until| now.0 < *until)
    }

    /// A call of `who` was refused with 429. Returns how long it waits. Calls that were in flight
    /// together count as one refusal.
    #[must_use]
    pub fn refused(&self, who: &Object, now: Instant) -> Duration {
        let mut state = self.lock();
        let State { gates, dice } = &mut *state;
        let gate = gates.entry(who.clone()).or_default();
        if let Some(until) = gate.not_before.filter(|until| now < *until) {
            return until - now;
        }
        gate.refusals = gate.refusals.saturating_add(1);
        let wait = wait(gate.refusals, dice);
        gate.not_before = Some(now + wait);
        wait
    }

    /// A call of `who` got any other response.
    pub fn answered(&self, who: &Object) {
        self.lock().gates.insert(who.clone(), Gate::default());
    }

    /// Whether the last response to `who` was a 429.
    #[must_use]
    pub fn is_refused(&self, who: &Object) -> bool {
        let state = self.lock();
        state.gates.get(who).is_some_and(|gate| gate.refusals > 0)
    }

    /// The object was deleted.
    pub fn forget(&self, who: &Object) {
        self.lock().gates.remove(who);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// Restores a backoff from the status: as many refusals as fit into the time since it began,
    /// and one wait of that length before the first call. A time further away than any wait was
    /// written by another clock.
    fn resumed(
        episode: &RateLimited,
        (now, wall): (Instant, Timestamp),
        dice: &mut fastrand::Rng,
    ) -> Self {
        let lasted = between(episode.since.0, wall.max(episode.not_before.0));
        let longest = |refusals| {
            let waits: Duration = (1..=refusals).map(nominal).sum();
            waits.mul_f64(1.0 + JITTER)
        };
        let refusals = (1..CAPPED).find(|refusals| lasted <= longest(*refusals));
        let refusals = refusals.unwrap_or(CAPPED);
        let noted = between(wall, episode.not_before.0).min(CAP);
        Self {
            refusals,
            not_before: Some(now + noted.max(wait(refusals, dice))),
        }
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

/// The wait after a number of refusals, without jitter.
fn nominal(refusals: u32) -> Duration {
    match refusals {
        CAPPED.. => CAP,
        _ => BASE * 2u32.pow(refusals.saturating_sub(1)),
    }
}

fn wait(refusals: u32, dice: &mut fastrand::Rng) -> Duration {
    let nominal = nominal(refusals);
    let factor = match refusals {
        CAPPED.. => 0.5 + dice.f64() / 2.0,
        _ => 1.0 - JITTER + dice.f64() * 2.0 * JITTER,
    };
    nominal.mul_f64(factor).clamp(FLOOR, CAP)
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
