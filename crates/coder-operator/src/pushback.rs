//! Why a call brought nothing: either it was not made yet, or it was refused. The difference counts:
//! what was not sent has certainly not happened.

use std::fmt;

use tokio::time::Instant;

use crate::client::{CallError, CallErrorClass};

/// Why a call brought nothing.
#[derive(Clone)]
pub enum Pushback {
    /// Nothing was sent: it is not yet this object's turn.
    Later {
        /// When to ask again. A place in the queue is kept until then, and a little longer.
        until: Instant,
        /// Whether it is the server's rate limit that holds it back, and not others who were first.
        limited: bool,
    },
    /// The server has refused, or said nothing.
    Refused(CallError),
}

impl Pushback {
    /// What the refusal means, if it is one.
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
            Self::Later { limited: true, .. } => f.write_str("waits for the rate limit"),
            Self::Later { limited: false, .. } => f.write_str("waits for its turn"),
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
