//! Filters that are rejected.

use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::{backend, tunnel, with_rule};
use crate::lab::Refusal;

const AT: &str = "spec.rules[0].filters";
const ONE: &str = "spec.rules[0].filters[0]";

fn filters(filters: Value) -> Value {
    with_rule(json!({ "filters": filters }))
}

fn request(modifier: Value) -> Value {
    filters(json!([{ "type": "RequestHeaderModifier", "requestHeaderModifier": modifier }]))
}

fn redirect(redirect: Value) -> Value {
    let filter = json!({ "type": "RequestRedirect", "requestRedirect": redirect });
    with_rule(json!({ "backends": [], "filters": [filter] }))
}

fn rewrite(rewrite: Value) -> Value {
    filters(json!([{ "type": "URLRewrite", "urlRewrite": rewrite }]))
}

fn member_refusals() -> Vec<Refusal> {
    let set = json!({ "set": [{ "name": "a", "value": "b" }] });
    let modifier = json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": set });
    let rewrite = json!({ "type": "URLRewrite", "urlRewrite": { "hostname": "a.example.com" } });
    let redirect = json!({ "type": "RequestRedirect", "requestRedirect": { "port": 443 } });
    let member = "the field that type names";
    let mut on_backend = backend();
    on_backend["filters"] = json!([redirect]);
    vec![
        (filters(json!([{ "type": "URLRewrite" }])), ONE, member),
        (
            filters(json!([{ "type": "URLRewrite", "urlRewrite": {}, "requestRedirect": {} }])),
            ONE,
            member,
        ),
        (
            filters(json!([{ "type": "ResponseHeaderModifier", "requestHeaderModifier": set }])),
            ONE,
            member,
        ),
        (filters(json!([{}])), "spec.rules[0].filters[0].type", "Required"),
        (
            filters(json!([{ "type": "Mirror" }])),
            "spec.rules[0].filters[0].type",
            "URLRewrite",
        ),
        (filters(json!([redirect, rewrite])), AT, "use one of"),
        (filters(json!([rewrite, rewrite])), AT, "put everything into one"),
        (filters(json!([modifier, modifier])), AT, "put everything into one"),
        (filters(json!(vec![modifier; 17])), AT, "at most 4"),
        (
            with_rule(json!({ "backends": [on_backend] })),
            "spec.rules[0].backends[0].filters",
            "into the rule's filters",
        ),
    ]
}

fn header_refusals() -> Vec<Refusal> {
    let header = |name: &str, value: &str| json!([{ "name": name, "value": value }]);
    let at = "spec.rules[0].filters[0].requestHeaderModifier";
    let value = "spec.rules[0].filters[0].requestHeaderModifier.set[0].value";
    let (host, control) = ("use urlRewrite.hostname", "one line of ASCII");
    vec![
        (request(json!({ "set": header("Host", "a.example.com") })), at, host),
        (request(json!({ "add": header("hOsT", "a.example.com") })), at, host),
        (request(json!({ "remove": ["host"] })), at, host),
        (request(json!({})), at, "give set, add or remove"),
        (
            request(json!({ "set": header("Transfer-Encoding", "chunked") })),
            at,
            "belong to the connection",
        ),
        (
            request(json!({ "remove": ["content-length"] })),
            at,
            "belong to the connection",
        ),
        (request(json!({ "set": header("a", "b\r\nc: d") })), value, control),
        (request(json!({ "set": header("a", "\u{0}") })), value, control),
        (request(json!({ "set": header("a", "") })), value, "at least 1 char"),
        (
            request(json!({ "set": header("a:", "b") })),
            "spec.rules[0].filters[0].requestHeaderModifier.set[0].name",
            "like X-Request-Id",
        ),
        (
            request(json!({ "remove": ["a b"] })),
            "spec.rules[0].filters[0].requestHeaderModifier.remove[0]",
            "like X-Request-Id",
        ),
        (
            request(json!({ "add": [{ "name": "a", "value": "1" }, { "name": "a", "value": "2" }] })),
            "spec.rules[0].filters[0].requestHeaderModifier.add[1]",
            "Duplicate value",
        ),
    ]
}

fn url_refusals() -> Vec<Refusal> {
    let prefix = json!({ "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/a" } });
    let full = |path: &str| rewrite(json!({ "path": { "type": "ReplaceFullPath", "replaceFullPath": path } }));
    let matching = |matches: Value| {
        let mut spec = rewrite(prefix.clone());
        spec["rules"][0]["matches"] = matches;
        spec
    };
    let exact = json!({ "path": { "type": "Exact", "value": "/a" } });
    let some = json!({ "path": { "value": "/a" } });
    let only = "exactly one match, by PathPrefix";
    let mut on_backend = backend();
    on_backend["filters"] = json!([{ "type": "URLRewrite", "urlRewrite": prefix }]);
    let path = "spec.rules[0].filters[0].urlRewrite.path";
    vec![
        (matching(json!([exact])), "spec.rules[0]", only),
        (matching(json!([some, some])), "spec.rules[0]", only),
        (
            with_rule(json!({ "backends": [on_backend], "matches": [exact] })),
            "spec.rules[0]",
            only,
        ),
        (
            rewrite(json!({ "path": { "type": "ReplaceFullPath", "replacePrefixMatch": "/a" } })),
            path,
            "the field that type names",
        ),
        (
            full("docs"),
            "spec.rules[0].filters[0].urlRewrite.path.replaceFullPath",
            "write it like /docs",
        ),
        (
            full("/a?b"),
            "spec.rules[0].filters[0].urlRewrite.path.replaceFullPath",
            "no spaces, query or fragment",
        ),
        (
            rewrite(json!({ "hostname": "*.example.com" })),
            "spec.rules[0].filters[0].urlRewrite.hostname",
            "like app.example.com",
        ),
    ]
}

fn redirect_refusals() -> Vec<Refusal> {
    vec![
        (
            redirect(json!({ "scheme": "ftp" })),
            "spec.rules[0].filters[0].requestRedirect.scheme",
            "https",
        ),
        (
            redirect(json!({ "statusCode": 200 })),
            "spec.rules[0].filters[0].requestRedirect.statusCode",
            "301",
        ),
        (
            redirect(json!({ "port": 0 })),
            "spec.rules[0].filters[0].requestRedirect.port",
            "greater than or equal to 1",
        ),
        (
            redirect(json!({ "hostname": "192.0.2.7" })),
            "spec.rules[0].filters[0].requestRedirect.hostname",
            "write a domain name",
        ),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    let table = [
        member_refusals(),
        header_refusals(),
        url_refusals(),
        redirect_refusals(),
    ]
    .concat();
    lab.refuses("HTTPProxy", tunnel(), table).await;
}
