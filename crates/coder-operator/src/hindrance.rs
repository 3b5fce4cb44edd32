//! Why something could not be done at a server, as a decision sees it.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::{CallError, CallErrorClass, CoderEndpoint};
use crate::pushback::Pushback;
use crate::server::MaxAge;

/// How old what is known may be while a call waits for its turn, and while the server refuses.
const QUEUED_MAX_AGE: Duration = Duration::from_secs(300);
const THROTTLED_MAX_AGE: Duration = Duration::from_secs(3600);

/// What came of a look in this pass.
pub(crate) type CallResult<T> = Result<T, Blocked>;

/// Why something could not be done at a server.
#[derive(Clone, Debug)]
pub(crate) enum Blocked {
    /// Nothing was sent; it is our turn then. `limited`: because the server refused before.
    Later {
        until: Instant,
        limited: bool,
        endpoint: &'static str,
    },
    /// The server refused, now or a while ago.
    Refused(CallError),
}

impl Blocked {
    pub(crate) fn class(&self) -> Option<CallErrorClass> {
        match self {
            Self::Later { .. } => None,
            Self::Refused(error) => Some(error.class),
        }
    }

    /// Whether it passes without anybody's doing.
    pub(crate) fn is_transient(&self) -> bool {
        let class = self.class();
        class.is_none_or(|it| {
            matches!(
                it,
                CallErrorClass::Limited | CallErrorClass::Server | CallErrorClass::NoAnswer
            )
        })
    }

    /// How old what is known may be that stands in for an answer. Waiting for a turn says nothing of what
    /// was to be looked at, and a rate limit as little.
    pub(crate) fn fallback_max_age(&self) -> Option<MaxAge> {
        let limited = match self {
            Self::Later { limited, .. } => *limited,
            Self::Refused(error) if error.class == CallErrorClass::Limited => true,
            Self::Refused(_) => return None,
        };
        let age = if limited { THROTTLED_MAX_AGE } else { QUEUED_MAX_AGE };
        Some(MaxAge::Within(age))
    }
}

/// Whether a call may have happened although nothing says so.
pub(crate) fn is_ambiguous(hindrance: &Blocked) -> bool {
    let error = match hindrance {
        Blocked::Later { .. } => return false,
        Blocked::Refused(error) => error,
    };
    matches!(
        error.class,
        CallErrorClass::NoAnswer | CallErrorClass::Server
    )
}

pub(crate) fn new_blocked(endpoint: CoderEndpoint, pushback: Pushback) -> Blocked {
    match pushback {
        Pushback::Later { until, limited } => Blocked::Later {
            until,
            limited,
            endpoint: endpoint.phrase(),
        },
        Pushback::Refused(error) => Blocked::Refused(error),
    }
}
