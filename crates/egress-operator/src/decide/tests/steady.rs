//! A steady state: nothing is written, and the provider is called as often as documented.

use aplomb_api::egress::BudgetLevel;

use super::model::{Model, SECOND};
use super::parity::with_probing;
use crate::decide::decide;
use crate::egress::{LabelState, NodeReady, RemainingCalls};

#[test]
fn the_status_stays_as_it_is_while_nothing_happens() {
    let mut model = Model::new_settled(3);
    let first = decide(&model.observed());
    let writes = model.writes;
    for minute in 1..=60 {
        model.advance(60 * SECOND);
        let again = decide(&model.observed());
        assert_eq!(again.status, first.status, "after {minute} minutes");
        assert_eq!(again.conditions, first.conditions);
        assert_eq!(again.notes, []);
    }
    assert_eq!(model.writes, writes);
    assert_eq!(first.status.next_check.as_deref(), Some("every 30s"));
}

#[test]
fn a_day_costs_at_most_one_read_a_resync() {
    for (resync, most) in [(30, 120), (60, 60)] {
        let mut model = Model::new_settled(3);
        model.floating_ip.resync = resync * SECOND;
        for _ in 0..24 {
            model.log.clear();
            model.advance(3_600 * SECOND);
            assert!(model.reads() <= most, "{} at {resync} s", model.reads());
            assert!(model.reads() >= most * 9 / 10, "{} at {resync} s", model.reads());
        }
    }
}

#[test]
fn events_cost_no_reads() {
    let mut model = Model::new_settled(3);
    for _ in 0..1_000 {
        model.run();
        model.uptime += model.latency;
    }
    assert_eq!(model.log.len(), 0);
}

#[test]
fn probing_more_often_costs_no_reads() {
    let mut model = with_probing(Model::new_settled(3));
    let plan = model.run();
    assert!(plan.requeue_after <= 10 * SECOND);
    model.advance(3_600 * SECOND);
    assert!(model.reads() <= 120, "{}", model.reads());
}

#[test]
fn nothing_is_looked_at_in_a_grace() {
    let mut model = Model::new_settled(2);
    model.node("a").prepared = false;
    model.advance(290 * SECOND);
    assert_eq!(model.log, []);
}

#[test]
fn the_budget_is_written_when_its_level_turns() {
    let mut model = Model::new_settled(2);
    let at = |model: &mut Model, remaining: u32| {
        model.floating_ip.budget = Some(RemainingCalls {
            limit: 3_600,
            remaining,
        });
        model.run();
        model.status.budget.clone().expect("a budget")
    };
    assert_eq!(at(&mut model, 3_590).remaining, 3_590);
    assert_eq!(at(&mut model, 3_000).remaining, 3_590, "the same level");
    let low = at(&mut model, 890);
    assert_eq!((low.level, low.remaining), (BudgetLevel::Low, 890));
    assert_eq!(at(&mut model, 910), low, "it is not clearly better");
    assert_eq!(at(&mut model, 1_400).level, BudgetLevel::Plenty);
    assert_eq!(at(&mut model, 30).level, BudgetLevel::Reserve);
    assert_eq!(at(&mut model, 35).level, BudgetLevel::Reserve);
    assert_eq!(at(&mut model, 60).level, BudgetLevel::Low);
}

#[test]
fn a_slower_resync_is_reported_in_whole_steps() {
    let mut model = Model::new_settled(2);
    model.floating_ip.resync = 100 * SECOND;
    let plan = model.run();
    assert_eq!(plan.status.next_check.as_deref(), Some("every 2m"));
}

#[test]
fn the_next_check_is_the_end_of_what_is_running() {
    let mut model = Model::new_settled(2);
    model.node("a").ready = NodeReady::False;
    let end = model.now() + 90 * SECOND;
    let plan = model.run();
    assert_eq!(plan.status.next_check, Some(end.to_string()));
    assert!(plan.requeue_after <= 90 * SECOND);
}

#[test]
fn the_same_world_has_the_same_plan() {
    let mut model = Model::new_settled(3);
    model.node("b").labels = LabelState::Some;
    model.node("a").ready = NodeReady::False;
    let (one, other) = (decide(&model.observed()), decide(&model.observed()));
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}
