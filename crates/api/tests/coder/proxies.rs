//! Workspace proxies that are rejected, and their names.

use serde_json::json;

use crate::Lab;
use crate::fixtures::{PROXY, bootstrap, proxy};
use crate::lab::Refusal;

fn server_refusals() -> Vec<Refusal> {
    let one = "exactly one of bootstrap";
    let together = "belong together: give both, or bootstrap alone";
    let url = "https://coder.example.com";
    let token = json!({ "name": "eu-token" });
    vec![
        (json!({ "bootstrap": null }), "spec", one),
        (
            json!({ "primaryAccessURL": url, "proxySessionTokenSecretRef": token }),
            "spec",
            one,
        ),
        (json!({ "bootstrap": null, "primaryAccessURL": url }), "spec", together),
        (
            json!({ "bootstrap": null, "proxySessionTokenSecretRef": token }),
            "spec",
            together,
        ),
        (json!({ "proxySessionTokenSecretRef": token }), "spec", together),
        (
            json!({
                "bootstrap": null, "primaryAccessURL": "https://coder.example.com/x",
                "proxySessionTokenSecretRef": token,
            }),
            "spec.primaryAccessURL",
            "leave out user, path",
        ),
    ]
}

fn display_refusals() -> Vec<Refusal> {
    let name = |name: &str| bootstrap(json!({ "proxyName": name }));
    let (at, words) = ("spec.bootstrap.proxyName", "like eu-west");
    let display = |name: &str| bootstrap(json!({ "displayName": name }));
    let shown = "spec.bootstrap.displayName";
    vec![
        (name(""), at, words),
        (name("Eu"), at, words),
        (name("eu west"), at, words),
        (name("eu.west"), at, words),
        (name("eu--west"), at, words),
        (name("-eu"), at, words),
        (name("größe"), at, words),
        (name("eu\n"), at, words),
        (name("a/b"), at, words),
        (name(&"a".repeat(33)), at, "at most 32 characters: shorten"),
        (name("primary"), at, "choose another name"),
        (name("PRIMARY"), at, "choose another name"),
        (display(""), shown, "at least 1 char"),
        (display(" Europe"), shown, "remove spaces at both ends"),
        (display("Eu\nrope"), shown, "line ends"),
        (display(&"a".repeat(65)), shown, "64"),
        (
            bootstrap(json!({ "icon": "a b" })),
            "spec.bootstrap.icon",
            "a path on the server or a URL",
        ),
        (
            bootstrap(json!({ "generatedTokenSecretName": "A" })),
            "spec.bootstrap.generatedTokenSecretName",
            "like web-1",
        ),
        (
            bootstrap(json!({ "generatedTokenSecretName": "coder-token" })),
            "spec.bootstrap",
            "overwrite the token",
        ),
        (
            bootstrap(json!({ "deletionDeadline": "1s" })),
            "spec.bootstrap.deletionDeadline",
            "write 1m or more",
        ),
    ]
}

fn service_refusals() -> Vec<Refusal> {
    let many: serde_json::Map<_, _> = (0..33).map(|n| (format!("a{n}"), json!(""))).collect();
    vec![
        (
            json!({ "service": { "type": "ExternalName" } }),
            "spec.service.type",
            "LoadBalancer",
        ),
        (
            json!({ "service": { "port": 0 } }),
            "spec.service.port",
            "greater than or equal to 1",
        ),
        (json!({ "service": { "port": 65536 } }), "spec.service.port", "65535"),
        (
            json!({ "service": { "annotations": many } }),
            "spec.service.annotations",
            "at most 32",
        ),
        (json!({ "replicas": -1 }), "spec.replicas", "greater than or equal to 0"),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    let table = [server_refusals(), display_refusals(), service_refusals()].concat();
    lab.refuses(PROXY, proxy(), table).await;
}

pub(crate) async fn default_secret(lab: Lab) {
    let mut spec = proxy();
    spec["bootstrap"]["server"]["tokenSecretRef"]["name"] = json!("eu-proxy-token");
    let said = lab.create(PROXY, "eu", &spec).await;
    let said = said.expect_err("the proxy's token would overwrite the operator's");
    let fix = "Set spec.bootstrap.generatedTokenSecretName";
    assert!(said.contains(fix), "{said}");
    spec["bootstrap"]["generatedTokenSecretName"] = json!("eu-token");
    let created = lab.create(PROXY, "eu", &spec).await;
    assert!(created.is_ok(), "{created:?}");
}

pub(crate) async fn accepts_names(lab: Lab) {
    for object in ["primary", "eu.west", "eu--west"] {
        let said = lab.create(PROXY, object, &proxy()).await;
        let said = said.expect_err("the proxy would get a reserved name");
        assert!(said.contains("set spec.bootstrap.proxyName"), "{said}");
        let named = bootstrap(json!({ "proxyName": "eu-west" }));
        let created = lab.create(PROXY, object, &named).await;
        assert!(created.is_ok(), "{created:?}");
    }
    for object in ["eu-west-1", "0", &"a".repeat(63)] {
        let created = lab.create(PROXY, object, &proxy()).await;
        assert!(created.is_ok(), "{created:?}");
    }
}
