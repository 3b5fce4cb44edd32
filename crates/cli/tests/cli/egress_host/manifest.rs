//! The rights in deploy/egress/host/daemonset.yaml: one capability, and read access to the cluster only.

use serde_json::{Value, json};

const HOST: &str = include_str!("../../../../../deploy/egress/host/daemonset.yaml");
const POLICY: &str = include_str!("../../../../../deploy/egress/samples/cilium-policy.yaml");

fn parse_objects(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    let read = |document| serde_saphyr::from_str(document).expect("YAML");
    documents.map(read).collect()
}

fn object_of_kind(kind: &str) -> Value {
    let found = parse_objects(HOST).into_iter().find(|it| it["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn the_pods_have_net_admin_and_no_other_power() {
    let pod = &object_of_kind("DaemonSet")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let held = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
    });
    assert_eq!(container["securityContext"], held);
    let seccomp = &pod["securityContext"]["seccompProfile"]["type"];
    assert_eq!(seccomp, "RuntimeDefault");
    assert_eq!(pod["volumes"], Value::Null);
    let probe = &container["readinessProbe"]["httpGet"];
    assert_eq!(probe, &json!({"host": "127.0.0.1", "path": "/readyz", "port": 9963}));
}

#[test]
fn the_account_may_read_stable_egresses_and_nothing_else() {
    let rules = &object_of_kind("ClusterRole")["rules"];
    let read = json!([{
        "apiGroups": ["aplomb.dev"],
        "resources": ["stableegresses"],
        "verbs": ["get", "list", "watch"],
    }]);
    assert_eq!(rules, &read);
}

#[test]
fn the_policy_chooses_the_node_that_the_operator_labels() {
    let policy = &parse_objects(POLICY)[0]["spec"]["egressGateway"];
    let gateway = aplomb_api::egress::labels::GATEWAY;
    assert_eq!(policy["nodeSelector"]["matchLabels"][gateway], "web");
    let arguments = &object_of_kind("DaemonSet")["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(arguments, &json!(["egress-host", "--stable-egress=web"]));
}
