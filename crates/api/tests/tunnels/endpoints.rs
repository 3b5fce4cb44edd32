//! Endpoints that are accepted or rejected.

use serde_json::{Value, json};

use crate::Lab;
use crate::lab::Refusal;
use crate::specs::{tunnel, with_rule};

fn direct(endpoint: &str) -> Value {
    with_rule(json!({ "backends": [{ "endpoint": endpoint }] }))
}

fn connected(endpoint: &str) -> Value {
    let backend = json!({ "endpoint": endpoint, "connector": { "name": "laptop" } });
    with_rule(json!({ "backends": [backend] }))
}

fn backend(backend: Value) -> Value {
    with_rule(json!({ "backends": [backend] }))
}

const AT: &str = "spec.rules[0].backends[0]";
const URL: &str = "spec.rules[0].backends[0].endpoint";

fn urls() -> Vec<Refusal> {
    let (form, host) = ("write http://host:port", "an IP address or a domain name");
    vec![
        (direct("ftp://app.example.com"), URL, form),
        (direct("HTTP://app.example.com"), URL, form),
        (direct("app.example.com:80"), URL, form),
        (direct("http://"), URL, form),
        (direct("http://user@app.example.com"), URL, form),
        (direct("http://app.example.com/"), URL, form),
        (direct("http://app.example.com/path"), URL, "URLRewrite"),
        (direct("http://app.example.com?q=1"), URL, form),
        (direct("http://app.example.com#top"), URL, form),
        (direct("http://app.example.com:"), URL, form),
        (direct("http://app.example.com:http"), URL, form),
        (direct("http://[::1"), URL, form),
        (direct("http://2001:db8::7"), URL, form),
        (direct("http://app.example.com:0"), URL, "from 1 to 65535"),
        (
            direct("http://app.example.com:65536"),
            URL,
            "from 1 to 65535",
        ),
        (
            direct("http://app.example.com:100000"),
            URL,
            "from 1 to 65535",
        ),
        (direct("http://App.example.com"), URL, host),
        (direct("http://app_1.example.com"), URL, host),
        (direct("http://127.1"), URL, host),
        (direct("http://2130706433"), URL, host),
        (connected("http://0x7f000001:80"), URL, host),
        (direct("http://app.example.com."), URL, host),
        (direct("http://[fe80::1%25eth0]"), URL, host),
        (direct("http://[::ffff:127.0.0.1]"), URL, host),
        (direct(""), URL, "at least 1 char"),
    ]
}

fn addresses() -> Vec<Refusal> {
    let (own, connector) = ("the origin's own address", "name its connector");
    vec![
        (direct("http://0.0.0.0:80"), AT, own),
        (connected("http://[::]:80"), AT, own),
        (direct("http://169.254.169.254"), AT, own),
        (connected("http://169.254.169.254"), AT, own),
        (direct("http://[fe80::1]"), AT, own),
        (direct("http://224.0.0.1"), AT, own),
        (direct("http://[ff02::1]"), AT, own),
        (direct("http://255.255.255.255"), AT, own),
        (direct("http://127.0.0.1:3000"), AT, connector),
        (direct("http://127.8.8.8:3000"), AT, connector),
        (direct("http://[::1]:3000"), AT, connector),
        (direct("http://localhost:3000"), AT, connector),
        (direct("http://app.localhost:3000"), AT, connector),
        (direct("http://web:80"), AT, "the full domain name"),
    ]
}

fn members() -> Vec<Refusal> {
    let instance = json!({ "name": "web-x7k2p", "port": 80 });
    let either = "or instance alone";
    vec![
        (backend(json!({})), AT, either),
        (
            backend(json!({ "connector": { "name": "laptop" } })),
            AT,
            either,
        ),
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

fn certificates() -> Vec<Refusal> {
    let tls = |endpoint: &str, tls: Value| backend(json!({ "endpoint": endpoint, "tls": tls }));
    let name = "spec.rules[0].backends[0].tls.hostname";
    vec![
        (direct("https://192.0.2.7"), AT, "needs tls.hostname"),
        (
            connected("https://127.0.0.1:8443"),
            AT,
            "needs tls.hostname",
        ),
        (
            tls("https://[2001:db8::7]", json!({})),
            AT,
            "needs tls.hostname",
        ),
        (
            tls(
                "http://app.example.com",
                json!({ "hostname": "app.example.com" }),
            ),
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

pub(crate) async fn refused(lab: Lab) {
    let table = [urls(), addresses(), members(), certificates()].concat();
    lab.refuses("HTTPProxy", tunnel(), table).await;
}

pub(crate) async fn accepted(lab: Lab) {
    let all = [
        direct("http://app.example.com"),
        direct("https://app.example.com"),
        direct("http://web.default.svc:8080"),
        direct("http://192.0.2.7:65535"),
        direct("http://10.0.0.1:1"),
        direct("http://[2001:db8::7]:8080"),
        connected("http://localhost:3000"),
        connected("https://localhost:8443"),
        connected("http://127.0.0.1:3000"),
        connected("http://[::1]:3000"),
        connected("http://nas:5000"),
        connected("http://10.1.2.3"),
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
