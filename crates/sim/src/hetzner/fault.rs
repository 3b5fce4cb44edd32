//! Faults to order: which requests they meet and what happens to those.
//!
//! This is the vocabulary and the matching; `exchange` carries them out.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model::ActionError;
use super::span::Span;
use super::store::Course;

/// A fault and what it applies to. Members that are absent restrict or change nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Fault {
    /// Given when it is added.
    pub id: u64,
    /// HTTP method.
    pub method: Option<String>,
    /// A prefix of the path; with `*` (any text) a pattern for all of it; a final `$` ends it.
    /// `/v1` may be left out.
    pub path: Option<String>,
    /// Name of the client, as in the log. Noise is never met.
    pub client: Option<String>,
    /// How many requests it lets pass first.
    pub skip: u64,
    /// How many requests it meets; absent: all until it is removed.
    pub times: Option<u64>,
    /// Status of the answer. 502 and 504 come without JSON unless there is a code or a body.
    pub status: Option<u16>,
    /// `error.code` of the answer; it brings its status along.
    pub code: Option<String>,
    /// Body of the answer: text as it is, anything else as JSON.
    pub body: Option<Value>,
    /// Headers to add to the answer, over those it has.
    pub headers: BTreeMap<String, String>,
    /// Whether the answer lacks the rate limit and the date, as one from a gateway in front does.
    pub bare: bool,
    /// Whether the request takes effect before it is answered with `status`.
    pub commit: bool,
    /// How much later the answer arrives. The request takes effect at once.
    pub delay: Option<Span>,
    /// The connection is closed without an answer.
    pub reset: Option<When>,
    /// No answer ever comes.
    pub hang: Option<When>,
    /// How the action that the request begins will go. Requests that begin none are not met.
    pub action: Option<ActionFault>,
}

/// Whether the request has taken effect when the connection is lost. Before: it is not counted
/// against the rate limit either.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// The service has never seen it.
    Before,
    /// Done; only the answer is lost.
    After,
}

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

impl Fault {
    /// Whether the request never reaches the service.
    #[must_use]
    pub fn is_before(&self) -> bool {
        self.reset == Some(When::Before) || self.hang == Some(When::Before)
    }

    /// Whether something other than the service answers.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.status.is_some() || self.code.is_some() || self.body.is_some()
    }

    /// How much later its answer arrives.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay.map_or(Duration::ZERO, |span| span.0)
    }

    /// What is wrong with it, if anything.
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        let bad_status = |status: &u16| !(200..=599).contains(status);
        if let Some(status) = self.status.filter(bad_status) {
            return Some(format!("status {status}: give one from 200 to 599"));
        }
        if self.reset.is_some() && self.hang.is_some() {
            return Some("reset and hang exclude each other".to_owned());
        }
        let header = self.headers.iter().find(|(name, value)| {
            http::HeaderName::try_from(name.as_str()).is_err()
                || http::HeaderValue::try_from(value.as_str()).is_err()
        });
        header.map(|(name, _)| format!("`{name}` or its value cannot be a header"))
    }

    fn meets(&self, asked: &Asked<'_>) -> bool {
        let method = self.method.as_deref();
        let client = self.client.as_deref();
        let begins = matches!(asked.method, "POST" | "DELETE");
        (begins || self.action.is_none())
            && client.is_none_or(|client| client == asked.client)
            && method.is_none_or(|method| method.eq_ignore_ascii_case(asked.method))
            && self
                .path
                .as_deref()
                .is_none_or(|path| fits(path, asked.path))
    }

    /// Status of the answer it gives.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        let given = self.status.and_then(|s| StatusCode::from_u16(s).ok());
        let by_code = || self.code.as_deref().map(super::error::status_of);
        given.or_else(by_code).unwrap_or(StatusCode::OK)
    }
}

/// What a fault looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) client: &'a str,
}

/// The faults that are set, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    set: BTreeMap<u64, Fault>,
    last: u64,
}

impl Faults {
    pub(super) fn add(&mut self, mut fault: Fault) -> u64 {
        self.last += 1;
        fault.id = self.last;
        self.set.insert(self.last, fault);
        self.last
    }

    pub(super) fn remove(&mut self, id: Option<u64>) -> usize {
        let before = self.set.len();
        self.set
            .retain(|known, _| id.is_some_and(|id| id != *known));
        before - self.set.len()
    }

    pub(super) fn all(&self) -> Vec<Fault> {
        self.set.values().cloned().collect()
    }

    /// The oldest fault that meets the request, and how often it still would: counted by `spend`.
    pub(super) fn find(&mut self, asked: &Asked<'_>) -> Option<Fault> {
        let mut found = None;
        for fault in self.set.values_mut().filter(|fault| fault.meets(asked)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if found.is_none() {
                found = Some(fault.clone());
            }
        }
        found
    }

    /// Counts a request that a fault has met.
    pub(super) fn spend(&mut self, id: u64) {
        let Some(fault) = self.set.get_mut(&id) else {
            return;
        };
        fault.times = fault.times.map(|times| times.saturating_sub(1));
        if fault.times == Some(0) {
            self.set.remove(&id);
        }
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    let whole = |path: &str| match pattern.strip_suffix('$') {
        Some(pattern) => glob(pattern, path),
        None if pattern.contains('*') => glob(pattern, path),
        None => path.starts_with(pattern),
    };
    whole(path) || path.strip_prefix("/v1").is_some_and(whole)
}

/// `*` stands for any text, also none and also with slashes in it.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(at, _)| at);
            ends.chain([rest.len()]).any(|at| glob(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_prefix_a_pattern_or_ends_where_it_says() {
        for (pattern, path, meets) in [
            (
                "/v1/floating_ips",
                "/v1/floating_ips/1/actions/assign",
                true,
            ),
            ("/floating_ips", "/v1/floating_ips/1", true),
            ("/floating_ips/1$", "/v1/floating_ips/1", true),
            ("/floating_ips/1$", "/v1/floating_ips/1/actions", false),
            (
                "/floating_ips/*/actions/assign",
                "/v1/floating_ips/7/actions/assign",
                true,
            ),
            (
                "/floating_ips/*/actions/assign",
                "/v1/floating_ips/7/actions/unassign",
                false,
            ),
            ("/servers", "/v1/floating_ips", false),
            ("*assign", "/v1/floating_ips/7/actions/assign", true),
        ] {
            assert_eq!(fits(pattern, path), meets, "{pattern} {path}");
        }
    }

    #[test]
    fn a_fault_lets_some_pass_and_then_meets_its_number() {
        let mut faults = Faults::default();
        let fault = Fault {
            skip: 1,
            times: Some(2),
            ..Fault::default()
        };
        faults.add(fault);
        let asked = Asked {
            method: "GET",
            path: "/v1/servers",
            client: "test",
        };
        let mut met = Vec::new();
        for _ in 0..5 {
            let found = faults.find(&asked);
            met.push(found.is_some());
            found.into_iter().for_each(|fault| faults.spend(fault.id));
        }
        assert_eq!(met, [false, true, true, false, false]);
    }
}
