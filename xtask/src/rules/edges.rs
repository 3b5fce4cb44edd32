//! Which crate may depend on which: an edge that is not in the table is forbidden.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Violation;
use crate::source::{METADATA, SourceFile};

/// Each crate, what it may depend on, and behind the `|` what its tests may use besides.
const TABLE: &str = "
aplomb:
api:
http-client: aplomb
tunnel-protocol:
tunnel-operator: aplomb api tunnel-protocol | tunnel-gateway tunnel-agent
tunnel-gateway: aplomb api tunnel-protocol
tunnel-agent: aplomb api tunnel-protocol
coder-operator: aplomb api http-client
egress-operator: aplomb api http-client
egress-node: aplomb api
console: aplomb api
demo: PRODUCT apiserver controllers fake-services apimachinery
cli: PRODUCT demo apiserver controllers fake-services apimachinery
go-compat:
structured-merge: go-compat
cel: go-compat
apimachinery: go-compat
builtin-kinds: apimachinery cel go-compat
apiserver: builtin-kinds apimachinery cel structured-merge go-compat
controllers: apiserver builtin-kinds apimachinery
simulation: apiserver controllers apimachinery
fake-services: apimachinery
virtual-time:
controlplane:
soak:
xtask:
conformance: apiserver controllers simulation controlplane
";
/// What the last two crates of the product may use.
const PRODUCT: &str = "aplomb api http-client tunnel-protocol tunnel-operator tunnel-gateway tunnel-agent coder-operator \
    egress-operator egress-node console";
/// What tests may use wherever they are.
const FOR_TESTS: &str = "go-compat structured-merge cel apimachinery builtin-kinds apiserver controllers simulation \
    fake-services virtual-time controlplane";

fn short(package: &str) -> &str {
    package.strip_prefix("aplomb-").unwrap_or(package)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .flat_map(|word| if word == "PRODUCT" { PRODUCT } else { word }.split_whitespace())
}

pub(super) fn edges(files: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path == METADATA) {
        let metadata: Value = serde_json::from_str(&file.text).unwrap_or_default();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let name = short(package["name"].as_str().unwrap_or_default());
            found.extend(wrong(name, package).into_iter().map(|todo| Violation {
                key: name.to_owned(),
                ..Violation::new(file, 1, todo)
            }));
        }
    }
    found
}

fn wrong(name: &str, package: &Value) -> Vec<String> {
    let mut rows = TABLE.lines().filter_map(|row| row.split_once(':'));
    let Some((_, row)) = rows.find(|(it, _)| *it == name) else {
        return vec![format!("{name} has no row in the table of xtask/src/rules/edges.rs")];
    };
    let (normal, besides) = row.split_once('|').unwrap_or((row, ""));
    let normal: BTreeSet<&str> = words(normal).collect();
    let for_tests: BTreeSet<&str> = words(besides).chain(words(FOR_TESTS)).chain([name]).collect();
    let mut wrong = Vec::new();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let on = short(dependency["name"].as_str().unwrap_or_default());
        let is_dev = dependency["kind"] == "dev";
        let is_allowed = normal.contains(on) || is_dev && for_tests.contains(on);
        if dependency.get("path").is_some() && !is_allowed {
            let who = if is_dev { "the tests of " } else { "" };
            wrong.push(format!("{who}{name} must not depend on {on}"));
        }
    }
    wrong
}
