//! PodSecurity over requests, without a wire between.

use aplomb_apimachinery::status::ApiError;
use serde_json::{Value, json};

use crate::ApiServer;
use crate::admission::Notes;
use crate::call::{Call, PatchType, Verb};
use crate::subresource::{self, Subresource};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// A call in the namespace `here`, with what was noted about it.
async fn call(
    server: &ApiServer,
    verb: Verb,
    (group, plural): (&str, &str),
    body: &Value,
) -> (Result<(), ApiError>, Notes) {
    let resource = server.resource(group, "v1", plural).expect("it is served");
    let mut call = Call::new(verb, resource.clone()).body(body);
    if resource.namespaced {
        call = call.namespace("here");
    }
    if verb == Verb::Patch {
        let name = aplomb_apimachinery::object::name(body).to_owned();
        call = call.name(&name).patch(PatchType::Merge);
    }
    let notes = call.notes.clone();
    (server.call(call).await.map(drop), notes)
}

/// A server with a namespace `here` that has these labels.
async fn labelled(labels: &[(&str, &str)]) -> ApiServer {
    let server = ApiServer::builder().build();
    let namespace = namespace(labels);
    let (made, _) = call(&server, Verb::Create, ("", "namespaces"), &namespace).await;
    made.expect("labels that are understood");
    server
}

fn namespace(labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<String, Value> = labels
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)))
        .collect();
    json!({ "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "here", "labels": labels } })
}

fn pod(name: &str, host_network: bool) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": {
        "hostNetwork": host_network,
        "containers": [{ "name": "a", "image": "registry.example.com/a:1" }],
    }})
}

const PODS: (&str, &str) = ("", "pods");
const NETWORK: &str = "host namespaces (hostNetwork=true)";

#[tokio::test]
async fn a_forbidden_pod_is_refused_by_its_name() {
    let server = labelled(&[("enforce", "baseline"), ("enforce-version", "v1.20")]).await;
    let (refused, notes) = call(&server, Verb::Create, PODS, &pod("a", true)).await;
    let refused = refused.expect_err("forbidden");
    assert_eq!((refused.code, refused.reason), (403, "Forbidden"));
    assert_eq!(
        refused.message,
        format!("pods \"a\" is forbidden: violates PodSecurity \"baseline:v1.20\": {NETWORK}")
    );
    assert!(notes.warnings().is_empty());
    let mut unnamed = pod("", true);
    unnamed["metadata"] = json!({ "generateName": "made-" });
    let (refused, _) = call(&server, Verb::Create, PODS, &unnamed).await;
    let message = refused.expect_err("forbidden").message;
    assert!(message.starts_with("pods \"made-"), "{message}");
    assert!(!message.starts_with("pods \"made-\""), "{message}");
    let (made, _) = call(&server, Verb::Create, PODS, &pod("b", false)).await;
    assert_eq!(made, Ok(()));
}

#[tokio::test]
async fn what_is_audited_and_warned_about_is_let_through() {
    let server = labelled(&[("audit", "baseline"), ("warn", "baseline")]).await;
    let (made, notes) = call(&server, Verb::Create, PODS, &pod("a", true)).await;
    assert_eq!(made, Ok(()));
    let violation = format!("would violate PodSecurity \"baseline:latest\": {NETWORK}");
    assert_eq!(notes.warnings().join(""), violation);
    let annotations = notes.annotations();
    assert_eq!(annotations[&format!("{PREFIX}audit-violations")], violation);
    let enforced = &annotations[&format!("{PREFIX}enforce-policy")];
    assert_eq!(enforced, "privileged:latest");
}

#[tokio::test]
async fn what_makes_pods_is_warned_about_and_never_refused() {
    let server = labelled(&[("enforce", "baseline")]).await;
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod("", true)["spec"] });
    let set = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "a" },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": template } });
    let (made, notes) = call(&server, Verb::Create, ("apps", "daemonsets"), &set).await;
    assert_eq!(made, Ok(()));
    let violation = format!("would violate PodSecurity \"baseline:latest\": {NETWORK}");
    assert_eq!(notes.warnings().join(""), violation);
    let mut template = json!({ "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "a" } });
    template["template"] = set["spec"]["template"].clone();
    let (made, notes) = call(&server, Verb::Create, ("", "podtemplates"), &template).await;
    assert_eq!((made, notes.warnings()), (Ok(()), vec![violation]));
}

#[tokio::test]
async fn labels_are_judged_when_they_change() {
    let server = labelled(&[]).await;
    let namespaces = ("", "namespaces");
    let bad = namespace(&[("enforce", "most"), ("warn-version", "1.2")]);
    let (refused, _) = call(&server, Verb::Patch, namespaces, &bad).await;
    let refused = refused.expect_err("not understood");
    assert_eq!((refused.code, refused.reason), (422, "Invalid"));
    assert!(refused.message.starts_with(
        "Namespace \"here\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: \
         Invalid value: \"most\": must be one of privileged, baseline, restricted, "
    ));
    let (made, notes) = call(&server, Verb::Create, PODS, &pod("a", true)).await;
    assert_eq!(made, Ok(()));
    assert!(notes.warnings().is_empty());
    let more = namespace(&[("enforce", "baseline")]);
    let (changed, notes) = call(&server, Verb::Patch, namespaces, &more).await;
    assert_eq!(changed, Ok(()));
    assert_eq!(
        notes.warnings(),
        [
            "existing pods in namespace \"here\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a: host namespaces",
        ]
    );
}

#[tokio::test]
async fn a_pod_that_is_there_may_change_in_what_does_not_matter() {
    let server = labelled(&[]).await;
    let (made, _) = call(&server, Verb::Create, PODS, &pod("a", true)).await;
    assert_eq!(made, Ok(()));
    let baseline = namespace(&[("enforce", "baseline")]);
    let (changed, _) = call(&server, Verb::Patch, ("", "namespaces"), &baseline).await;
    assert_eq!(changed, Ok(()));
    let label = json!({ "metadata": { "name": "a", "labels": { "a": "b" } } });
    let (changed, _) = call(&server, Verb::Patch, PODS, &label).await;
    assert_eq!(changed, Ok(()));
    let image = json!({ "metadata": { "name": "a" },
        "spec": { "containers": [{ "name": "a", "image": "registry.example.com/a:2" }] } });
    let (refused, _) = call(&server, Verb::Patch, PODS, &image).await;
    assert_eq!(refused.expect_err("judged again").code, 403);
    let debug = json!({ "spec": { "ephemeralContainers": [
        { "name": "d", "image": "registry.example.com/d:1" }] } });
    let pods = server.resource("", "v1", "pods").expect("it is served");
    let change = Call::new(Verb::Patch, pods).namespace("here").name("a");
    let change = change.patch(PatchType::Merge).body(&debug);
    let refused = subresource::handle(&server, Subresource::EphemeralContainers, change).await;
    assert_eq!(refused.map(drop).expect_err("judged again").code, 403);
}

#[tokio::test]
async fn labels_that_came_past_the_check_forbid_the_most_and_are_noted() {
    let server = labelled(&[]).await;
    let lost = namespace(&[("enforce", "most"), ("audit", "baseline"), ("warn", "x")]);
    let namespaces = server.resource("", "v1", "namespaces").expect("served");
    let mut change = Call::new(Verb::Patch, namespaces).name("here");
    change.part = aplomb_apimachinery::resource::Part::Status;
    let changed = server.call(change.patch(PatchType::Merge).body(&lost)).await;
    assert!(changed.is_ok(), "a status is not looked at");
    let (refused, notes) = call(&server, Verb::Create, PODS, &pod("a", true)).await;
    let message = refused.expect_err("nobody knows what is allowed").message;
    assert!(message.contains("violates PodSecurity \"restricted:latest\""));
    let annotations = notes.annotations();
    let why = "must be one of privileged, baseline, restricted";
    assert_eq!(
        annotations[&format!("{PREFIX}error")],
        format!(
            "Failed to parse policy: [metadata.labels[{PREFIX}enforce]: Invalid value: \"most\": {why}, \
             metadata.labels[{PREFIX}warn]: Invalid value: \"x\": {why}]"
        )
    );
    assert_eq!(
        annotations[&format!("{PREFIX}audit-violations")],
        format!("would violate PodSecurity \"baseline:latest\": {NETWORK}")
    );
}
