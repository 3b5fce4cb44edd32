//! Policies over requests, without a wire between.

use aplomb_apimachinery::status::ApiError;
use serde_json::{Value, json};

use crate::ApiServer;
use crate::call::{Call, Outcome, Verb};

async fn create(server: &ApiServer, group: &str, plural: &str, body: &Value) -> Result<Outcome, ApiError> {
    let resource = server.resource(group, "v1", plural).expect("a served resource");
    let mut call = Call::new(Verb::Create, resource.clone()).body(body);
    if resource.namespaced {
        call = call.namespace("default");
    }
    server.call(call).await
}

async fn policy(server: &ApiServer, spec: &Value, actions: &Value) {
    let group = "admissionregistration.k8s.io";
    let body = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "p.example.com" }, "spec": spec,
    });
    create(server, group, "validatingadmissionpolicies", &body)
        .await
        .expect("a valid policy");
    let body = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "b.example.com" },
        "spec": { "policyName": "p.example.com", "validationActions": actions },
    });
    create(server, group, "validatingadmissionpolicybindings", &body)
        .await
        .expect("a valid binding");
}

fn config_maps(validations: &Value) -> Value {
    json!({
        "matchConstraints": { "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
        }]},
        "validations": validations,
    })
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

#[tokio::test]
async fn a_bound_policy_refuses_from_the_next_request_on() {
    let server = ApiServer::builder().build();
    create(&server, "", "configmaps", &config_map("before", &json!({})))
        .await
        .expect("no policy yet");
    let validations = json!([{ "expression": "has(object.data.a) && object.data.a == '1'" }]);
    policy(&server, &config_maps(&validations), &json!(["Deny"])).await;
    let error = create(&server, "", "configmaps", &config_map("after", &json!({ "a": "2" })))
        .await
        .expect_err("refused");
    assert_eq!((error.code, error.reason), (422, "Invalid"));
    assert_eq!(
        error.message,
        "configmaps \"after\" is forbidden: ValidatingAdmissionPolicy 'p.example.com' with binding 'b.example.com' denied request: failed expression: has(object.data.a) && object.data.a == '1'"
    );
    create(&server, "", "configmaps", &config_map("good", &json!({ "a": "1" })))
        .await
        .expect("what the policy asks for");
}

#[tokio::test]
async fn variables_are_evaluated_when_asked_for() {
    let server = ApiServer::builder().build();
    let mut spec =
        config_maps(&json!([{ "expression": "variables.size < 3 || variables.broken", "message": "too many" }]));
    spec["variables"] = json!([
        { "name": "size", "expression": "object.?data.orValue({}).size()" },
        { "name": "broken", "expression": "variables.size > 5 && object.none.at.all == 1" },
    ]);
    policy(&server, &spec, &json!(["Deny"])).await;
    let few = json!({ "a": "", "b": "" });
    create(&server, "", "configmaps", &config_map("few", &few))
        .await
        .expect("the second variable is not evaluated");
    let some = json!({ "a": "", "b": "", "c": "" });
    let error = create(&server, "", "configmaps", &config_map("some", &some))
        .await
        .expect_err("refused");
    assert!(error.message.ends_with("denied request: too many"), "{}", error.message);
    let many = json!({ "a": "", "b": "", "c": "", "d": "", "e": "", "f": "" });
    let error = create(&server, "", "configmaps", &config_map("many", &many))
        .await
        .expect_err("refused");
    let why = "resulted in error: composited variable \"broken\" fails to evaluate: no such key: none";
    assert!(error.message.ends_with(why), "{}", error.message);
}

#[tokio::test]
async fn warnings_and_annotations_travel_with_the_call() {
    let server = ApiServer::builder().build();
    let mut spec =
        config_maps(&json!([{ "expression": "false", "messageExpression": "'no ' + object.metadata.name" }]));
    spec["auditAnnotations"] = json!([{ "key": "who", "valueExpression": "request.userInfo.username" }]);
    policy(&server, &spec, &json!(["Warn", "Audit"])).await;
    let resource = server.resource("", "v1", "configmaps").expect("a served resource");
    let call = Call::new(Verb::Create, resource)
        .namespace("default")
        .body(&config_map("a", &json!({})));
    let notes = call.notes.clone();
    server.call(call).await.expect("nothing is refused");
    assert_eq!(
        notes.warnings(),
        ["Validation failed for ValidatingAdmissionPolicy 'p.example.com' with binding 'b.example.com': no a"]
    );
    let annotations = notes.annotations();
    assert_eq!(annotations["p.example.com/who"], "system:apiserver");
    assert_eq!(
        annotations["validation.policy.admission.k8s.io/validation_failure"],
        "[{\"message\":\"no a\",\"policy\":\"p.example.com\",\"binding\":\"b.example.com\",\"expressionIndex\":0,\"validationActions\":[\"Warn\",\"Audit\"]}]"
    );
}
