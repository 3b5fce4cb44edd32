//! Which crate may depend on which. Any edge that is not in the table fails.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// (crate, what it may depend on, what its tests may depend on besides).
const EDGES: &[(&str, &[&str], &[&str])] = &[
    (
        "aplomb",
        &[],
        &[
            "aplomb-apiserver",
            "aplomb-virtual-time",
            "aplomb-controlplane",
        ],
    ),
    (
        "aplomb-api",
        &[],
        &["aplomb-apiserver", "aplomb-controlplane"],
    ),
    (
        "aplomb-coder-operator",
        &["aplomb", "aplomb-api", "aplomb-http-client"],
        &[
            "aplomb-apiserver",
            "aplomb-virtual-time",
            "aplomb-controlplane",
        ],
    ),
    (
        "aplomb-egress-operator",
        &["aplomb", "aplomb-api", "aplomb-http-client"],
        &[
            "aplomb-apiserver",
            "aplomb-virtual-time",
            "aplomb-controlplane",
        ],
    ),
    (
        "aplomb-tunnel-agent",
        &["aplomb", "aplomb-api"],
        &[
            "aplomb-apiserver",
            "aplomb-virtual-time",
            "aplomb-controlplane",
        ],
    ),
    (
        "aplomb-tunnel-gateway",
        &["aplomb", "aplomb-api"],
        &[
            "aplomb-apiserver",
            "aplomb-virtual-time",
            "aplomb-controlplane",
        ],
    ),
    (
        "aplomb-tunnel-operator",
        &["aplomb", "aplomb-api"],
        &[
            "aplomb-apiserver",
            "aplomb-virtual-time",
            "aplomb-controlplane",
            "aplomb-tunnel-gateway",
            "aplomb-tunnel-agent",
        ],
    ),
    (
        "aplomb-console",
        &["aplomb", "aplomb-api"],
        &["aplomb-apiserver", "aplomb-virtual-time"],
    ),
    (
        "aplomb-demo",
        &[
            "aplomb",
            "aplomb-tunnel-agent",
            "aplomb-api",
            "aplomb-coder-operator",
            "aplomb-console",
            "aplomb-egress-operator",
            "aplomb-tunnel-gateway",
            "aplomb-http-client",
            "aplomb-apiserver",
            "aplomb-tunnel-operator",
        ],
        &[],
    ),
    ("aplomb-apiserver", &[], &["aplomb-virtual-time"]),
    ("aplomb-virtual-time", &[], &[]),
    ("aplomb-http-client", &[], &[]),
    (
        "aplomb-cli",
        &[
            "aplomb",
            "aplomb-tunnel-agent",
            "aplomb-api",
            "aplomb-coder-operator",
            "aplomb-console",
            "aplomb-demo",
            "aplomb-egress-operator",
            "aplomb-tunnel-gateway",
            "aplomb-apiserver",
            "aplomb-tunnel-operator",
        ],
        &["aplomb-virtual-time", "aplomb-controlplane"],
    ),
    ("aplomb-controlplane", &[], &[]),
    (
        "aplomb-conformance",
        &["aplomb-apiserver", "aplomb-controlplane"],
        &["aplomb-virtual-time"],
    ),
    ("aplomb-soak", &[], &[]),
    ("xtask", &[], &[]),
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn ours(package: &Value, dev: bool) -> BTreeSet<String> {
    let dependencies = package["dependencies"].as_array().expect("a list");
    dependencies
        .iter()
        .filter(|d| d.get("path").is_some() && (d["kind"] == "dev") == dev)
        .map(|d| d["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn crates_depend_only_downwards() {
    let metadata = metadata();
    for package in metadata["packages"].as_array().expect("a list") {
        let name = package["name"].as_str().expect("a name");
        let (_, normal, dev) = EDGES
            .iter()
            .find(|(n, _, _)| *n == name)
            .unwrap_or_else(|| panic!("{name} has no row in the table of edges"));
        for edge in ours(package, false) {
            assert!(
                normal.contains(&edge.as_str()),
                "{name} may not depend on {edge}"
            );
        }
        for edge in ours(package, true).into_iter().filter(|edge| edge != name) {
            let allowed = normal.contains(&edge.as_str()) || dev.contains(&edge.as_str());
            assert!(allowed, "the tests of {name} may not depend on {edge}");
        }
    }
}
