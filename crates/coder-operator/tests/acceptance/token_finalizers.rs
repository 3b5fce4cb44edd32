//! Guarantee: the Secret with a token outlives the keys and proxies created with it, and no other
//! field of it is changed; its finalizer is removed when nothing needs it any more, whatever
//! happened to the objects and the operator.

use aplomb_fake_services::coderd::Role;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::claims::{leftover, proxy_leftover, proxy_unsettled, unsettled, wait_until_settled};
use crate::lab::{Around, Lab, NAMESPACE, OTHER_SECRET, SECRET, TEAM, minutes, on_box, seconds, until};
use crate::objects::server;
use crate::operator::Replica;
use crate::site;

const FINALIZER: &str = "coder.aplomb.dev/token";

fn finalizers(lab: &Lab, secret: &str) -> Option<Vec<String>> {
    let stored = lab.stored_object("", "secrets", secret)?;
    let all = stored.pointer("/metadata/finalizers").cloned();
    Some(all.map_or_else(Vec::new, |it| serde_json::from_value(it).unwrap()))
}

fn has_finalizer(lab: &Lab, secret: &str) -> bool {
    finalizers(lab, secret).is_some_and(|it| it == [FINALIZER])
}

fn lacks_finalizer(lab: &Lab, secret: &str) -> bool {
    finalizers(lab, secret).is_none_or(|it| it.is_empty())
}

async fn delete_secret(lab: &Lab, name: &str) {
    let params = DeleteParams::default();
    lab.secrets().delete(name, &params).await.unwrap();
}

async fn patch_secret(lab: &Lab, name: &str, patch: Value) {
    let params = PatchParams::default();
    let secrets = lab.secrets();
    secrets.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
}

async fn delete_namespace(lab: &Lab) {
    let namespaces: Api<Namespace> = Api::all(lab.user());
    let params = DeleteParams::default();
    namespaces.delete(NAMESPACE, &params).await.unwrap();
}

fn namespace_is_gone(lab: &Lab) -> bool {
    let all = lab.cluster.server().list("", "namespaces");
    let mut names = all.iter().filter_map(|it| it.pointer("/metadata/name"));
    !names.any(|it| it == NAMESPACE)
}

/// Runs with an owner's token, for both kinds.
fn run_with_gc<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let around = Around::with_seed(seed).with_server(|it| it.role = Role::Owner);
    around.run(scenario)
}

#[test]
fn a_namespace_that_is_deleted_takes_its_keys_and_proxies_along() {
    run_with_gc(1, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.proxy("near", &json!({})).await;
        wait_until_settled(minutes(5), || proxy_unsettled(&lab, "near"))
            .await
            .unwrap();
        delete_namespace(&lab).await;
        let took = until(minutes(30), "the namespace is deleted", || namespace_is_gone(&lab)).await;
        println!("a namespace with a key and a proxy is deleted after {took:.0?}");
        assert!(lab.coderd.names().is_empty(), "{:?}", lab.coderd.names());
        assert!(lab.coderd.proxies().is_empty(), "{:?}", lab.coderd.proxies());
    });
}

#[test]
fn nothing_else_of_the_secret_is_touched() {
    on_box(2, |lab| async move {
        patch_secret(&lab, SECRET, json!({ "metadata": { "labels": { "a": "b" } } })).await;
        let before = lab.stored_object("", "secrets", SECRET).unwrap();
        let _replica = lab.start_settled(&json!({})).await;
        assert!(has_finalizer(&lab, SECRET));
        lab.delete(TEAM).await;
        wait_until_settled(minutes(20), || leftover(&lab, TEAM)).await.unwrap();
        until(seconds(10), "the finalizer is removed", || {
            lacks_finalizer(&lab, SECRET)
        })
        .await;
        let after = lab.stored_object("", "secrets", SECRET).unwrap();
        for path in [
            "/data",
            "/type",
            "/metadata/labels",
            "/metadata/annotations",
            "/metadata/ownerReferences",
        ] {
            assert_eq!(before.pointer(path), after.pointer(path), "{path}");
        }
    });
}

#[test]
fn it_is_kept_for_the_last_of_all_that_share_it() {
    run_with_gc(3, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.provisioner("second", &json!({})).await;
        lab.wait_ready("second", minutes(2)).await;
        lab.proxy("near", &json!({})).await;
        wait_until_settled(minutes(5), || proxy_unsettled(&lab, "near"))
            .await
            .unwrap();
        for name in [TEAM, "second"] {
            lab.delete(name).await;
            until(minutes(20), "it is deleted", || !lab.exists(name)).await;
            sleep(minutes(1)).await;
            assert!(has_finalizer(&lab, SECRET), "{name} was not the last");
        }
        lab.delete_proxy("near").await;
        wait_until_settled(minutes(20), || proxy_leftover(&lab, "near"))
            .await
            .unwrap();
        until(seconds(10), "the finalizer is removed", || {
            lacks_finalizer(&lab, SECRET)
        })
        .await;
    });
}

#[test]
fn a_secret_that_is_deleted_waits_and_reports_why() {
    on_box(4, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        delete_secret(&lab, SECRET).await;
        sleep(minutes(20)).await;
        assert!(has_finalizer(&lab, SECRET), "the finalizer is present");
        let said = lab.condition(TEAM, "OperatorAccessReady");
        assert_eq!(said.reason, "OperatorTokenSecretUnavailable", "{said:?}");
        assert!(said.message.contains("being deleted"), "{said:?}");
        let key = lab.key_name(TEAM);
        assert_eq!(lab.coderd.connected(&key), 2, "the daemons keep their key");
        // Another Secret for the same server releases it.
        let servers = json!({ "coder.aplomb.dev/servers": site::URL });
        lab.put_secret("next", site::NEXT_TOKEN, &servers).await;
        let next = json!({ "spec": { "server": { "tokenSecretRef": { "name": "next" } } } });
        lab.edit(TEAM, &next).await;
        until(minutes(2), "it is deleted", || finalizers(&lab, SECRET).is_none()).await;
        until(minutes(1), "the next Secret is kept", || has_finalizer(&lab, "next")).await;
        assert_eq!(lab.key_name(TEAM), key, "with the same key");
        delete_secret(&lab, "next").await;
        lab.delete(TEAM).await;
        wait_until_settled(minutes(20), || leftover(&lab, TEAM)).await.unwrap();
        until(seconds(10), "it is deleted", || finalizers(&lab, "next").is_none()).await;
    });
}

#[test]
fn a_former_servers_secret_is_kept_until_its_key_is_gone() {
    on_box(5, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.coderd.fault(&json!({ "method": "DELETE", "status": 503 }));
        lab.edit(TEAM, &json!({ "spec": { "server": server(&lab.other) } }))
            .await;
        sleep(minutes(20)).await;
        delete_secret(&lab, SECRET).await;
        sleep(minutes(5)).await;
        assert!(has_finalizer(&lab, SECRET) && has_finalizer(&lab, OTHER_SECRET));
        lab.coderd.clear_faults();
        wait_until_settled(minutes(30), || unsettled(&lab, TEAM)).await.unwrap();
        assert!(lab.coderd.names().is_empty());
        until(minutes(1), "it is deleted", || finalizers(&lab, SECRET).is_none()).await;
        assert!(has_finalizer(&lab, OTHER_SECRET));
    });
}

#[test]
fn a_finalizer_that_is_taken_away_comes_back() {
    on_box(6, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        patch_secret(&lab, SECRET, json!({ "metadata": { "finalizers": null } })).await;
        until(seconds(10), "it is back", || has_finalizer(&lab, SECRET)).await;
    });
}

/// The object was removed by force, with the operator running or not; another writer co-owns the
/// finalizer.
#[test]
fn a_finalizer_that_nothing_needs_is_swept() {
    for away in [true, false] {
        on_box(7, move |lab| async move {
            let replica = lab.start_settled(&json!({})).await;
            patch_secret(&lab, OTHER_SECRET, json!({ "metadata": { "finalizers": [FINALIZER] } })).await;
            until(seconds(10), "a finalizer that nothing needed", || {
                lacks_finalizer(&lab, OTHER_SECRET)
            })
            .await;
            if away {
                replica.component.crash();
            }
            lab.delete(TEAM).await;
            lab.edit(TEAM, &json!({ "metadata": { "finalizers": null } })).await;
            until(seconds(10), "it is deleted", || !lab.exists(TEAM)).await;
            let next = away.then(|| Replica::start(&lab, "second"));
            until(minutes(2), "the finalizer is removed", || lacks_finalizer(&lab, SECRET)).await;
            drop(next);
        });
    }
}

/// A Secret that was restored from a backup: managedFields name another writer of the finalizer.
#[test]
fn a_finalizer_from_a_backup_is_released_in_a_deletion() {
    on_box(9, |lab| async move {
        let replica = lab.start_settled(&json!({})).await;
        replica.component.crash();
        for finalizers in [json!(null), json!([FINALIZER])] {
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            patch_secret(&lab, SECRET, patch).await;
        }
        let _next = Replica::start(&lab, "second");
        delete_secret(&lab, SECRET).await;
        lab.delete(TEAM).await;
        wait_until_settled(minutes(20), || leftover(&lab, TEAM)).await.unwrap();
        let released = || finalizers(&lab, SECRET).is_none();
        until(minutes(2), "the Secret is gone", released).await;
    });
}

#[test]
fn what_is_left_is_reported_in_a_namespace_that_goes_and_the_way_out_works() {
    run_with_gc(8, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.proxy("near", &json!({})).await;
        wait_until_settled(minutes(5), || proxy_unsettled(&lab, "near"))
            .await
            .unwrap();
        let key = lab.key_name(TEAM);
        // The finalizers are removed by force, all at once.
        delete_secret(&lab, SECRET).await;
        patch_secret(&lab, SECRET, json!({ "metadata": { "finalizers": null } })).await;
        delete_namespace(&lab).await;
        sleep(minutes(30)).await;
        for (said, what, command) in [
            (lab.condition(TEAM, "Ready"), &*key, "cprov -n coder team"),
            (lab.proxy_condition("near", "Ready"), "proxy near", "cwp -n coder near"),
        ] {
            assert_eq!(said.reason, "Deleting", "{said:?}");
            let told = &said.message;
            assert!(told.contains(what) && told.contains(site::URL), "{told}");
            let command = format!("kubectl annotate {command} coder.aplomb.dev/abandon=true");
            assert!(told.ends_with(&command), "{told}");
        }
        lab.annotate(TEAM, "coder.aplomb.dev/abandon", "true").await;
        let abandon = json!({ "metadata": { "annotations": { "coder.aplomb.dev/abandon": "true" } } });
        lab.edit_proxy("near", &abandon).await;
        until(minutes(5), "the namespace is deleted", || namespace_is_gone(&lab)).await;
    });
}
