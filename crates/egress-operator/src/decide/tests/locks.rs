//! Locked servers: other candidates are tried in turn, and the first unlocked one gets the floating
//! IP.

use super::model::{Model, SECOND};
use super::provider::Mood;
use crate::decide::Step;
use crate::egress::ProviderTrouble;

/// `a` must be replaced, and `servers` are locked.
fn model_with_locks(nodes: usize, servers: &[i64]) -> Model {
    let mut model = Model::new_settled(nodes);
    model.node("a").terminating = true;
    model.provider.locks = servers.to_vec();
    model
}

#[test]
fn a_locked_candidate_is_passed_over_for_one_that_is_free() {
    for (servers, node, server) in [
        (&[2][..], "c", 3),
        (&[2, 3], "d", 4),
        (&[2, 4], "c", 3),
        (&[2, 3, 4], "e", 5),
    ] {
        let mut model = model_with_locks(5, servers);
        model.advance(15 * SECOND);
        model.assert_gateway(node, server);
        let before = usize::try_from(server - 2).expect("small");
        assert_eq!(model.assigns(), 3 * before + 1, "{:?}", model.step_log());
    }
}

#[test]
fn a_candidate_that_refuses_and_one_that_is_locked_leave_the_third() {
    let mut model = model_with_locks(4, &[2]);
    model.provider.refusing_servers = vec![3];
    model.advance(30 * SECOND);
    model.assert_gateway("d", 4);
}

#[test]
fn where_all_are_locked_the_first_that_is_free_has_it() {
    for after in [3, 60, 1_800] {
        for server in [2, 3, 4] {
            let mut model = model_with_locks(4, &[2, 3, 4]);
            model.advance(after * SECOND);
            assert_eq!(model.available_reason(), "False Moving");
            assert!(model.condition_message("Available").contains("locked"));
            assert_eq!(model.labeled_nodes(), ["a"], "the label remains");
            model.provider.locks.retain(|locked| *locked != server);
            model.advance(25 * SECOND);
            let name = ["b", "c", "d"][usize::try_from(server - 2).expect("small")];
            model.assert_gateway(name, server);
        }
    }
}

#[test]
fn a_person_who_moves_the_address_while_all_are_locked_is_respected() {
    let mut model = model_with_locks(3, &[2, 3]);
    model.advance(100 * SECOND);
    model.provider.server = Some(99);
    model.advance(40 * SECOND);
    model.provider.locks.clear();
    model.advance(60 * SECOND);
    assert_eq!(model.provider.server, Some(99));
}

#[test]
fn locks_that_last_cost_little() {
    for nodes in [2, 4] {
        let mut model = model_with_locks(nodes, &[2, 3, 4]);
        model.advance(600 * SECOND);
        let calls = model.assigns() + model.reads();
        assert!(calls <= 60 + 120 + 10, "{calls} with {nodes} nodes");
        let tried = |node: &str| model.count(|step| matches!(step, Step::Assign { node: to, .. } if to == node));
        assert!(tried("b") * nodes >= model.assigns() / 2, "each candidate is tried");
    }
}

#[test]
fn a_move_is_not_taken_back_when_the_first_choice_is_unlocked() {
    let mut model = model_with_locks(3, &[2]);
    model.advance(15 * SECOND);
    model.assert_gateway("c", 3);
    model.provider.locks.clear();
    model.log.clear();
    model.advance(600 * SECOND);
    model.assert_gateway("c", 3);
    assert_eq!(model.step_log(), Vec::<String>::new());
}

#[test]
fn a_new_leader_finds_the_free_one_too() {
    for at in 0..8 {
        let mut model = model_with_locks(3, &[2]);
        model.term = 4;
        model.advance(at * SECOND);
        model.restart();
        model.advance(15 * SECOND);
        model.assert_gateway("c", 3);
    }
}

#[test]
fn a_gateway_that_is_locked_out_of_its_lost_address_gives_way() {
    let mut model = Model::new_settled(3);
    model.provider.locks = vec![1];
    model.provider.server = None;
    model.advance(60 * SECOND);
    model.assert_gateway("b", 2);
    model.provider.locks.clear();
    model.advance(600 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn the_lock_of_our_own_lost_assign_ends_in_one_gateway() {
    for takes in [1, 3, 5, 8, 20] {
        let mut model = Model::new_settled(3);
        model.provider.mood = Mood::LosesReplies;
        model.provider.assign_time = Some(takes * SECOND);
        model.node("a").terminating = true;
        model.run();
        model.provider.mood = Mood::Healthy;
        model.advance((takes * 3 + 15) * SECOND);
        assert_eq!(model.available_reason(), "True Serving");
        assert!(model.labeled_nodes() == ["b"] || model.labeled_nodes() == ["c"]);
    }
}

#[test]
fn a_pin_to_a_locked_server_waits_with_the_gateway_at_work() {
    let mut model = Model::new_settled(3);
    model.spec.pin = Some(aplomb_api::egress::PinSpec {
        node: "b".to_owned(),
        until: None,
    });
    model.provider.locks = vec![2];
    model.advance(120 * SECOND);
    assert_eq!((model.provider.server, model.labeled_nodes()), (Some(1), vec!["a"]));
    model.provider.locks.clear();
    model.advance(15 * SECOND);
    model.assert_gateway("b", 2);
}

#[test]
fn a_provider_that_locks_everything_is_called_in_turn() {
    let mut model = model_with_locks(3, &[]);
    model.provider.mood = Mood::WritesFail(ProviderTrouble::Locked);
    model.advance(60 * SECOND);
    assert_eq!(model.labeled_nodes(), ["a"]);
    model.provider.mood = Mood::Healthy;
    model.advance(15 * SECOND);
    assert_eq!(model.available_reason(), "True Serving");
}
