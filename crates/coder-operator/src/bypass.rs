//! Whether the server honors the rate-limit bypass of one token. Pure: the caller passes results
//! and the time.
//!
//! One call at a time tries the header until the server has honored it, so that a refusal costs one
//! request and not one for each call in flight. A refusal is remembered for an hour, and so is a
//! bypass without effect.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::CallErrorClass;

/// How long a refusal is remembered.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// State of the bypass for one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BypassState {
    /// Not tried, or too long ago.
    #[default]
    Untried,
    /// The server honors it.
    Works,
    /// The server refuses it: the token does not belong to an owner.
    Refused,
    /// The server ignores it and counts the calls.
    Ineffective,
}

#[derive(Debug, Default)]
pub(crate) struct BypassMemory {
    state: BypassState,
    trying: bool,
    until: Option<Instant>,
}

impl BypassMemory {
    /// The current state.
    pub(crate) fn state(&self, now: Instant) -> BypassState {
        match self.until {
            Some(until) if now >= until => BypassState::Untried,
            _ => self.state,
        }
    }

    /// Whether a call that wants the bypass sends the header. If so, `ended` must be called with
    /// its result.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        match self.state(now) {
            BypassState::Works => true,
            BypassState::Refused | BypassState::Ineffective => false,
            BypassState::Untried => !std::mem::replace(&mut self.trying, true),
        }
    }

    /// A call with the header ended: with success, a refusal, or no result. Returns the state if it
    /// changed.
    pub(crate) fn ended(
        &mut self,
        how: Option<Result<(), CallErrorClass>>,
        now: Instant,
    ) -> Option<BypassState> {
        let before = self.state(now);
        self.trying = false;
        match how {
            Some(Err(CallErrorClass::BypassRefused)) => {
                self.remember(BypassState::Refused, before, now)
            }
            Some(Err(CallErrorClass::Limited)) => {
                self.remember(BypassState::Ineffective, before, now)
            }
            // The handler was reached, so the limiter let it through.
            Some(
                Ok(())
                | Err(CallErrorClass::Invalid | CallErrorClass::Missing | CallErrorClass::Exists),
            ) => {
                if before == BypassState::Untried {
                    (self.state, self.until) = (BypassState::Works, None);
                }
                None
            }
            // A proxy may have responded, or no response arrived.
            Some(Err(_)) | None => None,
        }
    }

    /// The server is too old to support the header.
    pub(crate) fn unknown_there(&mut self, now: Instant) -> Option<BypassState> {
        let before = self.state(now);
        self.remember(BypassState::Ineffective, before, now)
    }

    fn remember(
        &mut self,
        what: BypassState,
        before: BypassState,
        now: Instant,
    ) -> Option<BypassState> {
        if before == what {
            return None;
        }
        (self.state, self.until) = (what, Some(now + REMEMBERED));
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_tried_once_and_then_never_counted() {
        let mut memory = BypassMemory::default();
        assert!(memory.begin(after(0)));
        assert!(!memory.begin(after(0)), "one tries, the others are counted");
        assert_eq!(memory.ended(Some(Ok(())), after(0)), None);
        assert!(memory.begin(after(1)) && memory.begin(after(1)));
        assert_eq!(memory.state(after(100_000)), BypassState::Works);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_costs_one_request_an_hour() {
        let mut memory = BypassMemory::default();
        let mut tries = 0;
        for second in 0..7200 {
            if memory.begin(after(second)) {
                tries += 1;
                let said = memory.ended(Some(Err(CallErrorClass::BypassRefused)), after(second));
                assert_eq!(said, Some(BypassState::Refused));
            }
        }
        assert_eq!(tries, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_counts_all_the_same_is_said_once() {
        let mut memory = BypassMemory::default();
        assert!(memory.begin(after(0)));
        assert_eq!(memory.ended(Some(Ok(())), after(0)), None);
        assert!(memory.begin(after(1)) && memory.begin(after(1)));
        let limited = Some(Err(CallErrorClass::Limited));
        assert_eq!(
            memory.ended(limited, after(2)),
            Some(BypassState::Ineffective)
        );
        assert_eq!(memory.ended(limited, after(2)), None);
        assert!(!memory.begin(after(3)));
        assert_eq!(memory.unknown_there(after(4)), None);
        assert!(memory.begin(after(3602)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_says_nothing_about_it_is_tried_again() {
        let mut memory = BypassMemory::default();
        for how in [
            None,
            Some(Err(CallErrorClass::Server)),
            Some(Err(CallErrorClass::NoAnswer)),
            Some(Err(CallErrorClass::Token)),
        ] {
            assert!(memory.begin(after(0)));
            assert_eq!(memory.ended(how, after(0)), None);
            assert_eq!(memory.state(after(0)), BypassState::Untried);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_success_does_not_undo_a_refusal() {
        let mut memory = BypassMemory::default();
        assert!(memory.begin(after(0)));
        memory.ended(Some(Ok(())), after(0));
        assert!(memory.begin(after(1)) && memory.begin(after(1)));
        memory.ended(Some(Err(CallErrorClass::BypassRefused)), after(1));
        memory.ended(Some(Ok(())), after(2));
        assert_eq!(memory.state(after(2)), BypassState::Refused);
    }
}
