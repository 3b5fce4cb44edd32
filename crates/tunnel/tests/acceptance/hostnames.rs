//! Promise: a hostname has one owner, and no tenant takes it from another: not through a second class, and
//! not through another kind.

use aplomb_api::tunnel::{HttpProxy, canonical_hostname};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::agent::Agent;
use crate::gateway::Gateway;
use crate::lab::{Lab, TENANT, class, on_box, seconds, throughout, tunnel, until};
use crate::operator::Operator;

/// A class with a domain of its own.
const SECOND: &str = "second.example.org";

async fn begun(lab: &Lab) -> (Operator, Gateway, Agent) {
    let all = (
        Operator::start(lab, "operator"),
        Gateway::start(lab, 1),
        Agent::start(lab, "laptop", seconds(30)),
    );
    sleep(seconds(5)).await;
    all
}

fn proxies(lab: &Lab) -> Api<HttpProxy> {
    Api::namespaced(lab.user(), TENANT)
}

/// Makes an HTTPProxy with these hostnames of its own.
async fn ask_for(lab: &Lab, name: &str, hostnames: &[&str]) {
    let proxy = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy", "metadata": { "name": name },
        "spec": { "hostnames": hostnames, "rules": [{ "backends": [
            { "endpoint": "http://localhost:3000", "connector": { "name": "laptop" } },
        ] }] },
    });
    let proxy = serde_json::from_value(proxy).expect("an HTTPProxy");
    let made = proxies(lab).create(&PostParams::default(), &proxy).await;
    made.expect("an HTTPProxy");
}

async fn edit(lab: &Lab, name: &str, spec: Value) {
    let patch = Patch::Merge(json!({ "spec": spec }));
    let patched = proxies(lab)
        .patch(name, &PatchParams::default(), &patch)
        .await;
    patched.expect("it may change");
}

fn claims(lab: &Lab) -> Vec<String> {
    let claims = lab.cluster.server().list("aplomb.dev", "hostnameclaims");
    let name = |it: &std::sync::Arc<Value>| it["metadata"]["name"].as_str().map(str::to_owned);
    claims.iter().filter_map(name).collect()
}

async fn is_refused(lab: &Lab, name: &str, reason: &str) {
    until(seconds(10), reason, || {
        lab.of_proxy(name, "Ready").reason == reason
    })
    .await;
}

/// The hostname that `name` has under the domain of the second class.
async fn second(lab: &Lab, name: &str) -> String {
    let proxy = proxies(lab).get(name).await.expect("it is there");
    canonical_hostname(&proxy.metadata.uid.expect("a UID"), SECOND)
}

#[test]
fn a_platform_hostname_under_a_second_class_cannot_be_taken() {
    on_box(1, |lab| async move {
        let _all = begun(&lab).await;
        class(&lab.user(), "second", &json!({ "domain": SECOND })).await;
        tunnel(&lab.user(), "victim", "laptop").await;
        lab.ready("victim", seconds(5)).await;
        let wanted = second(&lab, "victim").await;
        ask_for(&lab, "thief", &[&wanted]).await;
        is_refused(&lab, "thief", "HostnameReserved").await;
        edit(&lab, "victim", json!({ "connectorClassName": "second" })).await;
        until(seconds(5), "it has its hostname", || {
            lab.proxy("victim").hostname.as_ref() == Some(&wanted) && lab.is_ready("victim")
        })
        .await;
        assert_eq!(claims(&lab), Vec::<String>::new());
    });
}

#[test]
fn a_claim_that_is_older_than_the_class_is_given_back() {
    on_box(1, |lab| async move {
        let (operator, ..) = begun(&lab).await;
        // Nothing is known yet that would speak against it: no such UID, and no such class.
        let wanted = canonical_hostname("a-uid-to-come", SECOND);
        ask_for(&lab, "early", &[&wanted]).await;
        lab.ready("early", seconds(5)).await;
        assert_eq!(claims(&lab), [wanted.clone()]);
        class(&lab.user(), "second", &json!({ "domain": SECOND })).await;
        is_refused(&lab, "early", "HostnameReserved").await;
        assert_eq!(claims(&lab), Vec::<String>::new());
        operator.component.crash();
        throughout(seconds(30), "it stays refused", || {
            lab.of_proxy("early", "Ready").reason == "HostnameReserved" && claims(&lab).is_empty()
        })
        .await;
    });
}
