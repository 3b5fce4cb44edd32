//! Virtual libc time and randomness, for tests only.
//!
//! `std`, jiff, fastrand and most of the ecosystem take time and randomness from three libc
//! functions: `clock_gettime`, `getrandom` and `getentropy`. This crate defines all three, so in a
//! program it is linked into, every call lands here. On a thread that holds a [`Guard`] the answer
//! comes from a seed and a virtual clock; on any other thread, and outside a guard, it is the raw
//! system call, unchanged.
//!
//! What it must not do: be linked into anything but tests. `tests/release_binary.rs` runs `nm` on
//! the release binary to see that it is not. This is the one crate of the workspace with `unsafe`.
//!
//! What it cannot do: a thread that holds a guard must not block with a time-out in `std` (park,
//! condition variables), since the kernel compares those deadlines with the real clock.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod symbols;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::time::Duration;

/// Where the virtual monotonic clock starts: far enough from zero that subtracting from an
/// `Instant` works as it does on a machine that has been up for a while.
const MONOTONIC_BASE: Duration = Duration::from_secs(1_000_000);

/// Time since the virtual clock started.
pub type Elapsed = Box<dyn Fn() -> Duration>;

thread_local! {
    static ACTIVE: RefCell<Option<Virtual>> = const { RefCell::new(None) };
}

struct Virtual {
    epoch: Duration,
    elapsed: Elapsed,
    random: u64,
}

impl Virtual {
    fn realtime(&self) -> Duration {
        self.epoch + (self.elapsed)()
    }

    fn monotonic(&self) -> Duration {
        MONOTONIC_BASE + (self.elapsed)()
    }

    /// SplitMix64: eight bytes of the seed's stream.
    fn next_word(&mut self) -> [u8; 8] {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)).to_le_bytes()
    }

    fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let word = self.next_word();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Runs `answer` on this thread's virtual source; `None` when there is none, when the source
/// itself is what is asking (a virtual clock may read the real one), or when the thread is ending.
fn with_active<T>(answer: impl FnOnce(&mut Virtual) -> T) -> Option<T> {
    ACTIVE
        .try_with(|active| active.try_borrow_mut().ok()?.as_mut().map(answer))
        .ok()
        .flatten()
}

/// While it lives, this thread's time and randomness are virtual.
#[derive(Debug)]
#[must_use = "time and randomness are real again when the guard is dropped"]
pub struct Guard {
    this_thread_only: PhantomData<*const ()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        ACTIVE.with(|active| active.borrow_mut().take());
    }
}

/// Makes this thread's randomness a function of `seed`, its wall clock `epoch` (since 1970) plus
/// `elapsed()`, and its monotonic clock a fixed start plus `elapsed()`.
///
/// Use it on a thread made for the run: `std` keeps hash keys per thread, so an older thread may
/// have drawn real ones already.
///
/// # Panics
/// When the thread already holds a guard.
pub fn install(seed: u64, epoch: Duration, elapsed: Elapsed) -> Guard {
    symbols::keep_linked();
    let source = Virtual {
        epoch,
        elapsed,
        random: seed,
    };
    let previous = ACTIVE.with(|active| active.borrow_mut().replace(source));
    assert!(previous.is_none(), "virtual time is already installed on this thread");
    Guard {
        this_thread_only: PhantomData,
    }
}
