//! Promise: what belongs to nobody goes: claims without a claimant in seconds, records of dead gateways
//! when people had time to see them; and nothing that belongs to somebody goes.

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
    made.expect("nobody has it");
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
        deleted.expect("it was there");
        let took = until(seconds(5), "its claim goes", || {
            !claim_exists(&lab, "gone.example.com")
        })
        .await;
        println!("a claim is swept {took:?} after its claimant went");
        // One that was left behind while nobody looked, and one of a namesake that came since.
        operator.component.freeze();
        create_claim(&lab, "void.example.com", "void", "0f").await;
        create_claim(&lab, "other.example.com", "kept", "0f").await;
        sleep(seconds(60)).await;
        operator.component.thaw();
        until(seconds(60), "void claims go", || {
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
        assert_eq!(names().await, ["alive", "dead"], "people may see it");
        sleep(seconds(30)).await;
        assert_eq!(names().await, ["alive"]);
        sleep(seconds(3_600)).await;
        assert_eq!(names().await, ["alive"]);
    });
}
