//! Guarantee: a change of a pod that prepares a node is seen at once, also when it stops preparing
//! it; other pods trigger nothing.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::{Lab, NAMESPACE, WEB, on_box, seconds};
use crate::nodes;
use crate::operator::Replica;
use crate::quiet::reconciles;

const OTHER_NAMESPACE_NAME: &str = "elsewhere";

/// Shorter than a resync, longer than a reconcile.
const REACTION_TIME: u64 = 3;

/// A pod on the node with this number.
struct Prepares {
    namespace: &'static str,
    name: &'static str,
    app: &'static str,
    node: usize,
}

impl Prepares {
    fn pods(&self, lab: &Lab) -> Api<Pod> {
        Api::namespaced(lab.user(), self.namespace)
    }

    async fn create(&self, lab: &Lab) {
        let pod = json!({
            "metadata": { "name": self.name, "labels": { "app": self.app } },
            "spec": { "nodeName": nodes::name(self.node), "containers": [{ "name": "host", "image": "example.com/host" }] },
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        let params = PostParams::default();
        self.pods(lab).create(&params, &pod).await.unwrap();
        self.ready(lab, true).await;
    }

    async fn ready(&self, lab: &Lab, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
        let (patch, params) = (Patch::Merge(patch), PatchParams::default());
        let pods = self.pods(lab);
        let patched = pods.patch_status(self.name, &params, &patch).await;
        patched.unwrap();
    }

    async fn labels(&self, lab: &Lab, labels: Value) {
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        let params = PatchParams::default();
        let patched = self.pods(lab).patch(self.name, &params, &patch).await;
        patched.unwrap();
    }
}

const MATCHING_POD: Prepares = Prepares {
    namespace: NAMESPACE,
    name: "ours",
    app: "egress-host",
    node: 0,
};
const OTHER_APP: Prepares = Prepares {
    name: "other-app",
    app: "web",
    ..MATCHING_POD
};
const OTHER_NAMESPACE: Prepares = Prepares {
    namespace: OTHER_NAMESPACE_NAME,
    name: "other-namespace",
    ..MATCHING_POD
};

/// One candidate with a pod that prepares it, and two unrelated pods. Returns right after a read.
async fn start_settled(lab: &Lab) -> Replica {
    let namespaces: Api<Namespace> = Api::all(lab.user());
    let elsewhere = serde_json::from_value(json!({ "metadata": { "name": OTHER_NAMESPACE_NAME } }));
    let elsewhere = elsewhere.expect("a namespace");
    let made = namespaces.create(&PostParams::default(), &elsewhere).await;
    made.unwrap();
    for pod in [MATCHING_POD, OTHER_APP, OTHER_NAMESPACE] {
        pod.create(lab).await;
    }
    let prepared = json!({ "selector": { "matchLabels": { "app": "egress-host" } } });
    let replica = lab.start_settled(1, &json!({ "prepared": prepared })).await;
    sleep(seconds(REACTION_TIME)).await;
    replica
}

fn reason(lab: &Lab) -> String {
    lab.condition(WEB, "Available").reason
}

#[test]
fn pods_of_another_label_or_namespace_run_nothing() {
    on_box(1, |lab| async move {
        let replica = start_settled(&lab).await;
        let before = reconciles(&replica);
        for pod in [OTHER_APP, OTHER_NAMESPACE] {
            for ready in [false, true, false] {
                pod.ready(&lab, ready).await;
                sleep(seconds(1)).await;
            }
        }
        OTHER_APP.labels(&lab, json!({ "color": "blue" })).await;
        sleep(seconds(REACTION_TIME)).await;
        assert_eq!(reconciles(&replica), before);
        assert_eq!(reason(&lab), "Serving");
    });
}

#[test]
fn a_pod_that_prepares_is_noticed_at_once() {
    on_box(1, |lab| async move {
        let replica = start_settled(&lab).await;
        let before = reconciles(&replica);
        MATCHING_POD.ready(&lab, false).await;
        sleep(seconds(REACTION_TIME)).await;
        assert!(reconciles(&replica) > before, "it stopped being Ready");
        assert_eq!(reason(&lab), "GatewayUnprepared");
        MATCHING_POD.ready(&lab, true).await;
        sleep(seconds(REACTION_TIME)).await;
        assert_eq!(reason(&lab), "Serving");
    });
}

#[test]
fn a_pod_that_loses_the_label_triggers_with_its_old_labels() {
    on_box(1, |lab| async move {
        let replica = start_settled(&lab).await;
        let before = reconciles(&replica);
        MATCHING_POD.labels(&lab, json!({ "app": null })).await;
        sleep(seconds(REACTION_TIME)).await;
        assert!(reconciles(&replica) > before, "it no longer prepares the node");
        assert_eq!(reason(&lab), "GatewayUnprepared");
        MATCHING_POD.labels(&lab, json!({ "app": "egress-host" })).await;
        sleep(seconds(REACTION_TIME)).await;
        assert_eq!(reason(&lab), "Serving");
    });
}
