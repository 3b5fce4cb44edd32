//! Effects of an event on a waiting key.

use super::*;

/// A queue in which "a" failed at 0 and waits until 100.
fn waiting(hold: WaitPolicy) -> FairQueue<&'static str> {
    let mut queue = queue();
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(0));
    let first = run(&mut queue, at(0));
    queue.complete(first.ticket, retry(at(100), hold), at(0));
    assert_eq!(queue.waiting_after(Some(ErrorClass::Unavailable)), 1);
    queue
}

#[test]
fn a_waiting_key_runs_when_it_is_due() {
    for hold in [WaitPolicy::AnyEvent, WaitPolicy::OneEvent, WaitPolicy::NoEvent] {
        let mut queue = waiting(hold);
        assert!(queue.pop(at(99)).is_none());
        assert_eq!(queue.next_due(at(99)), Some(at(100)));
        let due = run(&mut queue, at(130));
        assert_eq!((due.by, due.lane), (RunCause::Due, Lane::Retry));
        assert_eq!(due.waited, at(30));
        assert_eq!(due.reasons.to_string(), "Retry(Unavailable)");
        assert_eq!(queue.waiting(), 0);
    }
}

#[test]
fn any_event_runs_the_key() {
    let mut queue = waiting(WaitPolicy::AnyEvent);
    for now in [10, 20, 30] {
        queue.push(&"a", Lane::Input, RunReason::Input("Pod"), at(now));
        let event = run(&mut queue, at(now));
        assert_eq!(event.by, RunCause::Event);
        queue.complete(event.ticket, retry(at(100), WaitPolicy::AnyEvent), at(now));
    }
    assert_eq!(run(&mut queue, at(100)).by, RunCause::Due);
}

#[test]
fn edit_resets_the_allowance_of_one_event() {
    let mut queue = waiting(WaitPolicy::OneEvent);
    for now in [10, 20, 30] {
        queue.reset_event_allowance(&"a");
        queue.push(&"a", Lane::Edit, RunReason::Changed, at(now));
        let event = run(&mut queue, at(now));
        assert_eq!(event.by, RunCause::Event);
        queue.complete(event.ticket, retry(at(100), WaitPolicy::OneEvent), at(now));
    }
    assert_eq!(run(&mut queue, at(100)).by, RunCause::Due);
}

#[test]
fn one_event_runs_the_key_and_others_wait_until_due() {
    let mut queue = waiting(WaitPolicy::OneEvent);
    queue.push(&"a", Lane::Input, RunReason::Input("Pod"), at(10));
    let event = run(&mut queue, at(10));
    assert_eq!(event.by, RunCause::Event);
    queue.complete(event.ticket, retry(at(100), WaitPolicy::OneEvent), at(20));

    queue.push(&"a", Lane::Edit, RunReason::Changed, at(30));
    assert!(queue.pop(at(99)).is_none());
    let due = run(&mut queue, at(100));
    assert_eq!((due.by, due.lane, due.waited), (RunCause::Due, Lane::Edit, at(70)));
    assert_eq!(due.reasons.to_string(), "Changed,Retry(Unavailable)");

    queue.complete(due.ticket, retry(at(300), WaitPolicy::OneEvent), at(110));
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(120));
    assert_eq!(run(&mut queue, at(120)).by, RunCause::Event, "a new window");
}

#[test]
fn one_event_counts_an_event_during_the_run() {
    let mut queue = queue();
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(0));
    let first = run(&mut queue, at(0));
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(1));
    queue.complete(first.ticket, retry(at(100), WaitPolicy::OneEvent), at(2));
    let second = run(&mut queue, at(2));
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(3));
    queue.complete(second.ticket, retry(at(100), WaitPolicy::OneEvent), at(4));
    assert!(queue.pop(at(99)).is_none());
    assert_eq!(run(&mut queue, at(100)).by, RunCause::Due);
}

#[test]
fn no_event_keeps_events_until_due() {
    let mut queue = waiting(WaitPolicy::NoEvent);
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(10));
    assert!(queue.pop(at(99)).is_none());
    let due = run(&mut queue, at(100));
    assert_eq!((due.lane, due.waited), (Lane::Edit, at(90)));
}

#[test]
fn a_release_ends_any_wait() {
    for hold in [WaitPolicy::AnyEvent, WaitPolicy::OneEvent, WaitPolicy::NoEvent] {
        let mut queue = waiting(hold);
        queue.release(&"a", Lane::Edit, RunReason::Retry(ErrorClass::Conflict), at(10));
        let released = run(&mut queue, at(10));
        assert_eq!(released.by, RunCause::Due);
        queue.complete(released.ticket, NextRun::Idle, at(11));
        assert!(queue.is_empty(), "the wait has ended and its timer is gone");
    }
}

#[test]
fn a_release_during_the_run_is_not_lost() {
    let mut queue = queue();
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(0));
    let first = run(&mut queue, at(0));
    queue.release(&"a", Lane::Edit, RunReason::Retry(ErrorClass::Conflict), at(1));
    queue.complete(first.ticket, retry(at(1_000), WaitPolicy::NoEvent), at(2));
    assert_eq!(run(&mut queue, at(2)).by, RunCause::Due);
}

#[test]
fn what_was_due_is_dropped_when_the_run_an_event_made_says_so() {
    let mut queue = waiting(WaitPolicy::AnyEvent);
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(10));
    let event = run(&mut queue, at(10));
    queue.complete(event.ticket, NextRun::Idle, at(20));
    assert!(queue.is_empty());
    assert_eq!(queue.next_due(at(20)), None);
}

#[test]
fn what_becomes_due_while_an_event_has_it_in_line_is_served_by_the_same_run() {
    let mut queue = waiting(WaitPolicy::AnyEvent);
    queue.push(&"a", Lane::Resync, RunReason::Resync, at(90));
    let both = run(&mut queue, at(110));
    assert_eq!((both.by, both.lane, both.waited), (RunCause::Due, Lane::Retry, at(20)));
    queue.complete(both.ticket, NextRun::Idle, at(120));
    assert!(queue.pop(at(500)).is_none());
}
