//! Which crate may depend on which. Any edge that is not in the table fails.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// (crate, what it may depend on, what its tests may depend on besides).
const EDGES: &[(&str, &[&str], &[&str])] = &[
    (
        "aplomb",
        &[],
        &["aplomb-sim", "aplomb-vtime", "aplomb-controlplane"],
    ),
    ("aplomb-api", &[], &["aplomb-sim", "aplomb-controlplane"]),
    (
        "aplomb-coder",
        &["aplomb", "aplomb-api", "aplomb-remote"],
        &["aplomb-sim", "aplomb-vtime", "aplomb-controlplane"],
    ),
    (
        "aplomb-egress",
        &["aplomb", "aplomb-api", "aplomb-remote"],
        &["aplomb-sim", "aplomb-vtime", "aplomb-controlplane"],
    ),
    (
        "aplomb-agent",
        &["aplomb", "aplomb-api"],
        &["aplomb-sim", "aplomb-vtime", "aplomb-controlplane"],
    ),
    (
        "aplomb-gateway",
        &["aplomb", "aplomb-api"],
        &["aplomb-sim", "aplomb-vtime", "aplomb-controlplane"],
    ),
    (
        "aplomb-tunnel",
        &["aplomb", "aplomb-api"],
        &[
            "aplomb-sim",
            "aplomb-vtime",
            "aplomb-controlplane",
            "aplomb-gateway",
            "aplomb-agent",
        ],
    ),
    (
        "aplomb-console",
        &["aplomb", "aplomb-api"],
        &["aplomb-sim", "aplomb-vtime"],
    ),
    (
        "aplomb-demo",
        &[
            "aplomb",
            "aplomb-agent",
            "aplomb-api",
            "aplomb-coder",
            "aplomb-console",
            "aplomb-egress",
            "aplomb-gateway",
            "aplomb-remote",
            "aplomb-sim",
            "aplomb-tunnel",
        ],
        &[],
    ),
    ("aplomb-sim", &[], &["aplomb-vtime"]),
    ("aplomb-vtime", &[], &[]),
    ("aplomb-remote", &[], &[]),
    (
        "aplomb-cli",
        &[
            "aplomb",
            "aplomb-agent",
            "aplomb-api",
            "aplomb-coder",
            "aplomb-console",
            "aplomb-demo",
            "aplomb-egress",
            "aplomb-gateway",
            "aplomb-sim",
            "aplomb-tunnel",
        ],
        &["aplomb-vtime", "aplomb-controlplane"],
    ),
    ("aplomb-controlplane", &[], &[]),
    (
        "aplomb-conformance",
        &["aplomb-sim", "aplomb-controlplane"],
        &["aplomb-vtime"],
    ),
    ("aplomb-endurance", &[], &[]),
    ("aplomb-house", &[], &[]),
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
