//! Why a call brought no result: it was not sent yet, or it was refused. The difference matters: a
//! call that was not sent certainly had no effect.

use std::fmt;

use tokio::time::Instant;

use crate::client::{CallError, CallErrorClass};

/// Why a call brought no result.
#[derive(Clone)]
pub enum Pushback {
    /// Nothing was sent: the call is queued.
    Later {
        /// When to try again. The place in the queue is kept until then, and a little longer.
        until: Instant,
        /// Whether the server's rate limit delays it, and not other queued calls.
        limited: bool,
    },
    /// The server refused or did not respond.
    Refused(CallError),
}

impl Pushback {
    /// The class of the refusal, if it is one.
    #[must_use]
    pub fn class(&self) -> Option<CallErrorClass> {
        match self {
            Self::Later { .. } => None,
            Self::Refused(error) => Some(error.class),
        }
    }
}

impl From<CallError> for Pushback {
    fn from(error: CallError) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for Pushback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Later { limited: true, .. } => f.write_str("waiting for the rate limit"),
            Self::Later { limited: false, .. } => f.write_str("queued behind other calls"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Pushback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Later { until, limited } => f
                .debug_struct("Later")
                .field("until", until)
                .field("limited", limited)
                .finish(),
            Self::Refused(error) => f.debug_tuple("Refused").field(error).finish(),
        }
    }
}

impl std::error::Error for Pushback {}
