//! Addresses from StableEgress objects, with the box as the cluster.

use aplomb_api::StableEgress;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config, CustomResourceExt};
use serde_json::json;

use super::lab::{Host, in_namespace, ip};
use super::{addresses, set_up_node};

async fn client(file: &str) -> Client {
    let read = Kubeconfig::read_from(file).expect("the box wrote it");
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("usable")).expect("a client")
}

async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = StableEgress::crd();
    crds.create(&PostParams::default(), &crd).await.expect("the kind");
    let name = StableEgress::crd_name();
    let established = await_condition(crds, name, is_crd_established());
    established.await.expect("established");
}

async fn set_status(client: &Client, ip: &str) {
    let all: Api<StableEgress> = Api::all(client.clone());
    let status = json!({"status": {
        "ip": ip, "activeWasCandidate": false, "candidates": {"total": 0, "ready": 0},
    }});
    let (plain, patch) = (PatchParams::default(), Patch::Merge(&status));
    let said = all.patch_status("office", &plain, &patch).await;
    said.expect("its status");
}

async fn follow_egress_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("kubeconfig");
    let file = file.to_str().expect("text");
    let program = env!("CARGO_BIN_EXE_aplomb");
    let cluster = Host::run(&[program, "box", "--kubeconfig", file]);
    cluster.wait_for("ready ");
    let client = client(file).await;
    install(&client).await;
    let office = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "StableEgress",
        "metadata": {"name": "office"}, "spec": {"floatingIP": {"name": "office"}},
    });
    let office: StableEgress = serde_json::from_value(office).expect("a StableEgress");
    let all: Api<StableEgress> = Api::all(client.clone());
    all.create(&PostParams::default(), &office).await.expect("made");
    let host = Host::start(&["--stable-egress", "office", "--kubeconfig", file]);
    host.wait_for("has no address in its status yet");
    assert_eq!(host.get("/readyz").0, 503);
    set_status(&client, "203.0.113.7").await;
    host.wait_for("Node is prepared");
    assert!(addresses().contains("203.0.113.7/32"));
    set_status(&client, "203.0.113.8").await;
    host.wait_for("Added default route");
    host.wait_for("Node is prepared");
    assert!(addresses().contains("203.0.113.8/32"));
    assert!(!addresses().contains("203.0.113.7"));
    assert_eq!(cluster.stop("KILL"), None);
    assert_eq!(host.get("/readyz").0, 200, "without a cluster too");
    assert_eq!(host.stop("TERM"), Some(0));
    assert!(!ip("rule").contains("203.0.113."));
}

#[test]
fn the_address_of_a_stable_egress_is_followed() {
    in_namespace("names::the_address_of_a_stable_egress_is_followed", || {
        set_up_node();
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .expect("the first");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(follow_egress_address());
    });
}
