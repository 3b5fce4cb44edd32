//! The guarantees of the queue, by example and at random.

mod fairness;
mod holds;
mod random;
mod states;

use std::time::Duration;

use crate::queue::*;

/// Milliseconds since the start.
fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn queue() -> FairQueue<&'static str> {
    FairQueue::new(QueueConfig::default())
}

fn retry(due: Duration, hold: WaitPolicy) -> NextRun {
    NextRun::Scheduled {
        due,
        lane: Lane::Retry,
        reason: RunReason::Retry(ErrorClass::Unavailable),
        hold,
    }
}

/// Pops a key that must be there.
fn run(queue: &mut FairQueue<&'static str>, now: Duration) -> Dispatch<&'static str> {
    queue.pop(now).expect("something to run")
}
