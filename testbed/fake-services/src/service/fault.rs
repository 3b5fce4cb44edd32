//! Faults to order: which requests they meet and what happens to those.
//!
//! This is the vocabulary and the matching; each service's `exchange` carries them out.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::handler::Outcome;
use super::span::Span;

/// A fault and what it applies to. Members that are absent restrict or change nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Fault<A> {
    /// Given when it is added.
    pub id: u64,
    /// HTTP method.
    pub method: Option<String>,
    /// A prefix of the path; with `*` (any text) a pattern for all of it; a final `$` ends it.
    /// What all paths of the service begin with may be left out.
    pub path: Option<String>,
    /// Name of the client, as in the log.
    pub client: Option<String>,
    /// How many requests it lets pass first.
    pub skip: u64,
    /// How many requests it meets; absent: all until it is removed.
    pub times: Option<u64>,
    /// How likely it is to meet a request, from 0 to 1; absent: certain.
    pub probability: Option<f64>,
    /// How long it stays after it was added.
    pub lasts: Option<Span>,
    /// Status of the answer. 502 and 504 come without JSON unless there is a code or a body.
    pub status: Option<u16>,
    /// Code of the refusal, where the service has codes; it brings its status along.
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
    pub action: Option<A>,
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

impl<A> Fault<A> {
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
        if self.probability.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
            return Some("probability: from 0 to 1".to_owned());
        }
        if self.reset.is_some() && self.hang.is_some() {
            return Some("reset and hang exclude each other".to_owned());
        }
        let header = self.headers.iter().find(|(name, value)| {
            http::HeaderName::try_from(name.as_str()).is_err() || http::HeaderValue::try_from(value.as_str()).is_err()
        });
        header.map(|(name, _)| format!("`{name}` or its value cannot be a header"))
    }

    fn meets(&self, asked: &FaultRequest<'_>) -> bool {
        let method = self.method.as_deref();
        let client = self.client.as_deref();
        let begins = matches!(asked.method, "POST" | "DELETE");
        (begins || self.action.is_none())
            && client.is_none_or(|client| client == asked.client)
            && method.is_none_or(|method| method.eq_ignore_ascii_case(asked.method))
            && self
                .path
                .as_deref()
                .is_none_or(|path| fits(path, asked.path, asked.root))
    }

    /// Status of the answer it gives, if it names one.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status.and_then(|s| StatusCode::from_u16(s).ok())
    }

    /// What becomes of a request whose answer it takes away.
    #[must_use]
    pub fn lost(&self) -> Outcome {
        match self.hang {
            Some(_) => Outcome::Silence,
            None => Outcome::Reset(self.delay()),
        }
    }
}

/// What a fault looks at.
#[derive(Clone, Copy, Debug)]
pub struct FaultRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path without the query.
    pub path: &'a str,
    /// What the paths of this service begin with.
    pub root: &'a str,
    /// Who asks.
    pub client: &'a str,
}

/// The faults that are set, oldest first.
#[derive(Clone, Debug)]
pub struct Faults<A> {
    set: BTreeMap<u64, (Fault<A>, Option<Timestamp>)>,
    last: u64,
    rng: fastrand::Rng,
}

impl<A: Clone> Faults<A> {
    /// None yet. What is uncertain is drawn from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            set: BTreeMap::new(),
            last: 0,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Sets a fault and gives its id.
    pub fn add(&mut self, now: Timestamp, mut fault: Fault<A>) -> u64 {
        self.last += 1;
        fault.id = self.last;
        let lasts = fault.lasts.and_then(|it| SignedDuration::try_from(it.0).ok());
        let end = lasts.and_then(|lasts| now.checked_add(lasts).ok());
        self.set.insert(self.last, (fault, end));
        self.last
    }

    /// Takes a fault back, or all of them. Returns how many are gone.
    pub fn remove(&mut self, id: Option<u64>) -> usize {
        let before = self.set.len();
        self.set.retain(|known, _| id.is_some_and(|id| id != *known));
        before - self.set.len()
    }

    /// Those that are set.
    #[must_use]
    pub fn all(&self) -> Vec<Fault<A>> {
        self.set.values().map(|(fault, _)| fault.clone()).collect()
    }

    /// The oldest fault that meets the request; `spend` counts it.
    pub fn find(&mut self, now: Timestamp, asked: &FaultRequest<'_>) -> Option<Fault<A>> {
        self.set.retain(|_, (_, end)| end.is_none_or(|end| now < end));
        let mut found = None;
        for (fault, _) in self.set.values_mut() {
            if !fault.meets(asked) {
                continue;
            }
            let likely = fault.probability;
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if found.is_none() && likely.is_none_or(|p| self.rng.f64() < p) {
                found = Some(fault.clone());
            }
        }
        found
    }

    /// Counts a request that a fault has met.
    pub fn spend(&mut self, id: u64) {
        let Some((fault, _)) = self.set.get_mut(&id) else {
            return;
        };
        fault.times = fault.times.map(|times| times.saturating_sub(1));
        if fault.times == Some(0) {
            self.set.remove(&id);
        }
    }
}

fn fits(pattern: &str, path: &str, root: &str) -> bool {
    let whole = |path: &str| match pattern.strip_suffix('$') {
        Some(pattern) => glob(pattern, path),
        None if pattern.contains('*') => glob(pattern, path),
        None => path.starts_with(pattern),
    };
    whole(path) || path.strip_prefix(root).is_some_and(whole)
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
            ("/v1/floating_ips", "/v1/floating_ips/1/actions/assign", true),
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
            assert_eq!(fits(pattern, path, "/v1"), meets, "{pattern} {path}");
        }
    }

    /// Which of five requests, a minute apart, a fault meets.
    fn met(fault: Fault<()>) -> Vec<bool> {
        let mut faults = Faults::new(1);
        let begin = Timestamp::UNIX_EPOCH;
        faults.add(begin, fault);
        let asked = FaultRequest {
            method: "GET",
            path: "/v1/servers",
            root: "/v1",
            client: "test",
        };
        let minutes = (0..5).map(|minute| begin + SignedDuration::from_mins(minute));
        let meet = |now| {
            let found = faults.find(now, &asked);
            found.iter().for_each(|fault| faults.spend(fault.id));
            found.is_some()
        };
        minutes.map(meet).collect()
    }

    #[test]
    fn a_fault_lets_some_pass_and_then_meets_its_number() {
        let fault = Fault {
            skip: 1,
            times: Some(2),
            ..Fault::default()
        };
        assert_eq!(met(fault), [false, true, true, false, false]);
    }

    #[test]
    fn a_fault_lasts_as_long_as_it_says() {
        let fault = Fault {
            lasts: Some(Span(Duration::from_secs(120))),
            ..Fault::default()
        };
        assert_eq!(met(fault), [true, true, false, false, false]);
    }

    #[test]
    fn a_fault_of_probability_zero_never_comes_and_of_one_always() {
        for (probability, comes) in [(0.0, false), (1.0, true)] {
            let fault = Fault {
                probability: Some(probability),
                ..Fault::default()
            };
            assert_eq!(met(fault), [comes; 5]);
        }
    }
}
