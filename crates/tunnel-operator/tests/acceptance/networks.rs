//! Promise: a backend in a private network is refused until its class permits the network, and the tunnel's
//! status tells the user how to get it permitted.

use aplomb_api::tunnel::{ConnectorClass, HttpProxy};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::lab::{Lab, TENANT, assert_throughout, create_class, on_box, seconds, until};
use crate::net::DEAD;
use crate::operator::Operator;

async fn create_proxy(lab: &Lab, name: &str, class: &str, endpoint: &str) {
    let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
    let proxy = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy", "metadata": { "name": name },
        "spec": {
            "connectorClassName": class,
            "rules": [{ "backends": [{ "endpoint": endpoint }] }],
        },
    });
    let proxy = serde_json::from_value(proxy).expect("an HTTPProxy");
    let made = proxies.create(&PostParams::default(), &proxy).await;
    made.expect("an HTTPProxy");
}

async fn set_networks(lab: &Lab, class: &str, networks: Value) {
    let classes: Api<ConnectorClass> = Api::all(lab.user());
    let patch = Patch::Merge(json!({ "spec": { "backendNetworks": networks } }));
    let opened = classes.patch(class, &PatchParams::default(), &patch).await;
    opened.expect("the networks are valid");
}

fn is_closed(lab: &Lab, name: &str, class: &str) -> bool {
    let ready = lab.proxy_condition(name, "Ready");
    // Not one of the reasons that alert the platform team.
    ready.status == "False"
        && ready.reason == "OriginUnreachable"
        && lab.proxy_condition(name, "OriginReachable").message == ready.message
        && ready.message.contains("spec.backendNetworks")
        && ready.message.ends_with(&format!("ConnectorClass {class}"))
        && !ready.message.contains("10.7")
}

#[test]
fn a_private_network_is_closed_until_the_class_opens_it() {
    on_box(1, |lab| async move {
        create_class(&lab.user(), "inside", &json!({})).await;
        let _operator = Operator::start(&lab, "operator");
        let _gateway = Gateway::start(&lab, 1);
        create_proxy(&lab, "public", "aplomb", "http://8.8.8.8:80").await;
        create_proxy(&lab, "web", "inside", "http://10.7.0.5:8080").await;
        create_proxy(&lab, "other", "aplomb", "http://10.7.0.5:8080").await;
        create_proxy(&lab, "kubelet", "inside", "http://10.7.0.5:10250").await;
        create_proxy(&lab, "far", "inside", "http://8.8.8.8:10250").await;
        lab.wait_ready("public", seconds(10)).await;
        until(seconds(10), "the status of each names its refused backend", || {
            is_closed(&lab, "web", "inside")
                && is_closed(&lab, "other", "aplomb")
                && is_closed(&lab, "kubelet", "inside")
                && is_closed(&lab, "far", "inside")
        })
        .await;
        set_networks(&lab, "inside", json!(["10.7.0.0/16"])).await;
        lab.wait_ready("web", seconds(15)).await;
        assert_throughout(seconds(20), "no other backend is permitted", || {
            is_closed(&lab, "other", "aplomb") && is_closed(&lab, "kubelet", "inside")
        })
        .await;
        set_networks(&lab, "inside", json!(["10.7.0.5/32"])).await;
        lab.wait_ready("kubelet", seconds(15)).await;
        set_networks(&lab, "inside", json!(null)).await;
        until(seconds(15), "the backend is refused again", || {
            is_closed(&lab, "web", "inside")
        })
        .await;
    });
}

/// Also with a long proof interval.
#[test]
fn a_network_that_is_opened_is_noticed_at_once() {
    on_box(1, |lab| async move {
        create_class(&lab.user(), "inside", &json!({})).await;
        let _operator = Operator::start(&lab, "operator");
        let _gateway = Gateway::start(&lab, 1);
        create_proxy(&lab, "web", "inside", "http://10.7.0.5:8080").await;
        let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
        let patch = Patch::Merge(json!({ "spec": { "proofInterval": "1h" } }));
        let patched = proxies.patch("web", &PatchParams::default(), &patch).await;
        patched.expect("patch succeeds");
        assert_throughout(seconds(60), "the backend is refused", || {
            lab.proxy_condition("web", "Ready").status != "True"
        })
        .await;
        set_networks(&lab, "inside", json!(["10.7.0.0/16"])).await;
        lab.wait_ready("web", seconds(5)).await;
    });
}

#[test]
fn an_unreachable_backend_is_not_reported_as_a_gateway_failure() {
    on_box(1, |lab| async move {
        let _operator = Operator::start(&lab, "operator");
        let _gateway = Gateway::start(&lab, 1);
        create_proxy(&lab, "web", "aplomb", &format!("http://{DEAD}80")).await;
        create_proxy(&lab, "quick", "aplomb", &format!("http://{DEAD}80")).await;
        let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
        let patch = Patch::Merge(json!({ "spec": { "proofInterval": "2s" } }));
        let patched = proxies.patch("quick", &PatchParams::default(), &patch).await;
        patched.expect("patch succeeds");
        for name in ["web", "quick"] {
            let ready = || lab.proxy_condition(name, "Ready");
            let named = || ready().reason == "OriginUnreachable" && ready().message.contains("the backend of rule 0");
            until(seconds(10), "its backend is named", named).await;
            assert_throughout(seconds(15), "nothing else is blamed", named).await;
        }
    });
}
