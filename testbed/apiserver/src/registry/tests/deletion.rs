//! Deletion, finalizers, preconditions.

use super::*;

fn finalized(name: &str) -> Value {
    let mut body = widget(name);
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    body
}

#[tokio::test(start_paused = true)]
async fn without_finalizers_an_object_goes_at_once() {
    let server = server();
    let made = create(&server, &widget("a")).await.expect("valid");
    let status = delete(&server, "a").await.expect("there");
    let details = json!({
        "name": "a", "group": "example.com", "kind": "widgets", "uid": object::uid(&made),
    });
    assert_eq!(status["details"], details);
    assert_eq!(status["status"], "Success");
    assert_eq!(delete(&server, "a").await.expect_err("gone").code, 404);
}

#[tokio::test(start_paused = true)]
async fn finalizers_keep_a_deleted_object() {
    let server = server();
    create(&server, &finalized("a")).await.expect("valid");
    let marked = delete(&server, "a").await.expect("there");
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(delete(&server, "a").await.expect("still there"), marked);
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let error = merge(&server, "a", &more).await.expect_err("terminating");
    assert!(
        error
            .message
            .contains("found new finalizers []string{\"example.com/more\"}"),
        "{error}"
    );
    let error = create(&server, &widget("a")).await.expect_err("terminating");
    assert!(error.message.starts_with("object is being deleted: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_last_finalizer_takes_the_object_with_it() {
    let server = server();
    create(&server, &finalized("a")).await.expect("valid");
    let marked = delete(&server, "a").await.expect("there");
    let last = merge(&server, "a", &json!({"metadata": {"finalizers": null}}))
        .await
        .expect("valid");
    assert_eq!(object::resource_version(&last), object::resource_version(&marked));
    assert!(object::finalizers(&last).is_empty());
    assert!(server.get("example.com", "widgets", "default", "a").is_none());
    let storage = GroupResource::new("example.com", "widgets");
    let log = server.store().log(&storage);
    let deletion = log.last().expect("the deletion");
    assert!(deletion.new.is_none());
    assert_eq!(deletion.old.as_deref(), Some(&marked));
}

#[tokio::test(start_paused = true)]
async fn preconditions_hold_a_deletion_back() {
    let server = server();
    let made = create(&server, &widget("a")).await.expect("valid");
    let mut by_uid = call(&server, Verb::Delete).name("a");
    by_uid.options.delete.uid = Some("x".into());
    let error = object(&server, by_uid).await.expect_err("other uid");
    let uid = object::uid(&made);
    assert_eq!(
        error.message,
        format!(
            "Operation cannot be fulfilled on Widget.example.com \"a\": the UID in the precondition (x) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn propagation_policies_are_finalizers() {
    let server = server();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        create(&server, &widget(&finalizer.to_lowercase()))
            .await
            .expect("valid");
        let mut deletion = call(&server, Verb::Delete).name(finalizer.to_lowercase());
        deletion.options.delete.propagation_policy = Some(policy.into());
        let marked = object(&server, deletion).await.expect("there");
        assert_eq!(object::finalizers(&marked), [finalizer]);
    }
}

#[tokio::test(start_paused = true)]
async fn some_namespaces_stay() {
    let server = server();
    let namespaces = server.resource("", "v1", "namespaces").expect("served");
    let error = object(&server, Call::new(Verb::Delete, namespaces).name("default")).await;
    assert_eq!(
        error.expect_err("immortal").message,
        "namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}
