//! Backoff of each object: after a 429 its calls wait, whatever events arrive.
//!
//! The wait doubles from two seconds to two minutes, with a jitter of a fifth; at two minutes it is
//! drawn from the whole upper half, so that objects refused together return one by one. Any other
//! response ends the backoff. It is independent of the rate limiter: this limits an object, the
//! limiter a path.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aplomb::ObjectRef;
use aplomb_api::coder::RateLimited;
use jiff::Timestamp;
use tokio::time::Instant;

const BASE_DELAY: Duration = Duration::from_secs(2);
const MAX_DELAY: Duration = Duration::from_secs(120);
const MIN_DELAY: Duration = Duration::from_secs(1);
const JITTER: f64 = 0.2;
/// The number of refusals from which the wait is at its maximum.
const CAPPED_REFUSALS: u32 = 7;

/// The backoffs of all objects. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ObjectBackoffs(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Objects that were refused, or whose status was read. An entry stays after the backoff ends,
    /// so that an outdated status does not start it again.
    gates: BTreeMap<ObjectRef, Gate>,
    rng: fastrand::Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    /// Consecutive refusals.
    refusals: u32,
    not_before: Option<Instant>,
}

impl ObjectBackoffs {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            gates: BTreeMap::new(),
            rng: fastrand::Rng::with_seed(seed),
        })))
    }

    /// When `who` may call; `None` if now. `resume` is the rate limit in its status, which counts
    /// until this process has seen a response of its own.
    pub(crate) fn not_before(
        &self,
        who: &ObjectRef,
        resume: Option<&RateLimited>,
        now: (Instant, Timestamp),
    ) -> Option<Instant> {
        let mut state = self.lock();
        let known = state.gates.get(who).copied();
        let gate = match (known, resume) {
            (Some(gate), _) => gate,
            (None, None) => return None,
            (None, Some(episode)) => {
                let gate = Gate::from_status(episode, now, &mut state.rng);
                state.gates.insert(who.clone(), gate);
                gate
            }
        };
        gate.not_before.filter(|until| now.0 < *until)
    }

    /// A call of `who` was refused with 429. Returns how long it waits. Calls that were in flight
    /// together count as one refusal.
    pub(crate) fn record_refusal(&self, who: &ObjectRef, now: Instant) -> Duration {
        let mut state = self.lock();
        let State { gates, rng: dice } = &mut *state;
        let gate = gates.entry(who.clone()).or_default();
        if let Some(until) = gate.not_before.filter(|until| now < *until) {
            return until - now;
        }
        gate.refusals = gate.refusals.saturating_add(1);
        let wait = jittered_delay(gate.refusals, dice);
        gate.not_before = Some(now + wait);
        wait
    }

    /// A call of `who` got any other response.
    pub(crate) fn record_answer(&self, who: &ObjectRef) {
        self.lock().gates.insert(who.clone(), Gate::default());
    }

    /// Whether the last response to `who` was a 429.
    pub(crate) fn is_refused(&self, who: &ObjectRef) -> bool {
        let state = self.lock();
        state.gates.get(who).is_some_and(|gate| gate.refusals > 0)
    }

    pub(crate) fn remove(&self, who: &ObjectRef) {
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
    fn from_status(episode: &RateLimited, (now, wall): (Instant, Timestamp), dice: &mut fastrand::Rng) -> Self {
        let lasted = elapsed_between(episode.since.0, wall.max(episode.not_before.0));
        let longest = |refusals| {
            let waits: Duration = (1..=refusals).map(nominal_delay).sum();
            waits.mul_f64(1.0 + JITTER)
        };
        let refusals = (1..CAPPED_REFUSALS).find(|refusals| lasted <= longest(*refusals));
        let refusals = refusals.unwrap_or(CAPPED_REFUSALS);
        let noted = elapsed_between(wall, episode.not_before.0).min(MAX_DELAY);
        Self {
            refusals,
            not_before: Some(now + noted.max(jittered_delay(refusals, dice))),
        }
    }
}

fn elapsed_between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

/// The wait after a number of refusals, without jitter.
fn nominal_delay(refusals: u32) -> Duration {
    match refusals {
        CAPPED_REFUSALS.. => MAX_DELAY,
        _ => BASE_DELAY * 2u32.pow(refusals.saturating_sub(1)),
    }
}

fn jittered_delay(refusals: u32, dice: &mut fastrand::Rng) -> Duration {
    let nominal = nominal_delay(refusals);
    let factor = match refusals {
        CAPPED_REFUSALS.. => 0.5 + dice.f64() / 2.0,
        _ => 1.0 - JITTER + dice.f64() * 2.0 * JITTER,
    };
    nominal.mul_f64(factor).clamp(MIN_DELAY, MAX_DELAY)
}

#[cfg(test)]
mod tests;
