//! Guarantee: a provider that refuses one kind of call, or calls for one server, does not block
//! anything else. A term that cannot be written does not delay reads; a locked server does not keep
//! the address from another.

use std::time::Duration;

use aplomb_api::egress::labels::CANDIDATE;
use aplomb_api::egress::reasons;
use aplomb_fake_services::hcloud::{Change, Fault, When};
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Lab, WEB, assert_throughout, floating_ip, on_box, seconds, until};
use crate::moves::assigns;
use crate::nodes;

/// A resync is 30 s plus up to a tenth as jitter; a call without response ends after five seconds.
const RESYNC: Duration = Duration::from_secs(40);

/// The ways in which the provider refuses a label write while reads succeed.
fn refused_labels() -> Vec<Fault> {
    let put = |change: fn(&mut Fault)| {
        let mut fault = Fault {
            method: Some("PUT".to_owned()),
            path: Some(format!("/floating_ips/{}$", floating_ip(0))),
            ..Fault::default()
        };
        change(&mut fault);
        fault
    };
    vec![
        put(|it| it.status = Some(403)),
        put(|it| it.code = Some("token_readonly".to_owned())),
        put(|it| it.code = Some("conflict".to_owned())),
        put(|it| it.status = Some(422)),
        put(|it| it.status = Some(423)),
        put(|it| it.status = Some(429)),
        put(|it| it.status = Some(500)),
        put(|it| it.hang = Some(When::Before)),
        put(|it| it.reset = Some(When::Before)),
        // Accepted but not stored.
        put(|it| {
            let address = json!({ "id": 100, "name": WEB, "ip": "203.0.113.10", "type": "ipv4",
                "server": 1000, "blocked": false, "labels": {} });
            it.body = Some(json!({ "floating_ip": address }));
        }),
    ]
}

fn labels_written(lab: &Lab) -> usize {
    let requests = lab.hetzner.requests();
    requests.iter().filter(|it| it.method == "PUT").count()
}

fn holds_address(lab: &Lab, number: usize) -> bool {
    lab.hetzner.holder(floating_ip(0)) == Some(nodes::server(number))
}

/// The address is unassigned, then the gateway cordoned: both are handled as if nothing was
/// refused.
async fn assert_reconciled(lab: &Lab) {
    lab.move_manually(None);
    until(RESYNC, "assigned again", || holds_address(lab, 0)).await;
    lab.wait_serving(0, seconds(10)).await;
    lab.nodes.cordon(0, true).await;
    lab.wait_serving(1, seconds(10)).await;
    lab.nodes.cordon(0, false).await;
}

#[test]
fn a_refused_label_stops_no_read_and_no_move() {
    for (number, fault) in refused_labels().into_iter().enumerate() {
        for from_the_start in [true, false] {
            let fault = fault.clone();
            on_box(1, move |lab| async move {
                if from_the_start {
                    lab.hetzner.fault(fault.clone());
                }
                let replica = lab.start_settled(2, &json!({})).await;
                if !from_the_start {
                    sleep(seconds(90)).await;
                    lab.hetzner.fault(fault);
                    // The next leader has to write another term.
                    replica.component.crash();
                }
                sleep(seconds(420)).await;
                let fenced = lab.condition(WEB, "Fenced");
                assert_eq!(fenced.reason, reasons::TERM_NOT_WRITTEN, "fault {number}");
                assert_eq!(lab.condition(WEB, "Ready").status, "True");
                let told = |(reason, _): &(String, String)| reason == reasons::TERM_NOT_WRITTEN;
                assert_eq!(lab.events().iter().filter(|it| told(it)).count(), 1);
                assert_reconciled(&lab).await;
                assert!(labels_written(&lab) <= 12, "{}", labels_written(&lab));
                lab.hetzner.clear_faults(None);
                let fenced = || lab.condition(WEB, "Fenced").status.is_empty();
                until(seconds(700), "written in the end", fenced).await;
            });
        }
    }
}

#[test]
fn an_address_that_is_lost_while_labels_are_refused_and_nothing_may_move_is_reported() {
    on_box(1, |lab| async move {
        lab.hetzner.fault(refused_labels().remove(0));
        let _replica = lab.start_settled(2, &json!({})).await;
        sleep(seconds(100)).await;
        lab.edit(WEB, &json!({ "spec": { "hold": { "reason": "a test" } } }))
            .await;
        lab.move_manually(None);
        let said = || {
            let ready = lab.condition(WEB, "Ready");
            (&*ready.status, &*ready.reason) == ("False", reasons::UNASSIGNED)
        };
        until(RESYNC, "it is reported", said).await;
    });
}

#[test]
fn a_refused_label_of_one_address_does_not_affect_others_of_the_token() {
    on_box(1, |lab| async move {
        lab.hetzner.fault(refused_labels().remove(0));
        let _replica = lab.start_settled(4, &json!({})).await;
        for number in 2..4 {
            lab.nodes.label(number, CANDIDATE, Some("mail")).await;
        }
        lab.floating_ip(1, "mail", |_| {});
        lab.egress("mail", &json!({})).await;
        sleep(seconds(420)).await;
        assert_eq!(lab.condition("mail", "Ready").status, "True");
        assert_eq!(lab.condition("mail", "Fenced").status, "");
        assert_reconciled(&lab).await;
        lab.floating_ip(1, "mail", |it| it.server = None);
        let back = || lab.hetzner.holder(floating_ip(1)) == Some(nodes::server(2));
        until(RESYNC, "the other one too", back).await;
    });
}

/// Locks and unlocks servers, like a long action of another program.
fn lock_servers(lab: &Lab, locked: &[usize]) {
    let mut servers = lab.hetzner.state().servers;
    for server in &mut servers {
        server.locked = locked.iter().any(|it| nodes::server(*it) == server.id);
    }
    lab.change(Change {
        servers: Some(servers),
        ..Change::default()
    });
}

#[test]
fn a_locked_server_is_passed_over() {
    for locked in [&[1][..], &[1, 2], &[2, 1, 3]] {
        on_box(1, move |lab| async move {
            let _replica = lab.start_settled(5, &json!({})).await;
            lock_servers(&lab, locked);
            let before = assigns(&lab);
            lab.nodes.cordon(0, true).await;
            let free = locked.len() + 1;
            lab.wait_serving(free, seconds(15)).await;
            assert_eq!(assigns(&lab) - before, 3 * locked.len() + 1);
            lock_servers(&lab, &[]);
            lab.nodes.cordon(0, false).await;
            let stays = || lab.is_serving(free);
            assert_throughout(seconds(120), "it remains there", stays).await;
        });
    }
}

#[test]
fn a_server_with_a_conflict_or_a_lock_of_another_kind_is_passed_over() {
    for code in ["conflict", "resource_locked", "locked"] {
        on_box(1, move |lab| async move {
            let replica = lab.start_settled(3, &json!({})).await;
            lock_servers(&lab, &[1]);
            // The provider uses this code for every kind of lock.
            lab.nodes.cordon(0, true).await;
            until(seconds(5), "an Assign is tried", || assigns(&lab) > 1).await;
            lab.hetzner.fault(Fault {
                path: Some("/floating_ips/*/actions/assign".to_owned()),
                code: Some(code.to_owned()),
                times: Some(4),
                ..Fault::default()
            });
            replica.component.crash();
            lab.wait_serving(2, seconds(60)).await;
        });
    }
}

#[test]
fn where_every_server_is_locked_it_is_reported_and_the_first_that_is_free_has_it() {
    for (after, first) in [(20, 1), (20, 2), (600, 3)] {
        on_box(1, move |lab| async move {
            let replica = lab.start_settled(4, &json!({})).await;
            lock_servers(&lab, &[0, 1, 2, 3]);
            let before = assigns(&lab);
            lab.nodes.cordon(0, true).await;
            sleep(seconds(after)).await;
            if after < 100 {
                replica.component.crash();
            }
            let ready = lab.condition(WEB, "Ready");
            assert_eq!((&*ready.status, &*ready.reason), ("False", reasons::MOVING));
            assert!(ready.message.contains("locked"), "{}", ready.message);
            let tried = assigns(&lab) - before;
            let most = 30 + usize::try_from(after / 5).expect("few");
            assert!(tried <= most, "{tried} in {after} s");
            assert_eq!(lab.labeled.single_node(WEB), Some(nodes::name(0)));
            let others: Vec<usize> = (0..4).filter(|it| *it != first).collect();
            lock_servers(&lab, &others);
            lab.wait_serving(first, seconds(45)).await;
        });
    }
}

#[test]
fn a_lost_address_goes_to_another_where_the_gateway_is_locked() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(2, &json!({})).await;
        sleep(seconds(60)).await;
        lock_servers(&lab, &[0]);
        lab.move_manually(None);
        lab.wait_serving(1, RESYNC + seconds(15)).await;
    });
}
