//! Custom resources: pruning, defaulting, validation with its causes, rules in CEL.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("schema/unknown-fields-are-pruned-with-a-warning", |t| {
        Box::pin(pruned(t))
    }),
    Case::new("schema/unknown-fields-are-refused-when-strict", |t| Box::pin(strict(t))),
    Case::new("schema/unknown-fields-are-dropped-silently-on-ignore", |t| {
        Box::pin(ignore(t))
    }),
    Case::new("schema/unknown-fields-in-updates-and-patches", |t| {
        Box::pin(unknown_in_patch(t))
    }),
    Case::new("schema/unknown-fields-can-be-preserved", |t| Box::pin(preserved(t))),
    Case::new("schema/defaults-on-creation-and-update", |t| Box::pin(defaults(t))),
    Case::new("schema/a-null-becomes-the-default", |t| Box::pin(null_default(t))),
    Case::new("schema/a-null-of-a-nullable-field-stays", |t| Box::pin(nullable(t))),
    Case::new("schema/a-null-of-another-field", |t| Box::pin(null_other(t))),
    Case::new("schema/causes-by-kind-of-mistake", |t| Box::pin(causes(t))),
    Case::new("schema/several-causes-in-one-answer", |t| Box::pin(several(t))),
    Case::new("schema/a-missing-required-field", |t| Box::pin(required(t))),
    Case::new("schema/formats", |t| Box::pin(formats(t))),
    Case::new("schema/int-or-string", |t| Box::pin(int_or_string(t))),
    Case::new("schema/numbers", |t| Box::pin(numbers(t))),
    Case::new("schema/duplicates-in-lists", |t| Box::pin(duplicates(t))),
    Case::new("schema/a-rule-is-reported-on-its-field", |t| Box::pin(rule(t))),
    Case::new("schema/rules-wait-for-structural-errors", |t| {
        Box::pin(blocked_rules(t))
    }),
    Case::new("schema/a-transition-rule-holds-on-update", |t| Box::pin(transition(t))),
    Case::new("schema/a-transition-rule-lets-the-field-go", |t| Box::pin(unset(t))),
    Case::new("schema/an-unchanged-mistake-does-not-block", |t| {
        Box::pin(ratcheting(t))
    }),
    Case::new("schema/the-root-is-an-object", |t| Box::pin(root(t))),
];

async fn invalid(t: &CaseRun, spec: Value) -> Result<Answer> {
    t.create(&t.widgets(), &widget("a", spec))
        .await?
        .refused(422, "Invalid")
}

async fn pruned(t: &CaseRun) -> Result<()> {
    let body = with(
        &widget("a", json!({ "unheard": 1, "nested": { "must": "x", "more": 2 } })),
        json!({ "extra": true }),
    );
    let made = t.create(&t.widgets(), &body).await?.code(201)?;
    let made = made
        .lacks("/spec/unheard")?
        .lacks("/extra")?
        .lacks("/spec/nested/more")?;
    made.warns("unknown field \"spec.unheard\"")?
        .warns("unknown field \"spec.nested.more\"")?;
    Ok(())
}

async fn strict(t: &CaseRun) -> Result<()> {
    let path = format!("{}?fieldValidation=Strict", t.widgets());
    let body = widget("a", json!({ "unheard": 1, "also": 2 }));
    let refused = t.create(&path, &body).await?.refused(400, "BadRequest")?;
    refused.says("strict decoding error: unknown field \"spec.also\", unknown field \"spec.unheard\"")?;
    let metadata = with(&widget("a", json!({})), json!({ "metadata": { "unheard": 1 } }));
    t.create(&path, &metadata).await?;
    Ok(())
}

async fn ignore(t: &CaseRun) -> Result<()> {
    let path = format!("{}?fieldValidation=Ignore", t.widgets());
    let made = t
        .create(&path, &widget("a", json!({ "unheard": 1 })))
        .await?
        .code(201)?;
    ensure!(made.warnings.is_empty(), "{:?}", made.warnings);
    made.lacks("/spec/unheard")?;
    Ok(())
}

async fn unknown_in_patch(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let patch = json!({ "spec": { "unheard": 1 } });
    let patched = t.merge(&t.widget("a"), &patch).await?.code(200)?;
    let patched = patched.warns("unknown field \"spec.unheard\"")?;
    ensure!(patched.version()? == made.version()?, "a pruned field was written");
    let strict = format!("{}?fieldValidation=Strict", t.widget("a"));
    t.merge(&strict, &patch).await?;
    t.put(&strict, &with(&made.body, patch))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn preserved(t: &CaseRun) -> Result<()> {
    let free = json!({ "any": { "thing": [1, "two", null] } });
    let made = t.new_widget("a", json!({ "free": free })).await?;
    made.has("/spec/free/any/thing/1", "two")?;
    Ok(())
}

async fn defaults(t: &CaseRun) -> Result<()> {
    let made = t
        .new_widget("a", json!({ "nested": { "must": "x" }, "ports": [{ "port": 1 }] }))
        .await?;
    let made = made.has("/spec/replicas", 1)?.has("/spec/nested/level", 3)?;
    let made = made.has("/spec/ports/0/proto", "TCP")?;
    let mut body = made.body.clone();
    body["spec"] = json!({ "nested": { "must": "y" } });
    t.put(&t.widget("a"), &body)
        .await?
        .has("/spec/replicas", 1)?
        .has("/spec/nested/level", 3)?;
    let cleared = json!({ "spec": { "replicas": null } });
    t.merge(&t.widget("a"), &cleared)
        .await?
        .code(200)?
        .has("/spec/replicas", 1)?;
    Ok(())
}

async fn null_default(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "replicas": null, "mode": null }))
        .await?
        .has("/spec/replicas", 1)?
        .has("/spec/mode", "slow")?;
    Ok(())
}

async fn nullable(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({ "nothing": null })).await?;
    ensure!(
        made.body["spec"].get("nothing").is_some_and(Value::is_null),
        "{}",
        made.body
    );
    Ok(())
}

async fn null_other(t: &CaseRun) -> Result<()> {
    t.create(&t.widgets(), &widget("a", json!({ "color": null }))).await?;
    Ok(())
}

fn mistakes() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!({ "replicas": "many" }), "FieldValueTypeInvalid", "spec.replicas"),
        (json!({ "replicas": 101 }), "FieldValueInvalid", "spec.replicas"),
        (json!({ "replicas": -1 }), "FieldValueInvalid", "spec.replicas"),
        (
            json!({ "color": "a color that is too long" }),
            "FieldValueTooLong",
            "spec.color",
        ),
        (json!({ "mode": "other" }), "FieldValueNotSupported", "spec.mode"),
        (json!({ "address": "UPPER" }), "FieldValueInvalid", "spec.address"),
        (json!({ "nested": {} }), "FieldValueRequired", "spec.nested.must"),
        (json!({ "tags": "text" }), "FieldValueTypeInvalid", "spec.tags"),
        (
            json!({ "settings": { "a": 1 } }),
            "FieldValueTypeInvalid",
            "spec.settings.a",
        ),
        (json!({ "enabled": "yes" }), "FieldValueTypeInvalid", "spec.enabled"),
        (json!({ "order": [1] }), "FieldValueTypeInvalid", "spec.order[0]"),
    ]
}

async fn causes(t: &CaseRun) -> Result<()> {
    for (spec, reason, field) in mistakes() {
        let refused = invalid(t, spec).await?;
        let found = refused.causes().contains(&(reason.to_owned(), field.to_owned()));
        ensure!(found, "{reason} {field}: {:?}", refused.causes());
    }
    Ok(())
}

async fn several(t: &CaseRun) -> Result<()> {
    let spec = json!({ "replicas": 101, "color": "a color that is too long", "nested": {} });
    let refused = invalid(t, spec).await?;
    ensure!(refused.causes().len() >= 3, "{:?}", refused.causes());
    Ok(())
}

async fn required(t: &CaseRun) -> Result<()> {
    let mut body = widget("a", json!({}));
    body.as_object_mut().map(|object| object.remove("spec"));
    let refused = t.create(&t.widgets(), &body).await?.refused(422, "Invalid")?;
    refused.says("spec: Required value")?;
    Ok(())
}

async fn formats(t: &CaseRun) -> Result<()> {
    invalid(t, json!({ "when": "yesterday" })).await?;
    t.new_widget("a", json!({ "when": "2026-01-02T03:04:05Z" })).await?;
    t.create(
        &t.widgets(),
        &widget("b", json!({ "when": "2026-01-02T03:04:05.123+02:00" })),
    )
    .await?;
    Ok(())
}

async fn int_or_string(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "amount": 5 })).await?;
    t.new_widget("b", json!({ "amount": "50%" })).await?;
    t.create(&t.widgets(), &widget("c", json!({ "amount": true })))
        .await?
        .refused(422, "Invalid")?;
    t.create(&t.widgets(), &widget("c", json!({ "amount": 1.5 })))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn numbers(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "ratio": 1, "min": 1 })).await?;
    t.new_widget("b", json!({ "ratio": 0.5 })).await?;
    t.create(&t.widgets(), &widget("c", json!({ "min": 1.5 })))
        .await?
        .refused(422, "Invalid")?;
    t.create(&t.widgets(), &widget("c", json!({ "min": 2.0 }))).await?;
    let large = json!({ "replicas": 5_000_000_000_i64 });
    t.create(&t.widgets(), &widget("d", large))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn duplicates(t: &CaseRun) -> Result<()> {
    let refused = invalid(t, json!({ "tags": ["x", "x"] })).await?;
    let want = [("FieldValueDuplicate".to_owned(), "spec.tags[1]".to_owned())];
    ensure!(refused.causes() == want, "{:?}", refused.causes());
    invalid(t, json!({ "ports": [{ "port": 1 }, { "port": 1, "proto": "TCP" }] })).await?;
    t.new_widget("a", json!({ "ports": [{ "port": 1 }], "order": ["x", "x"] }))
        .await?;
    let patch = json!({ "spec": { "ports": [{ "port": 1 }, { "port": 1 }] } });
    t.merge(&t.widget("a"), &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn rule(t: &CaseRun) -> Result<()> {
    let refused = invalid(t, json!({ "min": 5, "max": 1 })).await?;
    refused.says("spec: Invalid value: min must not be larger than max")?;
    t.new_widget("a", json!({ "min": 1, "max": 5 })).await?;
    let patch = json!({ "spec": { "max": 0 } });
    t.merge(&t.widget("a"), &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn blocked_rules(t: &CaseRun) -> Result<()> {
    let refused = invalid(t, json!({ "min": "text", "max": 1 })).await?;
    let fields: Vec<_> = refused.causes().into_iter().map(|(_, field)| field).collect();
    ensure!(fields.contains(&"<nil>".to_owned()), "{fields:?}");
    Ok(())
}

async fn transition(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "fixed": "one" })).await?;
    let patch = json!({ "spec": { "fixed": "two" } });
    let refused = t.merge(&t.widget("a"), &patch).await?.refused(422, "Invalid")?;
    refused.says("fixed is immutable")?;
    t.merge(&t.widget("a"), &json!({ "spec": { "color": "red" } }))
        .await?
        .code(200)?;
    Ok(())
}

async fn unset(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "fixed": "one" })).await?;
    t.merge(&t.widget("a"), &json!({ "spec": { "fixed": null } }))
        .await?
        .code(200)?;
    t.merge(&t.widget("a"), &json!({ "spec": { "fixed": "two" } }))
        .await?
        .code(200)?;
    Ok(())
}

async fn ratcheting(t: &CaseRun) -> Result<()> {
    let crd = super::crd::definition(
        t,
        "ratchet",
        json!({
            "a": { "type": "string" },
            "b": { "type": "string" },
        }),
    );
    let path = super::crd::install(t, &crd).await?;
    let object = json!({
        "apiVersion": format!("{}/v1", crd["spec"]["group"].as_str().unwrap_or_default()),
        "kind": crd["spec"]["names"]["kind"],
        "metadata": { "name": "x" }, "spec": { "a": "long value", "b": "ok" },
    });
    t.create(&path, &object).await?.code(201)?;
    let tighter = json!([
        { "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maxLength", "value": 3 },
    ]);
    t.quiet(
        "PATCH",
        &super::crd::path(&crd),
        &[("content-type", crate::case_run::JSON_PATCH)],
        tighter.to_string(),
    )
    .await?
    .code(200)?;
    // The new schema is in force when a new object is refused by it.
    let fresh = with(&object, json!({ "metadata": { "name": "y" } }));
    let mut refused = false;
    for _ in 0..100 {
        let path = format!("{path}?dryRun=All");
        refused = t.quiet("POST", &path, &[], fresh.to_string()).await?.code == 422;
        if refused {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    ensure!(refused, "the tighter schema is not in force");
    let one = format!("{path}/x");
    t.merge(&one, &json!({ "spec": { "b": "changed" } })).await?.code(200)?;
    t.merge(&one, &json!({ "spec": { "a": "other long value" } }))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn root(t: &CaseRun) -> Result<()> {
    t.create(&t.widgets(), &widget("a", json!("text")))
        .await?
        .refused(422, "Invalid")?;
    t.create(&t.widgets(), &widget("a", json!([1])))
        .await?
        .refused(422, "Invalid")?;
    t.create(&t.widgets(), &widget("a", Value::Null)).await?;
    Ok(())
}
