//! The kinds of tunnels on an API server: rejected specs, their messages, and defaults. Every table runs on
//! the box, and with `--ignored` on a real kube-apiserver: only the real server limits
//! the cost of a rule.
#![allow(clippy::needless_pass_by_value, reason = "each json! value is used once")]

mod accepted;
mod endpoints;
mod filters;
mod fixtures;
#[path = "../lab/mod.rs"]
mod lab;
mod matches;
mod other_kinds;
mod proxies;

use lab::{Lab, on_box, on_real};

#[test]
fn the_shortest_tunnel_is_given_every_default() {
    on_box(accepted::defaults);
}

#[test]
fn a_tunnel_with_every_field_is_accepted() {
    on_box(accepted::all_fields);
}

#[test]
fn a_wrong_tunnel_is_refused_with_its_field_and_the_fix() {
    on_box(proxies::rejects);
}

#[test]
fn a_wrong_endpoint_is_refused_with_its_field_and_the_fix() {
    on_box(endpoints::rejects);
}

#[test]
fn every_kind_of_endpoint_is_accepted() {
    on_box(endpoints::accepts);
}

#[test]
fn a_wrong_match_is_refused_with_its_field_and_the_fix() {
    on_box(matches::rejects);
}

#[test]
fn a_wrong_filter_is_refused_with_its_field_and_the_fix() {
    on_box(filters::rejects);
}

#[test]
fn other_kinds_are_refused_with_their_field_and_the_fix() {
    on_box(other_kinds::rejects);
}

#[test]
fn a_claim_is_never_changed() {
    on_box(other_kinds::reject_claim_changes);
}

/// All of the above on one server, because starting it takes longer than the tests.
#[test]
#[ignore = "needs the real control plane"]
fn a_real_server_accepts_the_rules_and_says_the_same() {
    on_real(|lab| async move {
        accepted::defaults(lab.clone()).await;
        accepted::all_fields(lab.clone()).await;
        proxies::rejects(lab.clone()).await;
        endpoints::rejects(lab.clone()).await;
        endpoints::accepts(lab.clone()).await;
        matches::rejects(lab.clone()).await;
        filters::rejects(lab.clone()).await;
        other_kinds::rejects(lab.clone()).await;
        other_kinds::reject_claim_changes(lab).await;
    });
}
