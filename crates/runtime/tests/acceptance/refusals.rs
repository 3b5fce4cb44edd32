//! Promise: a rejection because of RBAC, a quota or a policy is shown with the
//! server's own message, written once, and retried slowly.

use std::sync::Arc;

use aplomb::{Action, Context, Controller, Engine, Predicate, Result};
use aplomb_simulation::faults::{Fault, Match, Rule};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, Secret};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::{Answers, Lab, on_box, on_real, page, seconds, wait_until};
use crate::page::{self, Page};

/// A condition of the page: reason and message.
async fn condition_text(pages: &Api<Page>, kind: &str) -> Option<(String, String)> {
    let status = pages.get("front").await.unwrap().status?;
    let mut conditions = status.conditions.into_iter();
    let found = conditions.find(|it| it.type_ == kind)?;
    Some((found.reason, found.message))
}

async fn refused(pages: &Api<Page>) -> Option<String> {
    let (reason, message) = condition_text(pages, "Reconciling").await?;
    (reason == "Forbidden").then_some(message)
}

async fn quota(lab: &Lab) -> Api<ResourceQuota> {
    let quotas: Api<ResourceQuota> = Api::namespaced(lab.user(), "default");
    let quota = json!({ "metadata": { "name": "few" }, "spec": { "hard": { "configmaps": "0" } } });
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    // As the quota controller would write it.
    let counted = json!({ "status": { "hard": { "configmaps": "0" }, "used": { "configmaps": "0" } } });
    let (parameters, counted) = (PatchParams::default(), Patch::Merge(counted));
    quotas.patch_status("few", &parameters, &counted).await.unwrap();
    quotas
}

/// A quota has no room for the child, until the quota is deleted.
async fn out_of_quota(lab: Lab) {
    let quotas = quota(&lab).await;
    let pages = page(&lab).await;
    let answers = Answers::default();
    let client = answers.for_client(&lab.client("operator").0);
    let scenario = async {
        wait_until(seconds(10), "the status of the page shows it", || async {
            refused(&pages).await.is_some()
        })
        .await;
        sleep(seconds(120)).await;
        let message = refused(&pages).await.unwrap();
        for part in [
            "ConfigMap default/front",
            "exceeded quota: few",
            "limited: configmaps=0",
        ] {
            assert!(message.contains(part), "{message}");
        }
        let writes = answers.writes();
        let statuses = writes.iter().filter(|it| it.path.ends_with("/status"));
        assert_eq!(statuses.count(), 1, "the status is written once");
        let tries = writes.iter().filter(|it| it.code == 403).count();
        assert!((3..20).contains(&tries), "{tries}");
        quotas.delete("few", &DeleteParams::default()).await.unwrap();
        wait_until(seconds(70), "the child is created after the quota is gone", || async {
            let ready = condition_text(&pages, "Ready").await;
            ready.is_some_and(|(reason, _)| reason == "Settled")
        })
        .await;
        assert_eq!(condition_text(&pages, "Reconciling").await, None);
    };
    tokio::select! { biased;
        () = scenario => {}
        ended = page::operator(client).run(std::future::pending()) => panic!("it ended: {ended:?}"),
    }
}

#[test]
fn a_quota_that_is_exceeded_is_named() {
    on_box(1, out_of_quota);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_quota_that_is_exceeded_is_named() {
    on_real(out_of_quota);
}

#[test]
fn rejected_token_is_reported() {
    let message = on_box(2, |lab| async move {
        let pages = page(&lab).await;
        let (client, faults) = lab.client("operator");
        let children = Match::writes().resource("configmaps");
        faults.add(Rule::new(Fault::Unauthorized).on(children));
        tokio::select! { biased;
            () = sleep(seconds(30)) => {}
            ended = page::operator(client).run(std::future::pending()) => panic!("it ended: {ended:?}"),
        }
        refused(&pages).await
    });
    let message = message.expect("the status has a message");
    assert!(message.ends_with("Unauthorized"), "{message}");
}

/// Creates a Secret, or a config map through the bare client.
async fn publish_secret_error(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let metadata = ObjectMeta {
        name: Some("kept".to_owned()),
        ..ObjectMeta::default()
    };
    if page.spec.title == "secret" {
        let data = [("key".to_owned(), "hunter2".to_owned())].into();
        cx.apply(Secret {
            metadata,
            string_data: Some(data),
            ..Secret::default()
        })
        .await?;
    } else {
        let maps: Api<ConfigMap> = Api::namespaced(cx.client(), "default");
        let data = [("key".to_owned(), "hunter2".to_owned())].into();
        let map = ConfigMap {
            metadata,
            data: Some(data),
            ..ConfigMap::default()
        };
        maps.create(&PostParams::default(), &map).await?;
    }
    Ok(Action::Done)
}

/// A policy whose message quotes the rejected value.
async fn policy(lab: &Lab) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "telltale" },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps", "secrets"],
            }] },
            "validations": [{
                "expression": "object.metadata.name != 'kept'",
                "reason": "Forbidden",
                "messageExpression": "'bad value ' + object.data['key']",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "telltale" },
        "spec": { "policyName": "telltale", "validationActions": ["Deny"] },
    });
    for (plural, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ] {
        create(lab, plural, &object).await;
    }
}

async fn create(lab: &Lab, plural: &str, object: &Value) {
    let request = http::Request::post(format!("/apis/admissionregistration.k8s.io/v1/{plural}"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(object).unwrap())
        .unwrap();
    lab.user().request::<Value>(request).await.unwrap();
}

/// The page's message about a policy that rejects its child.
async fn by_policy(lab: Lab, title: &'static str) -> String {
    policy(&lab).await;
    let pages = page(&lab).await;
    let patch = Patch::Merge(json!({ "spec": { "title": title } }));
    let parameters = PatchParams::default();
    pages.patch("front", &parameters, &patch).await.unwrap();
    // On a real server it takes a moment until a policy is enforced.
    sleep(seconds(10)).await;
    let controller = Controller::new("page", publish_secret_error).owns::<Secret>(Predicate::always());
    let engine = Engine::new("pages", lab.client("operator").0).controller(controller);
    tokio::select! { biased;
        () = sleep(seconds(30)) => {}
        ended = engine.run(std::future::pending()) => panic!("it ended: {ended:?}"),
    }
    refused(&pages).await.expect("the status has a message")
}

#[test]
fn policy_message_is_shown_but_not_for_a_secret() {
    let message = on_box(3, |lab| by_policy(lab, "map"));
    let start = "configmaps \"kept\" is forbidden: ValidatingAdmissionPolicy 'telltale'";
    assert!(message.starts_with(start), "{message}");
    let message = on_box(3, |lab| by_policy(lab, "secret"));
    assert_eq!(
        message,
        "apply of Secret default/kept: server responded with 403 Forbidden"
    );
}
