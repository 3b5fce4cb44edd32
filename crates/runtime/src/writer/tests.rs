//! Checks against the server: skipped writes would have changed nothing, and a change of another
//! writer is never taken for ours. Random histories on the box.

use aplomb_simulation::{Cluster, Simulation};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::key::{ObjectKey, ObjectRef};
use crate::managed_fields::{ObjectPart, is_foreign_change, is_foreign_change_excluding};
use crate::writer::apply::drop_nulls;
use crate::writer::noop::{AppliedMemo, is_converged};

const OURS: &str = "ours";

/// One write to the object.
#[derive(Clone, Debug)]
enum Step {
    Ours(Value),
    OurStatus(Value),
    RivalApply(Value),
    RivalPatch(Value),
    RivalStatus(Value),
}

/// A kind with every type of list and map that a schema can declare.
fn definition() -> Value {
    let text = json!({"type": "string"});
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": text, "value": text,
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
    }});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text,
    }});
    let fields = json!({"type": "object", "properties": {
        "text": text,
        "filled": {"type": "string", "default": "in"},
        "map": {"type": "object", "additionalProperties": text},
        "nested": {"type": "object", "properties": {"a": text, "b": text}},
        "whole": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
        "list": {"type": "array", "items": text},
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "items": {"type": "array", "items": item,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "ports": {"type": "array", "items": port,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": fields, "status": fields,
                }}},
            }],
        },
    })
}

fn pick(from: &'static [&'static str]) -> impl Strategy<Value = Value> {
    proptest::sample::select(from).prop_map(|text| json!(text))
}

fn map(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let entry = (proptest::sample::select(keys), pick(&["1", "2"]));
    let entries = proptest::collection::vec(entry, 0..3);
    entries.prop_map(|entries| {
        let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value));
        Value::Object(entries.collect())
    })
}

fn set() -> impl Strategy<Value = Value> {
    let members = proptest::sample::subsequence(vec!["x", "y", "z"], 0..3);
    members.prop_shuffle().prop_map(|members| json!(members))
}

/// Items with unique names, in any order.
fn items() -> impl Strategy<Value = Value> {
    let names = proptest::sample::subsequence(vec!["n1", "n2", "n3"], 0..3).prop_shuffle();
    let rest = proptest::collection::vec(
        (proptest::option::of(pick(&["1", "2"])), proptest::option::of(set())),
        3,
    );
    (names, rest).prop_map(|(names, rest)| {
        let item = |(name, (value, tags))| json!({"name": name, "value": value, "tags": tags});
        Value::Array(names.into_iter().zip(rest).map(item).collect())
    })
}

fn ports() -> impl Strategy<Value = Value> {
    let ports = proptest::sample::subsequence(vec![80, 81, 82], 0..3).prop_shuffle();
    let protocols = proptest::collection::vec(proptest::option::of(pick(&["TCP", "UDP"])), 3);
    (ports, protocols).prop_map(|(ports, protocols)| {
        let port = |(port, protocol)| json!({"port": port, "protocol": protocol});
        Value::Array(ports.into_iter().zip(protocols).map(port).collect())
    })
}

/// Fields of the kind, each present or not.
fn fields() -> impl Strategy<Value = Value> {
    fn maybe(inner: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
        proptest::option::weighted(0.4, inner).boxed()
    }
    let all = (
        maybe(pick(&["1", "2"])),
        maybe(pick(&["in", "out"])),
        maybe(map(&["k1", "k2", "k3"])),
        maybe(map(&["a", "b"])),
        maybe(map(&["w1", "w2"])),
        maybe(set()),
        maybe(set()),
        maybe(items()),
        maybe(ports()),
    );
    all.prop_map(|(text, filled, map, nested, whole, list, set, items, ports)| {
        let mut fields = json!({
            "text": text, "filled": filled, "map": map, "nested": nested, "whole": whole,
            "list": list, "set": set, "items": items, "ports": ports,
        });
        drop_nulls(&mut fields);
        fields
    })
}

/// A merge patch can also remove fields.
fn patch() -> impl Strategy<Value = Value> {
    let gone = proptest::sample::subsequence(
        vec!["text", "map", "nested", "whole", "list", "set", "items", "ports"],
        0..3,
    );
    (fields(), gone).prop_map(|(mut fields, gone)| {
        for name in gone {
            fields[name] = Value::Null;
        }
        fields
    })
}

fn foreign_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        fields().prop_map(Step::RivalApply),
        patch().prop_map(Step::RivalPatch),
        patch().prop_map(Step::RivalStatus),
    ]
}

fn own_step() -> impl Strategy<Value = Step> {
    prop_oneof![fields().prop_map(Step::Ours), fields().prop_map(Step::OurStatus)]
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(prop_oneof![own_step(), foreign_step()], 0..6)
}

/// Objects on the box.
struct Things(Api<DynamicObject>);

impl Things {
    async fn new(cluster: &Cluster) -> Self {
        let client = cluster.plain_client("test");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = serde_json::from_value(definition()).expect("a definition");
        let made = definitions.create(&PostParams::default(), &definition).await;
        made.expect("the definition is accepted");
        tokio::time::sleep(tokio::time::Duration::from_secs(5)).await;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Thing"));
        let things = Self(Api::namespaced_with(client, "default", &resource));
        for name in ["a", "b"] {
            let thing = serde_json::from_value(whole(name, "spec", &json!({}))).expect("a thing");
            things
                .0
                .create(&PostParams::default(), &thing)
                .await
                .expect("the object is new");
        }
        things
    }

    async fn get(&self, name: &str) -> Value {
        serde_json::to_value(self.0.get(name).await.expect("the object exists")).expect("JSON")
    }

    /// The object after `step`; `None` if the server rejects it.
    async fn apply_step(&self, name: &str, step: &Step) -> Option<Value> {
        let merge = |part: &str, fields: &Value| Patch::Merge(json!({ part: fields }));
        let apply = |part: &str, fields: &Value| Patch::Apply(whole(name, part, fields));
        let rival = PatchParams {
            field_manager: Some("other".into()),
            ..PatchParams::default()
        };
        let (ours, applier) = (PatchParams::apply(OURS), PatchParams::apply("applier"));
        let done = match step {
            Step::Ours(it) => self.0.patch(name, &ours.force(), &apply("spec", it)).await,
            Step::OurStatus(it) => {
                let patch = apply("status", it);
                self.0.patch_status(name, &ours.force(), &patch).await
            }
            Step::RivalApply(it) => {
                let patch = apply("spec", it);
                self.0.patch(name, &applier.force(), &patch).await
            }
            Step::RivalPatch(it) => self.0.patch(name, &rival, &merge("spec", it)).await,
            Step::RivalStatus(it) => {
                let patch = merge("status", it);
                self.0.patch_status(name, &rival, &patch).await
            }
        };
        done.ok().map(|object| serde_json::to_value(object).expect("JSON"))
    }
}

fn whole(name: &str, part: &str, fields: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": name, "namespace": "default"},
        part: fields,
    })
}

fn thing() -> ObjectRef {
    ObjectRef {
        kind: "Thing".into(),
        key: ObjectKey::new(Some("default"), "a"),
    }
}

fn version(object: &Value) -> &Value {
    &object["metadata"]["resourceVersion"]
}

/// The object without its names and its bookkeeping fields.
fn essence(object: &Value) -> Value {
    let part = |name: &str| object.get(name).cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({"spec": part("spec"), "status": part("status")})
}

fn without_empty(value: Value) -> Value {
    let empty = |value: &Value| *value == json!({}) || *value == json!([]);
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, inner)| !empty(inner));
            Value::Object(kept.map(|(name, inner)| (name, without_empty(inner))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        scalar => scalar,
    }
}

fn with_things<T, F>(scenario: impl FnOnce(Things) -> F + Send + 'static) -> T
where
    F: Future<Output = T>,
    T: Send + 'static,
{
    let world = Simulation::new(1).interpose(aplomb_virtual_time::install);
    world
        .run(|cluster| async move { scenario(Things::new(&cluster).await).await })
        .value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn suppressed_write_would_change_nothing(
        history in history(), wanted in fields(), times in 0..3, between in proptest::option::of(foreign_step()),
    ) {
        let verdict = with_things(move |things| async move {
            for step in &history {
                things.apply_step("a", step).await;
            }
            let desired = whole("a", "spec", &wanted);
            let (memory, object) = (AppliedMemo::default(), thing());
            for _ in 0..times {
                let before = things.get("a").await;
                let made = things.apply_step("a", &Step::Ours(wanted.clone())).await;
                if let Some(made) = made {
                    memory.memoize(&object, None, OURS, &desired, (Some(&before), &made));
                }
            }
            if let Some(step) = &between {
                things.apply_step("a", step).await;
            }
            let live = things.get("a").await;
            let skipped = is_converged(&desired, &live, OURS, None)
                || memory.is_current(&object, None, OURS, &desired, &live);
            let after = things.apply_step("a", &Step::Ours(wanted)).await;
            (skipped, live, after)
        });
        let (skipped, live, after) = verdict;
        if skipped {
            let after = after.expect("a write of the current state is accepted");
            prop_assert_eq!(version(&live), version(&after), "skipped, but the server changed it:\n{:#}\n{:#}", live, after);
        }
    }

    #[test]
    fn written_object_is_not_sent_again(wanted in fields(), ours in history()) {
        // Empty values leave no trace of their own; the memory covers those.
        let mut wanted = without_empty(wanted);
        wanted["text"] = json!("1");
        let (skipped, live) = with_things(move |things| async move {
            for step in ours.iter().filter(|step| matches!(step, Step::Ours(_) | Step::OurStatus(_))) {
                things.apply_step("a", step).await;
            }
            let live = things.apply_step("a", &Step::Ours(wanted.clone())).await;
            let live = live.expect("the object is valid");
            (is_converged(&whole("a", "spec", &wanted), &live, OURS, None), live)
        });
        prop_assert!(skipped, "sent again: {live:#}");
    }

    #[test]
    fn foreign_change_behind_an_own_write_is_detected(
        before in history(), foreign in proptest::collection::vec(foreign_step(), 0..3), write in own_step(),
    ) {
        // In doubt a change is foreign: an empty list has no owner.
        let clear = |step: &Step| match step {
            Step::Ours(fields) | Step::OurStatus(fields) => without_empty(fields.clone()) == *fields,
            _ => false,
        };
        let none = foreign.is_empty() && before.iter().all(clear) && clear(&write);
        let part = if matches!(write, Step::Ours(_)) { ObjectPart::Main } else { ObjectPart::Status };
        let (old, alone, both) = with_things(move |things| async move {
            for step in &before {
                things.apply_step("a", step).await;
                things.apply_step("b", step).await;
            }
            let old = things.get("a").await;
            let alone = things.apply_step("b", &write).await;
            for step in &foreign {
                things.apply_step("a", step).await;
            }
            (old, alone, things.apply_step("a", &write).await)
        });
        let (Some(alone), Some(both)) = (alone, both) else {
            return Ok(());
        };
        let hidden = essence(&alone) != essence(&both);
        if hidden {
            prop_assert!(is_foreign_change_excluding(&old, &both, OURS, part), "missed:\n{old:#}\n{both:#}");
        }
        if none {
            prop_assert!(!is_foreign_change_excluding(&old, &both, OURS, part), "invented:\n{old:#}\n{both:#}");
            prop_assert!(!is_foreign_change(&old, &both, OURS), "invented:\n{old:#}\n{both:#}");
        }
    }
}
