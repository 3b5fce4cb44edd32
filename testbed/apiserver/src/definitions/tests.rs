//! From a stored definition to a served resource and back, in virtual time.

use aplomb_apimachinery::clock::Clock;
use aplomb_apimachinery::status::ApiError;
use futures::StreamExt;
use jiff::Timestamp;

use super::*;
use crate::call::{Outcome, PatchType};

fn server() -> ApiServer {
    ApiServer::builder().clock(Clock::new(Timestamp::UNIX_EPOCH, 7)).build()
}

fn definition(color: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"color": {"type": color}}}},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

async fn on_definitions(server: &ApiServer, verb: Verb, body: &Value) -> Result<Value, ApiError> {
    let resource = server.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let mut call = Call::new(verb, resource.expect("built in")).body(body);
    if verb != Verb::Create {
        call = call.name("things.example.com").patch(PatchType::Merge);
    }
    object_of(server.call(call).await?)
}

fn object_of(outcome: Outcome) -> Result<Value, ApiError> {
    match outcome {
        Outcome::Object { object, .. } => Ok(std::sync::Arc::unwrap_or_clone(object)),
        other => panic!("expected an object, got {other:?}"),
    }
}

async fn established() -> ApiServer {
    let server = server();
    on_definitions(&server, Verb::Create, &definition("string"))
        .await
        .expect("valid");
    tokio::time::sleep(Duration::from_secs(1)).await;
    server
}

fn on_things(server: &ApiServer, verb: Verb) -> Call {
    let things = server.resource("example.com", "v1", "things").expect("served by now");
    Call::new(verb, things).namespace("default")
}

async fn make_thing(server: &ApiServer, metadata: Value) -> Result<Value, ApiError> {
    let body = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata});
    object_of(server.call(on_things(server, Verb::Create).body(&body)).await?)
}

fn stored(server: &ApiServer) -> Option<Arc<Value>> {
    server.store().get(&key("things.example.com"))
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_a_moment_after_it_is_stored() {
    let server = server();
    let made = on_definitions(&server, Verb::Create, &definition("string"))
        .await
        .expect("valid");
    assert_eq!(made["status"]["conditions"], Value::Null);
    assert!(server.resource("example.com", "v1", "things").is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(server.resource("example.com", "v1", "things").is_some());
    let crd = stored(&server).expect("there");
    assert!(is_true_condition(&crd, "NamesAccepted") && is_true_condition(&crd, "Established"));
}

#[tokio::test(start_paused = true)]
async fn a_definition_of_the_projects_own_group_needs_approval() {
    let server = server();
    let mut own = definition("string");
    own["metadata"]["name"] = "things.example.k8s.io".into();
    own["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "https://example.com/1"});
    own["spec"]["group"] = "example.k8s.io".into();
    on_definitions(&server, Verb::Create, &own).await.expect("valid");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let crd = server.store().get(&key("things.example.k8s.io")).expect("there");
    assert!(is_true_condition(&crd, "KubernetesAPIApprovalPolicyConformant"));
}

#[tokio::test(start_paused = true)]
async fn a_changed_schema_holds_at_once_and_ends_the_watches() {
    let server = established().await;
    let Ok(Outcome::Watch(mut events)) = server.call(on_things(&server, Verb::Watch)).await else {
        panic!("expected a watch");
    };
    let spec = definition("integer")["spec"].clone();
    on_definitions(&server, Verb::Patch, &json!({"spec": spec}))
        .await
        .expect("valid");
    assert!(events.next().await.is_none());
    let body = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a"}, "spec": {"color": "red"},
    });
    let refused = server.call(on_things(&server, Verb::Create).body(&body)).await;
    assert_eq!(refused.expect_err("no longer a string").code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_label_on_a_definition_ends_no_watch() {
    let server = established().await;
    let Ok(Outcome::Watch(mut events)) = server.call(on_things(&server, Verb::Watch)).await else {
        panic!("expected a watch");
    };
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    on_definitions(&server, Verb::Patch, &label).await.expect("valid");
    make_thing(&server, json!({"name": "a"})).await.expect("valid");
    assert!(events.next().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_instances_with_it() {
    let server = established().await;
    make_thing(&server, json!({"name": "a"})).await.expect("valid");
    let marked = on_definitions(&server, Verb::Delete, &Value::Null)
        .await
        .expect("there");
    assert_eq!(object::finalizers(&marked), [lifecycle::CLEANUP_FINALIZER]);
    let refused = make_thing(&server, json!({"name": "b"}))
        .await
        .expect_err("terminating");
    assert_eq!(
        refused.message,
        "things.example.com \"b\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(stored(&server).is_none());
    assert!(server.resource("example.com", "v1", "things").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_instance_with_a_finalizer_holds_its_definition() {
    let server = established().await;
    make_thing(&server, json!({"name": "a", "finalizers": ["example.com/hold"]}))
        .await
        .expect("valid");
    on_definitions(&server, Verb::Delete, &Value::Null)
        .await
        .expect("there");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(stored(&server).is_some());
    let release = json!({"metadata": {"finalizers": null}});
    let call = on_things(&server, Verb::Patch)
        .name("a")
        .patch(PatchType::Merge)
        .body(&release);
    server.call(call).await.expect("valid");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(stored(&server).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deeply_nested_object_is_carried_through_every_verb() {
    let server = server();
    let mut free = definition("string");
    free["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    on_definitions(&server, Verb::Create, &free).await.expect("valid");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let nested = (0..500).fold(json!(1), |inner, _| json!({ "a": inner }));
    let body = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": nested,
    });
    server
        .call(on_things(&server, Verb::Create).body(&body))
        .await
        .expect("valid");
    for patch_type in [PatchType::Merge, PatchType::Apply] {
        let mut call = on_things(&server, Verb::Patch).name("a").patch(patch_type).body(&body);
        call.options.field_manager = Some("nested".into());
        server.call(call).await.expect("valid");
    }
    server.call(on_things(&server, Verb::List)).await.expect("a list");
}
