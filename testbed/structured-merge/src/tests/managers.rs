//! Entries of `managedFields`: identity, time, order, resets, the cap, and kubectl's annotation.

use serde_json::{Value, json};

use super::{Story, V1, conflicts, widget, writer};
use crate::managed::entries;
use crate::{FieldManager, Writer};

type Outcome = Result<(), crate::MergeError>;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn brief(object: &Value) -> Vec<String> {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("-").to_owned();
    entries(object)
        .into_iter()
        .flatten()
        .map(|e| [text(e, "manager"), text(e, "operation"), text(e, "time")].join(" "))
        .collect()
}

fn at<'a>(manager: &'a str, time: &'a str) -> Writer<'a> {
    Writer {
        time,
        ..writer(manager)
    }
}

#[test]
fn only_an_apply_that_changes_something_has_a_time() -> Outcome {
    let manager = Story::new().manager;
    let object = widget(&json!({"text": "x"}));
    let (early, late) = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
    let one = manager.apply(None, &object, &at("a", early), false)?;
    assert_eq!(brief(&one), ["a Apply 2024-01-01T00:00:00Z"]);
    assert_eq!(
        manager.apply(Some(&one), &object, &at("a", late), false)?,
        one,
        "nothing changed"
    );
    let two = manager.apply(Some(&one), &object, &at("b", late), false)?;
    assert_eq!(brief(&two), ["b Apply -", "a Apply 2024-01-01T00:00:00Z"]);
    Ok(())
}

#[test]
fn entries_are_in_order_of_operation_time_and_name() -> Outcome {
    let manager = Story::new().manager;
    let spec = |n: usize| widget(&json!({"attrs": {format!("k{n}"): "v"}}));
    let mut live = manager.apply(None, &spec(0), &at("z", "2024-01-02T00:00:00Z"), false)?;
    live = manager.apply(Some(&live), &spec(1), &at("y", "2024-01-03T00:00:00Z"), false)?;
    live = manager.apply(Some(&live), &spec(2), &at("b", "2024-01-02T00:00:00Z"), false)?;
    live["spec"]["text"] = json!("x");
    let live = manager.update(Some(&live.clone()), live, &at("a", "2024-01-01T00:00:00Z"));
    assert_eq!(brief(&live).len(), 3, "the same object on both sides changes nothing");
    let mut new = live.clone();
    new["spec"]["text"] = json!("y");
    let live = manager.update(Some(&live), new, &at("a", "2024-01-01T00:00:00Z"));
    let names: Vec<_> = brief(&live).iter().map(|entry| entry[..1].to_owned()).collect();
    assert_eq!(names, ["b", "z", "y", "a"]);
    Ok(())
}

#[test]
fn times_alone_are_no_change() {
    let entry = |time: &str| json!({"manager": "a", "operation": "Update", "time": time});
    let object = |time: &str, text: &str| json!({"metadata": {"managedFields": [entry(time)]}, "spec": {"text": text}});
    let live = object("2024-01-01T00:00:00Z", "x");
    for (text, kept) in [("x", "2024-01-01T00:00:00Z"), ("y", "2024-01-02T00:00:00Z")] {
        let mut new = object("2024-01-02T00:00:00Z", text);
        FieldManager::ignore_timestamps(&live, &mut new);
        assert_eq!(new["metadata"]["managedFields"][0]["time"], kept, "{text}");
    }
}

#[test]
fn one_empty_entry_forgets_all_and_the_next_apply_starts_over() -> Outcome {
    let mut story = Story::new();
    story.update("u", json!({"text": "x"}));
    let mut live = story.live.take().expect("created");
    live["metadata"]["uid"] = json!("u");
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([]);
    let kept = story.manager.update(Some(&live), new.clone(), &writer("u"));
    assert_eq!(
        entries(&kept),
        entries(&live),
        "an empty list means nothing in a custom resource"
    );
    new["metadata"]["managedFields"] = json!([{}]);
    let reset = story.manager.update(Some(&live), new, &writer("u"));
    assert_eq!(entries(&reset), None);
    story.live = Some(story.manager.update(Some(&reset), reset.clone(), &writer("u")));
    assert_eq!(story.owned("u"), json!(null), "not kept again until the first apply");
    assert_eq!(conflicts(story.apply("a", json!({"text": "y"}))), [".spec.text"]);
    story.force("a", json!({"text": "y"}))?;
    assert_eq!(
        brief(story.live.as_ref().expect("applied")),
        [
            "a Apply 2024-01-01T00:00:00Z",
            "before-first-apply Update 2024-01-01T00:00:00Z",
        ]
    );
    Ok(())
}

#[test]
fn the_eleventh_updater_folds_the_oldest() {
    let manager = Story::new().manager;
    let mut live = None;
    for n in 0..13 {
        let mut new = live.clone().unwrap_or_else(|| widget(&json!({})));
        new["spec"]["attrs"][format!("k{n:02}")] = json!("v");
        let (name, time) = (format!("u{n:02}"), format!("2024-01-01T00:00:{n:02}Z"));
        live = Some(manager.update(live.as_ref(), new, &at(&name, &time)));
    }
    let entries = brief(&live.expect("updated"));
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0], "ancient-changes Update 2024-01-01T00:00:03Z");
    assert_eq!(entries[1], "u04 Update 2024-01-01T00:00:04Z");
}

#[test]
fn owners_sent_by_the_client_replace_the_stored_ones() {
    let mut story = Story::new();
    story.update("u", json!({"text": "x"}));
    let live = story.live.clone().expect("created");
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([{
        "manager": "z", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1",
        "time": "2020-01-01T01:00:00+01:00", "fieldsV1": {"f:spec": {"f:text": {}}},
    }]);
    let updated = story.manager.update(Some(&live), new.clone(), &writer("u"));
    assert_eq!(brief(&updated), ["z Update 2020-01-01T00:00:00Z"]);
    new["metadata"]["managedFields"][0]["operation"] = json!("Guess");
    let updated = story.manager.update(Some(&live), new, &writer("u"));
    assert_eq!(entries(&updated), entries(&live), "what cannot be read is not meant");
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() -> Outcome {
    let mut story = Story::new();
    let mut object = widget(&json!({"text": "x", "replicas": 2}));
    object["metadata"]["annotations"] = json!({LAST_APPLIED: widget(&json!({"text": "x"})).to_string()});
    story.live = Some(story.manager.update(None, object, &writer("kubectl-client-side-apply")));
    assert_eq!(conflicts(story.apply("other", json!({"text": "y"}))), [".spec.text"]);
    let refused = story.apply("kubectl", json!({"text": "y", "replicas": 3}));
    assert_eq!(conflicts(refused), [".spec.replicas"], "that one it never applied");
    let live = story.apply("kubectl", json!({"text": "y"}))?;
    assert_eq!(live["spec"]["text"], "y");
    let text = live["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .unwrap_or_default();
    assert_eq!(
        serde_json::from_str::<Value>(text).ok(),
        Some(widget(&json!({"text": "y"})))
    );
    assert!(text.ends_with("}\n"));
    Ok(())
}
