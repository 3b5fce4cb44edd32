//! Server-side apply by the type of a field: lists, sets, maps, and the metadata that behaves so.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("apply-types/list-items-are-owned-by-key", |t| Box::pin(list_map(t))),
    Case::new("apply-types/defaulted-keys-count", |t| Box::pin(defaulted_key(t))),
    Case::new("apply-types/removing-ones-item-keeps-others", |t| {
        Box::pin(remove_item(t))
    }),
    Case::new("apply-types/an-item-field-conflicts-alone", |t| Box::pin(item_field(t))),
    Case::new("apply-types/duplicate-items-are-an-error", |t| Box::pin(duplicates(t))),
    Case::new("apply-types/set-values-are-owned-one-by-one", |t| Box::pin(set(t))),
    Case::new("apply-types/an-atomic-list-has-one-owner", |t| Box::pin(atomic_list(t))),
    Case::new("apply-types/an-atomic-map-has-one-owner", |t| Box::pin(atomic_map(t))),
    Case::new("apply-types/maps-are-granular-by-default", |t| Box::pin(granular(t))),
    Case::new("apply-types/preserved-fields-are-granular", |t| Box::pin(preserved(t))),
    Case::new("apply-types/finalizers-are-a-set", |t| Box::pin(finalizers(t))),
    Case::new("apply-types/owner-references-are-keyed-by-uid", |t| Box::pin(owners(t))),
    Case::new("apply-types/labels-are-owned-by-key", |t| Box::pin(labels(t))),
    Case::new("apply-types/order-of-list-items", |t| Box::pin(order(t))),
    Case::new("apply-types/built-in-lists-have-their-keys", |t| Box::pin(built_in(t))),
    Case::new("apply-types/a-null-is-a-value", |t| Box::pin(null(t))),
    Case::new("apply-types/a-null-in-metadata-changes-nothing", |t| {
        Box::pin(null_metadata(t))
    }),
];

async fn list_map(t: &CaseRun) -> Result<()> {
    let one = widget(
        "a",
        json!({ "ports": [{ "port": 80, "proto": "TCP", "name": "http" }] }),
    );
    let made = t.apply(&t.widget("a"), "one", &one).await?.code(201)?;
    let ports = &made.owned_by("one/Apply/")["f:spec"]["f:ports"];
    ensure!(ports.get(r#"k:{"port":80,"proto":"TCP"}"#).is_some(), "{ports}");
    let two = widget("a", json!({ "ports": [{ "port": 80, "proto": "UDP" }] }));
    let both = t.apply(&t.widget("a"), "two", &two).await?.code(200)?;
    ensure!(
        both.at("/spec/ports").as_array().map(Vec::len) == Some(2),
        "{}",
        both.body
    );
    Ok(())
}

async fn defaulted_key(t: &CaseRun) -> Result<()> {
    let one = widget("a", json!({ "ports": [{ "port": 80 }] }));
    let made = t.apply(&t.widget("a"), "one", &one).await?.code(201)?;
    let ports = &made.owned_by("one/Apply/")["f:spec"]["f:ports"];
    ensure!(ports.get(r#"k:{"port":80,"proto":"TCP"}"#).is_some(), "{ports}");
    let same = widget("a", json!({ "ports": [{ "port": 80, "proto": "TCP" }] }));
    let both = t.apply(&t.widget("a"), "two", &same).await?.code(200)?;
    ensure!(
        both.at("/spec/ports").as_array().map(Vec::len) == Some(1),
        "{}",
        both.body
    );
    Ok(())
}

async fn remove_item(t: &CaseRun) -> Result<()> {
    let ports = json!({ "ports": [{ "port": 80, "name": "a" }, { "port": 81, "name": "b" }] });
    t.apply(&t.widget("a"), "one", &widget("a", ports)).await?.code(201)?;
    let two = widget("a", json!({ "ports": [{ "port": 81 }, { "port": 82 }] }));
    t.apply(&t.widget("a"), "two", &two).await?.code(200)?;
    let left = t
        .apply(&t.widget("a"), "one", &widget("a", json!({})))
        .await?
        .code(200)?;
    let want = json!([{ "port": 81, "proto": "TCP" }, { "port": 82, "proto": "TCP" }]);
    left.has("/spec/ports", want)?;
    Ok(())
}

async fn item_field(t: &CaseRun) -> Result<()> {
    let one = widget("a", json!({ "ports": [{ "port": 80, "name": "http" }] }));
    t.apply(&t.widget("a"), "one", &one).await?.code(201)?;
    let two = widget("a", json!({ "ports": [{ "port": 80, "name": "web" }] }));
    let refused = t.apply(&t.widget("a"), "two", &two).await?.refused(409, "Conflict")?;
    let want = r#".spec.ports[port=80,proto="TCP"].name"#;
    ensure!(refused.causes()[0].1 == want, "{:?}", refused.causes());
    Ok(())
}

async fn duplicates(t: &CaseRun) -> Result<()> {
    let ports = widget("a", json!({ "ports": [{ "port": 80 }, { "port": 80 }] }));
    t.apply(&t.widget("a"), "one", &ports).await?.code(500)?;
    let tags = widget("a", json!({ "tags": ["x", "x"] }));
    t.apply(&t.widget("a"), "one", &tags).await?.code(500)?;
    Ok(())
}

async fn set(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "tags": ["x", "y"] })))
        .await?
        .code(201)?;
    let both = t
        .apply(&t.widget("a"), "two", &widget("a", json!({ "tags": ["y", "z"] })))
        .await?;
    let both = both.code(200)?.has("/spec/tags", json!(["x", "y", "z"]))?;
    let owned = &both.owned_by("two/Apply/")["f:spec"]["f:tags"];
    ensure!(owned == &json!({ "v:\"y\"": {}, "v:\"z\"": {} }), "{owned}");
    let left = t
        .apply(&t.widget("a"), "one", &widget("a", json!({})))
        .await?
        .code(200)?;
    left.has("/spec/tags", json!(["y", "z"]))?;
    Ok(())
}

async fn atomic_list(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "order": ["x"] })))
        .await?
        .code(201)?;
    let two = widget("a", json!({ "order": ["y"] }));
    let refused = t.apply(&t.widget("a"), "two", &two).await?.refused(409, "Conflict")?;
    ensure!(refused.causes()[0].1 == ".spec.order", "{:?}", refused.causes());
    t.force_apply(&t.widget("a"), "two", &two)
        .await?
        .code(200)?
        .has("/spec/order", json!(["y"]))?;
    Ok(())
}

async fn atomic_map(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "sealed": { "x": "1" } })))
        .await?
        .code(201)?;
    let two = widget("a", json!({ "sealed": { "y": "2" } }));
    let refused = t.apply(&t.widget("a"), "two", &two).await?.refused(409, "Conflict")?;
    ensure!(refused.causes()[0].1 == ".spec.sealed", "{:?}", refused.causes());
    let taken = t.force_apply(&t.widget("a"), "two", &two).await?.code(200)?;
    taken.has("/spec/sealed", json!({ "y": "2" }))?;
    Ok(())
}

async fn granular(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "settings": { "x": "1" } })))
        .await?
        .code(201)?;
    let two = widget("a", json!({ "settings": { "y": "2" } }));
    let both = t.apply(&t.widget("a"), "two", &two).await?.code(200)?;
    both.has("/spec/settings", json!({ "x": "1", "y": "2" }))?;
    let left = t
        .apply(&t.widget("a"), "one", &widget("a", json!({})))
        .await?
        .code(200)?;
    left.has("/spec/settings", json!({ "y": "2" }))?;
    Ok(())
}

async fn preserved(t: &CaseRun) -> Result<()> {
    let one = widget("a", json!({ "free": { "x": { "deep": [1, 2] } } }));
    t.apply(&t.widget("a"), "one", &one).await?.code(201)?;
    let two = widget("a", json!({ "free": { "x": { "other": true } } }));
    let both = t.apply(&t.widget("a"), "two", &two).await?.code(200)?;
    both.has("/spec/free/x", json!({ "deep": [1, 2], "other": true }))?;
    Ok(())
}

async fn finalizers(t: &CaseRun) -> Result<()> {
    let holding = |name: &str| {
        let metadata = json!({ "finalizers": [format!("example.com/{name}")] });
        with(&widget("a", json!({})), json!({ "metadata": metadata }))
    };
    t.apply(&t.widget("a"), "one", &holding("one")).await?.code(201)?;
    let both = t.apply(&t.widget("a"), "two", &holding("two")).await?.code(200)?;
    both.has("/metadata/finalizers", json!(["example.com/one", "example.com/two"]))?;
    // An applier that forgets to repeat its finalizer removes it.
    let left = t
        .apply(&t.widget("a"), "one", &widget("a", json!({})))
        .await?
        .code(200)?;
    left.has("/metadata/finalizers", json!(["example.com/two"]))?;
    Ok(())
}

async fn owners(t: &CaseRun) -> Result<()> {
    let owner = |digit: &str| -> Value {
        let uid = format!("{}-2222-4333-8444-555555555555", digit.repeat(8));
        let reference = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid });
        let metadata = json!({ "ownerReferences": [reference] });
        with(&widget("a", json!({})), json!({ "metadata": metadata }))
    };
    t.apply(&t.widget("a"), "one", &owner("1")).await?.code(201)?;
    let both = t.apply(&t.widget("a"), "two", &owner("2")).await?.code(200)?;
    let count = both.at("/metadata/ownerReferences").as_array().map(Vec::len);
    ensure!(count == Some(2), "{}", both.body);
    let left = t
        .apply(&t.widget("a"), "two", &widget("a", json!({})))
        .await?
        .code(200)?;
    let count = left.at("/metadata/ownerReferences").as_array().map(Vec::len);
    ensure!(count == Some(1), "{}", left.body);
    Ok(())
}

async fn labels(t: &CaseRun) -> Result<()> {
    let labelled = |key: &str, value: &str| {
        with(
            &widget("a", json!({})),
            json!({ "metadata": { "labels": { key: value } } }),
        )
    };
    t.apply(&t.widget("a"), "one", &labelled("x", "1")).await?.code(201)?;
    t.apply(&t.widget("a"), "two", &labelled("y", "2")).await?.code(200)?;
    let refused = t.apply(&t.widget("a"), "two", &labelled("x", "2")).await?;
    let refused = refused.refused(409, "Conflict")?;
    ensure!(refused.causes()[0].1 == ".metadata.labels.x", "{:?}", refused.causes());
    Ok(())
}

async fn order(t: &CaseRun) -> Result<()> {
    let ports = |numbers: &[u16]| {
        let ports: Vec<_> = numbers.iter().map(|port| json!({ "port": port })).collect();
        widget("a", json!({ "ports": ports }))
    };
    t.apply(&t.widget("a"), "one", &ports(&[80, 81, 82])).await?.code(201)?;
    t.apply(&t.widget("a"), "two", &ports(&[90, 82, 80])).await?.code(200)?;
    t.apply(&t.widget("a"), "one", &ports(&[82, 81, 80])).await?.code(200)?;
    Ok(())
}

async fn built_in(t: &CaseRun) -> Result<()> {
    let service = |name: &str, port: u16| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" },
            "spec": { "clusterIP": "None", "ports": [{ "name": name, "port": port }] },
        })
    };
    let path = t.core("services/a");
    t.apply(&path, "one", &service("http", 80)).await?.code(201)?;
    let both = t.apply(&path, "two", &service("https", 443)).await?.code(200)?;
    ensure!(
        both.at("/spec/ports").as_array().map(Vec::len) == Some(2),
        "{}",
        both.body
    );
    let refused = t.apply(&path, "two", &service("web", 80)).await?;
    refused
        .refused(409, "Conflict")?
        .says(".spec.ports[port=80,protocol=\"TCP\"].name")?;
    Ok(())
}

async fn null_metadata(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let mut config = widget("a", json!({}));
    config["metadata"]["deletionTimestamp"] = Value::Null;
    config["metadata"]["deletionGracePeriodSeconds"] = Value::Null;
    let answer = t.apply(&t.widget("a"), "one", &config).await?.code(200)?;
    answer
        .lacks("/metadata/deletionTimestamp")?
        .lacks("/metadata/deletionGracePeriodSeconds")?;
    config["metadata"]["deletionGracePeriodSeconds"] = json!(5);
    let refused = t.apply(&t.widget("a"), "one", &config).await?;
    let refused = refused.refused(422, "Invalid")?;
    let causes = refused.body["details"]["causes"].as_array();
    ensure!(
        causes.is_some_and(|causes| causes
            .iter()
            .all(|cause| cause["field"] == "metadata.deletionGracePeriodSeconds")),
        "{}",
        refused.body
    );
    Ok(())
}

async fn null(t: &CaseRun) -> Result<()> {
    let config = widget("a", json!({ "nothing": null, "color": null }));
    t.apply(&t.widget("a"), "one", &config).await?;
    t.apply(&t.widget("b"), "one", &widget("b", json!({ "nothing": null })))
        .await?;
    Ok(())
}
