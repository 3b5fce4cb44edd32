//! Authentication, authorisation by stored roles, and the reviews that ask about them.

use anyhow::Result;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::config_map;

pub(super) const CASES: &[Case] = &[
    Case::new("rbac/a-refusal-names-everything", |t| Box::pin(refused(t))),
    Case::new("rbac/a-refusal-at-cluster-scope", |t| Box::pin(refused_cluster(t))),
    Case::new("rbac/a-refusal-of-a-subresource", |t| Box::pin(refused_subresource(t))),
    Case::new("rbac/a-refusal-of-a-path", |t| Box::pin(refused_path(t))),
    Case::new("rbac/a-role-grants-in-its-namespace", |t| Box::pin(role(t))),
    Case::new("rbac/a-role-grants-named-objects", |t| Box::pin(named(t))),
    Case::new("rbac/a-role-grants-verbs-one-by-one", |t| Box::pin(one_verb(t))),
    Case::new("rbac/a-cluster-role-grants-everywhere", |t| Box::pin(cluster_role(t))),
    Case::new("rbac/discovery-is-for-everybody", |t| Box::pin(discovery(t))),
    Case::new("rbac/nobody-grants-more-than-they-have", |t| Box::pin(escalation(t))),
    Case::new("rbac/a-subject-access-review", |t| Box::pin(access_review(t))),
    Case::new("rbac/a-self-subject-access-review", |t| Box::pin(self_review(t))),
    Case::new("rbac/a-token-review", |t| Box::pin(token_review(t))),
    Case::new("rbac/a-self-subject-review", |t| Box::pin(who_am_i(t))),
];

const RBAC: &str = "rbac.authorization.k8s.io/v1";

async fn restricted(t: &CaseRun, method: &str, path: &str, body: &Value) -> Result<Answer> {
    t.as_user(&t.server.restricted(), method, path, body).await
}

async fn grant(t: &CaseRun, rules: Value) -> Result<()> {
    let role = json!({ "metadata": { "name": "granted" }, "rules": rules });
    t.create(&t.api(RBAC, "roles"), &role).await?.code(201)?;
    let binding = json!({
        "metadata": { "name": "granted" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "granted" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "restricted" }],
    });
    t.create(&t.api(RBAC, "rolebindings"), &binding).await?.code(201)?;
    Ok(())
}

/// The real authoriser learns of a new role through a watch.
async fn allowed(t: &CaseRun, method: &str, path: &str) -> Result<()> {
    let client = t.server.restricted();
    for _ in 0..100 {
        let answer = crate::case_run::ask(&client, method, path, &[], Vec::new()).await?;
        if answer.code != 403 {
            answer.code(200)?;
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    anyhow::bail!("{method} {path} is still forbidden")
}

async fn refused(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps");
    let message = format!(
        "configmaps is forbidden: User \"restricted\" cannot list resource \"configmaps\" in API \
         group \"\" in the namespace \"{}\"",
        t.namespace
    );
    let answer = restricted(t, "GET", &path, &Value::Null)
        .await?
        .refused(403, "Forbidden")?;
    answer.has("/message", message)?.has("/details/kind", "configmaps")?;
    for (method, path, body) in [
        ("GET", t.widget("a"), Value::Null),
        ("POST", t.widgets(), json!({})),
        ("PUT", t.widget("a"), json!({})),
        ("DELETE", t.widget("a"), Value::Null),
        ("DELETE", t.widgets(), Value::Null),
        ("GET", format!("{}?watch=true", t.widgets()), Value::Null),
    ] {
        restricted(t, method, &path, &body).await?.refused(403, "Forbidden")?;
    }
    Ok(())
}

async fn refused_cluster(t: &CaseRun) -> Result<()> {
    for path in [
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/api/v1/configmaps",
        "/api/v1/nodes/a",
    ] {
        restricted(t, "GET", path, &Value::Null)
            .await?
            .refused(403, "Forbidden")?;
    }
    Ok(())
}

async fn refused_subresource(t: &CaseRun) -> Result<()> {
    let path = format!("{}/status", t.widget("a"));
    let answer = restricted(t, "GET", &path, &Value::Null)
        .await?
        .refused(403, "Forbidden")?;
    answer.says("cannot get resource \"widgets/status\"")?;
    Ok(())
}

async fn refused_path(t: &CaseRun) -> Result<()> {
    let answer = restricted(t, "GET", "/metrics", &Value::Null)
        .await?
        .refused(403, "Forbidden")?;
    answer.says("forbidden: User \"restricted\" cannot get path \"/metrics\"")?;
    Ok(())
}

async fn role(t: &CaseRun) -> Result<()> {
    let all = ["get", "list", "watch", "create", "delete"];
    grant(
        t,
        json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": all }]),
    )
    .await?;
    allowed(t, "GET", &t.core("configmaps")).await?;
    let body = config_map("a", json!({}));
    restricted(t, "POST", &t.core("configmaps"), &body).await?.code(201)?;
    restricted(t, "GET", &t.core("configmaps/a"), &Value::Null)
        .await?
        .code(200)?;
    restricted(t, "DELETE", &t.core("configmaps/a"), &Value::Null)
        .await?
        .code(200)?;
    restricted(t, "GET", &t.core("secrets"), &Value::Null)
        .await?
        .refused(403, "Forbidden")?;
    let other = "/api/v1/namespaces/default/configmaps";
    restricted(t, "GET", other, &Value::Null)
        .await?
        .refused(403, "Forbidden")?;
    Ok(())
}

async fn named(t: &CaseRun) -> Result<()> {
    let rule = json!({
        "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["a"],
    });
    t.create(&t.core("configmaps"), &config_map("a", json!({})))
        .await?
        .code(201)?;
    grant(t, json!([rule])).await?;
    allowed(t, "GET", &t.core("configmaps/a")).await?;
    restricted(t, "GET", &t.core("configmaps/b"), &Value::Null)
        .await?
        .refused(403, "Forbidden")?;
    restricted(t, "GET", &t.core("configmaps"), &Value::Null)
        .await?
        .refused(403, "Forbidden")?;
    Ok(())
}

async fn one_verb(t: &CaseRun) -> Result<()> {
    let group = ["conformance.example.com"];
    let rules = json!([
        { "apiGroups": group, "resources": ["widgets"], "verbs": ["get", "list"] },
        { "apiGroups": group, "resources": ["widgets/status"], "verbs": ["patch"] },
    ]);
    t.new_widget("a", json!({})).await?;
    grant(t, rules).await?;
    allowed(t, "GET", &t.widgets()).await?;
    let client = t.server.restricted();
    let merge = [("content-type", crate::case_run::MERGE)];
    let body = |phase| json!({ "status": { "phase": phase } }).to_string().into_bytes();
    let status = format!("{}/status", t.widget("a"));
    let answer = crate::case_run::ask(&client, "PATCH", &status, &merge, body("Up")).await?;
    t.record(&answer).await;
    answer.code(200)?;
    let answer = crate::case_run::ask(&client, "PATCH", &t.widget("a"), &merge, body("Up")).await?;
    t.record(&answer).await;
    answer.refused(403, "Forbidden")?;
    Ok(())
}

async fn cluster_role(t: &CaseRun) -> Result<()> {
    let name = t.namespace.clone();
    let role = json!({
        "metadata": { "name": name },
        "rules": [{ "apiGroups": ["policy"], "resources": ["*"], "verbs": ["list"] }],
    });
    let base = format!("/apis/{RBAC}");
    t.create(&format!("{base}/clusterroles"), &role).await?.code(201)?;
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "restricted" }],
    });
    t.create(&format!("{base}/clusterrolebindings"), &binding)
        .await?
        .code(201)?;
    allowed(t, "GET", "/apis/policy/v1/poddisruptionbudgets").await?;
    t.delete(&format!("{base}/clusterrolebindings/{name}"))
        .await?
        .code(200)?;
    t.delete(&format!("{base}/clusterroles/{name}")).await?.code(200)?;
    Ok(())
}

async fn discovery(t: &CaseRun) -> Result<()> {
    let client = t.server.restricted();
    for path in ["/api", "/apis", "/version", "/healthz", "/openapi/v3"] {
        crate::case_run::ask(&client, "GET", path, &[], Vec::new())
            .await?
            .code(200)?;
    }
    Ok(())
}

async fn escalation(t: &CaseRun) -> Result<()> {
    let roles = json!({
        "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
        "verbs": ["create", "list"],
    });
    grant(t, json!([roles])).await?;
    allowed(t, "GET", &t.api(RBAC, "roles")).await?;
    let wide = json!({
        "metadata": { "name": "wide" },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }],
    });
    let answer = restricted(t, "POST", &t.api(RBAC, "roles"), &wide).await?;
    answer
        .refused(403, "Forbidden")?
        .says("attempting to grant RBAC permissions not currently held")?;
    Ok(())
}

async fn access_review(t: &CaseRun) -> Result<()> {
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    for (user, groups) in [("restricted", json!([])), ("anybody", json!(["system:masters"]))] {
        let review = json!({ "spec": { "user": user, "groups": groups, "resourceAttributes": {
            "namespace": t.namespace, "verb": "get", "group": "", "resource": "secrets",
        } } });
        t.create(path, &review)
            .await?
            .code(201)?
            .has("/status/allowed", user == "anybody")?;
    }
    t.create(path, &json!({ "spec": {} })).await?.code(422)?;
    Ok(())
}

async fn self_review(t: &CaseRun) -> Result<()> {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({ "spec": { "resourceAttributes": {
        "namespace": t.namespace, "verb": "get", "resource": "secrets",
    } } });
    let answer = restricted(t, "POST", path, &review).await?.code(201)?;
    answer.has("/status/allowed", false)?;
    t.create(path, &review).await?.code(201)?.has("/status/allowed", true)?;
    Ok(())
}

async fn token_review(t: &CaseRun) -> Result<()> {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let known = json!({ "spec": { "token": t.server.token() } });
    let answer = t.quiet("POST", path, &[], known.to_string()).await?.code(201)?;
    let answer = answer.has("/status/authenticated", true)?;
    t.note("groups", answer.at("/status/user/groups")).await;
    let unknown = json!({ "spec": { "token": "nobody-knows-this" } });
    let answer = t.create(path, &unknown).await?.code(201)?;
    answer.lacks("/status/authenticated")?;
    Ok(())
}

async fn who_am_i(t: &CaseRun) -> Result<()> {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = restricted(t, "POST", path, &json!({})).await?.code(201)?;
    answer.has("/status/userInfo/username", "restricted")?;
    Ok(())
}
