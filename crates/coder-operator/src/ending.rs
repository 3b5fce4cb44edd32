//! How a pass ends that was held up at a server, and what is written down of a rate limit. Pure.

use std::time::Duration;

use aplomb::{Action, Error, ErrorClass as Pushed, EventNote, Result};
use aplomb_api::coder::RateLimited;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::client::CallErrorClass;
use crate::hindrance::Blocked;
use crate::times::{add_span, whole_seconds};

/// What a refusal is waited out with that only a person can mend.
pub(crate) const PERMANENT_RETRY: Duration = Duration::from_secs(600);
/// How soon what hindered a pass that went on all the same is tried again.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);
/// What is written down of the first wait where nobody has told it yet.
const INITIAL_WAIT: Duration = Duration::from_secs(5);
/// How soon what was refused for the limit is looked at again; the gate knows how long it really takes.
const LIMITED_RECHECK: Duration = Duration::from_secs(1);
/// The longest that one step of a backoff takes: what a restarted process waits, at most.
const LONGEST_BACKOFF: Duration = Duration::from_secs(120);

/// How a pass ends that has no step left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Look again after this time. Nothing of it: the status must be written before what comes next.
    RequeueAfter(Duration),
    /// Nothing helps but a change.
    Rejected { reason: String, message: String },
    /// The server does not answer.
    Unavailable(String),
}

impl End {
    /// After a hindrance that nothing gets past. `failed` is the reason where only a person can help.
    pub(crate) fn from_blocked(hindrance: &Blocked, now: Instant, failed: &str) -> Self {
        match hindrance {
            Blocked::Later { until, .. } => {
                Self::RequeueAfter(until.saturating_duration_since(now).max(LIMITED_RECHECK / 10))
            }
            Blocked::Refused(error) => match error.class {
                CallErrorClass::Limited => Self::RequeueAfter(LIMITED_RECHECK),
                CallErrorClass::Server | CallErrorClass::NoAnswer => {
                    Self::Unavailable(error.to_string())
                }
                CallErrorClass::Token => Self::RequeueAfter(PERMANENT_RETRY),
                _ => Self::Rejected {
                    reason: failed.to_owned(),
                    message: error.to_string(),
                },
            },
        }
    }

    /// The same, or earlier if what hindered a course that went on all the same passes earlier.
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

    /// What the runtime is told.
    pub(crate) fn action(self) -> Result<Action> {
        match self {
            Self::RequeueAfter(wait) => Ok(Action::Recheck(wait)),
            Self::Rejected { reason, message } => Ok(Action::rejected(&reason, message)),
            Self::Unavailable(why) => Err(Error::new(Pushed::Unavailable, why)),
        }
    }
}

/// Writes down once that the server refuses for its limit, and takes it back when it has answered: a pass
/// that needed nothing of it proves nothing while its last answer was a refusal.
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
        Blocked::Refused(error) if error.class == CallErrorClass::Limited => {
            Some((error.endpoint, INITIAL_WAIT))
        }
        _ => None,
    });
    match (told, &record) {
        (Some((endpoint, wait)), None) => {
            notes.push(EventNote::warning(
                "RateLimited",
                "Call",
                rate_limit_message(endpoint),
            ));
            let since = whole_seconds(now);
            *record = Some(RateLimited {
                endpoint: endpoint.to_owned(),
                not_before: whole_seconds(add_span(&since, wait.min(LONGEST_BACKOFF))),
                since,
            });
        }
        // An episode ends with an answer, not with a pass that needed none.
        (None, Some(_)) if !throttled => {
            *record = None;
            let story = "the server answers again within its rate limit";
            notes.push(EventNote::normal("Recovered", "Call", story));
        }
        _ => {}
    }
}

/// Why nothing is sent for now.
pub(crate) fn rate_limit_message(endpoint: &str) -> String {
    format!(
        "the server refused `{endpoint}` for its rate limit: calls go on when it allows, in steps of 2 s to \
         2 min; what works keeps working"
    )
}
