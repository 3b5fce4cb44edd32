//! Which crate may depend on which. Any edge that is not in the table fails.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// What the tests of a product crate may use.
const TESTBED: &[&str] = &[
    "aplomb-apimachinery",
    "aplomb-apiserver",
    "aplomb-builtin-kinds",
    "aplomb-cel",
    "aplomb-controllers",
    "aplomb-controlplane",
    "aplomb-fake-services",
    "aplomb-go-compat",
    "aplomb-simulation",
    "aplomb-structured-merge",
    "aplomb-virtual-time",
];

/// (crate, what it may depend on, what its tests may depend on besides).
const EDGES: &[(&str, &[&str], &[&str])] = &[
    ("aplomb", &[], TESTBED),
    ("aplomb-api", &[], TESTBED),
    (
        "aplomb-coder-operator",
        &["aplomb", "aplomb-api", "aplomb-http-client"],
        TESTBED,
    ),
    (
        "aplomb-egress-operator",
        &["aplomb", "aplomb-api", "aplomb-http-client"],
        TESTBED,
    ),
    ("aplomb-tunnel-agent", &["aplomb", "aplomb-api"], TESTBED),
    ("aplomb-tunnel-gateway", &["aplomb", "aplomb-api"], TESTBED),
    (
        "aplomb-tunnel-operator",
        &["aplomb", "aplomb-api"],
        &[
            "aplomb-apiserver",
            "aplomb-simulation",
            "aplomb-virtual-time",
            "aplomb-controlplane",
            "aplomb-tunnel-gateway",
            "aplomb-tunnel-agent",
        ],
    ),
    ("aplomb-console", &["aplomb", "aplomb-api"], TESTBED),
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
            "aplomb-tunnel-operator",
            "aplomb-apimachinery",
            "aplomb-apiserver",
            "aplomb-controllers",
            "aplomb-fake-services",
        ],
        &[],
    ),
    ("aplomb-go-compat", &[], &[]),
    ("aplomb-structured-merge", &["aplomb-go-compat"], &[]),
    ("aplomb-cel", &["aplomb-go-compat"], &[]),
    ("aplomb-apimachinery", &["aplomb-go-compat"], &[]),
    (
        "aplomb-builtin-kinds",
        &["aplomb-apimachinery", "aplomb-cel", "aplomb-go-compat"],
        &[],
    ),
    (
        "aplomb-apiserver",
        &[
            "aplomb-apimachinery",
            "aplomb-builtin-kinds",
            "aplomb-cel",
            "aplomb-go-compat",
            "aplomb-structured-merge",
        ],
        &[],
    ),
    (
        "aplomb-controllers",
        &[
            "aplomb-apimachinery",
            "aplomb-apiserver",
            "aplomb-builtin-kinds",
        ],
        &[],
    ),
    (
        "aplomb-simulation",
        &[
            "aplomb-apimachinery",
            "aplomb-apiserver",
            "aplomb-controllers",
        ],
        &["aplomb-virtual-time"],
    ),
    (
        "aplomb-fake-services",
        &["aplomb-apimachinery"],
        &["aplomb-simulation", "aplomb-virtual-time"],
    ),
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
            "aplomb-tunnel-operator",
            "aplomb-apimachinery",
            "aplomb-apiserver",
            "aplomb-controllers",
            "aplomb-fake-services",
        ],
        &["aplomb-virtual-time", "aplomb-controlplane"],
    ),
    ("aplomb-controlplane", &[], &[]),
    (
        "aplomb-conformance",
        &[
            "aplomb-apiserver",
            "aplomb-controllers",
            "aplomb-controlplane",
            "aplomb-simulation",
        ],
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
