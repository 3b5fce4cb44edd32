//! Tunnels that are rejected: names, hostnames, rules, durations.

use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::{backend, tunnel, with_rule};
use crate::lab::Refusal;

fn hostname_refusals() -> Vec<Refusal> {
    let one = |hostname: &str| json!({ "hostnames": [hostname] });
    let long = format!("{}.example.com", "a".repeat(64));
    let many: Vec<String> = (0..17).map(|n| format!("a{n}.example.com")).collect();
    let (at, shape) = ("spec.hostnames[0]", "like app.example.com");
    vec![
        (one("*.example.com"), at, "name every hostname"),
        (one("192.0.2.7"), at, "write a domain name"),
        (one("2001:db8::7"), at, "write a domain name"),
        (one("App.example.com"), at, "lower case"),
        (one("localhost"), at, shape),
        (one("app.example.com."), at, "without a dot at the end"),
        (one("app_1.example.com"), at, shape),
        (one("-app.example.com"), at, shape),
        (one("app..example.com"), at, shape),
        (one("https://app.example.com"), at, shape),
        (one("app.example.com:443"), at, shape),
        (one("app.example.7"), at, shape),
        (one("127.1"), at, shape),
        (one(""), at, "at least 1 char"),
        (one(&long), at, shape),
        (one(&"a.".repeat(130)), at, "253"),
        (
            json!({ "hostnames": ["app.example.com", "app.example.com"] }),
            "spec.hostnames[1]",
            "Duplicate value",
        ),
        (json!({ "hostnames": many }), "spec.hostnames", "at most 16"),
    ]
}

fn rule_refusals() -> Vec<Refusal> {
    let named = |name: &str| json!({ "name": name, "backends": [backend()] });
    let rules = |rules: Vec<Value>| json!({ "rules": rules });
    let matching = |count: usize| {
        let matches: Vec<Value> = (0..count)
            .map(|n| json!({ "path": { "value": format!("/{n}") } }))
            .collect();
        json!({ "matches": matches, "backends": [backend()] })
    };
    let redirect = json!([{ "type": "RequestRedirect", "requestRedirect": { "port": 443 } }]);
    vec![
        (json!({ "rules": null }), "spec.rules", "Required"),
        (rules(vec![]), "spec.rules", "at least 1 item"),
        (rules(vec![named("a"); 17]), "spec.rules", "at most 16"),
        (
            rules(vec![named("a"), named("b"), named("a")]),
            "spec.rules",
            "use unique names",
        ),
        (rules(vec![named("A b")]), "spec.rules[0].name", "like web-1"),
        (
            rules(vec![matching(64), matching(64), matching(1)]),
            "spec.rules",
            "split the tunnel",
        ),
        (
            rules(vec![matching(64), matching(64), json!({ "backends": [backend()] })]),
            "spec.rules",
            "split the tunnel",
        ),
        (rules(vec![matching(65)]), "spec.rules[0].matches", "at most 64"),
        (rules(vec![json!({})]), "spec.rules[0]", "needs a backend"),
        (
            with_rule(json!({ "backends": [] })),
            "spec.rules[0]",
            "RequestRedirect filter: give one",
        ),
        (
            with_rule(json!({ "backends": [backend(), backend()] })),
            "spec.rules[0].backends",
            "at most 1",
        ),
        (
            with_rule(json!({ "filters": redirect })),
            "spec.rules[0]",
            "leave out the backends",
        ),
    ]
}

fn duration_refusals() -> Vec<Refusal> {
    let proof = |text: &str| json!({ "proofInterval": text });
    let timeout = |text: &str| with_rule(json!({ "timeout": text }));
    let at = "spec.proofInterval";
    vec![
        (proof("1s"), at, "from 2s to 1h"),
        (proof("1999ms"), at, "from 2s to 1h"),
        (proof("61m"), at, "from 2s to 1h"),
        (proof("soon"), at, "write it like 30s"),
        (proof("-10s"), at, "write it like 30s"),
        (timeout("0s"), "spec.rules[0].timeout", "from 10ms"),
        (timeout("25h"), "spec.rules[0].timeout", "to 24h"),
        (timeout("1d"), "spec.rules[0].timeout", "write it like 30s"),
    ]
}

fn other_refusals() -> Vec<Refusal> {
    vec![
        (
            json!({ "connectorClassName": "A" }),
            "spec.connectorClassName",
            "like web-1",
        ),
        (
            json!({ "connectorClassName": "" }),
            "spec.connectorClassName",
            "at least 1 char",
        ),
        (json!({ "tls": {} }), "spec.tls.secretName", "Required"),
        (
            json!({ "tls": { "secretName": "a_b" } }),
            "spec.tls.secretName",
            "like web-1",
        ),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    let table = [
        hostname_refusals(),
        rule_refusals(),
        duration_refusals(),
        other_refusals(),
    ]
    .concat();
    lab.refuses("HTTPProxy", tunnel(), table).await;
    for name in ["web.one", &"w".repeat(64)] {
        let said = lab.create("HTTPProxy", name, &tunnel()).await;
        let said = said.expect_err("no label");
        assert!(said.contains("at most 63 lower case letters"), "{said}");
    }
}
