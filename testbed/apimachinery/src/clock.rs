//! Where the box takes time and randomness from, so that a run can be a function of its seed.
//!
//! Time is an epoch plus tokio's clock: real when tokio's clock runs, virtual when it is paused.
//! Nothing in this crate may read the system clock or an unseeded generator except through here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The random (version 4) UUID made of these bits.
#[must_use]
pub fn uuid(bits: u128) -> String {
    let versioned = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let group = |from: u32, bits: u32| (versioned >> from) & ((1 << bits) - 1);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        group(96, 32),
        group(80, 16),
        group(64, 16),
        group(48, 16),
        group(0, 48)
    )
}

/// Time and randomness of one box. Cheap to clone; clones share the generator.
#[derive(Clone, Debug)]
pub struct Clock {
    epoch: Timestamp,
    started: Instant,
    rng: Arc<Mutex<fastrand::Rng>>,
}

impl Clock {
    /// Follows the system: starts at the present and draws its seed from the system.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place where a box may ask the system")]
    pub fn system() -> Self {
        Self::new(Timestamp::now(), fastrand::u64(..))
    }

    /// A clock whose readings and random draws depend on nothing but tokio's clock and `seed`.
    #[must_use]
    pub fn new(epoch: Timestamp, seed: u64) -> Self {
        let rng = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Self {
            epoch,
            started: Instant::now(),
            rng,
        }
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        self.epoch.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// The present moment as `metav1.Time` prints it: whole seconds.
    #[must_use]
    pub fn now_seconds(&self) -> String {
        let now = self.now();
        let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
        whole.to_string()
    }

    /// A random (version 4) UUID.
    #[must_use]
    pub fn uuid(&self) -> String {
        uuid(self.rng().u128(..))
    }

    /// The five characters `generateName` appends: the server's alphabet has no vowels and no
    /// digits that look like letters.
    #[must_use]
    pub fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut rng = self.rng();
        (0..5)
            .map(|_| char::from(ALPHABET[rng.usize(..ALPHABET.len())]))
            .collect()
    }

    /// A number below `bound` (0 when the bound is 0).
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.rng().u64(..bound) }
    }

    fn rng(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
