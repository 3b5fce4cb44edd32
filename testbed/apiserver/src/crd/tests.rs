//! Answers of a real server (v1.36.4) replayed against this module: the same objects must come out
//! the same, or be refused with the same causes.

use aplomb_apimachinery::resource::{Part, Resource, Strategy as _};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::DefinitionStrategy;
use super::{defaulting, pruning, resources_of, structural::Structural, validate};

fn widget() -> Resource {
    let crd: Value = serde_json::from_str(include_str!("testdata/widget.json")).expect("test data is JSON");
    resources_of(&crd).remove(0)
}

/// What a create answers: `{"object"}`, or `{"causes"}` sorted, or `{"message"}` of a 400.
fn create(resource: &Resource, body: &Value) -> Value {
    let decoded = match resource.strategy.decode(body.clone()) {
        Ok(decoded) => decoded,
        Err(error) => return json!({ "message": error.message }),
    };
    let mut object = decoded.object;
    resource.strategy.default(&mut object);
    resource.strategy.prepare_create(&mut object);
    let errors = resource.strategy.validate_create(&object);
    if !errors.is_empty() {
        return json!({ "causes": sorted(errors.iter().map(aplomb_apimachinery::field::FieldError::cause).collect()) });
    }
    let mut rest = object.as_object().cloned().unwrap_or_default();
    rest.remove("metadata");
    json!({ "object": rest, "unknown": decoded.unknown })
}

fn sorted(mut causes: Vec<Value>) -> Vec<Value> {
    causes.sort_by_key(|cause| format!("{}{}", cause["field"], cause["message"]));
    causes
}

#[test]
fn creates_are_answered_like_the_real_server() {
    let resource = widget();
    let cases: Vec<Value> = serde_json::from_str(include_str!("testdata/creates.json")).expect("test data is JSON");
    let mut wrong = Vec::new();
    for case in &cases {
        let answer = create(&resource, &case["body"]);
        if answer != case["answer"] {
            wrong.push(format!(
                "{}\n  real: {}\n  ours: {answer}",
                case["body"], case["answer"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn updates_are_answered_like_the_real_server() {
    let resource = widget();
    let cases: Vec<Value> = serde_json::from_str(include_str!("testdata/updates.json")).expect("test data is JSON");
    for case in &cases {
        let old = &case["old"];
        let part = if case["part"] == "status" {
            Part::Status
        } else {
            Part::Main
        };
        let mut new = resource
            .strategy
            .decode(case["new"].clone())
            .expect("an update is readable")
            .object;
        resource.strategy.default(&mut new);
        resource.strategy.prepare_update(&mut new, old, part);
        let errors = resource.strategy.validate_update(&new, old, part);
        let causes = sorted(
            errors
                .iter()
                .map(aplomb_apimachinery::field::FieldError::cause)
                .collect(),
        );
        assert_eq!(json!(causes), case["causes"], "{case}");
    }
}

#[test]
fn definitions_are_answered_like_by_the_real_server() {
    let strategy = <DefinitionStrategy as Default>::default();
    let cases: Vec<Value> = serde_json::from_str(include_str!("testdata/definitions.json")).expect("test data is JSON");
    let mut wrong = Vec::new();
    for case in &cases {
        let mut object = strategy
            .decode(case["body"].clone())
            .expect("a definition is readable")
            .object;
        strategy.default(&mut object);
        strategy.prepare_create(&mut object);
        let errors = strategy.validate_create(&object);
        let answer = if errors.is_empty() {
            json!({ "spec": object["spec"], "status": object["status"] })
        } else {
            json!({ "causes": sorted(errors.iter().map(aplomb_apimachinery::field::FieldError::cause).collect()) })
        };
        if answer != case["answer"] {
            wrong.push(format!(
                "{}\n  real: {}\n  ours: {answer}",
                case["body"], case["answer"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn arbitrary_json() -> impl proptest::strategy::Strategy<Value = Value> {
    let names = "size|name|color|tags|items|labels|free|emb|cel|min|immut|metadata|apiVersion|kind|spec|status|n|x";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9:./ -]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn schema() -> Structural {
    let crd: Value = serde_json::from_str(include_str!("testdata/widget.json")).expect("test data is JSON");
    Structural::parse(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
}

proptest! {
    #[test]
    fn any_object_is_answered(spec in arbitrary_json(), metadata in arbitrary_json(), old in arbitrary_json()) {
        let resource = widget();
        let whole = |spec: &Value| json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec, "status": spec
        });
        create(&resource, &whole(&spec));
        resource.strategy.validate_update(&whole(&spec), &whole(&old), Part::Main);
        resource.strategy.validate_update(&whole(&spec), &whole(&old), Part::Status);
    }

    #[test]
    fn pruning_and_defaulting_twice_is_once(spec in arbitrary_json()) {
        let schema = schema();
        let mut once = json!({ "spec": spec, "other": 1 });
        pruning::prune_resource(&mut once, &schema);
        pruning::prune_nulls(&mut once, Some(&schema));
        let mut twice = once.clone();
        prop_assert!(pruning::prune_resource(&mut twice, &schema).is_empty());
        pruning::prune_nulls(&mut twice, Some(&schema));
        prop_assert_eq!(&once, &twice);
        defaulting::default(&mut once, &schema);
        let mut again = once.clone();
        defaulting::default(&mut again, &schema);
        prop_assert_eq!(&once, &again);
        let _ = validate::validate(&once, &schema, "");
    }
}
