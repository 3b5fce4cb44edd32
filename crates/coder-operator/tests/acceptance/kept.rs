//! Promise: the Secret with a token outlives what was made with it, and nothing else of it is touched; when
//! nothing needs it any more it is let go, whatever became of the objects and of the operator.

use aplomb_fake_services::coderd::Role;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::claims::{left, proxy_left, proxy_unsettled, settles, unsettled};
use crate::lab::{
    Around, Lab, NAMESPACE, OTHER_SECRET, SECRET, TEAM, minutes, on_box, seconds, until,
};
use crate::objects::server;
use crate::operator::Replica;
use crate::site;

const FINALIZER: &str = "coder.aplomb.dev/token";

fn finalizers(lab: &Lab, secret: &str) -> Option<Vec<String>> {
    let stored = lab.stored("", "secrets", secret)?;
    let all = stored.pointer("/metadata/finalizers").cloned();
    Some(all.map_or_else(Vec::new, |it| serde_json::from_value(it).unwrap()))
}

fn is_held(lab: &Lab, secret: &str) -> bool {
    finalizers(lab, secret).is_some_and(|it| it == [FINALIZER])
}

fn is_free(lab: &Lab, secret: &str) -> bool {
    finalizers(lab, secret).is_none_or(|it| it.is_empty())
}

async fn delete_secret(lab: &Lab, name: &str) {
    let params = DeleteParams::default();
    lab.secrets().delete(name, &params).await.unwrap();
}

async fn patch_secret(lab: &Lab, name: &str, patch: Value) {
    let params = PatchParams::default();
    let secrets = lab.secrets();
    secrets
        .patch(name, &params, &Patch::Merge(patch))
        .await
        .unwrap();
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

/// A world in which the token is an owner's, for both kinds.
fn on_owned<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let around = Around::seed(seed).server(|it| it.role = Role::Owner);
    around.run(scenario)
}

#[test]
fn a_namespace_that_is_deleted_takes_its_keys_and_proxies_along() {
    on_owned(1, |lab| async move {
        let _replica = lab.settled(&json!({})).await;
        lab.proxy("near", &json!({})).await;
        settles(minutes(5), || proxy_unsettled(&lab, "near"))
            .await
            .unwrap();
        delete_namespace(&lab).await;
        let took = until(minutes(30), "the namespace goes", || {
            namespace_is_gone(&lab)
        })
        .await;
        println!("a namespace with a key and a proxy is gone after {took:.0?}");
        assert!(lab.coderd.names().is_empty(), "{:?}", lab.coderd.names());
        assert!(
            lab.coderd.proxies().is_empty(),
            "{:?}",
            lab.coderd.proxies()
        );
    });
}

#[test]
fn nothing_else_of_the_secret_is_touched() {
    on_box(2, |lab| async move {
        patch_secret(
            &lab,
            SECRET,
            json!({ "metadata": { "labels": { "a": "b" } } }),
        )
        .await;
        let before = lab.stored("", "secrets", SECRET).unwrap();
        let _replica = lab.settled(&json!({})).await;
        assert!(is_held(&lab, SECRET));
        lab.delete(TEAM).await;
        settles(minutes(20), || left(&lab, TEAM)).await.unwrap();
        until(seconds(10), "it is let go", || is_free(&lab, SECRET)).await;
        let after = lab.stored("", "secrets", SECRET).unwrap();
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
    on_owned(3, |lab| async move {
        let _replica = lab.settled(&json!({})).await;
        lab.provisioner("second", &json!({})).await;
        lab.ready("second", minutes(2)).await;
        lab.proxy("near", &json!({})).await;
        settles(minutes(5), || proxy_unsettled(&lab, "near"))
            .await
            .unwrap();
        for name in [TEAM, "second"] {
            lab.delete(name).await;
            until(minutes(20), "it goes", || !lab.exists(name)).await;
            sleep(minutes(1)).await;
            assert!(is_held(&lab, SECRET), "{name} was not the last");
        }
        lab.delete_proxy("near").await;
        settles(minutes(20), || proxy_left(&lab, "near"))
            .await
            .unwrap();
        until(seconds(10), "it is let go", || is_free(&lab, SECRET)).await;
    });
}

#[test]
fn a_secret_that_is_deleted_waits_and_says_why() {
    on_box(4, |lab| async move {
        let _replica = lab.settled(&json!({})).await;
        delete_secret(&lab, SECRET).await;
        sleep(minutes(20)).await;
        assert!(is_held(&lab, SECRET), "it is there");
        let said = lab.condition(TEAM, "OperatorAccessReady");
        assert_eq!(said.reason, "OperatorTokenSecretUnavailable", "{said:?}");
        assert!(said.message.contains("being deleted"), "{said:?}");
        let key = lab.key_name(TEAM);
        assert_eq!(lab.coderd.connected(&key), 2, "the daemons keep their key");
        // Another Secret of the same server sets it free.
        let servers = json!({ "coder.aplomb.dev/servers": site::URL });
        lab.put_secret("next", site::NEXT_TOKEN, &servers).await;
        let next = json!({ "spec": { "server": { "tokenSecretRef": { "name": "next" } } } });
        lab.edit(TEAM, &next).await;
        until(minutes(2), "it goes", || finalizers(&lab, SECRET).is_none()).await;
        until(minutes(1), "the next is kept", || is_held(&lab, "next")).await;
        assert_eq!(lab.key_name(TEAM), key, "with the same key");
        delete_secret(&lab, "next").await;
        lab.delete(TEAM).await;
        settles(minutes(20), || left(&lab, TEAM)).await.unwrap();
        until(seconds(10), "it goes", || {
            finalizers(&lab, "next").is_none()
        })
        .await;
    });
}

#[test]
fn a_former_servers_secret_is_kept_until_its_key_is_gone() {
    on_box(5, |lab| async move {
        let _replica = lab.settled(&json!({})).await;
        lab.coderd
            .fault(&json!({ "method": "DELETE", "status": 503 }));
        lab.edit(TEAM, &json!({ "spec": { "server": server(&lab.other) } }))
            .await;
        sleep(minutes(20)).await;
        delete_secret(&lab, SECRET).await;
        sleep(minutes(5)).await;
        assert!(is_held(&lab, SECRET) && is_held(&lab, OTHER_SECRET));
        lab.coderd.behaves();
        settles(minutes(30), || unsettled(&lab, TEAM))
            .await
            .unwrap();
        assert!(lab.coderd.names().is_empty());
        until(minutes(1), "it goes", || finalizers(&lab, SECRET).is_none()).await;
        assert!(is_held(&lab, OTHER_SECRET));
    });
}

#[test]
fn a_finalizer_that_is_taken_away_comes_back() {
    on_box(6, |lab| async move {
        let _replica = lab.settled(&json!({})).await;
        patch_secret(&lab, SECRET, json!({ "metadata": { "finalizers": null } })).await;
        until(seconds(10), "it is back", || is_held(&lab, SECRET)).await;
    });
}

/// The object vanished by force, with the operator there or away; somebody else co-owns the finalizer.
#[test]
fn a_finalizer_that_nothing_needs_is_swept() {
    for away in [true, false] {
        on_box(7, move |lab| async move {
            let replica = lab.settled(&json!({})).await;
            patch_secret(
                &lab,
                OTHER_SECRET,
                json!({ "metadata": { "finalizers": [FINALIZER] } }),
            )
            .await;
            until(seconds(10), "one that nothing needed", || {
                is_free(&lab, OTHER_SECRET)
            })
            .await;
            if away {
                replica.component.crash();
            }
            lab.delete(TEAM).await;
            lab.edit(TEAM, &json!({ "metadata": { "finalizers": null } }))
                .await;
            until(seconds(10), "it goes", || !lab.exists(TEAM)).await;
            let next = away.then(|| Replica::start(&lab, "second"));
            until(minutes(2), "it is let go", || is_free(&lab, SECRET)).await;
            drop(next);
        });
    }
}

/// A Secret that was restored from a backup: managedFields name another writer of the finalizer.
#[test]
fn a_finalizer_from_a_backup_is_released_in_a_deletion() {
    on_box(9, |lab| async move {
        let replica = lab.settled(&json!({})).await;
        replica.component.crash();
        for finalizers in [json!(null), json!([FINALIZER])] {
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            patch_secret(&lab, SECRET, patch).await;
        }
        let _next = Replica::start(&lab, "second");
        delete_secret(&lab, SECRET).await;
        lab.delete(TEAM).await;
        settles(minutes(20), || left(&lab, TEAM)).await.unwrap();
        let released = || finalizers(&lab, SECRET).is_none();
        until(minutes(2), "the Secret is gone", released).await;
    });
}

#[test]
fn what_is_left_is_told_in_a_namespace_that_goes_and_the_way_out_works() {
    on_owned(8, |lab| async move {
        let _replica = lab.settled(&json!({})).await;
        lab.proxy("near", &json!({})).await;
        settles(minutes(5), || proxy_unsettled(&lab, "near"))
            .await
            .unwrap();
        let key = lab.key_name(TEAM);
        // By force, and all at once.
        delete_secret(&lab, SECRET).await;
        patch_secret(&lab, SECRET, json!({ "metadata": { "finalizers": null } })).await;
        delete_namespace(&lab).await;
        sleep(minutes(30)).await;
        for (said, what, command) in [
            (lab.condition(TEAM, "Ready"), &*key, "cprov -n coder team"),
            (
                lab.proxy_condition("near", "Ready"),
                "the proxy near",
                "cwp -n coder near",
            ),
        ] {
            assert_eq!(said.reason, "Deleting", "{said:?}");
            let told = &said.message;
            assert!(told.contains(what) && told.contains(site::URL), "{told}");
            let command = format!("kubectl annotate {command} coder.aplomb.dev/abandon=true");
            assert!(told.ends_with(&command), "{told}");
        }
        lab.annotate(TEAM, "coder.aplomb.dev/abandon", "true").await;
        let abandon =
            json!({ "metadata": { "annotations": { "coder.aplomb.dev/abandon": "true" } } });
        lab.edit_proxy("near", &abandon).await;
        until(minutes(5), "the namespace goes", || namespace_is_gone(&lab)).await;
    });
}
