//! Endpoints that are accepted or rejected.

use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::{tunnel, with_rule};
use crate::lab::Refusal;

fn direct_backend(endpoint: &str) -> Value {
    with_rule(json!({ "backends": [{ "endpoint": endpoint }] }))
}

fn connector_backend(endpoint: &str) -> Value {
    let backend = json!({ "endpoint": endpoint, "connector": { "name": "laptop" } });
    with_rule(json!({ "backends": [backend] }))
}

fn backend(backend: Value) -> Value {
    with_rule(json!({ "backends": [backend] }))
}

const AT: &str = "spec.rules[0].backends[0]";
const URL: &str = "spec.rules[0].backends[0].endpoint";

fn url_refusals() -> Vec<Refusal> {
    let (form, host) = ("write http://host:port", "an IP address or a domain name");
    vec![
        (direct_backend("ftp://app.example.com"), URL, form),
        (direct_backend("HTTP://app.example.com"), URL, form),
        (direct_backend("app.example.com:80"), URL, form),
        (direct_backend("http://"), URL, form),
        (direct_backend("http://user@app.example.com"), URL, form),
        (direct_backend("http://app.example.com/"), URL, form),
        (direct_backend("http://app.example.com/path"), URL, "URLRewrite"),
        (direct_backend("http://app.example.com?q=1"), URL, form),
        (direct_backend("http://app.example.com#top"), URL, form),
        (direct_backend("http://app.example.com:"), URL, form),
        (direct_backend("http://app.example.com:http"), URL, form),
        (direct_backend("http://[::1"), URL, form),
        (direct_backend("http://2001:db8::7"), URL, form),
        (direct_backend("http://app.example.com:0"), URL, "from 1 to 65535"),
        (direct_backend("http://app.example.com:65536"), URL, "from 1 to 65535"),
        (direct_backend("http://app.example.com:100000"), URL, "from 1 to 65535"),
        (direct_backend("http://App.example.com"), URL, host),
        (direct_backend("http://app_1.example.com"), URL, host),
        (direct_backend("http://127.1"), URL, host),
        (direct_backend("http://2130706433"), URL, host),
        (connector_backend("http://0x7f000001:80"), URL, host),
        (direct_backend("http://app.example.com."), URL, host),
        (direct_backend("http://[fe80::1%25eth0]"), URL, host),
        (direct_backend("http://[::ffff:127.0.0.1]"), URL, host),
        (direct_backend(""), URL, "at least 1 char"),
    ]
}

fn address_refusals() -> Vec<Refusal> {
    let (own, connector) = ("the origin's own address", "name its connector");
    vec![
        (direct_backend("http://0.0.0.0:80"), AT, own),
        (connector_backend("http://[::]:80"), AT, own),
        (direct_backend("http://169.254.169.254"), AT, own),
        (connector_backend("http://169.254.169.254"), AT, own),
        (direct_backend("http://[fe80::1]"), AT, own),
        (direct_backend("http://224.0.0.1"), AT, own),
        (direct_backend("http://[ff02::1]"), AT, own),
        (direct_backend("http://255.255.255.255"), AT, own),
        (direct_backend("http://127.0.0.1:3000"), AT, connector),
        (direct_backend("http://127.8.8.8:3000"), AT, connector),
        (direct_backend("http://[::1]:3000"), AT, connector),
        (direct_backend("http://localhost:3000"), AT, connector),
        (direct_backend("http://app.localhost:3000"), AT, connector),
        (direct_backend("http://web:80"), AT, "the full domain name"),
    ]
}

fn member_refusals() -> Vec<Refusal> {
    let instance = json!({ "name": "web-x7k2p", "port": 80 });
    let either = "or instance alone";
    vec![
        (backend(json!({})), AT, either),
        (backend(json!({ "connector": { "name": "laptop" } })), AT, either),
        (
            backend(json!({ "endpoint": "http://app.example.com", "instance": instance })),
            AT,
            either,
        ),
        (
            backend(json!({ "connector": { "name": "laptop" }, "instance": instance })),
            AT,
            either,
        ),
        (
            backend(json!({ "instance": { "name": "web", "port": 0 } })),
            "spec.rules[0].backends[0].instance.port",
            "greater than or equal to 1",
        ),
        (
            backend(json!({ "instance": { "name": "web" } })),
            "spec.rules[0].backends[0].instance.port",
            "Required",
        ),
        (
            backend(json!({ "endpoint": "http://localhost:1", "connector": { "name": "a.b" } })),
            "spec.rules[0].backends[0].connector.name",
            "at most 63",
        ),
    ]
}

fn certificate_refusals() -> Vec<Refusal> {
    let tls = |endpoint: &str, tls: Value| backend(json!({ "endpoint": endpoint, "tls": tls }));
    let name = "spec.rules[0].backends[0].tls.hostname";
    vec![
        (direct_backend("https://192.0.2.7"), AT, "needs tls.hostname"),
        (connector_backend("https://127.0.0.1:8443"), AT, "needs tls.hostname"),
        (tls("https://[2001:db8::7]", json!({})), AT, "needs tls.hostname"),
        (
            tls("http://app.example.com", json!({ "hostname": "app.example.com" })),
            AT,
            "write https://",
        ),
        (
            tls("https://192.0.2.7", json!({ "hostname": "192.0.2.7" })),
            name,
            "write a domain name",
        ),
        (
            tls("https://192.0.2.7", json!({ "hostname": "*.example.com" })),
            name,
            "like app.example.com",
        ),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    let table = [
        url_refusals(),
        address_refusals(),
        member_refusals(),
        certificate_refusals(),
    ]
    .concat();
    lab.refuses("HTTPProxy", tunnel(), table).await;
}

pub(crate) async fn accepts(lab: Lab) {
    let all = [
        direct_backend("http://app.example.com"),
        direct_backend("https://app.example.com"),
        direct_backend("http://web.default.svc:8080"),
        direct_backend("http://192.0.2.7:65535"),
        direct_backend("http://10.0.0.1:1"),
        direct_backend("http://[2001:db8::7]:8080"),
        connector_backend("http://localhost:3000"),
        connector_backend("https://localhost:8443"),
        connector_backend("http://127.0.0.1:3000"),
        connector_backend("http://[::1]:3000"),
        connector_backend("http://nas:5000"),
        connector_backend("http://10.1.2.3"),
        backend(json!({
            "endpoint": "https://127.0.0.1:8443", "connector": { "name": "laptop" },
            "tls": { "hostname": "localhost" },
        })),
        backend(json!({ "instance": { "name": "web.1", "port": 65_535 } })),
    ];
    for spec in all {
        let created = lab.create("HTTPProxy", "web", &spec).await;
        assert!(created.is_ok(), "{spec}: {created:?}");
    }
}
