//! Guarantee: user settings and limits are respected: holds, pins, manual moves, and a move limit
//! that never keeps the floating IP on a dead node.

use std::time::Duration;

use aplomb_api::egress::{MoveCause, annotations};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::{Lab, WEB, assert_throughout, floating_ip, on_box, seconds, until};
use crate::moves::assigns;
use crate::nodes;
use crate::operator::Replica;

/// The time in `seconds` from now.
fn timestamp_after(lab: &Lab, seconds: i64) -> String {
    let now = lab.cluster.server().clock().now();
    let then = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

async fn annotate(lab: &Lab, value: Option<&str>) {
    let annotations = json!({ annotations::HOLD: value });
    lab.edit(WEB, &json!({ "metadata": { "annotations": annotations } }))
        .await;
    sleep(seconds(1)).await;
}

/// The gateway is cordoned during a hold; nothing is written until the hold ends.
async fn wait_held(lab: &Lab) {
    let before = (assigns(lab), lab.labeled.moments(WEB).len());
    lab.nodes.cordon(0, true).await;
    assert_throughout(seconds(50), "nothing is moved", || {
        (assigns(lab), lab.labeled.moments(WEB).len()) == before
    })
    .await;
    assert_eq!(lab.condition(WEB, "Held").status, "True");
}

#[test]
fn a_hold_freezes_automation_until_it_is_taken_away() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(2, &json!({})).await;
        annotate(&lab, Some("true")).await;
        wait_held(&lab).await;
        annotate(&lab, None).await;
        lab.wait_serving(1, seconds(5)).await;
        assert_ne!(lab.condition(WEB, "Held").status, "True");
    });
}

#[test]
fn a_hold_until_a_time_ends_by_itself() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(2, &json!({})).await;
        annotate(&lab, Some(&timestamp_after(&lab, 60))).await;
        wait_held(&lab).await;
        let took = lab.wait_serving(1, seconds(30)).await;
        assert!(took < seconds(13), "nine seconds were left: {took:?}");
        let past = timestamp_after(&lab, -10);
        annotate(&lab, Some(&past)).await;
        lab.nodes.cordon(0, false).await;
        lab.nodes.cordon(1, true).await;
        lab.wait_serving(0, seconds(5)).await;
    });
}

#[test]
fn a_hold_that_cannot_be_read_holds_and_reports_it() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(2, &json!({})).await;
        annotate(&lab, Some("next tuesday")).await;
        wait_held(&lab).await;
        let message = lab.condition(WEB, "Held").message;
        assert!(message.contains(annotations::HOLD), "{message}");
        annotate(&lab, Some("false")).await;
        lab.wait_serving(1, seconds(5)).await;
    });
}

#[test]
fn a_hold_in_the_spec_does_the_same() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(2, &json!({})).await;
        lab.edit(WEB, &json!({ "spec": { "hold": { "reason": "maintenance" } } }))
            .await;
        sleep(seconds(1)).await;
        wait_held(&lab).await;
        lab.edit(WEB, &json!({ "spec": { "hold": null } })).await;
        lab.wait_serving(1, seconds(5)).await;
    });
}

#[test]
fn a_pin_is_followed_after_the_dwell_and_only_until_its_time() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(3, &json!({})).await;
        let pin = json!({ "node": nodes::name(2), "until": timestamp_after(&lab, 600) });
        lab.edit(WEB, &json!({ "spec": { "pin": pin } })).await;
        let took = lab.wait_serving(2, seconds(90)).await;
        assert!(took > seconds(50), "it has to dwell for a minute first: {took:?}");
        assert_eq!(lab.status(WEB).last_move.unwrap().cause, MoveCause::Pinned);
        // It leaves the pinned node if it must, and returns as soon as it may.
        lab.nodes.cordon(2, true).await;
        lab.wait_serving(0, seconds(5)).await;
        lab.nodes.cordon(2, false).await;
        lab.wait_serving(2, seconds(90)).await;
        sleep(seconds(600)).await;
        lab.nodes.cordon(2, true).await;
        lab.wait_serving(0, seconds(5)).await;
        lab.nodes.cordon(2, false).await;
        sleep(seconds(300)).await;
        assert!(lab.is_serving(0), "the pin has ended");
    });
}

#[test]
fn a_move_by_hand_to_a_candidate_is_adopted() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(3, &json!({})).await;
        sleep(seconds(60)).await;
        let before = assigns(&lab);
        lab.move_manually(Some(nodes::server(2)));
        lab.wait_serving(2, seconds(40)).await;
        assert_eq!(assigns(&lab), before, "only the labels follow");
        assert_eq!(lab.labeled.max_nodes(WEB), 1);
    });
}

/// The gateway is NotReady for a while, again and again, wherever it is. Returns the moves in an
/// hour.
async fn run_flapping(lab: Lab, most: u32) -> usize {
    let spec = json!({ "graces": { "unhealthy": "5s" }, "maxMovesPerHour": most });
    let _replica = lab.start_settled(2, &spec).await;
    let before = assigns(&lab);
    for _ in 0..60 {
        let gateway = (0..2).find(|it| lab.labeled.single_node(WEB) == Some(nodes::name(*it)));
        let gateway = gateway.expect("one node is labeled");
        lab.nodes.set_ready(gateway, "False").await;
        sleep(seconds(15)).await;
        lab.nodes.set_ready(gateway, "True").await;
        sleep(seconds(43)).await;
    }
    let moves = assigns(&lab) - before;
    let gateway = (0..2)
        .find(|it| lab.labeled.single_node(WEB) == Some(nodes::name(*it)))
        .unwrap();
    lab.nodes.set_ready(gateway, "Unknown").await;
    lab.wait_serving(1 - gateway, seconds(10)).await;
    moves
}

#[test]
fn a_flapping_node_moves_it_a_few_times_an_hour_and_a_dead_one_always() {
    let moves = on_box(1, |lab| run_flapping(lab, 3));
    assert!(moves <= 3, "{moves} moves");
    let off = on_box(1, |lab| run_flapping(lab, 1_000));
    println!("a node that flaps each minute: {moves} moves per hour with a limit of 3, {off} without");
    assert!(off > 30, "without the limit: {off}");
}

/// Two StableEgress objects with the same label key on the same nodes.
#[test]
fn two_that_want_one_label_key_never_share_a_node() {
    on_box(1, |lab| async move {
        lab.candidates("pool", 3).await;
        for (number, name) in [WEB, "api"].into_iter().enumerate() {
            lab.floating_ip(number, name, |_| {});
            let selector = json!({ "matchLabels": { "egress.aplomb.dev/candidate": "pool" } });
            lab.egress(name, &json!({ "candidates": selector })).await;
        }
        let _replica = Replica::start(&lab, "first");
        let both = || {
            let (web, api) = (lab.labeled.single_node(WEB), lab.labeled.single_node("api"));
            web.is_some() && api.is_some() && web != api
        };
        until(seconds(60), "each has its own gateway", both).await;
        sleep(seconds(120)).await;
        assert!(both());
        let nodes: Vec<u64> = (0..3).map(nodes::server).collect();
        let holders = [0, 1].map(|it| lab.hetzner.holder(floating_ip(it)).unwrap());
        assert!(holders[0] != holders[1] && holders.iter().all(|it| nodes.contains(it)));
        // One gateway must be replaced: the remaining node is found.
        let web = lab.labeled.single_node(WEB).unwrap();
        let number = (0..3).find(|it| nodes::name(*it) == web).unwrap();
        lab.nodes.cordon(number, true).await;
        let moved = || both() && lab.labeled.single_node(WEB) != Some(web.clone());
        until(seconds(30), "it has moved", moved).await;
    });
}

#[test]
fn a_node_with_a_bad_provider_id_is_passed_over() {
    on_box(1, |lab| async move {
        for number in 0..3 {
            let mut node = nodes::node(number, Some(WEB));
            if number == 0 {
                node["spec"]["providerID"] = json!("example://not-a-number");
            }
            lab.nodes.create(&node).await;
        }
        let servers = Some((0..3).map(crate::lab::server).collect());
        lab.change(aplomb_fake_services::hcloud::Change {
            servers,
            ..Default::default()
        });
        lab.floating_ip(0, WEB, |_| {});
        lab.egress(WEB, &json!({})).await;
        let _replica = Replica::start(&lab, "first");
        lab.wait_serving(1, seconds(30)).await;
        lab.nodes.cordon(1, true).await;
        lab.wait_serving(2, seconds(5)).await;
    });
}

#[test]
fn a_labeled_node_that_never_was_a_candidate_is_not_touched() {
    on_box(1, |lab| async move {
        lab.candidates(WEB, 2).await;
        let mut old = nodes::node(7, None);
        old["metadata"]["labels"] = json!({ "egress.aplomb.dev/gateway": WEB });
        lab.nodes.create(&old).await;
        let mut servers = lab.hetzner.state().servers;
        servers.push(crate::lab::server(7));
        lab.change(aplomb_fake_services::hcloud::Change {
            servers: Some(servers),
            ..Default::default()
        });
        lab.floating_ip(0, WEB, |it| it.server = Some(nodes::server(7)));
        lab.egress(WEB, &json!({})).await;
        let _replica = Replica::start(&lab, "first");
        lab.wait_serving(7, seconds(30)).await;
        sleep(seconds(300)).await;
        assert_eq!((assigns(&lab), lab.is_serving(7)), (0, true));
        lab.nodes.delete(7).await;
        lab.wait_serving(0, seconds(5)).await;
    });
}

/// A pod that prepares a node, Ready or not.
fn pod(node: usize, ready: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("host-{node}"), "labels": { "app": "egress-host" } },
        "spec": { "nodeName": nodes::name(node), "containers": [{ "name": "host", "image": "example.com/host" }] },
        "status": { "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] },
    })
}

async fn set_pod(lab: &Lab, node: usize, ready: bool) {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, Patch, PatchParams, PostParams};
    let pods: Api<Pod> = Api::namespaced(lab.user(), crate::lab::NAMESPACE);
    let pod = pod(node, ready);
    let made = serde_json::from_value(pod.clone()).expect("a pod");
    // The second time it exists already.
    drop(pods.create(&PostParams::default(), &made).await);
    let status = Patch::Merge(json!({ "status": pod["status"] }));
    let name = format!("host-{node}");
    let patched = pods.patch_status(&name, &PatchParams::default(), &status).await;
    patched.unwrap();
}

#[test]
fn a_gateway_that_is_no_longer_prepared_is_left_after_five_minutes() {
    on_box(1, |lab| async move {
        for node in 0..2 {
            set_pod(&lab, node, true).await;
        }
        let prepared = json!({ "selector": { "matchLabels": { "app": "egress-host" } } });
        let _replica = lab.start_settled(3, &json!({ "prepared": prepared })).await;
        set_pod(&lab, 0, false).await;
        sleep(seconds(299)).await;
        assert_eq!(
            lab.labeled.single_node(WEB),
            Some(nodes::name(0)),
            "within its grace period"
        );
        let took = seconds(299) + lab.wait_serving(1, seconds(20)).await;
        assert!(took <= Duration::from_secs(302), "{took:?}");
        assert_eq!(lab.status(WEB).last_move.unwrap().cause, MoveCause::NodeUnprepared);
        // The third was never prepared.
        lab.nodes.cordon(1, true).await;
        sleep(seconds(20)).await;
        assert_eq!(
            lab.labeled.single_node(WEB),
            Some(nodes::name(1)),
            "no node can take over"
        );
    });
}
