//! What the queue promises, case by case and at random.

mod fairness;
mod holds;
mod random;
mod states;

use std::time::Duration;

use super::*;

/// Milliseconds since the start.
fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn queue() -> Queue<&'static str> {
    Queue::new(Config::default())
}

fn retry(due: Duration, hold: Hold) -> Next {
    Next::At {
        due,
        lane: Lane::Retry,
        reason: Reason::Retry(Class::Unavailable),
        hold,
    }
}

/// Pops what must be there.
fn run(queue: &mut Queue<&'static str>, now: Duration) -> Dispatch<&'static str> {
    queue.pop(now).expect("something to run")
}
