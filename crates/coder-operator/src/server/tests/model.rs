//! What is known against what is there, over any order of reads and writes of ours.

use std::collections::BTreeSet;

use futures::FutureExt;
use proptest::prelude::*;

use super::super::look::{Joined, ReadCache};
use super::*;

/// A read or write of ours, or a part of one.
#[derive(Clone, Copy, Debug)]
enum Act {
    Begin,
    /// The server answers what is there now; the answer is still on its way.
    Snapshot,
    Land,
    Fail,
    /// All callers that wait for the read leave.
    Leave,
    Create(u8),
    Delete(u8),
    /// No answer comes; it may have happened.
    Unheard(u8, bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Begin),
        Just(Act::Snapshot),
        Just(Act::Land),
        Just(Act::Fail),
        Just(Act::Leave),
        (0u8..4).prop_map(Act::Create),
        (0u8..4).prop_map(Act::Delete),
        (0u8..4, any::<bool>()).prop_map(|(name, done)| Act::Unheard(name, done)),
    ]
}

type Names = BTreeSet<u8>;

#[derive(Default)]
struct Model {
    look: ReadCache<Names>,
    there: Names,
    flying: Option<Joined<Names>>,
    answer: Option<Names>,
}

impl Model {
    fn take(&mut self, act: Act) {
        match act {
            Act::Begin => {
                let begin = |_| std::future::pending().boxed();
                self.flying = Some(self.look.join("/", &object("red"), begin));
            }
            Act::Snapshot if self.flying.is_some() && self.answer.is_none() => {
                self.answer = Some(self.there.clone());
            }
            Act::Land => {
                if let (Some(answer), Some(flying)) = (self.answer.take(), self.flying.take()) {
                    let landed = self.look.land("/", flying.number, Ok(listed(answer)));
                    landed.expect("it was read");
                }
            }
            Act::Fail => {
                if let Some(flying) = self.flying.take() {
                    let (until, limited) = (Instant::now(), false);
                    let later = Pushback::Later { until, limited };
                    let landed = self.look.land("/", flying.number, Err(later));
                    landed.expect_err("it was not read");
                    self.answer = None;
                }
            }
            Act::Leave => (self.flying, self.answer) = (None, None),
            Act::Create(name) => {
                self.there.insert(name);
                self.look.edit("/", move |names| {
                    names.insert(name);
                });
            }
            Act::Delete(name) => {
                self.there.remove(&name);
                self.look.edit("/", move |names| {
                    names.remove(&name);
                });
            }
            Act::Unheard(name, done) => {
                if done {
                    self.there.insert(name);
                }
                self.look.doubt("/");
            }
            Act::Snapshot => {}
        }
    }
}

fn listed(value: Names) -> Timestamped<Names> {
    Timestamped {
        at: Instant::now(),
        by_server: Timestamp::UNIX_EPOCH,
        value,
    }
}

proptest! {
    #[test]
    fn what_is_known_is_what_is_there(acts in prop::collection::vec(act(), 0..60)) {
        let mut model = Model::default();
        for act in acts {
            model.take(act);
            let ever = MaxAge::Within(Duration::from_secs(3600));
            if let Some(known) = model.look.known("/", ever, Instant::now()) {
                prop_assert_eq!(&known.value, &model.there);
            }
        }
    }
}
