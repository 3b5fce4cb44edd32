//! Guarantee: Cilium learns of a move even if the agent of the old gateway is dead: the label is
//! removed from its CiliumNode, not only from its Node.

use std::sync::Arc;

use aplomb_api::egress::labels::GATEWAY;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep};

use crate::lab::{Lab, WEB, on_box, seconds, until};
use crate::label_watch::Labelled;
use crate::moves::probing;
use crate::nodes;

fn definition() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "ciliumnodes.cilium.io" },
        "spec": {
            "group": "cilium.io", "scope": "Cluster",
            "names": { "plural": "ciliumnodes", "kind": "CiliumNode" },
            "versions": [{ "name": "v2", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

fn cilium_nodes(lab: &Lab) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "cilium.io".into(),
        version: "v2".into(),
        api_version: "cilium.io/v2".into(),
        kind: "CiliumNode".into(),
        plural: "ciliumnodes".into(),
    };
    Api::all_with(lab.cluster.plain_client("agent"), &resource)
}

/// Installs the kind, with an object for each of the first nodes.
pub async fn install(lab: &Lab, count: usize) {
    let crds: Api<CustomResourceDefinition> = Api::all(lab.user());
    let definition = serde_json::from_value(definition()).expect("a definition");
    crds.create(&PostParams::default(), &definition).await.unwrap();
    sleep(seconds(1)).await;
    for number in 0..count {
        let made = json!({
            "apiVersion": "cilium.io/v2", "kind": "CiliumNode",
            "metadata": { "name": nodes::name(number) }, "spec": {},
        });
        let made = serde_json::from_value(made).expect("a CiliumNode");
        cilium_nodes(lab).create(&PostParams::default(), &made).await.unwrap();
    }
}

/// The agents: each copies the labels of its own Node to its CiliumNode, while it runs.
async fn run_agents(lab: Lab) {
    let (sender, mut changes) = unbounded_channel();
    lab.cluster.server().on_commit(Arc::new(move |change| {
        if change.key.resource.resource == "nodes" {
            // The receiver is gone at the end of the simulation.
            drop(sender.send((change.key.name.clone(), change.new.clone())));
        }
    }));
    while let Some((name, node)) = changes.recv().await {
        let Some(node) = node.filter(|_| !lab.is_dead(&name)) else {
            continue;
        };
        let value = node.pointer("/metadata/labels").and_then(|it| it.get(GATEWAY));
        let patch = Patch::Merge(json!({ "metadata": { "labels": { GATEWAY: value } } }));
        // A deleted CiliumNode cannot be patched.
        drop(cilium_nodes(&lab).patch(&name, &PatchParams::default(), &patch).await);
    }
}

#[test]
fn the_label_of_a_dead_gateway_goes_from_its_cilium_node_too() {
    on_box(1, |lab| async move {
        install(&lab, 3).await;
        let seen = Labelled::follow(lab.cluster.server(), "ciliumnodes");
        let world = async {
            let _replica = lab.start_settled(3, &probing()).await;
            let mirrored = || seen.single_node(WEB) == Some(nodes::name(0));
            until(seconds(5), "CiliumNodes show the gateway", mirrored).await;
            assert_eq!(lab.condition(WEB, "LabelsConsistent").status, "True");
            sleep(seconds(60)).await;
            let began = Instant::now();
            lab.kill(0);
            lab.wait_serving(1, seconds(60)).await;
            let moved = || seen.single_node(WEB) == Some(nodes::name(1));
            until(seconds(2), "CiliumNodes show the new gateway", moved).await;
            println!(
                "dead agent: CiliumNodes show only the new gateway after {:.1?}",
                began.elapsed()
            );
            assert_eq!(seen.max_nodes(WEB), 1, "never two nodes");
            let consistent = || lab.condition(WEB, "LabelsConsistent").status == "True";
            until(seconds(5), "consistent", consistent).await;
        };
        tokio::select! { biased; () = run_agents(lab.clone()) => {} () = world => {} }
    });
}

/// A stale label appears on the third CiliumNode while this many Nodes exist: it is removed within
/// 2 s.
fn a_stale_label_goes(with_nodes: usize) {
    on_box(1, move |lab| async move {
        install(&lab, 3).await;
        let seen = Labelled::follow(lab.cluster.server(), "ciliumnodes");
        let _replica = lab.start_settled(with_nodes, &json!({})).await;
        let params = PatchParams::default();
        let stale = Patch::Merge(json!({ "metadata": { "labels": { GATEWAY: WEB } } }));
        cilium_nodes(&lab)
            .patch(&nodes::name(2), &params, &stale)
            .await
            .unwrap();
        let alone = || seen.single_node(WEB) == Some(nodes::name(0));
        let took = until(seconds(5), "only the gateway is left", alone).await;
        assert!(took < seconds(2), "{took:?}");
    });
}

#[test]
fn a_label_that_is_left_on_a_cilium_node_is_found_and_taken_away() {
    a_stale_label_goes(3);
}

#[test]
fn a_cilium_node_that_outlives_its_node_loses_the_label_as_well() {
    a_stale_label_goes(2);
}
