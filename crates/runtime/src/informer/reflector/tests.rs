//! The state machine of a watch, event by event.

use crate::informer::reflector::*;

const LONG: Duration = Duration::from_secs(30);

fn course() -> ReflectorState {
    ReflectorState::new(ReflectorTiming::default(), 7)
}

/// A course whose list ended at version 5.
fn watching() -> ReflectorState {
    let mut course = course();
    course.record_page(None, "5");
    course
}

fn from(course: &ReflectorState) -> &str {
    match course.step() {
        ReflectorStep::Watch { from, .. } => from,
        ReflectorStep::List(_) => panic!("unexpected list"),
    }
}

#[test]
fn pages_are_read_to_the_end_and_watched_from_their_version() {
    let mut course = course();
    assert_eq!(*course.step(), ReflectorStep::List(ListPage::First));
    course.record_page(Some("more".to_owned()), "5");
    assert_eq!(*course.step(), ReflectorStep::List(ListPage::Next("more".to_owned())));
    course.record_page(None, "5");
    assert_eq!(from(&course), "5");
}

#[test]
fn a_list_that_expires_between_pages_is_read_whole() {
    let mut course = course();
    course.record_page(Some("more".to_owned()), "5");
    assert!(course.record_loss(Disconnect::Expired, LONG) > Duration::ZERO);
    assert_eq!(*course.step(), ReflectorStep::List(ListPage::Whole));
}

#[test]
fn a_broken_watch_goes_on_at_once_from_the_last_version() {
    let mut course = watching();
    course.record_open();
    course.record_event("9".to_owned());
    assert_eq!(course.record_loss(Disconnect::Cut, LONG), Duration::ZERO);
    assert_eq!(from(&course), "9");
}

#[test]
fn watch_that_ends_after_one_event_is_not_reopened_at_once() {
    for loss in [Disconnect::Cut, Disconnect::Closed, Disconnect::Expired] {
        let mut course = watching();
        for version in 6..12 {
            course.record_page(None, "5");
            course.record_open();
            course.record_event(version.to_string());
            let delay = course.record_loss(loss, Duration::from_millis(20));
            assert!(delay >= ReflectorTiming::default().backoff.0 / 2, "{delay:?}");
        }
    }
}

#[test]
fn an_expired_watch_lists_again() {
    let mut course = watching();
    course.record_open();
    assert_eq!(course.record_loss(Disconnect::Expired, LONG), Duration::ZERO);
    assert_eq!(*course.step(), ReflectorStep::List(ListPage::First));
}

#[test]
fn a_watch_that_gets_nowhere_backs_off_up_to_the_cap() {
    for loss in [
        Disconnect::Cut,
        Disconnect::Closed,
        Disconnect::Expired,
        Disconnect::Refused,
    ] {
        let mut course = watching();
        let mut delays = Vec::new();
        for _ in 0..12 {
            if matches!(course.step(), ReflectorStep::List(_)) {
                course.record_page(None, "5");
            }
            course.record_open();
            delays.push(course.record_loss(loss, LONG));
        }
        let cap = ReflectorTiming::default().backoff.1;
        assert!(delays.iter().all(|delay| *delay <= cap), "{delays:?}");
        assert!(delays[2] >= Duration::from_millis(400), "{delays:?}");
        assert!(delays[11] >= cap / 2, "{delays:?}");
    }
}

#[test]
fn one_event_ends_the_backoff() {
    let mut course = watching();
    for _ in 0..8 {
        course.record_loss(Disconnect::Refused, LONG);
    }
    course.record_open();
    course.record_event("6".to_owned());
    course.record_loss(Disconnect::Cut, LONG);
    assert!(course.record_loss(Disconnect::Refused, LONG) <= Duration::from_millis(800));
}

#[test]
fn after_a_silence_an_open_connection_alone_proves_nothing() {
    let mut course = watching();
    assert!(course.record_open());
    assert_eq!(course.record_loss(Disconnect::Silence, LONG), Duration::ZERO);
    assert_eq!(from(&course), "5");
    assert!(!course.record_open());
    course.record_event("6".to_owned());
    course.record_loss(Disconnect::Cut, LONG);
    assert!(course.record_open());
}

#[test]
fn end_in_due_time_is_not_a_failure() {
    let mut course = watching();
    course.record_open();
    course.record_loss(Disconnect::Silence, LONG);
    course.record_open();
    assert_eq!(course.record_loss(Disconnect::Ended, LONG), Duration::ZERO);
    assert!(course.record_open());
    assert_eq!(from(&course), "5");
}

#[test]
fn two_silences_in_a_row_list_again() {
    let mut course = watching();
    course.record_open();
    course.record_loss(Disconnect::Silence, LONG);
    course.record_open();
    course.record_loss(Disconnect::Silence, LONG);
    assert_eq!(*course.step(), ReflectorStep::List(ListPage::First));
}

#[test]
fn old_list_is_accepted_only_after_repeats() {
    let mut course = course();
    let (old, new) = (ResourceVersion::Number(5), ResourceVersion::Number(9));
    assert!(course.accept_list(&new, Some(&old)));
    assert!(!course.accept_list(&old, Some(&new)));
    assert!(!course.accept_list(&old, Some(&new)));
    assert!(course.accept_list(&old, Some(&new)));
    assert!(course.accept_list(&ResourceVersion::parse("x"), Some(&new)));
}
