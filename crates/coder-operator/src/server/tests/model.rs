//! What is known against what is there, over any order of reads and writes of ours.

use std::collections::BTreeSet;

use futures::FutureExt;
use proptest::prelude::*;

use super::super::reads::{Joined, ReadCache};
use super::*;

/// A read or write of ours, or a part of one.
#[derive(Clone, Copy, Debug)]
enum Act {
    Begin,
    /// The server answers what is there now; the answer is still on its way.
    Snapshot,
    Complete,
    Fail,
    /// All callers that wait for the read leave.
    Leave,
    Create(u8),
    Delete(u8),
    /// No answer comes; it may have happened.
    NoAnswer(u8, bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Begin),
        Just(Act::Snapshot),
        Just(Act::Complete),
        Just(Act::Fail),
        Just(Act::Leave),
        (0u8..4).prop_map(Act::Create),
        (0u8..4).prop_map(Act::Delete),
        (0u8..4, any::<bool>()).prop_map(|(name, done)| Act::NoAnswer(name, done)),
    ]
}

type Names = BTreeSet<u8>;

#[derive(Default)]
struct Model {
    cache: ReadCache<Names>,
    actual: Names,
    in_flight: Option<Joined<Names>>,
    answer: Option<Names>,
}

impl Model {
    fn apply(&mut self, act: Act) {
        match act {
            Act::Begin => {
                let begin = |_| std::future::pending().boxed();
                self.in_flight = Some(self.cache.join_read("/", &object("red"), begin));
            }
            Act::Snapshot if self.in_flight.is_some() && self.answer.is_none() => {
                self.answer = Some(self.actual.clone());
            }
            Act::Complete => {
                if let (Some(answer), Some(flying)) = (self.answer.take(), self.in_flight.take()) {
                    let landed = self.cache.complete_read("/", flying.sequence, Ok(timestamped(answer)));
                    landed.expect("it was read");
                }
            }
            Act::Fail => {
                if let Some(flying) = self.in_flight.take() {
                    let (until, limited) = (Instant::now(), false);
                    let later = Pushback::Later { until, limited };
                    let landed = self.cache.complete_read("/", flying.sequence, Err(later));
                    landed.expect_err("it was not read");
                    self.answer = None;
                }
            }
            Act::Leave => (self.in_flight, self.answer) = (None, None),
            Act::Create(name) => {
                self.actual.insert(name);
                self.cache.edit("/", move |names| {
                    names.insert(name);
                });
            }
            Act::Delete(name) => {
                self.actual.remove(&name);
                self.cache.edit("/", move |names| {
                    names.remove(&name);
                });
            }
            Act::NoAnswer(name, done) => {
                if done {
                    self.actual.insert(name);
                }
                self.cache.invalidate("/");
            }
            Act::Snapshot => {}
        }
    }
}

fn timestamped(value: Names) -> Timestamped<Names> {
    Timestamped {
        requested_at: Instant::now(),
        server_time: Timestamp::UNIX_EPOCH,
        value,
    }
}

proptest! {
    #[test]
    fn what_is_known_is_what_is_there(acts in prop::collection::vec(act(), 0..60)) {
        let mut model = Model::default();
        for act in acts {
            model.apply(act);
            let ever = MaxAge::Within(Duration::from_secs(3600));
            if let Some(known) = model.cache.cached("/", ever, Instant::now()) {
                prop_assert_eq!(&known.value, &model.actual);
            }
        }
    }
}
