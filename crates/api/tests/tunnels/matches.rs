//! Matches that are rejected.

use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::{tunnel, with_rule};
use crate::lab::Refusal;

fn rule_with_match(one: Value) -> Value {
    with_rule(json!({ "matches": [one] }))
}

fn path_refusals() -> Vec<Refusal> {
    let prefix = |value: &str| rule_with_match(json!({ "path": { "value": value } }));
    let exact = |value: &str| rule_with_match(json!({ "path": { "type": "Exact", "value": value } }));
    let regex = |value: &str| rule_with_match(json!({ "path": { "type": "RegularExpression", "value": value } }));
    let at = "spec.rules[0].matches[0].path";
    let (begin, leave) = ("must begin with '/'", "leave them out");
    vec![
        (prefix("docs"), at, begin),
        (exact("docs"), at, begin),
        (prefix("/a b"), at, "like %20"),
        (prefix("/a?b"), at, "like %20"),
        (exact("/a#b"), at, "like %20"),
        (exact("/%zz"), at, "like %20"),
        (prefix("/é"), at, "like %20"),
        (prefix("/a//b"), at, leave),
        (prefix("/a/./b"), at, leave),
        (prefix("/a/../b"), at, leave),
        (exact("/a/.."), at, leave),
        (exact("/a/."), at, leave),
        (exact("/a%2Fb"), at, leave),
        (exact("/a%2fb"), at, leave),
        (regex("/users/["), at, "RE2"),
        (regex("(?=a)"), at, "RE2"),
        (prefix(""), "spec.rules[0].matches[0].path.value", "at least 1 char"),
        (
            rule_with_match(json!({ "path": { "type": "Suffix" } })),
            "spec.rules[0].matches[0].path.type",
            "PathPrefix",
        ),
    ]
}

fn header_refusals() -> Vec<Refusal> {
    let header = |value: Value| rule_with_match(json!({ "headers": [value] }));
    let query = |value: Value| rule_with_match(json!({ "queryParams": [value] }));
    let twice = json!([{ "name": "a", "value": "1" }, { "name": "a", "value": "2" }]);
    let many: Vec<Value> = (0..17)
        .map(|n| json!({ "name": format!("a{n}"), "value": "1" }))
        .collect();
    let at = "spec.rules[0].matches[0]";
    let name = "spec.rules[0].matches[0].headers[0].name";
    vec![
        (
            header(json!({ "name": "a b", "value": "1" })),
            name,
            "like X-Request-Id",
        ),
        (
            header(json!({ "name": ":authority", "value": "1" })),
            name,
            "like X-Request-Id",
        ),
        (header(json!({ "value": "1" })), name, "Required"),
        (
            header(json!({ "name": "a" })),
            "spec.rules[0].matches[0].headers[0].value",
            "Required",
        ),
        (
            header(json!({ "name": "a", "type": "RegularExpression", "value": "[" })),
            "spec.rules[0].matches[0].headers[0]",
            "RE2",
        ),
        (
            query(json!({ "name": "a", "type": "RegularExpression", "value": "a(" })),
            "spec.rules[0].matches[0].queryParams[0]",
            "RE2",
        ),
        (
            rule_with_match(json!({ "headers": twice })),
            "spec.rules[0].matches[0].headers[1]",
            "Duplicate value",
        ),
        (
            rule_with_match(json!({ "queryParams": twice })),
            "spec.rules[0].matches[0].queryParams[1]",
            "Duplicate value",
        ),
        (
            rule_with_match(json!({ "headers": many })),
            "spec.rules[0].matches[0].headers",
            "at most 16",
        ),
        (
            rule_with_match(json!({ "method": "get" })),
            "spec.rules[0].matches[0].method",
            "GET",
        ),
        (rule_with_match(json!("GET")), at, "object"),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    let table = [path_refusals(), header_refusals()].concat();
    lab.refuses("HTTPProxy", tunnel(), table).await;
}
