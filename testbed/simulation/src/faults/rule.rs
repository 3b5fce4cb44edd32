//! Faults by script: a rule says which request (by pattern, and by count or time) meets which
//! fault.

use std::time::Duration;

use super::fault::Fault;
use super::target::{Match, Target};

/// Which of the matching requests a rule hits.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// All of them.
    Always,
    /// The n-th to (but not including) the m-th, counted from 1.
    Counted(u64, u64),
    /// Those sent in this time, since the beginning of the trace.
    Between(Duration, Duration),
}

/// A scripted fault.
///
/// ```
/// use aplomb_apiserver::call::Verb;
/// use aplomb_simulation::faults::{Fault, Match, Rule};
///
/// let third_update = Rule::new(Fault::Conflict)
///     .on(Match::any().verb(Verb::Update).resource("configmaps"))
///     .nth(3);
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    when: When,
    matches: Match,
    fault: Fault,
    seen: u64,
}

impl Rule {
    /// Hits every request with `fault`, until narrowed.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self {
            when: When::Always,
            matches: Match::any(),
            fault,
            seen: 0,
        }
    }

    /// Only requests that `matches` accepts.
    #[must_use]
    pub fn on(mut self, matches: Match) -> Self {
        self.matches = matches;
        self
    }

    /// Only the n-th of them, counted from 1.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        self.when(When::Counted(n, n + 1))
    }

    /// Only the first n of them.
    #[must_use]
    pub fn first(self, n: u64) -> Self {
        self.when(When::Counted(1, n + 1))
    }

    /// Only the first of them: a token that is refused once, a single lost answer.
    #[must_use]
    pub fn once(self) -> Self {
        self.nth(1)
    }

    /// Only those sent at or after `from` and before `until`, since the beginning of the trace.
    #[must_use]
    pub fn between(self, from: Duration, until: Duration) -> Self {
        self.when(When::Between(from, until))
    }

    fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }

    /// The fault for this request, if the rule hits it. Counts it if it matches.
    pub(super) fn hit(&mut self, target: &Target, now: Duration) -> Option<&Fault> {
        if !self.matches.accepts(target) || !self.fault.applies_to(target) {
            return None;
        }
        self.seen += 1;
        let hit = match self.when {
            When::Always => true,
            When::Counted(from, until) => (from..until).contains(&self.seen),
            When::Between(from, until) => (from..until).contains(&now),
        };
        hit.then_some(&self.fault)
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn hits(mut rule: Rule, requests: u64) -> Vec<u64> {
        let request = Request::put("/api/v1/namespaces/a/pods/b").body(()).expect("a request");
        let target = Target::of(&request);
        (1..=requests)
            .filter(|&at| rule.hit(&target, Duration::from_secs(at)).is_some())
            .collect()
    }

    #[test]
    fn rules_hit_by_count_or_by_time() {
        let rule = || Rule::new(Fault::Conflict);
        assert_eq!(hits(rule().nth(3), 5), [3]);
        assert_eq!(hits(rule().first(2), 5), [1, 2]);
        assert_eq!(hits(rule().once(), 5), [1]);
        let (from, until) = (Duration::from_secs(2), Duration::from_secs(4));
        assert_eq!(hits(rule().between(from, until), 5), [2, 3]);
        assert_eq!(hits(rule(), 3), [1, 2, 3]);
        assert_eq!(hits(rule().on(Match::any().resource("services")), 3), Vec::<u64>::new());
    }
}
