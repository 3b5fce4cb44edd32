//! The state machine of a watch, event by event.

use super::*;

const LONG: Duration = Duration::from_secs(30);

fn course() -> ReflectorState {
    ReflectorState::new(ReflectorTiming::default(), 7)
}

/// A course whose list ended at version 5.
fn watching() -> ReflectorState {
    let mut course = course();
    course.paged(None, "5");
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
    course.paged(Some("more".to_owned()), "5");
    assert_eq!(
        *course.step(),
        ReflectorStep::List(ListPage::Next("more".to_owned()))
    );
    course.paged(None, "5");
    assert_eq!(from(&course), "5");
}

#[test]
fn a_list_that_expires_between_pages_is_read_whole() {
    let mut course = course();
    course.paged(Some("more".to_owned()), "5");
    assert!(course.lost(Disconnect::Expired, LONG) > Duration::ZERO);
    assert_eq!(*course.step(), ReflectorStep::List(ListPage::Whole));
}

#[test]
fn a_broken_watch_goes_on_at_once_from_the_last_version() {
    let mut course = watching();
    course.opened();
    course.heard("9".to_owned());
    assert_eq!(course.lost(Disconnect::Cut, LONG), Duration::ZERO);
    assert_eq!(from(&course), "9");
}

#[test]
fn a_watch_that_says_one_thing_and_ends_is_not_opened_again_at_once() {
    for loss in [Disconnect::Cut, Disconnect::Closed, Disconnect::Expired] {
        let mut course = watching();
        for version in 6..12 {
            course.paged(None, "5");
            course.opened();
            course.heard(version.to_string());
            let delay = course.lost(loss, Duration::from_millis(20));
            assert!(
                delay >= ReflectorTiming::default().backoff.0 / 2,
                "{delay:?}"
            );
        }
    }
}

#[test]
fn an_expired_watch_lists_again() {
    let mut course = watching();
    course.opened();
    assert_eq!(course.lost(Disconnect::Expired, LONG), Duration::ZERO);
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
                course.paged(None, "5");
            }
            course.opened();
            delays.push(course.lost(loss, LONG));
        }
        let cap = ReflectorTiming::default().backoff.1;
        assert!(delays.iter().all(|delay| *delay <= cap), "{delays:?}");
        assert!(delays[2] >= Duration::from_millis(400), "{delays:?}");
        assert!(delays[11] >= cap / 2, "{delays:?}");
    }
}

#[test]
fn one_thing_heard_ends_the_backoff() {
    let mut course = watching();
    for _ in 0..8 {
        course.lost(Disconnect::Refused, LONG);
    }
    course.opened();
    course.heard("6".to_owned());
    course.lost(Disconnect::Cut, LONG);
    assert!(course.lost(Disconnect::Refused, LONG) <= Duration::from_millis(800));
}

#[test]
fn after_a_silence_an_open_connection_alone_proves_nothing() {
    let mut course = watching();
    assert!(course.opened());
    assert_eq!(course.lost(Disconnect::Silence, LONG), Duration::ZERO);
    assert_eq!(from(&course), "5");
    assert!(!course.opened());
    course.heard("6".to_owned());
    course.lost(Disconnect::Cut, LONG);
    assert!(course.opened());
}

#[test]
fn an_end_in_due_time_is_a_sign_of_life_and_no_failure() {
    let mut course = watching();
    course.opened();
    course.lost(Disconnect::Silence, LONG);
    course.opened();
    assert_eq!(course.lost(Disconnect::Ended, LONG), Duration::ZERO);
    assert!(course.opened());
    assert_eq!(from(&course), "5");
}

#[test]
fn two_silences_in_a_row_list_again() {
    let mut course = watching();
    course.opened();
    course.lost(Disconnect::Silence, LONG);
    course.opened();
    course.lost(Disconnect::Silence, LONG);
    assert_eq!(*course.step(), ReflectorStep::List(ListPage::First));
}

#[test]
fn a_list_from_the_past_is_believed_only_when_it_insists() {
    let mut course = course();
    let (old, new) = (ResourceVersion::Number(5), ResourceVersion::Number(9));
    assert!(course.accepts(&new, Some(&old)));
    assert!(!course.accepts(&old, Some(&new)));
    assert!(!course.accepts(&old, Some(&new)));
    assert!(course.accepts(&old, Some(&new)));
    assert!(course.accepts(&ResourceVersion::parse("x"), Some(&new)));
}
