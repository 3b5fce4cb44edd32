//! How a pass ends that was held up at a server, and what is written down of a rate limit. Pure.

use std::time::Duration;

use aplomb::{Action, Error, ErrorClass as Pushed, EventNote, Result};
use aplomb_api::coder::RateLimited;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::client::CallErrorClass;
use crate::hindrance::Blocked;
use crate::times::{after, seconds};

/// What a refusal is waited out with that only a person can mend.
pub(crate) const SELDOM: Duration = Duration::from_secs(600);
/// How soon what hindered a pass that went on all the same is tried again.
const SOON: Duration = Duration::from_secs(15);
/// What is written down of the first wait where nobody has told it yet.
const FIRST: Duration = Duration::from_secs(5);
/// How soon what was refused for the limit is looked at again; the gate knows how long it really takes.
const MOMENT: Duration = Duration::from_secs(1);
/// The longest that one step of a backoff takes: what a restarted process waits, at most.
const LONGEST_BACKOFF: Duration = Duration::from_secs(120);

/// How a pass ends that has no step left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Look again after this time. Nothing of it: the status must be written before what comes next.
    Again(Duration),
    /// Nothing helps but a change.
    Rejected { reason: String, message: String },
    /// The server does not answer.
    Unavailable(String),
}

impl End {
    /// After a hindrance that nothing gets past. `failed` is the reason where only a person can help.
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

    /// The same, or earlier if what hindered a course that went on all the same passes earlier.
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

    /// What the runtime is told.
    pub(crate) fn verdict(self) -> Result<Action> {
        match self {
            Self::Again(wait) => Ok(Action::RequeueAfter(wait)),
            Self::Rejected { reason, message } => Ok(Action::reject(&reason, message)),
            Self::Unavailable(why) => Err(Error::new(Pushed::Unavailable, why)),
        }
    }
}

/// Writes down once that the server refuses for its limit, and takes it back when it has answered: a pass
/// that needed nothing of it proves nothing while its last answer was a refusal.
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
pub(crate) fn limited_story(endpoint: &str) -> String {
    format!(
        "the server refused `{endpoint}` for its rate limit: calls go on when it allows, in steps of 2 s to \
         2 min; what works keeps working"
    )
}
