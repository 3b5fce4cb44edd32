//! CustomResourceDefinitions themselves: becoming served, versions, being refused, being removed.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::server::wait_until_served;
use crate::verbs::with;

pub(super) const CASES: &[Case] = &[
    Case::new("crd/is-served-once-established", |t| Box::pin(established(t))),
    Case::new("crd/is-defaulted", |t| Box::pin(defaulted(t))),
    Case::new("crd/a-bad-name-is-invalid", |t| Box::pin(bad_name(t))),
    Case::new("crd/a-schema-is-required", |t| Box::pin(no_schema(t))),
    Case::new("crd/a-schema-must-be-structural", |t| Box::pin(not_structural(t))),
    Case::new("crd/a-bad-rule-is-invalid", |t| Box::pin(bad_rule(t))),
    Case::new("crd/one-storage-version", |t| Box::pin(storage_versions(t))),
    Case::new("crd/group-and-scope-cannot-change", |t| Box::pin(immutable(t))),
    Case::new("crd/a-taken-kind-is-not-accepted", |t| Box::pin(taken(t))),
    Case::new("crd/two-versions-show-one-object", |t| Box::pin(two_versions(t))),
    Case::new("crd/a-deprecated-version-warns", |t| Box::pin(deprecated(t))),
    Case::new("crd/a-new-field-is-known-after-an-update", |t| Box::pin(new_field(t))),
    Case::new("crd/deleting-it-deletes-its-objects", |t| Box::pin(deleted(t))),
    Case::new("crd/a-cluster-scoped-kind", |t| Box::pin(cluster_scoped(t))),
    Case::new("crd/the-wrong-scope-in-a-path", |t| Box::pin(wrong_scope(t))),
];

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADGETS: &str = "/apis/conformance.example.com/v1/gadgets";

/// A definition of a group of its own; `properties` are those of `spec`.
#[allow(clippy::needless_pass_by_value, reason = "cases write them in place")]
pub(super) fn definition(t: &CaseRun, kind: &str, properties: Value) -> Value {
    let group = format!("{}.example.com", t.namespace);
    let plural = format!("{kind}s");
    let mut camel = kind.to_owned();
    camel[..1].make_ascii_uppercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": { "plural": plural, "kind": camel },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": { "type": "object", "properties": properties } },
                } },
            }],
        },
    })
}

/// Path of a definition.
pub(super) fn path(crd: &Value) -> String {
    format!("{CRDS}/{}", crd["metadata"]["name"].as_str().unwrap_or_default())
}

/// Creates a definition, waits until it is served and returns the path of its objects.
pub(super) async fn install(t: &CaseRun, crd: &Value) -> Result<String> {
    t.quiet("POST", CRDS, &[], crd.to_string()).await?.code(201)?;
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let path = format!("/apis/{group}/v1/{plural}");
    wait_until_served(&t.client, &path).await?;
    Ok(path)
}

async fn established(t: &CaseRun) -> Result<()> {
    let crd = definition(t, "thing", json!({}));
    let group = crd["spec"]["group"].as_str().unwrap_or_default().to_owned();
    t.get(&format!("/apis/{group}/v1/things")).await?.code(404)?;
    install(t, &crd).await?;
    let stored = t.get(&path(&crd)).await?.code(200)?;
    let conditions = stored.at("/status/conditions");
    let is_true = |kind: &str| {
        let all = conditions.as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["type"] == kind && one["status"] == "True")
    };
    ensure!(is_true("NamesAccepted") && is_true("Established"), "{conditions}");
    Ok(())
}

async fn defaulted(t: &CaseRun) -> Result<()> {
    let crd = definition(t, "thing", json!({}));
    let made = t.create(CRDS, &crd).await?.code(201)?;
    let made = made
        .has("/spec/names/singular", "thing")?
        .has("/spec/names/listKind", "ThingList")?;
    made.has("/spec/conversion/strategy", "None")?;
    Ok(())
}

async fn bad_name(t: &CaseRun) -> Result<()> {
    let crd = definition(t, "thing", json!({}));
    let body = with(&crd, json!({ "metadata": { "name": "things" } }));
    t.create(CRDS, &body).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn no_schema(t: &CaseRun) -> Result<()> {
    let mut crd = definition(t, "thing", json!({}));
    crd["spec"]["versions"][0]["schema"] = Value::Null;
    t.create(CRDS, &crd)
        .await?
        .refused(422, "Invalid")?
        .says("openAPIV3Schema: Required value")?;
    Ok(())
}

async fn not_structural(t: &CaseRun) -> Result<()> {
    let wrong = [
        json!({ "a": {} }),
        json!({ "a": { "type": "string", "nullable": true, "default": 5 } }),
        json!({ "a": { "type": "array" } }),
        json!({ "a": { "type": "string", "x-kubernetes-list-type": "set" } }),
        json!({ "a": { "type": "nonsense" } }),
        json!({ "a": { "type": "string", "pattern": "(" } }),
        json!({ "a": { "type": "array", "items": { "type": "object" }, "x-kubernetes-list-type": "map" } }),
    ];
    for properties in wrong {
        let crd = definition(t, "thing", properties);
        t.create(CRDS, &crd).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn bad_rule(t: &CaseRun) -> Result<()> {
    let field = |rule: &str| json!({ "a": { "type": "string", "x-kubernetes-validations": [{ "rule": rule }] } });
    for rule in ["self ==", "self.b == 1", "1 + 1"] {
        let crd = definition(t, "thing", field(rule));
        let refused = t.quiet("POST", CRDS, &[], crd.to_string()).await?;
        t.note(rule, json!([refused.code, refused.causes()])).await;
        refused.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn storage_versions(t: &CaseRun) -> Result<()> {
    let mut crd = definition(t, "thing", json!({}));
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    crd["spec"]["versions"] = json!([crd["spec"]["versions"][0], second]);
    t.create(CRDS, &crd).await?.refused(422, "Invalid")?;
    crd["spec"]["versions"][0]["storage"] = json!(false);
    crd["spec"]["versions"][1]["storage"] = json!(false);
    t.create(CRDS, &crd).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn immutable(t: &CaseRun) -> Result<()> {
    let crd = definition(t, "thing", json!({}));
    install(t, &crd).await?;
    t.merge(&path(&crd), &json!({ "spec": { "group": "other.example.com" } }))
        .await?
        .code(422)?;
    t.merge(&path(&crd), &json!({ "spec": { "scope": "Namespaced" } }))
        .await?
        .code(422)?;
    Ok(())
}

async fn taken(t: &CaseRun) -> Result<()> {
    let crd = definition(t, "thing", json!({}));
    install(t, &crd).await?;
    let mut other = definition(t, "other", json!({}));
    other["spec"]["names"]["kind"] = json!("Thing");
    t.quiet("POST", CRDS, &[], other.to_string()).await?.code(201)?;
    for _ in 0..100 {
        let stored = t.quiet("GET", &path(&other), &[], "").await?;
        let conditions = stored.at("/status/conditions");
        let refused = |one: &Value| one["type"] == "NamesAccepted" && one["status"] == "False";
        if conditions.as_array().is_some_and(|all| all.iter().any(refused)) {
            t.note("conditions", conditions).await;
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    anyhow::bail!("a taken kind was accepted")
}

async fn two_versions(t: &CaseRun) -> Result<()> {
    let name = t.namespace.clone();
    let gadget = json!({
        "apiVersion": "conformance.example.com/v1", "kind": "Gadget",
        "metadata": { "name": name }, "spec": { "a": 1 },
    });
    let made = t.create(GADGETS, &gadget).await?.code(201)?;
    let beta = t
        .get(&format!("/apis/conformance.example.com/v1beta1/gadgets/{name}"))
        .await?;
    let beta = beta.code(200)?.has("/apiVersion", "conformance.example.com/v1beta1")?;
    ensure!(
        beta.version()? == made.version()? && beta.uid() == made.uid(),
        "two objects"
    );
    let path = format!("/apis/conformance.example.com/v1beta1/gadgets/{name}");
    t.merge(&path, &json!({ "spec": { "b": 2 } })).await?.code(200)?;
    let main = t.get(&format!("{GADGETS}/{name}")).await?.has("/spec/b", 2)?;
    main.has("/apiVersion", "conformance.example.com/v1")?;
    t.delete(&path).await?.code(200)?;
    Ok(())
}

async fn deprecated(t: &CaseRun) -> Result<()> {
    let path = "/apis/conformance.example.com/v1beta1/gadgets/none";
    let answer = t.get(path).await?.refused(404, "NotFound")?;
    answer.warns("conformance.example.com/v1beta1 Gadget is deprecated")?;
    Ok(())
}

async fn new_field(t: &CaseRun) -> Result<()> {
    let crd = definition(t, "thing", json!({}));
    let things = install(t, &crd).await?;
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let object = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Thing",
        "metadata": { "name": "x" }, "spec": { "late": "yes" },
    });
    t.create(&things, &object).await?.code(201)?.lacks("/spec/late")?;
    let patch = json!([{
        "op": "add",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties",
        "value": { "late": { "type": "string", "default": "always" } },
    }]);
    t.quiet(
        "PATCH",
        &path(&crd),
        &[("content-type", crate::case_run::JSON_PATCH)],
        patch.to_string(),
    )
    .await?
    .code(200)?;
    for _ in 0..100 {
        // Objects stored before it are defaulted when they are read.
        let read = t.quiet("GET", &format!("{things}/x"), &[], "").await?;
        if read.at("/spec/late") == "always" {
            t.record(&read).await;
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    anyhow::bail!("the new schema is not in force")
}

async fn deleted(t: &CaseRun) -> Result<()> {
    let crd = definition(t, "thing", json!({}));
    let things = install(t, &crd).await?;
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let object = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": { "name": "x" },
    });
    t.create(&things, &object).await?.code(201)?;
    t.quiet("DELETE", &path(&crd), &[], "").await?.code(200)?;
    for _ in 0..200 {
        if t.quiet("GET", &things, &[], "").await?.code == 404 {
            t.get(&path(&crd)).await?.refused(404, "NotFound")?;
            t.get(&things).await?.code(404)?;
            install(t, &crd).await?;
            t.get(&things).await?.code(200)?.has("/items", json!([]))?;
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    anyhow::bail!("still served")
}

async fn cluster_scoped(t: &CaseRun) -> Result<()> {
    let name = t.namespace.clone();
    let gadget = json!({
        "apiVersion": "conformance.example.com/v1", "kind": "Gadget", "metadata": { "name": name },
    });
    t.create(GADGETS, &gadget)
        .await?
        .code(201)?
        .lacks("/metadata/namespace")?;
    let inside = with(&gadget, json!({ "metadata": { "name": "b", "namespace": "default" } }));
    t.create(GADGETS, &inside).await?;
    t.delete(&format!("{GADGETS}/{name}")).await?.code(200)?;
    Ok(())
}

async fn wrong_scope(t: &CaseRun) -> Result<()> {
    t.get("/apis/conformance.example.com/v1/namespaces/default/gadgets")
        .await?
        .code(404)?;
    t.get("/apis/conformance.example.com/v1/widgets/a").await?.code(404)?;
    t.get("/api/v1/configmaps/a").await?.code(404)?;
    t.get("/api/v1/namespaces/default/nodes").await?.code(404)?;
    Ok(())
}
