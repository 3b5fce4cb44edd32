//! Validating admission policies: which requests they are asked about, what their expressions see,
//! and what their bindings do with the answer.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::{APPLY, CaseRun, MERGE};
use crate::verbs::config_map as map;

pub(super) const CASES: &[Case] = &[
    Case::new("policy/denies-every-kind-of-write", |t| Box::pin(writes(t))),
    Case::new("policy/messages-and-reasons", |t| Box::pin(messages(t))),
    Case::new("policy/variables-and-failures", |t| Box::pin(variables(t))),
    Case::new("policy/failures-can-be-ignored", |t| Box::pin(ignored(t))),
    Case::new("policy/conditions-choose-requests", |t| Box::pin(conditions(t))),
    Case::new("policy/sees-the-request", |t| Box::pin(request(t))),
    Case::new("policy/denies-deletions", |t| Box::pin(deletions(t))),
    Case::new("policy/is-asked-about-subresources", |t| Box::pin(subresources(t))),
    Case::new("policy/warns", |t| Box::pin(warns(t))),
];

pub(super) const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A rule that matches `operations` on `resources` of the core group and of the suite's own.
pub(super) fn rule(operations: &[&str], resources: &[&str]) -> Value {
    json!({
        "apiGroups": ["", "conformance.example.com"], "apiVersions": ["*"],
        "operations": operations, "resources": resources,
    })
}

/// The spec of a policy about ConfigMaps.
#[allow(clippy::needless_pass_by_value, reason = "cases write them in place")]
pub(super) fn config_maps(operations: &[&str], validations: Value) -> Value {
    json!({
        "matchConstraints": { "resourceRules": [rule(operations, &["configmaps"])] },
        "validations": validations,
    })
}

/// Makes a policy and a binding for the namespace of the trial, both called like it.
pub(super) async fn bind(t: &CaseRun, spec: &Value, binding: &Value) -> Result<()> {
    let name = format!("{}.example.com", t.namespace);
    let body = json!({ "metadata": { "name": name }, "spec": spec });
    let path = format!("{GROUP}/validatingadmissionpolicies");
    t.create(&path, &body).await?.code(201)?;
    let labels = json!({ "kubernetes.io/metadata.name": t.namespace });
    let mut bound = json!({
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": { "namespaceSelector": { "matchLabels": labels } },
    });
    for (member, value) in binding.as_object().into_iter().flatten() {
        bound[member] = value.clone();
    }
    let body = json!({ "metadata": { "name": name }, "spec": bound });
    let path = format!("{GROUP}/validatingadmissionpolicybindings");
    t.create(&path, &body).await?.code(201)?;
    Ok(())
}

/// Repeats a request that changes nothing until a policy has something to say about it.
pub(super) async fn noticed(t: &CaseRun, method: &str, path: &str, kind: &str, body: &Value) -> Result<()> {
    let text = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let path = format!("{path}?dryRun=All&fieldManager=waiting");
    for _ in 0..200 {
        let headers = [("content-type", kind)];
        let answer = t.quiet(method, &path, &headers, text.clone()).await?;
        let about_policy = |text: &str| text.contains("ValidatingAdmissionPolicy");
        let message = answer.body["message"].as_str().unwrap_or_default();
        if about_policy(message) || answer.warnings.iter().any(|text| about_policy(text)) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("no policy has taken effect on {path}")
}

pub(super) async fn until_refused(t: &CaseRun, body: &Value) -> Result<()> {
    noticed(t, "POST", &t.core("configmaps"), "application/json", body).await
}

async fn writes(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps");
    t.create(&path, &map("there", json!({ "a": "1" }))).await?.code(201)?;
    let validations = json!([{ "expression": "object.data.a != '2'" }]);
    bind(t, &config_maps(&["CREATE", "UPDATE"], validations), &json!({})).await?;
    let bad = json!({ "a": "2" });
    until_refused(t, &map("x", bad.clone())).await?;
    t.create(&path, &map("new", bad.clone()))
        .await?
        .refused(422, "Invalid")?;
    t.create(&format!("{path}?dryRun=All"), &map("new", bad.clone()))
        .await?
        .code(422)?;
    t.put(&t.core("configmaps/there"), &map("there", bad.clone()))
        .await?
        .code(422)?;
    t.merge(&t.core("configmaps/there"), &json!({ "data": bad }))
        .await?
        .code(422)?;
    let patch = json!([{ "op": "replace", "path": "/data/a", "value": "2" }]);
    t.json_patch(&t.core("configmaps/there"), &patch).await?.code(422)?;
    let applied = map("applied", bad.clone());
    t.apply(&t.core("configmaps/applied"), "me", &applied)
        .await?
        .code(422)?;
    let generated = json!({ "metadata": { "generateName": "some-" }, "data": bad });
    let answer = t.quiet("POST", &path, &[], generated.to_string()).await?.code(422)?;
    let text = answer.body["message"].as_str().unwrap_or_default();
    t.note("generated", text.starts_with("configmaps \"some-")).await;
    let without = json!({ "metadata": { "name": "none" } });
    t.create(&path, &without).await?.code(422)?;
    t.create(&path, &map("good", json!({ "a": "3" }))).await?.code(201)?;
    t.merge(&t.core("configmaps/there"), &json!({ "data": { "b": "x" } }))
        .await?
        .code(200)?;
    Ok(())
}

async fn messages(t: &CaseRun) -> Result<()> {
    let validations = json!([
        { "expression": "object.data.kind != 'message'", "message": "  a message " },
        { "expression": "object.data.kind != 'expression'", "message": "unused",
          "messageExpression": "'kind is ' + object.data.kind + ' in ' + namespaceObject.metadata.name" },
        { "expression": "object.data.kind != 'broken'", "message": "used instead",
          "messageExpression": "'no ' + object.data.none" },
        { "expression": "object.data.kind != 'lines'", "messageExpression": "'a\\nb'" },
        { "expression": "object.data.kind != 'empty'", "messageExpression": "'  '" },
        { "expression": "object.data.kind != 'forbidden'", "reason": "Forbidden", "message": "no" },
        { "expression": "object.data.kind != 'large'", "reason": "RequestEntityTooLarge" },
        { "expression": "\n  object.data.kind != 'trimmed'  \n", "reason": "Invalid" },
    ]);
    bind(t, &config_maps(&["CREATE"], validations), &json!({})).await?;
    let path = t.core("configmaps");
    until_refused(t, &map("x", json!({ "kind": "message" }))).await?;
    for kind in [
        "message",
        "expression",
        "broken",
        "lines",
        "empty",
        "forbidden",
        "large",
        "trimmed",
        "good",
    ] {
        t.create(&path, &map(kind, json!({ "kind": kind }))).await?;
    }
    Ok(())
}

async fn variables(t: &CaseRun) -> Result<()> {
    let mut spec = config_maps(
        &["CREATE"],
        json!([
            { "expression": "variables.count <= 2", "messageExpression": "string(variables.count) + ' keys, a among them: ' + string('a' in variables.keys)" },
            { "expression": "!variables.numbers || variables.sum < 10" },
            { "expression": "!('deep' in object.data) || object.data.deep.deeper == 'x'" },
        ]),
    );
    spec["variables"] = json!([
        { "name": "data", "expression": "has(object.data) ? object.data : {}" },
        { "name": "keys", "expression": "variables.data.map(k, k)" },
        { "name": "count", "expression": "variables.keys.size()" },
        { "name": "numbers", "expression": "variables.count > 0 && variables.data.all(k, variables.data[k].matches('^[0-9]+$'))" },
        { "name": "sum", "expression": "variables.keys.map(k, int(variables.data[k])).sum()" },
        { "name": "broken", "expression": "int(variables.data.a) / 0 == 1" },
    ]);
    spec["validations"]
        .as_array_mut()
        .expect("a list")
        .push(json!({ "expression": "!('broken' in object.data) || variables.broken" }));
    bind(t, &spec, &json!({})).await?;
    let path = t.core("configmaps");
    until_refused(t, &map("x", json!({ "a": "1", "b": "", "c": "" }))).await?;
    for (name, data) in [
        ("three", json!({ "a": "1", "b": "2", "c": "3" })),
        ("sum", json!({ "a": "7", "b": "8" })),
        ("fine", json!({ "a": "1", "b": "2" })),
        ("deep", json!({ "deep": "x" })),
        ("broken", json!({ "broken": "x", "a": "5" })),
        ("missing", json!({ "broken": "x" })),
    ] {
        t.create(&path, &map(name, data)).await?;
    }
    t.create(&path, &json!({ "metadata": { "name": "none" } })).await?;
    Ok(())
}

async fn ignored(t: &CaseRun) -> Result<()> {
    let mut spec = config_maps(
        &["CREATE"],
        json!([
            { "expression": "object.data.none.deeper == 1" },
            { "expression": "object.data.a == '1'", "message": "a must be 1" },
        ]),
    );
    spec["failurePolicy"] = "Ignore".into();
    bind(t, &spec, &json!({})).await?;
    let path = t.core("configmaps");
    until_refused(t, &map("x", json!({ "a": "2" }))).await?;
    t.create(&path, &map("two", json!({ "a": "2" }))).await?.code(422)?;
    t.create(&path, &map("one", json!({ "a": "1" }))).await?.code(201)?;
    t.create(&path, &map("none", json!({}))).await?.code(201)?;
    Ok(())
}

async fn conditions(t: &CaseRun) -> Result<()> {
    let mut spec = config_maps(
        &["CREATE", "UPDATE"],
        json!([{ "expression": "false", "message": "asked" }]),
    );
    spec["matchConditions"] = json!([
        { "name": "not-skipped", "expression": "!('skip' in object.data)" },
        { "name": "new", "expression": "request.operation == 'CREATE' && oldObject == null" },
        { "name": "fails", "expression": "!('fail' in object.data) || object.data.none == ''" },
        { "name": "no-namespace", "expression": "namespaceObject == null" },
    ]);
    bind(t, &spec, &json!({})).await?;
    let path = t.core("configmaps");
    until_refused(t, &map("x", json!({ "a": "1" }))).await?;
    t.create(&path, &map("asked", json!({ "a": "1" }))).await?.code(422)?;
    t.create(&path, &map("skipped", json!({ "skip": "1" })))
        .await?
        .code(201)?;
    t.create(&path, &map("both", json!({ "skip": "1", "fail": "1" })))
        .await?
        .code(201)?;
    t.create(&path, &map("failed", json!({ "fail": "1" })))
        .await?
        .code(422)?;
    t.put(&t.core("configmaps/skipped"), &map("skipped", json!({ "a": "1" })))
        .await?
        .code(200)?;
    Ok(())
}

async fn request(t: &CaseRun) -> Result<()> {
    let seen = "[request.operation, request.kind.kind, request.resource.version, request.resource.resource, \
        has(request.name) ? request.name : '-', request.namespace, string(request.dryRun), \
        has(request.subResource) ? request.subResource : '-', request.requestKind.group, \
        string('system:masters' in request.userInfo.groups), string(request.options.kind), \
        has(request.options.fieldManager) ? string(request.options.fieldManager) : '-', \
        string(has(object.metadata.uid)), string(object.apiVersion), string(object.kind), \
        oldObject == null ? 'new' : 'old', string(namespaceObject.status.phase)].join(' ')";
    let mut spec = config_maps(
        &["*"],
        json!([{ "expression": "!has(object.data.a)", "messageExpression": seen }]),
    );
    spec["matchConditions"] = json!([{ "name": "no-deletion", "expression": "request.operation != 'DELETE'" }]);
    let path = t.core("configmaps");
    t.create(&path, &map("there", json!({}))).await?.code(201)?;
    bind(t, &spec, &json!({})).await?;
    let bad = map("x", json!({ "a": "" }));
    until_refused(t, &bad).await?;
    t.create(&path, &bad).await?.code(422)?;
    t.create(&format!("{path}?dryRun=All&fieldManager=somebody"), &bad)
        .await?
        .code(422)?;
    t.put(&t.core("configmaps/there"), &map("there", json!({ "a": "" })))
        .await?
        .code(422)?;
    t.merge(&t.core("configmaps/there"), &json!({ "data": { "a": "" } }))
        .await?
        .code(422)?;
    t.apply(&t.core("configmaps/applied"), "me", &map("applied", json!({ "a": "" })))
        .await?
        .code(422)?;
    Ok(())
}

async fn deletions(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps");
    for (name, data) in [("kept", json!({ "keep": "1" })), ("other", json!({}))] {
        t.create(&path, &map(name, data)).await?.code(201)?;
    }
    let validations = json!([{ "expression": "!has(oldObject.data) || !has(oldObject.data.keep)",
        "messageExpression": "'object is ' + (object == null ? 'null' : 'set') + ', name is ' + (has(request.name) ? request.name : 'unset') + ', ' + request.options.kind" }]);
    bind(t, &config_maps(&["DELETE"], validations), &json!({})).await?;
    noticed(
        t,
        "DELETE",
        &t.core("configmaps/kept"),
        "application/json",
        &Value::Null,
    )
    .await?;
    t.delete(&t.core("configmaps/kept")).await?.refused(422, "Invalid")?;
    t.send("DELETE", &format!("{path}?labelSelector=none"), &[], "")
        .await?
        .code(200)?;
    t.send("DELETE", &format!("{path}?fieldSelector=metadata.name=kept"), &[], "")
        .await?
        .code(422)?;
    t.delete(&t.core("configmaps/other")).await?.code(200)?;
    t.get(&t.core("configmaps/kept")).await?.code(200)?;
    Ok(())
}

async fn subresources(t: &CaseRun) -> Result<()> {
    t.create(
        &t.widgets(),
        &json!({ "apiVersion": "conformance.example.com/v1", "kind": "Widget",
        "metadata": { "name": "a" }, "spec": { "replicas": 1 } }),
    )
    .await?
    .code(201)?;
    let spec = json!({
        "matchConstraints": { "resourceRules": [rule(&["UPDATE"], &["widgets/status", "widgets/scale"])] },
        "validations": [
            { "expression": "request.subResource != 'status' || object.status.replicas < 5",
              "messageExpression": "request.subResource + ' of ' + request.kind.kind + ' ' + string(object.status.replicas)" },
            { "expression": "request.subResource != 'scale' || object.spec.replicas < 5",
              "messageExpression": "request.subResource + ' of ' + request.kind.kind + ' ' + request.resource.resource + ' ' + string(oldObject.spec.replicas)" },
        ],
    });
    bind(t, &spec, &json!({})).await?;
    let status = format!("{}/status", t.widget("a"));
    let bad = json!({ "status": { "replicas": 7 } });
    noticed(t, "PATCH", &status, MERGE, &bad).await?;
    t.merge(&status, &bad).await?.code(422)?;
    t.merge(&status, &json!({ "status": { "replicas": 3 } }))
        .await?
        .code(200)?;
    let scale = format!("{}/scale", t.widget("a"));
    t.merge(&scale, &json!({ "spec": { "replicas": 9 } }))
        .await?
        .code(422)?;
    t.merge(&scale, &json!({ "spec": { "replicas": 2 } }))
        .await?
        .code(200)?;
    t.merge(&t.widget("a"), &json!({ "spec": { "replicas": 9 } }))
        .await?
        .code(200)?;
    Ok(())
}

async fn warns(t: &CaseRun) -> Result<()> {
    let validations = json!([
        { "expression": "object.data.a == '1'", "message": "a must be 1" },
        { "expression": "object.data.a == '1'", "message": "b" },
        { "expression": "object.data.none == ''" },
    ]);
    let actions = json!({ "validationActions": ["Warn", "Audit"] });
    bind(t, &config_maps(&["CREATE", "UPDATE"], validations), &actions).await?;
    until_refused(t, &map("x", json!({ "a": "2" }))).await?;
    t.create(&t.core("configmaps"), &map("x", json!({ "a": "2" })))
        .await?
        .code(201)?;
    let applied = map("applied", json!({ "a": "2" }));
    t.send(
        "PATCH",
        &format!("{}?fieldManager=me", t.core("configmaps/applied")),
        &[("content-type", APPLY)],
        applied.to_string(),
    )
    .await?
    .code(201)?;
    Ok(())
}
