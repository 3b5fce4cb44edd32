//! The strategies against recorded answers of the real server.

use std::sync::Arc;

use aplomb_apimachinery::resource::{Part, Resource};
use aplomb_apimachinery::status::ApiError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::value::{items_mut, list, set, text};

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    group: String,
    plural: String,
    body: Value,
    old: Option<Value>,
    #[serde(default)]
    part: String,
    object: Option<Value>,
    causes: Option<Vec<String>>,
    refused: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Answer {
    object: Value,
    causes: Vec<String>,
    warnings: Vec<String>,
}

/// What the verbs make of a body, without storing anything.
fn answer(resource: &Resource, case: &Case) -> Result<Answer, ApiError> {
    let strategy = &resource.strategy;
    let decoded = strategy.decode(case.body.clone())?;
    let mut object = decoded.object;
    strategy.default(&mut object);
    if resource.namespaced {
        set(&mut object, &["metadata", "namespace"], json!("default"));
    }
    let taken: [Arc<Value>; 0] = [];
    let (errors, warnings) = match &case.old {
        None => {
            strategy.allocate(&mut object, None, &taken, false)?;
            strategy.prepare_create(&mut object);
            (strategy.validate_create(&object), strategy.warnings(&object))
        }
        Some(old) => {
            let part = if case.part == "status" {
                Part::Status
            } else {
                Part::Main
            };
            if part == Part::Main {
                strategy.allocate(&mut object, Some(old), &taken, false)?;
            }
            let generation = old["metadata"]["generation"].clone();
            set(&mut object, &["metadata", "generation"], generation);
            strategy.prepare_update(&mut object, old, part);
            let warnings = match part {
                Part::Main => strategy.update_warnings(&object, old),
                _ => Vec::new(),
            };
            (strategy.validate_update(&object, old, part), warnings)
        }
    };
    let mut causes: Vec<String> = errors.iter().map(|error| cause(&error.cause())).collect();
    causes.sort();
    let mut warnings: Vec<String> = decoded.unknown.into_iter().chain(warnings).collect();
    warnings.sort();
    let mut object = strategy.from_storage(strategy.to_storage(object));
    strategy.show(&mut object);
    Ok(Answer {
        object,
        causes,
        warnings,
    })
}

fn cause(cause: &Value) -> String {
    let part = |key: &str| text(cause, &[key]).to_owned();
    format!("{}: {}: {}", part("field"), part("reason"), part("message"))
}

/// Which address or port a service is given is not part of the contract.
fn masked(mut object: Value) -> Value {
    if text(&object, &["spec", "clusterIP"]).starts_with("10.0.0.") {
        set(&mut object, &["spec", "clusterIP"], json!("given"));
        set(&mut object, &["spec", "clusterIPs"], json!(["given"]));
    }
    let is_given = |port: &Value| port["nodePort"].as_i64().is_some_and(|port| port > 30_010);
    if list(&object, &["spec", "ports"]).iter().any(is_given) {
        for port in items_mut(&mut object, &["spec", "ports"]) {
            set(port, &["nodePort"], json!("given"));
        }
    }
    if object["spec"]["healthCheckNodePort"].is_number() {
        set(&mut object, &["spec", "healthCheckNodePort"], json!("given"));
    }
    // The clock and identities are not the strategies' business.
    for key in ["uid", "creationTimestamp", "managedFields", "resourceVersion"] {
        set(&mut object, &["metadata", key], Value::Null);
    }
    object
}

fn difference(resource: &Resource, case: &Case) -> Option<String> {
    let answer = match (answer(resource, case), &case.refused) {
        (Err(error), Some(refused)) if error.message == *refused => return None,
        (Err(error), _) => match (&error.details, &case.causes) {
            (Some(details), Some(expected)) => {
                let causes: Vec<String> = list(details, &["causes"]).iter().map(cause).collect();
                return (causes != *expected).then(|| format!("{causes:?}"));
            }
            _ => return Some(error.message),
        },
        (Ok(answer), _) => answer,
    };
    if answer.causes != case.causes.clone().unwrap_or_default() {
        return Some(format!("{:#?}", answer.causes));
    }
    let expected = case.object.clone().map(masked);
    let ours = masked(answer.object);
    if expected.is_some() && (expected.as_ref() != Some(&ours) || answer.warnings != case.warnings) {
        return Some(format!("{ours}\nwarnings {:?}", answer.warnings));
    }
    None
}

#[test]
fn answers_are_those_of_the_real_server() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("testdata/answers.json")).expect("recorded answers are valid");
    let resources = super::builtin();
    let mut wrong = Vec::new();
    for case in &cases {
        let served = |r: &&Resource| r.group == case.group && r.plural == case.plural;
        let resource = resources.iter().find(served).expect("a served kind");
        if let Some(ours) = difference(resource, case) {
            wrong.push(format!("{}\n  ours {ours}\n  real {case:?}", case.name));
        }
    }
    assert!(cases.len() > 300, "{} cases", cases.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_pod_lingers_only_on_a_node() {
    let pods = super::builtin()
        .into_iter()
        .find(|r| r.plural == "pods")
        .expect("pods are served");
    let pod = |node: &str, phase: &str| json!({ "spec": { "nodeName": node, "terminationGracePeriodSeconds": 30 }, "status": { "phase": phase } });
    let grace = |pod: Value, asked| pods.strategy.grace_period(&pod, asked);
    assert_eq!(grace(pod("", "Pending"), None), Some(0));
    assert_eq!(grace(pod("n", "Running"), None), Some(30));
    assert_eq!(grace(pod("n", "Running"), Some(5)), Some(5));
    assert_eq!(grace(pod("n", "Failed"), None), Some(0));
}

#[test]
fn both_forms_of_an_event_are_one_object() {
    let resources = super::builtin();
    let event = |group: &str| {
        resources
            .iter()
            .find(|r| r.plural == "events" && r.group == group)
            .expect("events are served")
    };
    assert_eq!(event("").storage, event("events.k8s.io").storage);
    let core = json!({ "apiVersion": "v1", "kind": "Event", "message": "m", "involvedObject": { "name": "p" } });
    let new = event("events.k8s.io").strategy.from_storage(core);
    assert_eq!(new["note"], "m");
    assert_eq!(new["regarding"]["name"], "p");
    let back = event("events.k8s.io").strategy.to_storage(new);
    assert_eq!((&back["message"], &back["apiVersion"]), (&json!("m"), &json!("v1")));
}

#[test]
fn every_table_has_a_cell_per_column() {
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    for resource in super::builtin() {
        let (columns, cells) = (resource.strategy.columns(), resource.strategy.cells(&json!({}), now));
        // The server's own table of addresses has an age and no column for it.
        let beyond = usize::from(resource.plural == "ipaddresses");
        assert_eq!(columns.len() + beyond, cells.len(), "{}", resource.plural);
    }
}

#[test]
fn what_an_apply_merged_is_refused_in_other_words() {
    let resources = super::builtin();
    let convert = |plural: &str, body: Value| {
        let resource = resources.iter().find(|r| r.plural == plural).expect("a served kind");
        resource.strategy.convert(body)
    };
    let meta = json!({ "name": "a", "namespace": "b" });
    let error = convert("leases", json!({ "metadata": meta, "spec": { "renewTime": 5 } })).unwrap_err();
    assert_eq!(error.code, 500);
    assert_eq!(
        error.message,
        "failed to convert new object (b/a; coordination.k8s.io/v1, Kind=Lease) to proper version: unable to convert unstructured object to coordination.k8s.io/v1, Kind=Lease: json: cannot unmarshal number into Go value of type string"
    );
    let secret = convert("secrets", json!({ "metadata": meta, "data": { "a": "%%%" } })).unwrap_err();
    let why = "error decoding from json: illegal base64 data at input byte 0";
    assert!(secret.message.ends_with(why), "{}", secret.message);
    let wrapped = json!({ "metadata": meta, "spec": { "leaseDurationSeconds": 99_999_999_999_i64 } });
    let lease = convert("leases", wrapped).expect("too large a number is cut");
    let half = json!({ "metadata": meta, "spec": { "leaseDurationSeconds": 1.5 } });
    let refused = convert("leases", half).unwrap_err().message;
    assert!(
        refused.ends_with("Kind=Lease: cannot convert float64 to int32"),
        "{refused}"
    );
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 1_215_752_191);
}
