//! How a reconcile ends that was blocked by a server, and how the status reports a rate limit.
//! Pure.

use std::time::Duration;

use aplomb::{Action, Error, ErrorClass as Pushed, EventNote, Result};
use aplomb_api::coder::RateLimited;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::client::CallErrorClass;
use crate::hindrance::Blocked;
use crate::times::{add_span, whole_seconds};

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
        let turns = hindrances.iter().filter(|it| it.is_transient());
        let soonest = turns.map(|it| match it {
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
