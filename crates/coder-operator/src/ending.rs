//! How a reconcile ends that was blocked by a server, and how the status reports a rate limit.
//! Pure.

use std::time::Duration;

use aplomb::{Action, Error, ErrorClass as Pushed, EventNote, Result};
use aplomb_api::coder::RateLimited;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::client::CallErrorClass;
use crate::hindrance::Blocked;
use crate::times::{after, seconds};

/// Retry interval of a refusal that only a person can fix.
pub(crate) const SELDOM: Duration = Duration::from_secs(600);
/// Retry interval of a blocked call if the reconcile continued without it.
const SOON: Duration = Duration::from_secs(15);
/// First wait in the status while the actual one is not known.
const FIRST: Duration = Duration::from_secs(5);
/// Retry interval of a rate-limited call; the object's backoff has the actual wait.
const MOMENT: Duration = Duration::from_secs(1);
/// Longest step of a backoff, which limits the wait after a restart.
const LONGEST_BACKOFF: Duration = Duration::from_secs(120);

/// Result of a reconcile without a next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Reconcile again after this time. Zero: the status must be written before the next step.
    Again(Duration),
    /// Only a change of the spec helps.
    Rejected { reason: String, message: String },
    /// The server does not respond.
    Unavailable(String),
}

impl End {
    /// The result if a call blocks everything. `failed` is the reason where only a person can help.
    pub(crate) fn hindered(hindrance: &Blocked, now: Instant, failed: &str) -> Self {
        match hindrance {
            Blocked::Later { until, .. } => {
                Self::Again(until.saturating_duration_since(now).max(MOMENT / 10))
            }
            Blocked::Refused(error) => match error.class {
                CallErrorClass::Limited => Self::Again(MOMENT),
                CallErrorClass::Server | CallErrorClass::NoAnswer => {
                    Self::Unavailable(error.to_string())
                }
                CallErrorClass::Token => Self::Again(SELDOM),
                _ => Self::Rejected {
                    reason: failed.to_owned(),
                    message: error.to_string(),
                },
            },
        }
    }

    /// The same, or earlier if another blocked call can be retried earlier.
    pub(crate) fn sooner(self, hindrances: &[Blocked], now: Instant) -> Self {
        let Self::Again(wait) = self else {
            return self;
        };
        let turns = hindrances.iter().filter(|it| it.passes());
        let soonest = turns.map(|it| match it {
            Blocked::Later { until, .. } => until.saturating_duration_since(now).max(MOMENT),
            Blocked::Refused(_) => SOON,
        });
        Self::Again(soonest.fold(wait, Duration::min))
    }

    /// The result for the runtime.
    pub(crate) fn verdict(self) -> Result<Action> {
        match self {
            Self::Again(wait) => Ok(Action::Recheck(wait)),
            Self::Rejected { reason, message } => Ok(Action::rejected(&reason, message)),
            Self::Unavailable(why) => Err(Error::new(Pushed::Unavailable, why)),
        }
    }
}

/// Sets the condition when the server starts to rate limit, and clears it after a successful
/// response. A reconcile without a call does not clear it while the last response was a refusal.
pub(crate) fn limited(
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
        Blocked::Refused(error) if error.class == CallErrorClass::Limited => {
            Some((error.endpoint, FIRST))
        }
        _ => None,
    });
    match (told, &record) {
        (Some((endpoint, wait)), None) => {
            notes.push(EventNote::warning(
                "RateLimited",
                "Call",
                limited_story(endpoint),
            ));
            let since = seconds(now);
            *record = Some(RateLimited {
                endpoint: endpoint.to_owned(),
                not_before: seconds(after(&since, wait.min(LONGEST_BACKOFF))),
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
pub(crate) fn limited_story(endpoint: &str) -> String {
    format!(
        "the server rate limited `{endpoint}`: calls are retried after 2 s to 2 min; running pods \
         are not affected"
    )
}
