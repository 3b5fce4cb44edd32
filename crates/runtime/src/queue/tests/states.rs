//! The states of a key and the transitions between them.

use super::*;

#[test]
fn keys_of_a_lane_come_out_in_the_order_they_went_in() {
    let mut queue = queue();
    for key in ["a", "b", "c"] {
        queue.push(&key, Lane::Input, RunReason::Input("Pod"), at(0));
    }
    queue.push(&"a", Lane::Input, RunReason::Input("Node"), at(1));
    let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(2))).map(|it| it.key).collect();
    assert_eq!(order, ["a", "b", "c"]);
}

#[test]
fn a_key_never_runs_twice_at_once_and_an_event_during_a_run_is_served_after_it() {
    let mut queue = queue();
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(0));
    let first = run(&mut queue, at(1));
    assert!(queue.push(&"a", Lane::Input, RunReason::Input("Pod"), at(2)));
    assert!(!queue.push(&"a", Lane::Input, RunReason::Input("Node"), at(3)));
    assert!(queue.pop(at(4)).is_none());

    assert!(queue.complete(first.ticket, NextRun::Idle, at(5)));
    let second = run(&mut queue, at(6));
    assert_eq!(second.reasons.to_string(), "Input(Pod),Input(Node)");
    assert_eq!(second.waited, at(4), "since the first unserved event");
    queue.complete(second.ticket, NextRun::Idle, at(7));
    assert!(queue.pop(at(8)).is_none());
    assert!(queue.is_empty());
}

#[test]
fn an_edit_moves_a_key_up_at_once() {
    let mut queue = queue();
    for key in ["a", "b", "c"] {
        queue.push(&key, Lane::Resync, RunReason::Resync, at(0));
    }
    queue.push(&"c", Lane::Edit, RunReason::Changed, at(5));
    assert_eq!((queue.depth(Lane::Edit), queue.depth(Lane::Resync)), (1, 2));
    let first = run(&mut queue, at(6));
    assert_eq!((first.key, first.lane), ("c", Lane::Edit));
    assert_eq!(first.reasons.to_string(), "Resync,Changed");
    assert_eq!(first.waited, at(6));
    assert_eq!(queue.depth(Lane::Resync), 2);
}

#[test]
fn an_edit_never_makes_a_key_wait_longer_than_without_it() {
    let mut queue = FairQueue::new(QueueConfig::default());
    queue.push(&usize::MAX, Lane::Input, RunReason::Input("Pod"), at(0));
    for key in 0..100 {
        queue.push(&key, Lane::Edit, RunReason::Changed, at(0));
    }
    queue.push(&usize::MAX, Lane::Edit, RunReason::Changed, at(1));
    let place = std::iter::from_fn(|| queue.pop(at(2))).position(|it| it.key == usize::MAX);
    // Eight edits use up their share first; then the key runs as the head of the other lane.
    assert_eq!(place, Some(8));
}

#[test]
fn a_ticket_of_a_run_that_is_over_is_refused_even_when_its_slot_is_used_again() {
    let mut queue = FairQueue::new(QueueConfig::default());
    let mut next = |key: usize| {
        queue.push(&key, Lane::Edit, RunReason::Changed, at(0));
        queue.pop(at(0)).expect("the key is queued").ticket
    };
    let first = next(0);
    let others: Vec<_> = (1..100).map(&mut next).collect();
    for ticket in std::iter::once(first).chain(others) {
        assert!(queue.complete(ticket, NextRun::Idle, at(1)));
        assert!(!queue.complete(ticket, NextRun::Idle, at(1)));
    }
    let again = |key| {
        queue.push(&key, Lane::Edit, RunReason::Changed, at(2));
        queue.pop(at(2)).expect("the key is queued").ticket
    };
    let slots: Vec<_> = (100..200).map(again).map(|ticket| ticket.slot).collect();
    assert!(slots.contains(&first.slot));
    assert!(slots.iter().filter(|slot| **slot >= 100).count() < 10, "few are new");
    assert!(!queue.complete(first, NextRun::Idle, at(3)));
    assert_eq!(queue.running(), 100);
}

#[test]
fn removed_key_leaves_no_state() {
    let mut queue = queue();
    queue.push(&"queued", Lane::Edit, RunReason::Changed, at(0));
    queue.remove(&"queued");
    queue.push(&"waiting", Lane::Edit, RunReason::Changed, at(0));
    let waiting = run(&mut queue, at(0));
    queue.complete(waiting.ticket, retry(at(10), WaitPolicy::AnyEvent), at(1));
    queue.remove(&"waiting");
    assert_eq!((queue.len(), queue.waiting()), (0, 0));
    assert_eq!(queue.next_due(at(1)), None);
    assert!(queue.pop(at(20)).is_none());
}

#[test]
fn key_removed_during_its_run_is_dropped_at_completion() {
    let mut queue = queue();
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(0));
    let first = run(&mut queue, at(0));
    queue.push(&"a", Lane::Edit, RunReason::Deleted, at(1));
    queue.remove(&"a");
    queue.complete(first.ticket, retry(at(5), WaitPolicy::AnyEvent), at(2));
    assert!(queue.is_empty());
    assert!(queue.pop(at(9)).is_none());
}

#[test]
fn recreated_object_starts_fresh_after_the_old_run() {
    let mut queue = queue();
    queue.push(&"a", Lane::Edit, RunReason::Changed, at(0));
    let first = run(&mut queue, at(0));
    queue.remove(&"a");
    queue.push(&"a", Lane::Edit, RunReason::Created, at(1));
    queue.complete(first.ticket, retry(at(60_000), WaitPolicy::NoEvent), at(2));
    let second = run(&mut queue, at(2));
    assert_eq!(second.reasons.to_string(), "Created");
    queue.complete(second.ticket, NextRun::Idle, at(3));
    assert!(queue.is_empty(), "a new object does not inherit the old timer");
}

#[test]
fn a_restart_is_paced_and_an_edit_meanwhile_is_not() {
    let mut queue = FairQueue::new(QueueConfig::default());
    for key in 0..10_000 {
        queue.push(&key, Lane::Resync, RunReason::Resync, at(0));
    }
    let burst = std::iter::from_fn(|| queue.pop(at(0))).count();
    assert_eq!(burst, 10);
    assert_eq!(queue.next_due(at(0)), Some(at(10)));
    assert_eq!(queue.next_due(at(25)), Some(at(25)));
    queue.push(&9_999, Lane::Edit, RunReason::Changed, at(1));
    assert_eq!(queue.pop(at(1)).map(|it| it.key), Some(9_999));
    assert!(queue.pop(at(1)).is_none());
    let in_a_second = (1..=1_000).filter(|ms| queue.pop(at(*ms)).is_some()).count();
    assert_eq!(in_a_second, 100);
}

#[test]
fn age_of_runs_is_known_without_iteration() {
    let mut queue = queue();
    for (key, start) in [("a", 0), ("b", 30)] {
        queue.push(&key, Lane::Edit, RunReason::Changed, at(start));
        run(&mut queue, at(start));
    }
    assert_eq!(queue.longest_run(at(50)), Some(at(50)));
    assert_eq!(queue.unfinished(at(50)), at(70));
}
