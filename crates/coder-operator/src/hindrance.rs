//! Why a call to a server brought no result, as input of a decision.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::{CallError, CallErrorClass, CoderEndpoint};
use crate::pushback::Pushback;
use crate::server::MaxAge;

/// Maximum age of cached data while a call is queued, and while the server refuses calls.
const QUEUED_MAX_AGE: Duration = Duration::from_secs(300);
const THROTTLED_MAX_AGE: Duration = Duration::from_secs(3600);

/// Result of a read in this reconcile.
pub(crate) type CallResult<T> = Result<T, Blocked>;

/// Why a call brought no result.
#[derive(Clone, Debug)]
pub(crate) enum Blocked {
    /// Nothing was sent; the call may be made at `until`. `limited`: because the server refused an
    /// earlier one.
    Later {
        until: Instant,
        limited: bool,
        endpoint: &'static str,
    },
    /// The server refused, now or recently.
    Refused(CallError),
}

impl Blocked {
    pub(crate) fn class(&self) -> Option<CallErrorClass> {
        match self {
            Self::Later { .. } => None,
            Self::Refused(error) => Some(error.class),
        }
    }

    /// Whether it resolves without a person's intervention.
    pub(crate) fn is_transient(&self) -> bool {
        let class = self.class();
        class.is_none_or(|it| {
            matches!(
                it,
                CallErrorClass::Limited | CallErrorClass::Server | CallErrorClass::NoAnswer
            )
        })
    }

    /// Maximum age of cached data that may replace the response. A queued or rate-limited call does
    /// not suggest that the data changed.
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

/// Whether the call may have taken effect without a response.
pub(crate) fn is_ambiguous(hindrance: &Blocked) -> bool {
    let error = match hindrance {
        Blocked::Later { .. } => return false,
        Blocked::Refused(error) => error,
    };
    matches!(error.class, CallErrorClass::NoAnswer | CallErrorClass::Server)
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
