//! What faults can do to actions, and the status that belongs to a fault's code.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::model::ActionError;
use super::store::Course;
use crate::service::span::Span;

/// A fault to order.
pub type Fault = crate::service::Fault<ActionFault>;

/// How an action goes instead.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct ActionFault {
    /// It ends in error with this code.
    pub fail: Option<String>,
    /// The text beside the code.
    pub message: Option<String>,
    /// It never ends.
    pub stuck: bool,
    /// How long it runs; `0s` is over in the answer that announces it.
    pub duration: Option<Span>,
    /// Whether it locks server and floating IP; absent: yes.
    pub locks: Option<bool>,
    /// Whether its end changes the holder; absent: unless it fails.
    pub takes_effect: Option<bool>,
}

impl ActionFault {
    /// Bends the course an action would have taken.
    #[must_use]
    pub fn bend(&self, course: &Course) -> Course {
        let message = self.message.clone();
        let message = message.unwrap_or_else(|| "Action failed".to_owned());
        let fails = self.fail.clone().map(|code| ActionError { code, message });
        let duration = self.duration.map(|span| span.0).or(course.duration);
        Course {
            duration: duration.filter(|_| !self.stuck),
            takes_effect: self.takes_effect.unwrap_or(fails.is_none()),
            locks: self.locks.unwrap_or(course.locks),
            fails,
        }
    }
}

/// Status of the answer that a fault gives.
pub(super) fn status(fault: &Fault) -> StatusCode {
    let by_code = || fault.code.as_deref().map(super::error::status_of);
    fault.status().or_else(by_code).unwrap_or(StatusCode::OK)
}
