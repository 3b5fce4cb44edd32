//! Policies and bindings that are refused, and the policy the Gateway API brings with it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::admission::{GROUP, noticed};
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::with;

pub(super) const CASES: &[Case] = &[
    Case::new("policy/expressions-must-compile", |t| Box::pin(expressions(t))),
    Case::new("policy/what-policies-must-say", |t| Box::pin(policies(t))),
    Case::new("policy/what-bindings-must-say", |t| Box::pin(bindings(t))),
    Case::new("policy/the-gateway-api-upgrades-safely", |t| Box::pin(gateway_api(t))).alone(),
];

fn policy(spec: &Value) -> Value {
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }]);
    let base = json!({
        "metadata": { "name": "refused.example.com" },
        "spec": { "matchConstraints": { "resourceRules": rules }, "validations": [{ "expression": "true" }] },
    });
    with(&base, json!({ "spec": spec }))
}

async fn refuse(t: &CaseRun, spec: Value) -> Result<()> {
    let path = format!("{GROUP}/validatingadmissionpolicies?dryRun=All");
    t.create(&path, &policy(&spec)).await?;
    Ok(())
}

async fn expressions(t: &CaseRun) -> Result<()> {
    for expression in [
        "object.spec.replicas",
        "1 + 2",
        "'text'",
        "object.x ==",
        "nothing == 1",
        "object.a == 1 && request.nothing == 'x'",
        "request.operation == 1",
        "request.userInfo.username.size() > 1 && namespaceObject.metadata.labels.a == 1",
        "namespaceObject.metadata.managedFields == null",
        "params.a == 1",
        "variables.a == 1",
        "authorizer.group('').allowed()",
        "authorizer.group('').resource('pods').check('get')",
        "authorizer.requestResource.check(1).allowed()",
        "object.spec.containers.all(c, c.image)",
        "object.a.matches('[')",
        "timestamp('never') == request.name",
        "[1, 'a'].size() == 2",
        "quantity('1') == 1",
        "oldObject == null || oldObject.a == 1",
    ] {
        refuse(t, json!({ "validations": [{ "expression": expression }] })).await?;
    }
    messages(t).await?;
    variables(t).await
}

async fn messages(t: &CaseRun) -> Result<()> {
    for message in [
        "1",
        "object.a",
        "'a' + 1",
        "authorizer.path('/').check('get').reason()",
        " ",
    ] {
        refuse(
            t,
            json!({ "validations": [{ "expression": "true", "messageExpression": message }] }),
        )
        .await?;
    }
    for value in ["1", "object.a", "'a'", "null", "true ? 'a' : null", "bad(", ""] {
        refuse(
            t,
            json!({ "auditAnnotations": [{ "key": "a", "valueExpression": value }] }),
        )
        .await?;
    }
    Ok(())
}

async fn variables(t: &CaseRun) -> Result<()> {
    let variables = |list: Value| json!({ "variables": list, "validations": [{ "expression": "variables.b" }] });
    for list in [
        json!([{ "name": "b", "expression": "1" }]),
        json!([{ "name": "b", "expression": "variables.c" }, { "name": "c", "expression": "true" }]),
        json!([{ "name": "a-b", "expression": "true" }, { "name": "b", "expression": "" }]),
        json!([{ "name": "b", "expression": "object.x" }]),
        json!([{ "name": "namespace", "expression": "1 +" }, { "name": "b", "expression": "true" }]),
        json!([{ "name": "a", "expression": "request" }, { "name": "b", "expression": "variables.a.nothing == 1" }]),
        json!([{ "name": "a", "expression": "[1, 2]" }, { "name": "b", "expression": "variables.a.x == 1" }]),
    ] {
        refuse(t, variables(list)).await?;
    }
    Ok(())
}

async fn policies(t: &CaseRun) -> Result<()> {
    let constraints = |change: Value| {
        json!({ "matchConstraints": { "resourceRules": [with(
        &json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }), change)] } })
    };
    for spec in [
        json!({ "matchConstraints": null }),
        json!({ "matchConstraints": { "resourceRules": [] } }),
        json!({ "validations": [] }),
        json!({ "failurePolicy": "Maybe" }),
        json!({ "paramKind": {} }),
        json!({ "paramKind": { "apiVersion": "a/b/c", "kind": "X" } }),
        json!({ "paramKind": { "apiVersion": "A.b/V1", "kind": "X_y" } }),
        json!({ "matchConstraints": { "matchPolicy": "Some" } }),
        json!({ "matchConstraints": { "objectSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } } }),
        constraints(json!({ "operations": ["*", "CREATE"] })),
        constraints(json!({ "operations": ["GET"] })),
        constraints(json!({ "apiGroups": [], "apiVersions": ["*", ""], "scope": "Everywhere" })),
        constraints(json!({ "resources": ["*/*", "pods"] })),
        constraints(json!({ "resources": ["*", "pods", "pods/*", "pods/status", "*/status"] })),
        constraints(json!({ "resources": [], "resourceNames": ["a", "a", "b/c"] })),
        json!({ "matchConditions": [{ "name": "a", "expression": "1" }, { "name": "a", "expression": "true" }, { "name": "b c" }] }),
        json!({ "validations": [{ "expression": " ", "message": " ", "reason": "Because" }] }),
        json!({ "validations": [{ "expression": "true", "message": "two\nlines" }] }),
        json!({ "auditAnnotations": [{ "key": "a b", "valueExpression": "'a'" }, { "key": "a", "valueExpression": "'a'" }, { "key": "a", "valueExpression": "'a'" }] }),
    ] {
        refuse(t, spec).await?;
    }
    Ok(())
}

async fn bindings(t: &CaseRun) -> Result<()> {
    let base = json!({ "metadata": { "name": "refused.example.com" },
        "spec": { "policyName": "none.example.com", "validationActions": ["Deny"] } });
    let path = format!("{GROUP}/validatingadmissionpolicybindings?dryRun=All");
    for spec in [
        json!({}),
        json!({ "policyName": "" }),
        json!({ "policyName": "Not A Name" }),
        json!({ "validationActions": [] }),
        json!({ "validationActions": ["Deny", "Deny", "Say"] }),
        json!({ "validationActions": ["Warn", "Audit", "Deny"] }),
        json!({ "paramRef": {} }),
        json!({ "paramRef": { "name": "a", "selector": {}, "parameterNotFoundAction": "Deny" } }),
        json!({ "paramRef": { "name": "a/b", "parameterNotFoundAction": "Maybe" } }),
        json!({ "matchResources": { "resourceRules": [{ "operations": ["CREATE"] }], "matchPolicy": "Some" } }),
    ] {
        t.create(&path, &with(&base, json!({ "spec": spec }))).await?;
    }
    Ok(())
}

/// The documents of a file of the Gateway API.
fn documents(name: &str) -> Result<Vec<Value>> {
    let path = aplomb_controlplane::gateway_api_crds()?.join(name);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let parts = text.split("\n---").filter(|part| part.contains("apiVersion:"));
    parts
        .map(|part| serde_saphyr::from_str(part).context("a document of the Gateway API"))
        .collect()
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GATEWAY_KINDS: [&str; 5] = [
    "gatewayclasses",
    "gateways",
    "httproutes",
    "grpcroutes",
    "referencegrants",
];

async fn gateway_api(t: &CaseRun) -> Result<()> {
    let guard = documents("gateway.networking.k8s.io_vap_safeupgrades.yaml")?;
    ensure!(guard.len() == 2, "a policy and a binding, not {}", guard.len());
    let places = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
    for (place, object) in places.iter().zip(&guard) {
        t.create(&format!("{GROUP}/{place}"), object).await?.code(201)?;
    }
    installs(t).await?;
    upgrades(t).await?;
    for place in places.iter().rev() {
        let name = "safe-upgrades.gateway.networking.k8s.io";
        t.delete(&format!("{GROUP}/{place}/{name}")).await?.code(200)?;
    }
    for name in GATEWAY_KINDS {
        let path = format!("{CRDS}/{name}.gateway.networking.k8s.io");
        t.quiet("DELETE", &path, &[], "").await?.code(200)?;
    }
    Ok(())
}

fn annotated(object: &Value, channel: &str, version: &str) -> Value {
    let annotations = json!({
        "gateway.networking.k8s.io/channel": channel,
        "gateway.networking.k8s.io/bundle-version": version,
    });
    with(object, json!({ "metadata": { "annotations": annotations } }))
}

async fn installs(t: &CaseRun) -> Result<()> {
    let classes = documents("gateway.networking.k8s.io_gatewayclasses.yaml")?.remove(0);
    let old = annotated(&classes, "standard", "v1.4.0");
    noticed(t, "POST", CRDS, "application/json", &old).await?;
    t.create(CRDS, &old).await?.refused(422, "Invalid")?;
    let bare = with(&classes, json!({ "metadata": { "annotations": null } }));
    t.create(CRDS, &bare).await?.refused(422, "Invalid")?;
    for name in GATEWAY_KINDS {
        let crd = documents(&format!("gateway.networking.k8s.io_{name}.yaml"))?.remove(0);
        // Another case may have installed them.
        let answer = t.quiet("POST", CRDS, &[], crd.to_string()).await?;
        ensure!([201, 409].contains(&answer.code), "{}", answer.body);
    }
    Ok(())
}

async fn upgrades(t: &CaseRun) -> Result<()> {
    let path = format!("{CRDS}/gatewayclasses.gateway.networking.k8s.io");
    let change = |channel: &str, version: &str| annotated(&json!({}), channel, version);
    for (channel, version) in [
        ("experimental", "v1.6.3"),
        ("standard", "v1.2.0"),
        ("standard", "v0.8.0"),
    ] {
        t.merge(&path, &change(channel, version))
            .await?
            .refused(422, "Invalid")?;
    }
    let merge = [("content-type", crate::case_run::MERGE)];
    for (channel, version) in [("standard", "v1.7.0"), ("standard", "v1.5.0-rc.1")] {
        let body = change(channel, version).to_string();
        t.quiet("PATCH", &path, &merge, body).await?.code(200)?;
    }
    Ok(())
}
