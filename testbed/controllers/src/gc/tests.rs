//! The rules of collection, on the graph alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use aplomb_apimachinery::encoded_object::EncodedViews;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::GroupResource;
use aplomb_apiserver::storage::{Change, Key};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::graph::{Decision, Graph, Place, matters};

fn key(object: &Value) -> Key {
    let plural = format!("{}s", object::text(object, "kind").to_lowercase());
    Key {
        resource: GroupResource::new("", plural),
        namespace: object::namespace(object).to_owned(),
        name: object::name(object).to_owned(),
    }
}

/// `Pod`s and `Set`s are namespaced, `Node`s are not, nothing else is served.
fn places(_: &str, kind: &str) -> Option<Place> {
    let resource = GroupResource::new("", format!("{}s", kind.to_lowercase()));
    match kind {
        "Pod" | "Set" => Some(Place {
            resource,
            namespaced: true,
        }),
        "Node" => Some(Place {
            resource,
            namespaced: false,
        }),
        _ => None,
    }
}

fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": object["kind"],
        "name": object::name(object),
        "uid": object::uid(object),
        "blockOwnerDeletion": true,
    })
}

fn new_object(kind: &str, namespace: &str, name: &str, owners: &[Value]) -> Value {
    let uid = format!("{kind}-{namespace}-{name}");
    let metadata = json!({ "namespace": namespace, "name": name, "uid": uid, "ownerReferences": owners });
    json!({ "kind": kind, "metadata": metadata })
}

fn pod(name: &str, owners: &[Value]) -> Value {
    new_object("Pod", "a", name, owners)
}

fn set(name: &str, owners: &[Value]) -> Value {
    new_object("Set", "a", name, owners)
}

fn terminating(mut object: Value, finalizer: &str) -> Value {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["metadata"]["finalizers"] = json!([finalizer]);
    object
}

fn graph(objects: &[&Value]) -> Graph {
    let mut graph = Graph::default();
    for object in objects {
        graph.add(&key(object), object);
    }
    graph
}

fn decide(graph: &Graph, object: &Value) -> Decision {
    graph.decide(object::uid(object), &places)
}

fn change(old: Option<&Value>, new: Option<&Value>) -> Change {
    let arc = |object: Option<&Value>| object.map(|object| Arc::new(object.clone()));
    let key = key(old.or(new).expect("one of them"));
    Change {
        revision: 2,
        at: Timestamp::UNIX_EPOCH,
        key,
        old: arc(old),
        new: arc(new),
        views: EncodedViews::default(),
    }
}

const BACKGROUND: Decision = Decision::Delete {
    policy: "Background",
    unblock: false,
};

#[test]
fn a_child_stays_with_its_owner_and_goes_when_it_is_gone() {
    let owner_set = set("s", &[]);
    let child = pod("p", &[owner(&owner_set)]);
    let mut graph = graph(&[&owner_set, &child]);
    assert_eq!(decide(&graph, &child), Decision::Nothing);
    let concerned = graph.apply(&change(Some(&owner_set), None));
    assert_eq!(concerned, BTreeSet::from([object::uid(&child).to_owned()]));
    assert_eq!(decide(&graph, &child), BACKGROUND);
}

#[test]
fn a_write_matters_if_it_touches_owners_finalizers_or_a_deletion() {
    let before = set("s", &[]);
    let owned = set("s", &[owner(&set("other", &[]))]);
    let mut said = before.clone();
    said["data"] = "other".into();
    for (old, new, expected) in [
        (Some(&before), Some(&said), false),
        (Some(&before), Some(&owned), true),
        (Some(&before), Some(&terminating(before.clone(), "orphan")), true),
        (None, Some(&before), true),
        (Some(&before), None, true),
    ] {
        assert_eq!(matters(&change(old, new)), expected, "{new:?}");
    }
}

#[test]
fn an_owner_is_absent_by_uid_by_namespace_and_if_it_never_was() {
    let real = set("s", &[]);
    let mut wrong_uid = owner(&real);
    wrong_uid["uid"] = "other".into();
    let elsewhere = new_object("Set", "b", "s", &[]);
    let never = owner(&set("never", &[]));
    for reference in [wrong_uid, owner(&elsewhere), never] {
        let child = pod("p", &[reference]);
        let graph = graph(&[&real, &elsewhere, &child]);
        assert_eq!(decide(&graph, &child), BACKGROUND);
    }
}

#[test]
fn with_one_of_two_owners_gone_only_the_reference_goes() {
    let (kept, gone) = (set("kept", &[]), set("gone", &[]));
    let child = pod("p", &[owner(&kept), owner(&gone)]);
    let graph = graph(&[&kept, &child]);
    let owners = BTreeSet::from([object::uid(&gone).to_owned()]);
    assert_eq!(decide(&graph, &child), Decision::Forget { owners });
}

#[test]
fn a_foreground_owner_waits_for_children_that_block() {
    let owner_set = set("s", &[]);
    let child = pod("p", &[owner(&owner_set)]);
    let mut graph = graph(&[&owner_set, &child]);
    let waiting = terminating(owner_set.clone(), "foregroundDeletion");
    let concerned = graph.apply(&change(Some(&owner_set), Some(&waiting)));
    let both = [object::uid(&child).to_owned(), object::uid(&waiting).to_owned()];
    assert_eq!(concerned, BTreeSet::from(both));
    assert_eq!(decide(&graph, &waiting), Decision::Nothing);
    assert_eq!(decide(&graph, &child), BACKGROUND);
    let concerned = graph.apply(&change(Some(&child), None));
    assert!(concerned.contains(object::uid(&waiting)));
    assert_eq!(decide(&graph, &waiting), Decision::Release);
}

#[test]
fn a_foreground_owner_does_not_wait_for_children_that_do_not_block() {
    let owner_set = terminating(set("s", &[]), "foregroundDeletion");
    let mut reference = owner(&owner_set);
    reference["blockOwnerDeletion"] = false.into();
    let child = pod("p", &[reference]);
    let graph = graph(&[&owner_set, &child]);
    assert_eq!(decide(&graph, &owner_set), Decision::Release);
}

#[test]
fn a_child_with_children_of_its_own_goes_in_the_foreground_too() {
    let top = terminating(set("top", &[]), "foregroundDeletion");
    let middle = set("middle", &[owner(&top)]);
    let leaf = pod("leaf", &[owner(&middle)]);
    let graph = graph(&[&top, &middle, &leaf]);
    let expected = Decision::Delete {
        policy: "Foreground",
        unblock: false,
    };
    assert_eq!(decide(&graph, &middle), expected);
}

#[test]
fn a_circle_in_foreground_deletion_is_unblocked() {
    let one = set("one", &[owner(&set("two", &[]))]);
    let two = terminating(set("two", &[owner(&one)]), "foregroundDeletion");
    let graph = graph(&[&one, &two]);
    let expected = Decision::Delete {
        policy: "Foreground",
        unblock: true,
    };
    assert_eq!(decide(&graph, &one), expected);
}

#[test]
fn an_orphaning_owner_lets_its_children_go() {
    let owner_set = terminating(set("s", &[]), "orphan");
    let child = pod("p", &[owner(&owner_set)]);
    let graph = graph(&[&owner_set, &child]);
    let dependents = BTreeSet::from([object::uid(&child).to_owned()]);
    assert_eq!(decide(&graph, &owner_set), Decision::Orphan { dependents });
    assert_eq!(
        decide(&graph, &child),
        Decision::Nothing,
        "a terminating owner is still there"
    );
}

#[test]
fn a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone() {
    let node = new_object("Node", "", "n", &[owner(&set("s", &[]))]);
    assert_eq!(decide(&graph(&[&node]), &node), Decision::Nothing);
}

#[test]
fn a_cluster_scoped_owner_holds_children_in_any_namespace() {
    let node = new_object("Node", "", "n", &[]);
    let child = pod("p", &[owner(&node)]);
    assert_eq!(decide(&graph(&[&node, &child]), &child), Decision::Nothing);
}

#[test]
fn an_owner_of_an_unknown_kind_is_a_puzzle_not_an_absence() {
    let child = pod("p", &[owner(&new_object("Unknown", "a", "u", &[]))]);
    assert_eq!(decide(&graph(&[&child]), &child), Decision::Puzzled);
}

#[test]
fn a_new_object_of_the_same_name_is_not_the_old_owner() {
    let owner_set = set("s", &[]);
    let child = pod("p", &[owner(&owner_set)]);
    let mut graph = graph(&[&owner_set, &child]);
    graph.apply(&change(Some(&owner_set), None));
    let mut again = owner_set.clone();
    again["metadata"]["uid"] = "another".into();
    graph.apply(&change(None, Some(&again)));
    assert_eq!(decide(&graph, &child), BACKGROUND);
}
