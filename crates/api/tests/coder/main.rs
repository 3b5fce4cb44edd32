//! Coder's kinds on an API server: rejected specs, their messages, and defaults. Every table runs on the box,
//! and with `--ignored` on a real kube-apiserver: only the real server limits the cost of
//! a rule.
#![allow(
    clippy::needless_pass_by_value,
    reason = "each json! value is used once"
)]

mod accepted;
mod containers;
mod keys;
#[path = "../lab/mod.rs"]
mod lab;
mod provisioners;
mod proxies;
mod servers;
mod specs;

use lab::{Lab, on_box, on_real};

#[test]
fn the_shortest_objects_are_given_every_default() {
    on_box(accepted::defaults);
}

#[test]
fn objects_with_every_field_are_accepted() {
    on_box(accepted::everything);
}

#[test]
fn a_wrong_server_is_refused_with_its_field_and_the_fix() {
    on_box(servers::refused);
}

#[test]
fn every_kind_of_server_is_accepted() {
    on_box(servers::accepted);
}

#[test]
fn a_wrong_key_name_is_refused_with_what_to_change() {
    on_box(keys::refused);
}

#[test]
fn every_name_that_the_server_takes_is_accepted() {
    on_box(keys::accepted);
}

#[test]
fn a_wrong_provisioner_is_refused_with_its_field_and_the_fix() {
    on_box(provisioners::refused);
}

#[test]
fn what_pods_are_given_is_refused_with_its_field_and_the_fix() {
    on_box(containers::refused);
}

#[test]
fn a_wrong_proxy_is_refused_with_its_field_and_the_fix() {
    on_box(proxies::refused);
}

#[test]
fn the_usual_secret_of_an_object_is_not_that_of_its_token() {
    on_box(provisioners::usual_secret);
    on_box(proxies::usual_secret);
}

#[test]
fn what_is_no_duration_is_not_called_too_short() {
    on_box(provisioners::one_word_on_durations);
}

#[test]
fn names_of_proxies_are_what_the_server_takes() {
    on_box(proxies::names);
}

/// All of the above on one server, because starting it takes longer than the tests.
#[test]
#[ignore = "needs the real control plane"]
fn a_real_server_accepts_the_rules_and_says_the_same() {
    on_real(|lab| async move {
        accepted::defaults(lab.clone()).await;
        accepted::everything(lab.clone()).await;
        servers::refused(lab.clone()).await;
        servers::accepted(lab.clone()).await;
        keys::refused(lab.clone()).await;
        keys::accepted(lab.clone()).await;
        provisioners::refused(lab.clone()).await;
        provisioners::usual_secret(lab.clone()).await;
        provisioners::one_word_on_durations(lab.clone()).await;
        containers::refused(lab.clone()).await;
        proxies::usual_secret(lab.clone()).await;
        proxies::refused(lab.clone()).await;
        proxies::names(lab).await;
    });
}
