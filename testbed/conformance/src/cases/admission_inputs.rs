//! What admission policies ask besides the object: their parameters, the authorizer, selectors.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::admission::{bind, config_maps, noticed, rule, until_refused};
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{config_map as map, with};

pub(super) const CASES: &[Case] = &[
    Case::new("policy/parameters-by-name", |t| Box::pin(params_by_name(t))),
    Case::new("policy/parameters-by-label", |t| Box::pin(params_by_label(t))),
    Case::new("policy/asks-the-authorizer", |t| Box::pin(authorizer(t))),
    Case::new("policy/selectors-and-exclusions", |t| Box::pin(selectors(t))),
    Case::new("policy/an-unknown-parameter-kind", |t| Box::pin(unknown_params(t))),
];

/// A policy whose limit is in a ConfigMap.
fn limited() -> Value {
    json!({
        "matchConstraints": { "resourceRules": [rule(&["CREATE"], &["secrets"])] },
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
        "validations": [{ "expression": "object.data.size() <= int(params.data.most)",
            "messageExpression": "'at most ' + params.data.most + ' by ' + params.kind + ' ' + params.metadata.name" }],
    })
}

fn secret(name: &str, keys: &[&str]) -> Value {
    let data: serde_json::Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), "".into())).collect();
    json!({ "metadata": { "name": name }, "data": data })
}

async fn params_by_name(t: &CaseRun) -> Result<()> {
    let reference = json!({ "paramRef": { "name": "limit", "parameterNotFoundAction": "Deny" } });
    bind(t, &limited(), &reference).await?;
    let path = t.core("secrets");
    noticed(t, "POST", &path, "application/json", &secret("x", &["a"])).await?;
    t.create(&path, &secret("unlimited", &["a"])).await?.code(422)?;
    t.create(&t.core("configmaps"), &map("limit", json!({ "most": "1" })))
        .await?
        .code(201)?;
    for _ in 0..200 {
        let answer = t
            .quiet(
                "POST",
                &format!("{path}?dryRun=All"),
                &[],
                secret("x", &["a"]).to_string(),
            )
            .await?;
        if answer.code == 201 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    t.create(&path, &secret("one", &["a"])).await?.code(201)?;
    t.create(&path, &secret("two", &["a", "b"])).await?.code(422)?;
    Ok(())
}

async fn params_by_label(t: &CaseRun) -> Result<()> {
    for (name, most) in [("first", "2"), ("second", "1")] {
        let mut params = map(name, json!({ "most": most }));
        params["metadata"]["labels"] = json!({ "limits": "secrets" });
        t.create(&t.core("configmaps"), &params).await?.code(201)?;
    }
    let selector = json!({ "matchLabels": { "limits": "secrets" } });
    let reference = json!({ "paramRef": { "selector": selector, "parameterNotFoundAction": "Allow" } });
    bind(t, &limited(), &reference).await?;
    let path = t.core("secrets");
    noticed(t, "POST", &path, "application/json", &secret("x", &["a", "b"])).await?;
    t.create(&path, &secret("one", &["a"])).await?.code(201)?;
    t.create(&path, &secret("two", &["a", "b"]))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn authorizer(t: &CaseRun) -> Result<()> {
    let asked = [
        "authorizer.group('').resource('configmaps').namespace(request.namespace).check('create').allowed()",
        "authorizer.group('').resource('secrets').namespace(request.namespace).name('x').check('get').allowed()",
        "authorizer.requestResource.check('delete').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "authorizer.group('apps').resource('deployments').subresource('scale').check('update').allowed()",
        "authorizer.path('/healthz').check('get').allowed()",
        "authorizer.path('/metrics').check('get').allowed()",
        "authorizer.serviceAccount('default', 'nobody').group('').resource('pods').check('list').allowed()",
        "authorizer.group('').resource('pods').check('list').errored()",
        "authorizer.group('').resource('configmaps').namespace(request.namespace).labelSelector('a=b').check('list').allowed()",
    ];
    let mut spec = config_maps(
        &["CREATE"],
        json!([{ "expression": "variables.empty", "messageExpression": "object.data.a" }]),
    );
    spec["variables"] = json!([{ "name": "empty", "expression": "!has(object.data.a)" }]);
    spec["validations"] = asked
        .iter()
        .enumerate()
        .map(|(index, expression)| {
            json!({
                "expression": format!("object.data.a != '{index}' || {expression}"), "message": format!("{index}"),
            })
        })
        .collect();
    let path = t.core("configmaps");
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list"] }]);
    t.create(
        &t.api("rbac.authorization.k8s.io/v1", "roles"),
        &json!({ "metadata": { "name": "maker" }, "rules": rules }),
    )
    .await?
    .code(201)?;
    let binding = json!({ "metadata": { "name": "maker" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "restricted" }] });
    t.create(&t.api("rbac.authorization.k8s.io/v1", "rolebindings"), &binding)
        .await?
        .code(201)?;
    bind(t, &spec, &json!({})).await?;
    until_refused(t, &map("x", json!({ "a": "7" }))).await?;
    for index in 0..asked.len() {
        let body = map(&format!("a{index}"), json!({ "a": format!("{index}") }));
        let dry = format!("{path}?dryRun=All");
        t.create(&dry, &body).await?;
        t.as_user(&t.server.restricted(), "POST", &dry, &body).await?;
    }
    Ok(())
}

async fn selectors(t: &CaseRun) -> Result<()> {
    let mut spec = config_maps(&["CREATE"], json!([{ "expression": "false", "message": "matched" }]));
    spec["matchConstraints"]["objectSelector"] =
        json!({ "matchExpressions": [{ "key": "team", "operator": "In", "values": ["a", "b"] }] });
    let mut excluded = rule(&["*"], &["*"]);
    excluded["resourceNames"] = json!(["excluded"]);
    spec["matchConstraints"]["excludeResourceRules"] = json!([excluded]);
    spec["matchConstraints"]["resourceRules"][0]["scope"] = "Namespaced".into();
    bind(t, &spec, &json!({})).await?;
    let labelled = |name: &str, team: &str| {
        with(
            &map(name, json!({})),
            json!({ "metadata": { "labels": { "team": team } } }),
        )
    };
    until_refused(t, &labelled("x", "a")).await?;
    let path = t.core("configmaps");
    t.create(&path, &labelled("a", "a")).await?.code(422)?;
    t.create(&path, &labelled("c", "c")).await?.code(201)?;
    t.create(&path, &labelled("excluded", "b")).await?.code(201)?;
    t.create(&path, &map("none", json!({}))).await?.code(201)?;
    t.merge(
        &t.core("configmaps/none"),
        &json!({ "metadata": { "labels": { "team": "a" } } }),
    )
    .await?
    .code(200)?;
    Ok(())
}

async fn unknown_params(t: &CaseRun) -> Result<()> {
    let mut spec = config_maps(&["CREATE"], json!([{ "expression": "params == null" }]));
    spec["paramKind"] = json!({ "apiVersion": "none.example.com/v1", "kind": "Nothing" });
    let labels = json!({ "odd": "yes" });
    spec["matchConstraints"]["objectSelector"] = json!({ "matchLabels": labels });
    let odd = with(&map("x", json!({})), json!({ "metadata": { "labels": labels } }));
    bind(t, &spec, &json!({})).await?;
    until_refused(t, &odd).await?;
    t.create(&t.core("configmaps"), &odd).await?.refused(422, "Invalid")?;
    Ok(())
}
