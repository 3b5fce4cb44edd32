//! How a server may be named, and names that are rejected.

use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::{PROVISIONER, PROXY, bootstrap, provisioner, proxy, server};
use crate::lab::Refusal;

fn server_with(field: &str, value: Value) -> Value {
    let mut server = server();
    server[field] = value;
    json!({ "server": server })
}

fn url_refusals() -> Vec<Refusal> {
    let at = "spec.server.url";
    let url = |url: &str| server_with("url", json!(url));
    let whole = "leave out user, path, query and fragment";
    let host = "a domain name in lower case";
    vec![
        (url(""), at, "at least 1 char"),
        (url("coder.example.com"), at, whole),
        (url("ftp://coder.example.com"), at, whole),
        (url("https://"), at, whole),
        (url("https:///"), at, whole),
        (url("https://coder.example.com/path"), at, whole),
        (url("https://coder.example.com//"), at, whole),
        (url("https://coder.example.com?a=b"), at, whole),
        (url("https://coder.example.com/?a=b"), at, whole),
        (url("https://coder.example.com#a"), at, whole),
        (url("https://user@coder.example.com"), at, whole),
        (url("https://user:word@coder.example.com"), at, whole),
        (url("https://coder.example.com:"), at, whole),
        (url("https://Coder.example.com"), at, host),
        (url("https://coder example.com"), at, host),
        (url("https://coder.example.com\n"), at, host),
        (url("https://127.1"), at, host),
        (url("https://coder.example.com:0"), at, "from 1 to 65535"),
        (url("https://coder.example.com:65536/"), at, "from 1 to 65535"),
    ]
}

fn token_refusals() -> Vec<Refusal> {
    let token = |value: Value| server_with("tokenSecretRef", value);
    let at = "spec.server.tokenSecretRef";
    let name = "spec.server.tokenSecretRef.name";
    let key = "spec.server.tokenSecretRef.key";
    let bundle = "spec.server.caBundle";
    vec![
        (token(Value::Null), at, "Required"),
        (token(json!({})), name, "Required"),
        (token(json!({ "name": "" })), name, "at least 1 char"),
        (token(json!({ "name": "A b" })), name, "like web-1"),
        (token(json!({ "name": "a", "key": "" })), key, "at least 1"),
        (token(json!({ "name": "a", "key": "a/b" })), key, "like token"),
        (token(json!({ "name": "a", "key": ".." })), key, "like token"),
        (
            server_with("caBundle", json!("MIIB")),
            bundle,
            "-----BEGIN CERTIFICATE-----",
        ),
        (server_with("caBundle", json!("")), bundle, "at least 1 char"),
    ]
}

fn server_refusals() -> Vec<Refusal> {
    let one = "exactly one of controlPlaneRef and server";
    vec![
        (json!({ "server": null }), "spec", one),
        (json!({ "controlPlaneRef": { "name": "coder" } }), "spec", one),
        (
            json!({ "server": null, "controlPlaneRef": { "name": "" } }),
            "spec.controlPlaneRef.name",
            "at least 1 char",
        ),
        (
            json!({ "server": null, "controlPlaneRef": { "name": "Coder" } }),
            "spec.controlPlaneRef.name",
            "like web-1",
        ),
        (
            json!({ "server": null, "controlPlaneRef": {} }),
            "spec.controlPlaneRef.name",
            "Required",
        ),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    let table = [url_refusals(), token_refusals(), server_refusals()].concat();
    lab.refuses(PROVISIONER, provisioner(), table).await;
    let one = "exactly one of controlPlaneRef and server";
    let both = json!({ "controlPlaneRef": { "name": "coder" } });
    let table = vec![
        (bootstrap(both), "spec.bootstrap", one),
        (json!({ "bootstrap": {} }), "spec.bootstrap", one),
    ];
    lab.refuses(PROXY, proxy(), table).await;
}

pub(crate) async fn accepts(lab: Lab) {
    for url in [
        "http://coder",
        "http://localhost:3000",
        "https://coder.example.com/",
        "https://coder.example.com:443/",
        "http://coder.coder.svc.cluster.local:80",
        "http://192.0.2.7:7080",
        "http://127.0.0.1:41234",
        "https://[2001:db8::7]:8443",
        "https://[2001:db8::7]/",
    ] {
        let spec = server_with("url", json!(url));
        let created = lab.create(PROVISIONER, "team", &spec).await;
        assert!(created.is_ok(), "{url}: {created:?}");
    }
    let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let spec = server_with("caBundle", json!(pem.repeat(3)));
    let created = lab.create(PROVISIONER, "team", &spec).await;
    assert!(created.is_ok(), "{created:?}");
}
