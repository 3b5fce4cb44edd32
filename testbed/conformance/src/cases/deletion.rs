//! Deletion, finalizers and owner references, without anybody collecting garbage.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{config_map, widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("deletion/without-finalizers-is-at-once", |t| Box::pin(at_once(t))),
    Case::new("deletion/of-built-in-kinds-is-at-once", |t| Box::pin(built_in(t))),
    Case::new("deletion/with-finalizers-only-marks", |t| Box::pin(marks(t))),
    Case::new("deletion/a-second-one-changes-nothing", |t| Box::pin(second(t))),
    Case::new("deletion/spec-and-status-can-still-change", |t| {
        Box::pin(still_editable(t))
    }),
    Case::new("deletion/it-cannot-be-taken-back", |t| Box::pin(irrevocable(t))),
    Case::new("deletion/no-new-finalizers-while-terminating", |t| Box::pin(no_new(t))),
    Case::new("deletion/a-forced-apply-adds-no-finalizer-either", |t| {
        Box::pin(no_new_by_apply(t))
    }),
    Case::new("deletion/one-of-two-finalizers-can-go", |t| Box::pin(one_of_two(t))),
    Case::new("deletion/the-last-finalizer-ends-it-by-patch", |t| {
        Box::pin(last_by_patch(t))
    }),
    Case::new("deletion/the-last-finalizer-ends-it-by-put", |t| {
        Box::pin(last_by_put(t))
    }),
    Case::new("deletion/the-last-finalizer-ends-it-by-apply", |t| {
        Box::pin(last_by_apply(t))
    }),
    Case::new("deletion/the-last-answer-has-numbers-as-if-stored", |t| {
        Box::pin(last_numbers(t))
    }),
    Case::new("deletion/a-uid-precondition", |t| Box::pin(uid_precondition(t))),
    Case::new("deletion/a-version-precondition", |t| Box::pin(version_precondition(t))),
    Case::new("deletion/foreground-adds-a-finalizer", |t| Box::pin(foreground(t))),
    Case::new("deletion/orphan-adds-a-finalizer", |t| Box::pin(orphan(t))),
    Case::new("deletion/bad-options-are-refused", |t| Box::pin(bad_options(t))),
    Case::new("deletion/options-in-the-query", |t| Box::pin(query_options(t))),
    Case::new("deletion/two-controllers-are-invalid", |t| Box::pin(two_controllers(t))),
    Case::new("deletion/duplicate-owners-are-folded", |t| {
        Box::pin(duplicate_owners(t))
    }),
    Case::new("deletion/an-incomplete-owner-is-invalid", |t| {
        Box::pin(incomplete_owner(t))
    }),
    Case::new("deletion/an-unqualified-finalizer-warns", |t| Box::pin(unqualified(t))),
    Case::new("deletion/a-bad-finalizer-is-invalid", |t| Box::pin(bad_finalizer(t))),
    Case::new("deletion/of-a-collection", |t| Box::pin(collection(t))),
    Case::new("deletion/of-a-selected-collection", |t| {
        Box::pin(selected_collection(t))
    }),
];

const HOLD: &str = "example.com/hold";

async fn held(t: &CaseRun, finalizers: &[&str]) -> Result<Answer> {
    let body = with(
        &widget("a", json!({})),
        json!({ "metadata": { "finalizers": finalizers } }),
    );
    t.create(&t.widgets(), &body).await?.code(201)
}

async fn at_once(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let gone = t.delete(&t.widget("a")).await?.code(200)?;
    gone.has("/kind", "Status")?
        .has("/status", "Success")?
        .has("/details/uid", made.uid())?;
    t.delete(&t.widget("a")).await?.refused(404, "NotFound")?;
    t.get(&t.widget("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn built_in(t: &CaseRun) -> Result<()> {
    t.create(&t.core("configmaps"), &config_map("a", json!({})))
        .await?
        .code(201)?;
    t.delete(&t.core("configmaps/a"))
        .await?
        .code(200)?
        .has("/kind", "Status")?;
    t.create(&t.core("serviceaccounts"), &json!({ "metadata": { "name": "a" } }))
        .await?
        .code(201)?;
    t.delete(&t.core("serviceaccounts/a")).await?.code(200)?;
    Ok(())
}

async fn marks(t: &CaseRun) -> Result<()> {
    let made = held(t, &[HOLD]).await?;
    let marked = t.delete(&t.widget("a")).await?.code(200)?.has("/kind", "Widget")?;
    let marked = marked.has("/metadata/deletionGracePeriodSeconds", 0)?;
    let marked = marked.has("/metadata/generation", 2)?;
    ensure!(
        !marked.text("/metadata/deletionTimestamp").is_empty(),
        "no deletionTimestamp"
    );
    ensure!(marked.version()? > made.version()?, "not written");
    Ok(())
}

async fn second(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD]).await?;
    let first = t.delete(&t.widget("a")).await?.code(200)?;
    let second = t.delete(&t.widget("a")).await?.code(200)?;
    ensure!(first.body == second.body, "a second deletion changed something");
    Ok(())
}

async fn still_editable(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD]).await?;
    t.delete(&t.widget("a")).await?.code(200)?;
    let edited = t
        .merge(&t.widget("a"), &json!({ "spec": { "color": "red" } }))
        .await?
        .code(200)?;
    edited.has("/metadata/generation", 3)?;
    let path = format!("{}/status", t.widget("a"));
    t.merge(&path, &json!({ "status": { "phase": "Down" } }))
        .await?
        .code(200)?;
    Ok(())
}

async fn irrevocable(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD]).await?;
    let marked = t.delete(&t.widget("a")).await?.code(200)?;
    let clear = json!({ "metadata": { "deletionTimestamp": null, "labels": { "a": "b" } } });
    let patched = t.merge(&t.widget("a"), &clear).await?.code(200)?;
    let time = marked.at("/metadata/deletionTimestamp");
    let patched = patched.has("/metadata/deletionTimestamp", time)?;
    let other = json!({ "metadata": { "deletionTimestamp": "2001-01-01T00:00:00Z" } });
    t.merge(&t.widget("a"), &other).await?;
    let other = json!({ "metadata": { "deletionGracePeriodSeconds": 5 } });
    t.merge(&t.widget("a"), &other).await?;
    ensure!(patched.generation() == Some(2), "{:?}", patched.generation());
    Ok(())
}

async fn no_new(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD]).await?;
    t.delete(&t.widget("a")).await?.code(200)?;
    let more = json!({ "metadata": { "finalizers": [HOLD, "example.com/more"] } });
    let refused = t.merge(&t.widget("a"), &more).await?.refused(422, "Invalid")?;
    refused.says("no new finalizers can be added if the object is being deleted")?;
    Ok(())
}

async fn no_new_by_apply(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD]).await?;
    t.delete(&t.widget("a")).await?.code(200)?;
    let more = json!({ "metadata": { "finalizers": ["example.com/more"] } });
    let config = with(&widget("a", json!({})), more);
    t.force_apply(&t.widget("a"), "one", &config)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn one_of_two(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD, "example.com/more"]).await?;
    t.delete(&t.widget("a")).await?.code(200)?;
    let mut watch = t.watch(&t.widgets()).await?;
    watch.expect("ADDED", "a").await?;
    let less = json!({ "metadata": { "finalizers": ["example.com/more"] } });
    t.merge(&t.widget("a"), &less).await?.code(200)?;
    watch.expect("MODIFIED", "a").await?;
    t.get(&t.widget("a")).await?.code(200)?;
    Ok(())
}

/// One DELETED at the deletion's own version, its body the last stored state; nothing in between.
async fn ends(t: &CaseRun, removal: &str) -> Result<()> {
    let marked = t.delete(&t.widget("a")).await?.code(200)?;
    let version = marked.version()?;
    let mut watch = t.watch(&format!("{}?resourceVersion={version}", t.widgets())).await?;
    let mut body = marked.body.clone();
    body["metadata"]["finalizers"] = json!([]);
    let answer = match removal {
        "put" => t.put(&t.widget("a"), &body).await?,
        "apply" => t.apply(&t.widget("a"), "one", &widget("a", json!({}))).await?,
        _ => {
            t.merge(&t.widget("a"), &json!({ "metadata": { "finalizers": null } }))
                .await?
        }
    };
    let answer = answer.code(200)?;
    ensure!(
        answer.version()? == version,
        "the answer is not of the previous version"
    );
    let event = watch.expect("DELETED", "a").await?;
    ensure!(event.version()? > version, "the event has an old version");
    ensure!(
        event.object["metadata"]["finalizers"] == json!([HOLD]),
        "{}",
        event.object
    );
    t.get(&t.widget("a")).await?.refused(404, "NotFound")?;
    watch.silent().await
}

async fn last_by_patch(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD]).await?;
    ends(t, "patch").await
}

async fn last_by_put(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD]).await?;
    ends(t, "put").await
}

async fn last_by_apply(t: &CaseRun) -> Result<()> {
    let config = with(&widget("a", json!({})), json!({ "metadata": { "finalizers": [HOLD] } }));
    t.apply(&t.widget("a"), "one", &config).await?.code(201)?;
    ends(t, "apply").await
}

async fn last_numbers(t: &CaseRun) -> Result<()> {
    held(t, &[HOLD]).await?;
    t.delete(&t.widget("a")).await?.code(200)?;
    for dry_run in ["?dryRun=All", ""] {
        let last = json!({ "metadata": { "finalizers": null }, "spec": { "ratio": 2.0 } });
        t.merge(&format!("{}{dry_run}", t.widget("a")), &last)
            .await?
            .code(200)?
            .has("/spec/ratio", 2)?;
    }
    t.get(&t.widget("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn uid_precondition(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let wrong = json!({ "preconditions": { "uid": "11111111-2222-4333-8444-555555555555" } });
    t.delete_with(&t.widget("a"), &wrong).await?.refused(409, "Conflict")?;
    let right = json!({ "preconditions": { "uid": made.uid() } });
    t.delete_with(&t.widget("a"), &right).await?.code(200)?;
    Ok(())
}

async fn version_precondition(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let now = t
        .merge(&t.widget("a"), &json!({ "spec": { "min": 1 } }))
        .await?
        .code(200)?;
    let of =
        |answer: &Answer| json!({ "preconditions": { "resourceVersion": answer.at("/metadata/resourceVersion") } });
    t.delete_with(&t.widget("a"), &of(&made))
        .await?
        .refused(409, "Conflict")?;
    t.delete_with(&t.widget("a"), &of(&now)).await?.code(200)?;
    Ok(())
}

async fn foreground(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let options = json!({ "propagationPolicy": "Foreground" });
    let marked = t.delete_with(&t.widget("a"), &options).await?.code(200)?;
    marked.has("/metadata/finalizers", json!(["foregroundDeletion"]))?;
    t.get(&t.widget("a")).await?.code(200)?;
    Ok(())
}

async fn orphan(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let options = json!({ "propagationPolicy": "Orphan" });
    let marked = t.delete_with(&t.widget("a"), &options).await?.code(200)?;
    marked.has("/metadata/finalizers", json!(["orphan"]))?;
    t.new_widget("b", json!({})).await?;
    t.delete_with(&t.widget("b"), &json!({ "orphanDependents": true }))
        .await?
        .code(200)?;
    Ok(())
}

async fn bad_options(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let wrong: [Value; 4] = [
        json!({ "propagationPolicy": "Sideways" }),
        json!({ "propagationPolicy": "Orphan", "orphanDependents": true }),
        json!({ "gracePeriodSeconds": "soon" }),
        json!({ "dryRun": ["Some"] }),
    ];
    for options in wrong {
        let answer = t.delete_with(&t.widget("a"), &options).await?;
        ensure!((400..500).contains(&answer.code), "{options}: {}", answer.code);
    }
    t.get(&t.widget("a")).await?.code(200)?;
    Ok(())
}

async fn query_options(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let path = format!("{}?propagationPolicy=Foreground", t.widget("a"));
    t.delete(&path)
        .await?
        .code(200)?
        .has("/metadata/finalizers", json!(["foregroundDeletion"]))?;
    Ok(())
}

fn owner(digit: &str, controller: bool) -> Value {
    let uid = format!("{}-2222-4333-8444-555555555555", digit.repeat(8));
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{digit}"), "uid": uid,
        "controller": controller,
    })
}

async fn owned(t: &CaseRun, owners: Value) -> Result<Answer> {
    let body = with(
        &widget("a", json!({})),
        json!({ "metadata": { "ownerReferences": owners } }),
    );
    t.create(&t.widgets(), &body).await
}

async fn two_controllers(t: &CaseRun) -> Result<()> {
    let owners = json!([owner("1", true), owner("2", true)]);
    owned(t, owners)
        .await?
        .refused(422, "Invalid")?
        .says("Only one reference can have Controller")?;
    owned(t, json!([owner("1", true), owner("2", false)]))
        .await?
        .code(201)?;
    Ok(())
}

async fn duplicate_owners(t: &CaseRun) -> Result<()> {
    let made = owned(t, json!([owner("1", false), owner("1", false)]))
        .await?
        .code(201)?;
    let made = made.warns(".metadata.ownerReferences contains duplicate entries")?;
    ensure!(
        made.at("/metadata/ownerReferences").as_array().map(Vec::len) == Some(1),
        "not folded"
    );
    Ok(())
}

async fn incomplete_owner(t: &CaseRun) -> Result<()> {
    for key in ["apiVersion", "kind", "name", "uid"] {
        let mut reference = owner("1", false);
        reference[key] = json!("");
        owned(t, json!([reference])).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn unqualified(t: &CaseRun) -> Result<()> {
    held(t, &["hold"])
        .await?
        .warns("prefer a domain-qualified finalizer name")?;
    Ok(())
}

async fn bad_finalizer(t: &CaseRun) -> Result<()> {
    let body = with(
        &widget("a", json!({})),
        json!({ "metadata": { "finalizers": ["a b"] } }),
    );
    t.create(&t.widgets(), &body).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn collection(t: &CaseRun) -> Result<()> {
    for name in ["a", "b", "c"] {
        t.new_widget(name, json!({})).await?;
    }
    let gone = t.delete(&t.widgets()).await?.code(200)?;
    ensure!(gone.names() == ["a", "b", "c"], "{:?}", gone.names());
    t.get(&t.widgets()).await?.has("/items", json!([]))?;
    Ok(())
}

async fn selected_collection(t: &CaseRun) -> Result<()> {
    for (name, keep) in [("a", "yes"), ("b", "no")] {
        let body = with(
            &widget(name, json!({})),
            json!({ "metadata": { "labels": { "keep": keep } } }),
        );
        t.create(&t.widgets(), &body).await?.code(201)?;
    }
    t.delete(&format!("{}?labelSelector=keep%3Dno", t.widgets()))
        .await?
        .code(200)?;
    let left = t.get(&t.widgets()).await?;
    ensure!(left.names() == ["a"], "{:?}", left.names());
    Ok(())
}
