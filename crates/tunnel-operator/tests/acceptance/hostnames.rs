//! Promise: a hostname has one owner, and no HTTPProxy can take it from another tenant: neither through a
//! second class nor through another kind.

use aplomb_api::gateway_api::HttpRoute;
use aplomb_api::tunnel::{HttpProxy, canonical_hostname};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::agent::Agent;
use crate::gateway::Gateway;
use crate::lab::{Lab, TENANT, assert_throughout, create_class, create_tunnel, on_box, seconds, until};
use crate::operator::Operator;

/// The namespace of another tenant.
const OTHER: &str = "other";
/// The domain of a second class.
const SECOND: &str = "second.example.org";

async fn start_system(lab: &Lab) -> (Operator, Gateway, Agent) {
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

/// Creates an HTTPProxy with these custom hostnames.
async fn create_proxy(lab: &Lab, name: &str, hostnames: &[&str]) {
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
    let patched = proxies(lab).patch(name, &PatchParams::default(), &patch).await;
    patched.expect("patch succeeds");
}

fn claims(lab: &Lab) -> Vec<String> {
    let claims = lab.cluster.server().list("aplomb.dev", "hostnameclaims");
    let name = |it: &std::sync::Arc<Value>| it["metadata"]["name"].as_str().map(str::to_owned);
    claims.iter().filter_map(name).collect()
}

async fn wait_rejected(lab: &Lab, name: &str, reason: &str) {
    until(seconds(10), reason, || {
        lab.proxy_condition(name, "Ready").reason == reason
    })
    .await;
}

/// The platform hostname of `name` under the domain of the second class.
async fn second_hostname(lab: &Lab, name: &str) -> String {
    let proxy = proxies(lab).get(name).await.expect("the tunnel exists");
    canonical_hostname(&proxy.metadata.uid.expect("a UID"), SECOND)
}

#[test]
fn a_platform_hostname_under_a_second_class_cannot_be_taken() {
    on_box(1, |lab| async move {
        let _all = start_system(&lab).await;
        create_class(&lab.user(), "second", &json!({ "domain": SECOND })).await;
        create_tunnel(&lab.user(), "victim", "laptop").await;
        lab.wait_ready("victim", seconds(5)).await;
        let wanted = second_hostname(&lab, "victim").await;
        create_proxy(&lab, "thief", &[&wanted]).await;
        wait_rejected(&lab, "thief", "HostnameReserved").await;
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
        let (operator, _gateway, _agent) = start_system(&lab).await;
        // No UID and no class exist yet that would reserve it.
        let wanted = canonical_hostname("a-uid-to-come", SECOND);
        create_proxy(&lab, "early", &[&wanted]).await;
        lab.wait_ready("early", seconds(5)).await;
        assert_eq!(claims(&lab), std::slice::from_ref(&wanted));
        create_class(&lab.user(), "second", &json!({ "domain": SECOND })).await;
        wait_rejected(&lab, "early", "HostnameReserved").await;
        assert_eq!(claims(&lab), Vec::<String>::new());
        operator.component.crash();
        assert_throughout(seconds(30), "the hostname stays refused", || {
            lab.proxy_condition("early", "Ready").reason == "HostnameReserved" && claims(&lab).is_empty()
        })
        .await;
    });
}

/// A Gateway that a user wrote, in its own namespace, and its route.
async fn create_unowned_gateway(lab: &Lab, hostnames: &[&str]) -> Api<aplomb_api::gateway_api::Gateway> {
    let params = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(lab.user());
    let namespace = json!({ "metadata": { "name": OTHER } });
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    namespaces.create(&params, &namespace).await.expect("a namespace");
    let gateways = Api::namespaced(lab.user(), OTHER);
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": { "name": "site" },
        "spec": { "gatewayClassName": "aplomb", "listeners": listeners(hostnames) },
    });
    let gateway = serde_json::from_value(gateway).expect("a Gateway");
    gateways.create(&params, &gateway).await.expect("a Gateway");
    let routes: Api<HttpRoute> = Api::namespaced(lab.user(), OTHER);
    let redirect = json!({ "type": "RequestRedirect", "requestRedirect": { "scheme": "https" } });
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": { "name": "site" },
        "spec": { "parentRefs": [{ "name": "site" }], "rules": [{ "filters": [redirect] }] },
    });
    let route = serde_json::from_value(route).expect("an HTTPRoute");
    routes.create(&params, &route).await.expect("an HTTPRoute");
    gateways
}

fn listeners(hostnames: &[&str]) -> Value {
    let listeners = hostnames.iter().enumerate();
    let listener = |(number, hostname)| json!({ "name": format!("http-{number}"), "hostname": hostname, "port": 80, "protocol": "HTTP" });
    listeners.map(listener).collect()
}

/// The `Programmed` reason of that Gateway, and the listeners that are refused.
fn unowned_gateway_status(lab: &Lab) -> (String, Vec<String>) {
    let server = lab.cluster.server();
    let stored = server.get("gateway.networking.k8s.io", "gateways", OTHER, "site");
    let status = stored.map(|it| it["status"].clone()).unwrap_or_default();
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let conditions = all(&status["conditions"]);
    let reason = conditions.iter().find(|it| it["type"] == "Programmed");
    let reason = reason.and_then(|it| it["reason"].as_str()).unwrap_or_default();
    let refused = all(&status["listeners"]).into_iter().filter(|it| {
        all(&it["conditions"])
            .iter()
            .any(|it| it["reason"] == "HostnameInUse" && it["status"] == "False")
    });
    let names = refused.filter_map(|it| it["name"].as_str().map(str::to_owned));
    (reason.to_owned(), names.collect())
}

#[test]
fn an_http_proxy_does_not_evict_a_gateway_that_was_there_first() {
    for edited in [false, true] {
        on_box(1, move |lab| async move {
            let (operator, gateway, _agent) = start_system(&lab).await;
            let gateways = create_unowned_gateway(&lab, &["site.example.com"]).await;
            if edited {
                let all = listeners(&["site.example.com", "more.example.com"]);
                let patch = Patch::Merge(json!({ "spec": { "listeners": all } }));
                let patched = gateways.patch("site", &PatchParams::default(), &patch).await;
                patched.expect("patch succeeds");
            }
            sleep(seconds(2)).await;
            create_proxy(&lab, "web", &["site.example.com"]).await;
            wait_rejected(&lab, "web", "HostnameInUse").await;
            operator.component.crash();
            gateway.component.crash();
            assert_throughout(seconds(30), "the Gateway keeps it", || {
                claims(&lab).is_empty() && unowned_gateway_status(&lab).0 != "HostnameInUse"
            })
            .await;
            let said = lab.proxy_condition("web", "HostnamesInUse");
            assert!(
                !said.message.contains("site/"),
                "names an object of another namespace: {said:?}"
            );
            gateways
                .delete("site", &Default::default())
                .await
                .expect("the Gateway is deleted");
            let took = until(seconds(15), "it is free", || lab.is_ready("web")).await;
            println!("ready {took:?} after the Gateway was deleted");
        });
    }
}

#[test]
fn a_gateway_that_takes_up_a_claimed_hostname_later_does_not_get_it() {
    on_box(1, |lab| async move {
        let _all = start_system(&lab).await;
        let gateways = create_unowned_gateway(&lab, &["own.example.com"]).await;
        sleep(seconds(2)).await;
        create_proxy(&lab, "web", &["app.example.com"]).await;
        lab.wait_ready("web", seconds(5)).await;
        let mut all = listeners(&["own.example.com", "app.example.com"]);
        // Another error of the same Gateway does not hide it.
        let bare = json!({ "name": "bare", "port": 8080, "protocol": "HTTP" });
        all.as_array_mut().expect("a list").insert(0, bare);
        let patch = json!({ "spec": { "listeners": all } });
        let patched = gateways
            .patch("site", &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.expect("patch succeeds");
        let refused = ("HostnameInUse".to_owned(), vec!["http-1".to_owned()]);
        until(seconds(5), "the status reports it", || {
            unowned_gateway_status(&lab) == refused
        })
        .await;
        assert_throughout(seconds(30), "the HTTPProxy keeps it", || lab.is_ready("web")).await;
        assert_eq!(claims(&lab), ["app.example.com"]);
        proxies(&lab)
            .delete("web", &Default::default())
            .await
            .expect("the tunnel is deleted");
        until(seconds(15), "it is free", || {
            unowned_gateway_status(&lab).0 == "Pending"
        })
        .await;
    });
}

/// An owner reference does not exempt a Gateway, and removing it later does not make it the first owner.
#[test]
fn a_gateway_that_loses_its_owner_takes_no_hostname() {
    on_box(1, |lab| async move {
        let _all = start_system(&lab).await;
        create_tunnel(&lab.user(), "decoy", "laptop").await;
        lab.wait_ready("decoy", seconds(5)).await;
        let decoy = proxies(&lab).get("decoy").await.expect("the tunnel exists");
        let owner = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy", "name": "decoy",
            "uid": decoy.metadata.uid, "controller": true,
        });
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": { "name": "site", "ownerReferences": [owner] },
            "spec": { "gatewayClassName": "aplomb", "listeners": listeners(&["app.example.com"]) },
        });
        let gateways: Api<aplomb_api::gateway_api::Gateway> = Api::namespaced(lab.user(), TENANT);
        let gateway = serde_json::from_value(gateway).expect("a Gateway");
        let made = gateways.create(&PostParams::default(), &gateway).await;
        made.expect("a Gateway");
        sleep(seconds(2)).await;
        create_proxy(&lab, "web", &["app.example.com"]).await;
        sleep(seconds(5)).await;
        let before = lab.is_ready("web");
        let patch = Patch::Merge(json!({ "metadata": { "ownerReferences": [] } }));
        let params = PatchParams::default();
        let patched = gateways.patch("site", &params, &patch).await;
        patched.expect("patch succeeds");
        assert_throughout(seconds(30), "the hostname changes hands", || {
            lab.is_ready("web") == before
        })
        .await;
    });
}

/// Sets this hostname on the route of that Gateway.
async fn route_names(lab: &Lab, hostname: &str) {
    let routes: Api<HttpRoute> = Api::namespaced(lab.user(), OTHER);
    let patch = Patch::Merge(json!({ "spec": { "hostnames": [hostname] } }));
    let patched = routes.patch("site", &PatchParams::default(), &patch).await;
    patched.expect("patch succeeds");
    sleep(seconds(2)).await;
}

#[test]
fn a_hostname_is_free_when_the_gateway_of_its_wildcard_goes() {
    on_box(1, |lab| async move {
        let _all = start_system(&lab).await;
        let gateways = create_unowned_gateway(&lab, &["*.example.com"]).await;
        route_names(&lab, "shop.example.com").await;
        create_proxy(&lab, "shop", &["shop.example.com"]).await;
        // With a long interval, so that no proof is due soon.
        edit(&lab, "shop", json!({ "proofInterval": "1h" })).await;
        wait_rejected(&lab, "shop", "HostnameInUse").await;
        sleep(seconds(5)).await;
        gateways
            .delete("site", &Default::default())
            .await
            .expect("the Gateway is deleted");
        until(seconds(15), "it is free", || lab.is_ready("shop")).await;
    });
}

#[test]
fn a_route_under_a_wildcard_has_the_hostnames_that_it_names() {
    on_box(1, |lab| async move {
        let _all = start_system(&lab).await;
        create_unowned_gateway(&lab, &["*.example.com"]).await;
        route_names(&lab, "shop.example.com").await;
        create_proxy(&lab, "shop", &["shop.example.com"]).await;
        wait_rejected(&lab, "shop", "HostnameInUse").await;
        // A hostname that no Gateway names is free.
        create_proxy(&lab, "app", &["app.example.com"]).await;
        lab.wait_ready("app", seconds(5)).await;
    });
}
