//! The kinds of tunnels on an API server: rejected specs, their messages, and defaults. Every table runs on
//! the box, and with `--ignored` on a real kube-apiserver: only the real server limits
//! the cost of a rule.
#![allow(
    clippy::needless_pass_by_value,
    reason = "each json! value is used once"
)]

mod accepted;
mod endpoints;
mod filters;
#[path = "../lab/mod.rs"]
mod lab;
mod matches;
mod others;
mod proxies;
mod specs;

use lab::{Lab, on_box, on_real};

#[test]
fn the_shortest_tunnel_is_given_every_default() {
    on_box(accepted::defaults);
}

#[test]
fn a_tunnel_with_every_field_is_accepted() {
    on_box(accepted::everything);
}

#[test]
fn a_wrong_tunnel_is_refused_with_its_field_and_the_fix() {
    on_box(proxies::refused);
}

#[test]
fn a_wrong_endpoint_is_refused_with_its_field_and_the_fix() {
    on_box(endpoints::refused);
}

#[test]
fn every_kind_of_endpoint_is_accepted() {
    on_box(endpoints::accepted);
}

#[test]
fn a_wrong_match_is_refused_with_its_field_and_the_fix() {
    on_box(matches::refused);
}

#[test]
fn a_wrong_filter_is_refused_with_its_field_and_the_fix() {
    on_box(filters::refused);
}

#[test]
fn other_kinds_are_refused_with_their_field_and_the_fix() {
    on_box(others::refused);
}

#[test]
fn a_claim_is_never_changed() {
    on_box(others::claims);
}

/// All of the above on one server, because starting it takes longer than the tests.
#[test]
#[ignore = "needs the real control plane"]
fn a_real_server_accepts_the_rules_and_says_the_same() {
    on_real(|lab| async move {
        accepted::defaults(lab.clone()).await;
        accepted::everything(lab.clone()).await;
        proxies::refused(lab.clone()).await;
        endpoints::refused(lab.clone()).await;
        endpoints::accepted(lab.clone()).await;
        matches::refused(lab.clone()).await;
        filters::refused(lab.clone()).await;
        others::refused(lab.clone()).await;
        others::claims(lab).await;
    });
}
