//! Holds: accepted values, and that nothing is written while one is in effect.

use aplomb_api::egress::HoldSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::model::{Model, SECOND};
use crate::egress::{LabelState, NodeReady};

/// Every cause of a write, at once.
fn failing_model() -> Model {
    let mut model = Model::new_settled(3);
    model.node("a").cordoned = true;
    model.node("b").labels = LabelState::Some;
    model.node("b").ready = NodeReady::False;
    model.term = 7;
    model
}

#[test]
fn the_annotation_freezes_automation() {
    let mut model = failing_model();
    model.hold = Some("true".to_owned());
    model.advance(600 * SECOND);
    model.assert_untouched();
    assert_eq!(model.condition_reason("Held"), "True Held");
    assert!(model.reads() > 10, "reads continue");
    model.hold = None;
    model.advance(200 * SECOND);
    model.assert_gateway("c", 3);
    assert_eq!(model.condition_reason("Held"), "False NotHeld");
}

#[test]
fn the_spec_freezes_automation_until_its_time() {
    let mut model = failing_model();
    model.spec.hold = Some(HoldSpec {
        until: Some(Time(model.now() + 300 * SECOND)),
        reason: Some("maintenance".to_owned()),
    });
    model.advance(299 * SECOND);
    model.assert_untouched();
    assert!(model.condition_message("Held").contains("maintenance"));
    model.advance(10 * SECOND);
    model.assert_gateway("c", 3);
}

#[test]
fn an_annotation_with_a_time_ends_by_itself() {
    let mut model = failing_model();
    model.hold = Some((model.now() + 60 * SECOND).to_string());
    model.advance(59 * SECOND);
    model.assert_untouched();
    model.advance(80 * SECOND);
    model.assert_gateway("c", 3);
}

#[test]
fn a_hold_that_cannot_be_read_holds_and_reports_the_format() {
    let mut model = failing_model();
    model.hold = Some("until tomorrow".to_owned());
    model.advance(100 * SECOND);
    model.assert_untouched();
    let message = model.condition_message("Held");
    assert!(message.contains("egress.aplomb.dev/hold"), "{message}");
    assert!(message.contains("2026-01-31T18:00:00Z"), "{message}");
}

#[test]
fn without_a_hold_nothing_is_held() {
    for text in ["", "false", "FALSE", " ", "2001-01-01T00:00:00Z"] {
        let mut model = failing_model();
        model.hold = Some(text.to_owned());
        model.advance(200 * SECOND);
        assert_eq!(model.condition_reason("Held"), "False NotHeld", "{text:?}");
        model.assert_gateway("c", 3);
    }
}

#[test]
fn of_two_holds_the_longer_counts() {
    let mut model = failing_model();
    model.hold = Some((model.now() + 60 * SECOND).to_string());
    model.spec.hold = Some(HoldSpec {
        until: Some(Time(model.now() + 30 * SECOND)),
        reason: None,
    });
    model.advance(59 * SECOND);
    model.assert_untouched();
    model.spec.hold = Some(HoldSpec::default());
    model.advance(600 * SECOND);
    model.assert_untouched();
}

#[test]
fn a_grace_runs_on_while_held() {
    let mut model = Model::new_settled(2);
    model.hold = Some("true".to_owned());
    model.node("a").ready = NodeReady::False;
    model.advance(120 * SECOND);
    model.assert_untouched();
    model.hold = None;
    model.advance(3 * SECOND);
    model.assert_gateway("b", 2);
}
