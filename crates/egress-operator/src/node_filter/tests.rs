//! Which changes of nodes matter, and which labels a selector matches.

use serde_json::{Value, json};

use super::*;

fn interest() -> NodeFilter {
    let labels = |key: &str| -> BTreeMap<_, _> { [(key.to_owned(), "web".to_owned())].into() };
    NodeFilter {
        candidates: LabelSelector {
            match_labels: Some(labels("candidate")),
            match_expressions: None,
        },
        gateway: labels("gateway"),
        probes: false,
        active: Some("active".to_owned()),
        server: Some(7),
    }
}

fn node(change: impl FnOnce(&mut Value)) -> NodeView {
    let mut node = json!({
        "metadata": {"name": "worker", "labels": {"candidate": "web", "zone": "a"}},
        "spec": {"providerID": "hcloud://1"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        },
    });
    change(&mut node);
    serde_json::from_value(node).expect("a node")
}

fn interests(probes: bool) -> NodeFilters {
    let all = NodeFilters::default();
    let interest = NodeFilter { probes, ..interest() };
    all.set(&ObjectKey::new(None, "web"), interest);
    all
}

type Change = fn(&mut Value);

#[test]
fn only_what_the_election_reads_of_a_candidate_passes() {
    let address: Change = |it| it["status"]["addresses"][0]["address"] = json!("192.0.2.2");
    let changes: [(&str, Change, bool); 8] = [
        (
            "heartbeat",
            |it| it["status"]["conditions"][0]["lastHeartbeatTime"] = json!("x"),
            true,
        ),
        (
            "other condition",
            |it| {
                let other = json!({"type": "MemoryPressure", "status": "True"});
                let conditions = it["status"]["conditions"].as_array_mut();
                conditions.expect("a list").push(other);
            },
            true,
        ),
        (
            "an unused label",
            |it| it["metadata"]["labels"]["zone"] = json!("b"),
            true,
        ),
        (
            "readiness",
            |it| it["status"]["conditions"][0]["status"] = json!("Unknown"),
            false,
        ),
        (
            "candidate label",
            |it| it["metadata"]["labels"]["candidate"] = json!("other"),
            false,
        ),
        (
            "gateway label",
            |it| it["metadata"]["labels"]["gateway"] = json!("web"),
            false,
        ),
        ("cordon", |it| it["spec"]["unschedulable"] = json!(true), false),
        ("server", |it| it["spec"]["providerID"] = json!("hcloud://2"), false),
    ];
    for (what, change, noise) in changes {
        let all = interests(false);
        assert_eq!(all.is_irrelevant(&node(|_| {}), &node(change)), noise, "{what}");
    }
    let seen = |probes| interests(probes).is_irrelevant(&node(|_| {}), &node(address));
    assert_eq!(
        (seen(false), seen(true)),
        (true, false),
        "addresses, where they are probed"
    );
}

#[test]
fn changes_of_an_irrelevant_node_are_ignored_until_it_appears_or_goes() {
    let foreign = |ready: &'static str| {
        node(move |it| {
            it["metadata"]["labels"] = json!({});
            it["status"]["conditions"][0]["status"] = json!(ready);
        })
    };
    let all = interests(false);
    assert!(all.is_irrelevant(&foreign("True"), &foreign("False")));
    assert_eq!(all.affected_keys(&foreign("True")), [ObjectKey::new(None, "web")]);
}

#[test]
fn the_gateway_and_the_holder_matter_without_any_label() {
    let bare = |name: &'static str, server: i64| {
        node(move |it| {
            it["metadata"] = json!({"name": name});
            it["spec"]["providerID"] = json!(format!("hcloud://{server}"));
        })
    };
    assert!(interest().matches_node(&bare("active", 1)));
    assert!(interest().matches_node(&bare("worker", 7)));
    assert!(!interest().matches_node(&bare("worker", 1)));
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn requires(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        }]),
        match_labels: None,
    }
}

#[test]
fn match_labels_must_all_be_there() {
    let selector = LabelSelector {
        match_labels: Some(labels(&[("pool", "egress"), ("zone", "a")])),
        match_expressions: None,
    };
    let node = labels(&[("pool", "egress"), ("zone", "a"), ("more", "")]);
    assert!(matches(&selector, &node));
    assert!(!matches(&selector, &labels(&[("pool", "egress")])));
    assert!(!matches(&selector, &labels(&[("pool", "web"), ("zone", "a")])));
}

#[test]
fn an_empty_selector_chooses_everything() {
    assert!(matches(&LabelSelector::default(), &labels(&[])));
}

#[test]
fn in_wants_one_of_its_values() {
    let selector = requires("zone", "In", &["a", "b"]);
    assert!(matches(&selector, &labels(&[("zone", "b")])));
    assert!(!matches(&selector, &labels(&[("zone", "c")])));
    assert!(!matches(&selector, &labels(&[])));
}

#[test]
fn not_in_also_holds_without_the_label() {
    let selector = requires("zone", "NotIn", &["a"]);
    assert!(matches(&selector, &labels(&[("zone", "b")])));
    assert!(matches(&selector, &labels(&[])));
    assert!(!matches(&selector, &labels(&[("zone", "a")])));
}

#[test]
fn exists_and_does_not_exist_check_the_key_alone() {
    let (some, none) = (labels(&[("gpu", "")]), labels(&[]));
    assert!(matches(&requires("gpu", "Exists", &[]), &some));
    assert!(!matches(&requires("gpu", "Exists", &[]), &none));
    assert!(matches(&requires("gpu", "DoesNotExist", &[]), &none));
    assert!(!matches(&requires("gpu", "DoesNotExist", &[]), &some));
}

#[test]
fn labels_and_expressions_must_both_hold() {
    let mut selector = requires("gpu", "DoesNotExist", &[]);
    selector.match_labels = Some(labels(&[("pool", "egress")]));
    assert!(matches(&selector, &labels(&[("pool", "egress")])));
    assert!(!matches(&selector, &labels(&[("pool", "egress"), ("gpu", "1")])));
    assert!(!matches(&selector, &labels(&[("pool", "web")])));
}

#[test]
fn an_operator_that_is_unknown_chooses_nothing() {
    assert!(!matches(&requires("zone", "Near", &["a"]), &labels(&[("zone", "a")])));
}
