//! Guarantee: the server can be named by a CoderControlPlane, which is only read: its URL, its
//! token Secret, its image.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::claims::{unsettled, wait_until_settled};
use crate::lab::{Lab, NAMESPACE, OTHER_SECRET, SECRET, TEAM, minutes, on_box, seconds};
use crate::operator::Replica;
use crate::site;

fn plane_api(lab: &Lab) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderControlPlane");
    let resource = ApiResource::from_gvk_with_plural(&kind, "codercontrolplanes");
    Api::namespaced_with(lab.user(), NAMESPACE, &resource)
}

/// Installs the CRD, as a user would.
async fn install(lab: &Lab) {
    let crd = json!({
        "metadata": { "name": "codercontrolplanes.coder.com" },
        "spec": {
            "group": "coder.com", "scope": "Namespaced",
            "names": { "kind": "CoderControlPlane", "listKind": "CoderControlPlaneList",
                "plural": "codercontrolplanes", "singular": "codercontrolplane" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    });
    let crd: CustomResourceDefinition = serde_json::from_value(crd).expect("a definition");
    let crds: Api<CustomResourceDefinition> = Api::all(lab.user());
    crds.create(&PostParams::default(), &crd).await.unwrap();
    while plane_api(lab).list(&Default::default()).await.is_err() {
        sleep(seconds(1)).await;
    }
}

async fn create_plane(lab: &Lab, status: &Value) {
    let made = json!({
        "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder" }, "spec": { "image": "registry.example.com/coder:plane" },
    });
    let made = serde_json::from_value(made).expect("an object");
    let all = plane_api(lab);
    all.create(&PostParams::default(), &made).await.unwrap();
    set_status(lab, status).await;
}

async fn set_status(lab: &Lab, status: &Value) {
    let (all, params) = (plane_api(lab), PatchParams::default());
    let patch = Patch::Merge(json!({ "status": status }));
    all.patch_status("coder", &params, &patch).await.unwrap();
}

fn status(url: &str, secret: &str) -> Value {
    json!({ "url": url, "operatorTokenSecretRef": { "name": secret }, "operatorAccessReady": true })
}

/// Creates a CoderProvisioner that names the control plane.
async fn create_from_plane(lab: &Lab) {
    let spec = json!({ "controlPlaneRef": { "name": "coder" }, "server": null, "image": null });
    lab.provisioner(TEAM, &spec).await;
}

#[test]
fn a_control_plane_names_the_server_the_token_and_the_image() {
    on_box(1, |lab| async move {
        // The Secret need not list the server: the status of the control plane pairs the two.
        lab.put_secret(SECRET, site::TOKEN, &json!({})).await;
        install(&lab).await;
        create_plane(&lab, &status(site::URL, SECRET)).await;
        create_from_plane(&lab).await;
        let _replica = Replica::start(&lab, "first");
        lab.wait_ready(TEAM, minutes(2)).await;
        wait_until_settled(minutes(5), || unsettled(&lab, TEAM)).await.unwrap();
        let deployment = lab.stored_object("apps", "deployments", "provisioner-team").unwrap();
        let image = deployment.pointer("/spec/template/spec/containers/0/image");
        assert_eq!(image, Some(&json!("registry.example.com/coder:plane")));
        assert_eq!(lab.status(TEAM).control_plane_ref_name.as_deref(), Some("coder"));
    });
}

#[test]
fn what_a_control_plane_lacks_is_reported_and_waited_for() {
    on_box(2, |lab| async move {
        install(&lab).await;
        create_from_plane(&lab).await;
        let _replica = Replica::start(&lab, "first");
        sleep(minutes(1)).await;
        let said = lab.condition(TEAM, "ControlPlaneReady");
        assert_eq!(said.reason, "ControlPlaneUnavailable", "{said:?}");
        create_plane(&lab, &json!({ "url": site::URL })).await;
        sleep(minutes(1)).await;
        let said = lab.condition(TEAM, "OperatorAccessReady");
        assert_eq!(said.reason, "OperatorTokenSecretRefMissing", "{said:?}");
        assert!(lab.coderd.requests(0).is_empty(), "no server is called");
        set_status(&lab, &status(site::URL, SECRET)).await;
        let took = lab.wait_ready(TEAM, minutes(2)).await;
        println!("a control plane becomes ready: Ready {took:.0?} after it");
    });
}

/// The control plane moves: its status pairs the new URL with the new token, so they are not mixed
/// up.
#[test]
fn a_control_plane_that_moves_takes_the_key_along() {
    on_box(3, |lab| async move {
        install(&lab).await;
        create_plane(&lab, &status(site::URL, SECRET)).await;
        create_from_plane(&lab).await;
        let _replica = Replica::start(&lab, "first");
        lab.wait_ready(TEAM, minutes(2)).await;
        set_status(&lab, &status(site::OTHER_URL, OTHER_SECRET)).await;
        let moved = || match lab.other.names().is_empty() {
            true => Some("no new key".to_owned()),
            false => unsettled(&lab, TEAM),
        };
        wait_until_settled(minutes(30), moved).await.unwrap();
        assert!(lab.coderd.names().is_empty(), "the old key is deleted");
        for (host, token) in lab.sent_requests() {
            let own = (host == "other.example.com") == (token == site::OTHER_TOKEN);
            assert!(own, "{host} was sent the token of another server");
        }
        let outages = [lab.coderd.outages(), lab.other.outages()].concat();
        assert_eq!(outages, Vec::<String>::new());
    });
}

/// Without the CRD, the operator still serves objects that name their server.
#[test]
fn a_cluster_without_the_kind_serves_objects_with_a_server() {
    on_box(4, |lab| async move {
        create_from_plane(&lab).await;
        lab.provisioner("other", &json!({})).await;
        let _replica = Replica::start(&lab, "first");
        lab.wait_ready("other", minutes(2)).await;
        let said = lab.condition(TEAM, "ControlPlaneReady");
        assert_eq!(said.reason, "ControlPlaneUnavailable", "{said:?}");
    });
}
