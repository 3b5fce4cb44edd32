//! Series, the spam filter, and names.

use super::*;
use crate::events::EventNote;

fn correlator() -> EventCorrelator {
    EventCorrelator::new(EventReporter {
        controller: "aplomb.dev/demo".to_owned(),
        instance: "demo-0".to_owned(),
    })
}

fn event(name: &str, note: &str) -> Event {
    Event {
        regarding: ObjectReference {
            kind: Some("ConfigMap".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(format!("uid-of-{name}")),
            ..ObjectReference::default()
        },
        note: EventNote::normal("Applied", "Apply", note),
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn decide(correlator: &mut EventCorrelator, event: Event, seconds: u64) -> EventDecision {
    let wall = Timestamp::from_second(i64::try_from(seconds).expect("small")).expect("a time");
    correlator.decide(event, at(seconds), wall)
}

fn written(decision: EventDecision) -> Object {
    match decision {
        EventDecision::Write(object) => *object,
        other => panic!("{other:?}"),
    }
}

#[test]
fn repeated_event_costs_three_calls() {
    let mut correlator = correlator();
    let first = written(decide(&mut correlator, event("a", "done"), 1));
    assert_eq!(first.series, None);
    let second = written(decide(&mut correlator, event("a", "done"), 2));
    assert_eq!(second.metadata.name, first.metadata.name);
    assert_eq!(second.series.expect("a series").count, 2);
    for seconds in 3..=100 {
        assert_eq!(
            decide(&mut correlator, event("a", "done"), seconds),
            EventDecision::Counted
        );
    }
    assert_eq!(correlator.take_finished(at(459)), None);
    assert_eq!(correlator.next_due(), Some(at(460)));
    let last = correlator.take_finished(at(460)).expect("what was counted is written");
    assert_eq!(last.series.expect("a series").count, 100);
    assert_eq!(correlator.next_due(), None);
    let anew = written(decide(&mut correlator, event("a", "done"), 461));
    assert_ne!(anew.metadata.name, first.metadata.name);
}

#[test]
fn another_note_is_another_event() {
    let mut correlator = correlator();
    written(decide(&mut correlator, event("a", "one"), 1));
    let other = written(decide(&mut correlator, event("a", "two"), 1));
    assert_eq!(other.series, None);
}

#[test]
fn object_with_too_many_events_is_limited_alone() {
    let mut correlator = correlator();
    let mut spam = 0;
    for number in 0..100 {
        let decision = decide(&mut correlator, event("loud", &format!("{number}")), 1);
        spam += usize::from(decision == EventDecision::Spam);
    }
    assert_eq!(spam, 75);
    written(decide(&mut correlator, event("quiet", "hello"), 1));
    assert_eq!(
        decide(&mut correlator, event("loud", "too soon"), 300),
        EventDecision::Spam
    );
    written(decide(&mut correlator, event("loud", "in time"), 301));
}

#[test]
fn names_are_valid_unique_and_the_same_in_every_run() {
    let name = |of: &str, note: &str, correlator: &mut EventCorrelator| {
        let object = written(decide(correlator, event(of, note), 1));
        object.metadata.name.expect("a name")
    };
    let (mut one, mut two) = (correlator(), correlator());
    let first = name("a", "one", &mut one);
    assert_eq!(first, name("a", "one", &mut two));
    assert_ne!(first, name("a", "two", &mut one));
    let long = name(&format!("{}.{}", "x".repeat(235), "y".repeat(17)), "n", &mut one);
    assert!(long.len() <= NAME_LIMIT && !long.contains(".."), "{long}");
    let odd = name("System:node:", "n", &mut one);
    assert!(odd.starts_with("system-node."), "{odd}");
}

#[test]
fn oversized_fields_are_truncated() {
    let object = written(decide(&mut correlator(), event("a", &"ö".repeat(1000)), 1));
    assert!(object.note.expect("a note").len() <= NOTE_LIMIT);
}
