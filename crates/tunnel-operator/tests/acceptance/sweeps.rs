//! Promise: orphaned objects are deleted: claims without a claimant within seconds, and records of dead
//! gateways after users had time to see them. Other objects are kept.

use aplomb_api::tunnel::{GatewayReplica, HostnameClaim, HttpProxy};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Lab, TENANT, on_box, seconds, until};
use crate::operator::Operator;
use crate::replica::Replica;

fn claim_exists(lab: &Lab, hostname: &str) -> bool {
    let server = lab.cluster.server();
    let claim = server.get("aplomb.dev", "hostnameclaims", "", hostname);
    claim.is_some()
}

async fn create_claim(lab: &Lab, hostname: &str, name: &str, uid: &str) {
    let claims: Api<HostnameClaim> = Api::all(lab.user());
    let claim = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HostnameClaim",
        "metadata": { "name": hostname },
        "spec": { "claimant": { "namespace": TENANT, "name": name, "uid": uid } },
    });
    let claim = serde_json::from_value(claim).expect("a claim");
    let made = claims.create(&PostParams::default(), &claim).await;
    made.expect("the hostname is free");
}

async fn create_proxy(lab: &Lab, name: &str, hostnames: &[&str]) {
    let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
    let proxy = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy", "metadata": { "name": name },
        "spec": {
            "hostnames": hostnames,
            "rules": [{ "backends": [{ "endpoint": "http://192.0.2.20:8080" }] }],
        },
    });
    let proxy = serde_json::from_value(proxy).expect("an HTTPProxy");
    let made = proxies.create(&PostParams::default(), &proxy).await;
    made.expect("an HTTPProxy");
}

#[test]
fn a_claim_is_deleted_after_its_claimant() {
    on_box(1, |lab| async move {
        let operator = Operator::start(&lab, "operator");
        create_proxy(&lab, "kept", &["kept.example.com"]).await;
        create_proxy(&lab, "gone", &["gone.example.com"]).await;
        until(seconds(5), "both claim their hostnames", || {
            claim_exists(&lab, "kept.example.com") && claim_exists(&lab, "gone.example.com")
        })
        .await;
        sleep(seconds(60)).await;
        assert!(claim_exists(&lab, "kept.example.com") && claim_exists(&lab, "gone.example.com"));
        let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
        let deleted = proxies.delete("gone", &DeleteParams::default()).await;
        deleted.expect("the tunnel is deleted");
        let took = until(seconds(5), "its claim is deleted", || {
            !claim_exists(&lab, "gone.example.com")
        })
        .await;
        println!("a claim is swept {took:?} after its claimant was deleted");
        // One whose deletion the operator did not see, and one of a new object with the same name.
        operator.component.freeze();
        create_claim(&lab, "void.example.com", "void", "0f").await;
        create_claim(&lab, "other.example.com", "kept", "0f").await;
        sleep(seconds(60)).await;
        operator.component.thaw();
        until(seconds(60), "orphaned claims are deleted", || {
            !claim_exists(&lab, "void.example.com") && !claim_exists(&lab, "other.example.com")
        })
        .await;
        assert!(claim_exists(&lab, "kept.example.com"));
    });
}

#[test]
fn the_record_of_a_dead_gateway_is_deleted_after_the_retention() {
    on_box(1, |lab| async move {
        let _operator = Operator::start(&lab, "operator");
        let (dead, _alive) = (Replica::start(&lab, "dead"), Replica::start(&lab, "alive"));
        let replicas: Api<GatewayReplica> = Api::all(lab.user());
        let names = || async {
            let all = replicas.list(&Default::default()).await.expect("a list");
            let names = all.items.iter().map(ResourceExt::name_any);
            names.collect::<Vec<_>>()
        };
        sleep(seconds(3_600)).await;
        dead.component.freeze();
        sleep(seconds(600)).await;
        assert_eq!(names().await, ["alive", "dead"], "the dead gateway is still visible");
        sleep(seconds(30)).await;
        assert_eq!(names().await, ["alive"]);
        sleep(seconds(3_600)).await;
        assert_eq!(names().await, ["alive"]);
    });
}
