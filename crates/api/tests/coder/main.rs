//! Coder's kinds on an API server: rejected specs, their messages, and defaults. Every table runs on the box,
//! and with `--ignored` on a real kube-apiserver: only the real server limits the cost of
//! a rule.
#![allow(clippy::needless_pass_by_value, reason = "each json! value is used once")]

mod accepted;
mod containers;
mod fixtures;
mod keys;
#[path = "../lab/mod.rs"]
mod lab;
mod provisioners;
mod proxies;
mod servers;

use lab::{Lab, on_box, on_real};

#[test]
fn the_shortest_objects_are_given_every_default() {
    on_box(accepted::defaults);
}

#[test]
fn objects_with_every_field_are_accepted() {
    on_box(accepted::all_fields);
}

#[test]
fn a_wrong_server_is_refused_with_its_field_and_the_fix() {
    on_box(servers::rejects);
}

#[test]
fn every_kind_of_server_is_accepted() {
    on_box(servers::accepts);
}

#[test]
fn a_wrong_key_name_is_refused_with_what_to_change() {
    on_box(keys::rejects);
}

#[test]
fn every_name_that_the_server_takes_is_accepted() {
    on_box(keys::accepts);
}

#[test]
fn a_wrong_provisioner_is_refused_with_its_field_and_the_fix() {
    on_box(provisioners::rejects);
}

#[test]
fn a_wrong_pod_setting_is_refused_with_its_field_and_the_fix() {
    on_box(containers::rejects);
}

#[test]
fn a_wrong_proxy_is_refused_with_its_field_and_the_fix() {
    on_box(proxies::rejects);
}

#[test]
fn the_default_secret_of_an_object_is_not_that_of_its_token() {
    on_box(provisioners::default_secret);
    on_box(proxies::default_secret);
}

#[test]
fn an_invalid_duration_is_not_called_too_short() {
    on_box(provisioners::reports_invalid_duration_once);
}

#[test]
fn names_of_proxies_are_what_the_server_takes() {
    on_box(proxies::accepts_names);
}

/// All of the above on one server, because starting it takes longer than the tests.
#[test]
#[ignore = "needs the real control plane"]
fn a_real_server_accepts_the_rules_and_says_the_same() {
    on_real(|lab| async move {
        accepted::defaults(lab.clone()).await;
        accepted::all_fields(lab.clone()).await;
        servers::rejects(lab.clone()).await;
        servers::accepts(lab.clone()).await;
        keys::rejects(lab.clone()).await;
        keys::accepts(lab.clone()).await;
        provisioners::rejects(lab.clone()).await;
        provisioners::default_secret(lab.clone()).await;
        provisioners::reports_invalid_duration_once(lab.clone()).await;
        containers::rejects(lab.clone()).await;
        proxies::default_secret(lab.clone()).await;
        proxies::rejects(lab.clone()).await;
        proxies::accepts_names(lab).await;
    });
}
