//! Create, update and patch.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_object_gets_identity_version_and_generation() {
    let server = server();
    let made = create(&server, &widget("a")).await.expect("valid");
    let meta = &made["metadata"];
    assert_eq!(meta["generation"], 1);
    assert_eq!(meta["namespace"], "default");
    assert_eq!(meta["creationTimestamp"], "1970-01-01T00:00:00Z");
    assert_eq!(meta["resourceVersion"], server.store().revision().to_string());
    assert_eq!(meta["uid"].as_str().map(str::len), Some(36));
}

#[tokio::test(start_paused = true)]
async fn creation_is_refused_in_the_servers_words() {
    let server = server();
    create(&server, &widget("a")).await.expect("valid");
    let mut versioned = widget("b");
    versioned["metadata"]["resourceVersion"] = "5".into();
    let mut elsewhere = widget("c");
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut kind = widget("d");
    kind["kind"] = "Other".into();
    let cases = [
        (widget("a"), 409, "widgets.example.com \"a\" already exists"),
        (
            versioned,
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            elsewhere,
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            kind,
            422,
            "Other.example.com \"d\" is invalid: kind: Invalid value: \"Other\": must be Widget",
        ),
        (
            widget(""),
            422,
            "Widget.example.com \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
    ];
    for (body, code, message) in cases {
        let error = create(&server, &body).await.expect_err(message);
        assert_eq!((error.code, error.message.as_str()), (code, message));
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_must_exist_and_stay() {
    let server = server();
    let mut nowhere = call(&server, Verb::Create).body(&widget("Bad Name"));
    nowhere.namespace = Some("nowhere".into());
    let error = object(&server, nowhere).await.expect_err("no such namespace");
    assert_eq!(
        (error.code, error.message.as_str()),
        (404, "namespaces \"nowhere\" not found")
    );
}

#[tokio::test(start_paused = true)]
async fn names_are_generated() {
    let server = server();
    let mut body = widget("");
    body["metadata"] = json!({"generateName": "web-"});
    let made = create(&server, &body).await.expect("valid");
    let name = object::name(&made);
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_and_stores_nothing() {
    let server = server();
    let before = server.store().revision();
    let mut dry = call(&server, Verb::Create).body(&widget("a"));
    dry.options.dry_run = true;
    let made = object(&server, dry).await.expect("valid");
    assert_eq!(object::resource_version(&made), "");
    assert_ne!(object::uid(&made), "");
    assert_eq!(server.store().revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_put_needs_the_current_version() {
    let server = server();
    let made = create(&server, &widget("a")).await.expect("valid");
    let put = |body: &Value| object(&server, call(&server, Verb::Update).name("a").body(body));
    let error = put(&widget("a")).await.expect_err("no version");
    assert_eq!(
        error.message,
        "widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    let mut next = made.clone();
    next["spec"] = json!({"color": "red"});
    let next = put(&next).await.expect("current version");
    assert_eq!(next["metadata"]["generation"], 2);
    let error = put(&made).await.expect_err("stale");
    assert_eq!((error.code, error.reason), (409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn a_put_that_changes_nothing_is_not_a_write() {
    let server = server();
    let made = create(&server, &widget("a")).await.expect("valid");
    let same = object(&server, call(&server, Verb::Update).name("a").body(&made))
        .await
        .expect("same");
    assert_eq!(same, made);
}

#[tokio::test(start_paused = true)]
async fn a_put_names_its_object() {
    let server = server();
    create(&server, &widget("a")).await.expect("valid");
    let put = |body: Value| object(&server, call(&server, Verb::Update).name("a").body(&body));
    let error = put(widget("b")).await.expect_err("other name");
    assert_eq!(
        error.message,
        "the name of the object (b) does not match the name on the URL (a)"
    );
    let mut other = widget("a");
    other["metadata"]["uid"] = "x".into();
    let error = put(other).await.expect_err("other uid");
    assert!(
        error.message.contains("Key: /registry/example.com/widgets/default/a,"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn merge_patches_merge_and_json_patches_test() {
    let server = server();
    create(&server, &widget("a")).await.expect("valid");
    let patched = merge(&server, "a", &json!({"spec": {"color": "red"}}))
        .await
        .expect("valid");
    assert_eq!(patched["spec"]["color"], "red");
    let json_patch = |body: Value| {
        let patch = call(&server, Verb::Patch).name("a").patch(PatchType::Json).body(&body);
        object(&server, patch)
    };
    let replaced = json_patch(json!([
        {"op": "test", "path": "/spec/color", "value": "red"},
        {"op": "replace", "path": "/spec/color", "value": "blue"},
    ]));
    assert_eq!(replaced.await.expect("the test holds")["spec"]["color"], "blue");
    let failed = json_patch(json!([{"op": "test", "path": "/spec/color", "value": "red"}]));
    let error = failed.await.expect_err("the test fails");
    assert_eq!(error.to_status()["details"], json!({}));
    assert_eq!(
        error.message,
        "the server rejected our request due to an error in our request"
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_path_writes_only_the_status() {
    let server = server();
    create(&server, &widget("a")).await.expect("valid");
    let body = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"color": "red"}, "status": {"ok": true}});
    let patch = call(&server, Verb::Patch)
        .name("a")
        .patch(PatchType::Merge)
        .status()
        .body(&body);
    let patched = object(&server, patch).await.expect("valid");
    assert_eq!(patched["status"], json!({"ok": true}));
    assert_eq!(patched.get("spec"), None);
    assert_eq!(patched["metadata"].get("labels"), None);
    assert_eq!(patched["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn immutable_metadata_is_refused_once_per_check() {
    let server = server();
    create(&server, &widget("a")).await.expect("valid");
    let error = merge(&server, "a", &json!({"metadata": {"uid": "z"}}))
        .await
        .expect_err("immutable");
    let causes = error.to_status()["details"]["causes"].clone();
    let cause = json!({
        "reason": "FieldValueInvalid",
        "message": "Invalid value: \"z\": field is immutable",
        "field": "metadata.uid",
    });
    assert_eq!(causes, json!([cause, cause]));
}
