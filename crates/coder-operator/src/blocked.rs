//! Why a call to a server brought no result, how a reconcile that it blocks ends, and how the status
//! reports a rate limit. Pure.

use std::fmt;
use std::time::Duration;

use aplomb::{Action, Error, ErrorClass as Pushed, EventNote, Result};
use aplomb_api::coder::RateLimited;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::client::{CallError, CallErrorClass, CoderEndpoint};
use crate::conditions::{add_span, whole_seconds};
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
        self.class().is_none_or(|it| {
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

/// Why a call brought no result.
#[derive(Clone, Debug)]
pub(crate) enum Pushback {
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
    pub(crate) fn class(&self) -> Option<CallErrorClass> {
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

impl std::error::Error for Pushback {}

/// Retry interval of a refusal that only a person can fix.
pub(crate) const PERMANENT_RETRY: Duration = Duration::from_secs(600);
/// Retry interval of a blocked call if the reconcile continued without it.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);
/// First wait in the status while the actual one is not known.
const INITIAL_WAIT: Duration = Duration::from_secs(5);
/// Retry interval of a rate-limited call; the object's backoff has the actual wait.
const LIMITED_RECHECK: Duration = Duration::from_secs(1);
/// Longest step of a backoff, which limits the wait after a restart.
const LONGEST_BACKOFF: Duration = Duration::from_secs(120);

/// Result of a reconcile without a next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Reconcile again after this time. Zero: the status must be written before the next step.
    RequeueAfter(Duration),
    /// Only a change of the spec helps.
    Rejected { reason: String, message: String },
    /// The server does not respond.
    Unavailable(String),
}

impl End {
    /// The result if a call blocks everything. `failed` is the reason where only a person can help.
    pub(crate) fn from_blocked(hindrance: &Blocked, now: Instant, failed: &str) -> Self {
        match hindrance {
            Blocked::Later { until, .. } => {
                Self::RequeueAfter(until.saturating_duration_since(now).max(LIMITED_RECHECK / 10))
            }
            Blocked::Refused(error) => match error.class {
                CallErrorClass::Limited => Self::RequeueAfter(LIMITED_RECHECK),
                CallErrorClass::Server | CallErrorClass::NoAnswer => Self::Unavailable(error.to_string()),
                CallErrorClass::Token => Self::RequeueAfter(PERMANENT_RETRY),
                _ => Self::Rejected {
                    reason: failed.to_owned(),
                    message: error.to_string(),
                },
            },
        }
    }

    /// The same, or earlier if another blocked call can be retried earlier.
    pub(crate) fn min_wait(self, hindrances: &[Blocked], now: Instant) -> Self {
        let Self::RequeueAfter(wait) = self else {
            return self;
        };
        let soonest = hindrances.iter().filter(|it| it.is_transient()).map(|it| match it {
            Blocked::Later { until, .. } => until.saturating_duration_since(now).max(LIMITED_RECHECK),
            Blocked::Refused(_) => BLOCKED_RETRY,
        });
        Self::RequeueAfter(soonest.fold(wait, Duration::min))
    }

    /// The result for the runtime.
    pub(crate) fn action(self) -> Result<Action> {
        match self {
            Self::RequeueAfter(wait) => Ok(Action::RequeueAfter(wait)),
            Self::Rejected { reason, message } => Ok(Action::reject(&reason, message)),
            Self::Unavailable(why) => Err(Error::new(Pushed::Unavailable, why)),
        }
    }
}

/// Sets the condition when the server starts to rate limit, and clears it after a successful
/// response. A reconcile without a call does not clear it while the last response was a refusal.
pub(crate) fn record_rate_limit(
    hindrances: &[Blocked],
    throttled: bool,
    (now, instant): (Timestamp, Instant),
    record: &mut Option<RateLimited>,
    notes: &mut Vec<EventNote>,
) {
    let told = hindrances.iter().find_map(|it| match it {
        Blocked::Later {
            limited: true,
            endpoint,
            until,
        } => Some((*endpoint, until.saturating_duration_since(instant))),
        Blocked::Refused(error) if error.class == CallErrorClass::Limited => Some((error.endpoint, INITIAL_WAIT)),
        _ => None,
    });
    match (told, &record) {
        (Some((endpoint, wait)), None) => {
            notes.push(EventNote::warning("RateLimited", "Call", rate_limit_message(endpoint)));
            let since = whole_seconds(now);
            *record = Some(RateLimited {
                endpoint: endpoint.to_owned(),
                not_before: whole_seconds(add_span(&since, wait.min(LONGEST_BACKOFF))),
                since,
            });
        }
        // The condition is cleared by a response, not by a reconcile without a call.
        (None, Some(_)) if !throttled => {
            *record = None;
            let story = "the server's rate limit allows calls again";
            notes.push(EventNote::normal("Recovered", "Call", story));
        }
        _ => {}
    }
}

/// Why no calls are sent now.
pub(crate) fn rate_limit_message(endpoint: &str) -> String {
    format!(
        "the server rate limited `{endpoint}`: calls are retried after 2 s to 2 min; running pods \
         are not affected"
    )
}
