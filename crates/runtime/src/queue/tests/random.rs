//! Random histories against a plain model of pending runs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Push(u8, usize),
    Release(u8, usize),
    Pop,
    Finish(usize, After),
    Forget(u8),
    Pass(u64),
}

#[derive(Clone, Copy, Debug)]
enum After {
    Idle,
    At(u64, WaitPolicy),
}

fn after() -> impl Strategy<Value = After> {
    let hold = prop_oneof![
        Just(WaitPolicy::AnyEvent),
        Just(WaitPolicy::OneEvent),
        Just(WaitPolicy::NoEvent)
    ];
    prop_oneof![
        Just(After::Idle),
        (0_u64..300, hold).prop_map(|(ms, hold)| After::At(ms, hold)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..6, 0_usize..4).prop_map(|(key, lane)| Step::Push(key, lane)),
        1 => (0_u8..6, 0_usize..4).prop_map(|(key, lane)| Step::Release(key, lane)),
        6 => Just(Step::Pop),
        6 => (any::<usize>(), after()).prop_map(|(which, after)| Step::Finish(which, after)),
        1 => (0_u8..6).prop_map(Step::Forget),
        3 => (0_u64..100).prop_map(Step::Pass),
    ]
}

/// The pending work of each key: events since its last run began, and the time it is to run by.
#[derive(Default)]
struct Model {
    queue: Option<FairQueue<u8>>,
    now: Duration,
    running: BTreeMap<u8, RunTicket>,
    events: BTreeMap<u8, Duration>,
    due: BTreeMap<u8, Duration>,
    forgotten: BTreeSet<u8>,
    released: BTreeSet<u8>,
}

impl Model {
    fn new() -> Self {
        Self {
            queue: Some(FairQueue::new(QueueConfig::default())),
            ..Self::default()
        }
    }

    fn queue(&mut self) -> &mut FairQueue<u8> {
        self.queue.as_mut().expect("made with one")
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let now = self.now;
        match *step {
            Step::Push(key, lane) => {
                self.queue().push(&key, Lane::ALL[lane], RunReason::Changed, now);
                self.events.entry(key).or_insert(now);
            }
            Step::Release(key, lane) => self.release(key, Lane::ALL[lane]),
            Step::Pop => self.pop()?,
            Step::Finish(which, after) => self.finish(which, after),
            Step::Forget(key) => {
                self.queue().remove(&key);
                self.events.remove(&key);
                self.due.remove(&key);
                self.released.remove(&key);
                if self.running.contains_key(&key) {
                    self.forgotten.insert(key);
                }
            }
            Step::Pass(ms) => self.now += at(ms),
        }
        Ok(())
    }

    /// Ends the wait, and the scheduled run; if that was due already, it was first.
    fn release(&mut self, key: u8, lane: Lane) {
        let now = self.now;
        self.queue().release(&key, lane, RunReason::Recheck, now);
        if self.running.contains_key(&key) {
            self.released.insert(key);
        } else if let Some(due) = self.due.remove(&key).filter(|due| *due <= now) {
            let event = self.events.entry(key).or_insert(due);
            *event = due.min(*event);
        }
        self.events.entry(key).or_insert(now);
    }

    fn pop(&mut self) -> Result<(), TestCaseError> {
        let now = self.now;
        let Some(run) = self.queue().pop(now) else {
            return Ok(());
        };
        prop_assert!(!self.running.contains_key(&run.key), "it runs already");
        let event = self.events.remove(&run.key);
        let due = self.due.get(&run.key).copied().filter(|due| *due <= now);
        prop_assert!(event.is_some() || due.is_some(), "the key had nothing pending");
        let since = event.into_iter().chain(due).min();
        prop_assert_eq!(run.waited, now - since.unwrap_or(now), "since the first unserved event");
        if due.is_some() {
            prop_assert_eq!(run.by, RunCause::Due);
            self.due.remove(&run.key);
        }
        self.running.insert(run.key, run.ticket);
        Ok(())
    }

    fn finish(&mut self, which: usize, after: After) {
        let now = self.now;
        let keys: Vec<_> = self.running.keys().copied().collect();
        let Some(key) = keys.get(which % keys.len().max(1)).copied() else {
            return;
        };
        let ticket = self.running.remove(&key).expect("it runs");
        let next = match after {
            After::Idle => NextRun::Idle,
            After::At(ms, hold) => retry(now + at(ms), hold),
        };
        self.queue().complete(ticket, next, now);
        let over = self.forgotten.remove(&key) | self.released.remove(&key);
        match (over, after) {
            (true, _) | (_, After::Idle) => drop(self.due.remove(&key)),
            (_, After::At(ms, _)) => drop(self.due.insert(key, now + at(ms))),
        }
    }

    /// Runs everything to its end: no pending work may remain.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..1_000 {
            while !self.running.is_empty() {
                self.finish(0, After::Idle);
            }
            self.pop()?;
            let now = self.now;
            if self.running.is_empty() {
                match self.queue().next_due(now) {
                    Some(due) => self.now = due,
                    None => break,
                }
            }
        }
        prop_assert!(self.events.is_empty(), "lost: {:?}", self.events);
        prop_assert!(self.due.is_empty(), "lost: {:?}", self.due);
        prop_assert!(self.queue().is_empty());
        prop_assert_eq!((self.queue().waiting(), self.queue().running()), (0, 0));
        for lane in Lane::ALL {
            prop_assert_eq!(self.queue().depth(lane), 0);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_scheduled_run_is_lost_and_no_key_runs_twice_at_once(steps in prop::collection::vec(step(), 0..120)) {
        let mut model = Model::new();
        for step in &steps {
            model.step(step)?;
            prop_assert_eq!(model.queue().running(), model.running.len());
        }
        model.drain()?;
    }
}
