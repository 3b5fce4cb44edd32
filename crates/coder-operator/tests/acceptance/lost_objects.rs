//! Guarantee: deletions and changes by others are noticed and repaired; and no server ever receives
//! the token of another.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use crate::claims::{unsettled, wait_until_settled};
use crate::lab::{Lab, NAMESPACE, SECRET, TEAM, minutes, on_box, seconds, until};
use crate::license::assert_rare;
use crate::objects::server;
use crate::operator::Replica;
use crate::site;

const KEY_SECRET: &str = "team-provisioner-key";

#[test]
fn a_key_that_is_deleted_by_hand_is_replaced() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        sleep(minutes(10)).await;
        assert!(lab.coderd.sim.delete_key("coder", &lab.key_name(TEAM)));
        let healed = || match lab.coderd.names().is_empty() {
            true => Some("no key".to_owned()),
            false => unsettled(&lab, TEAM),
        };
        let took = wait_until_settled(minutes(15), healed).await.unwrap();
        println!("a key deleted by hand is replaced after {took:.0?}");
    });
}

#[test]
fn a_secret_that_is_deleted_or_overwritten_gets_a_working_key_again() {
    for deleted in [true, false] {
        on_box(2, move |lab| async move {
            let _replica = lab.start_settled(&json!({})).await;
            sleep(minutes(1)).await;
            match deleted {
                true => {
                    let gone = lab.secrets().delete(KEY_SECRET, &DeleteParams::default()).await;
                    gone.unwrap();
                }
                false => {
                    let patch = json!({ "stringData": { "key": "x".repeat(43) } });
                    let params = PatchParams::default();
                    let secrets = lab.secrets();
                    let patched = secrets.patch(KEY_SECRET, &params, &Patch::Merge(patch)).await;
                    patched.unwrap();
                }
            }
            sleep(seconds(1)).await;
            let took = wait_until_settled(minutes(15), || unsettled(&lab, TEAM)).await.unwrap();
            let what = if deleted { "deleted" } else { "overwritten" };
            println!("a Secret that was {what} works again after {took:.0?}");
        });
    }
}

#[test]
fn a_deployment_that_is_deleted_comes_back() {
    on_box(3, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        let deployments: Api<Deployment> = Api::namespaced(lab.user(), NAMESPACE);
        let all = deployments.list(&Default::default()).await.unwrap();
        for it in all {
            let name = it.metadata.name.unwrap();
            deployments.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        sleep(seconds(1)).await;
        let took = wait_until_settled(minutes(10), || unsettled(&lab, TEAM)).await.unwrap();
        println!("a Deployment that was deleted is back after {took:.0?}");
        assert_eq!(lab.coderd.names().len(), 1, "with the same key");
    });
}

#[test]
fn a_token_that_is_replaced_is_used_from_then_on() {
    on_box(4, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.token(SECRET, site::NEXT_TOKEN).await;
        sleep(seconds(1)).await;
        let key = lab.status(TEAM).key.expect("a key").name;
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
        let rotated = || match lab.coderd.names().contains(&key) {
            true => Some("the old key exists".to_owned()),
            false => unsettled(&lab, TEAM),
        };
        wait_until_settled(minutes(15), rotated).await.unwrap();
        let bound = lab.status(TEAM).key.expect("a key").binding.token_fingerprint;
        assert!(!bound.is_empty());
    });
}

#[test]
fn a_token_that_is_refused_is_tried_again_every_ten_minutes_at_most() {
    on_box(5, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.token(SECRET, "Nobody0Kno-ws00This00Token00At00A").await;
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
        sleep(seconds(30)).await;
        let access = lab.condition(TEAM, "OperatorAccessReady");
        assert_eq!(access.reason, "TokenRejected", "{access:?}");
        let since = lab.coderd.last_request();
        sleep(minutes(120)).await;
        let requests = lab.coderd.requests(since);
        let calls = requests.len();
        println!("a rejected token: {calls} calls in 2 h");
        assert_rare(&requests);
        assert!(calls <= 20, "{calls}");
        assert_eq!(
            lab.coderd.connected(&lab.key_name(TEAM)),
            2,
            "the daemons have their key"
        );
        lab.token(SECRET, site::NEXT_TOKEN).await;
        let took = wait_until_settled(minutes(5), || unsettled(&lab, TEAM)).await.unwrap();
        println!("the valid token is used after {took:.0?}");
    });
}

#[test]
fn a_token_that_comes_late_is_picked_up_at_once() {
    on_box(6, |lab| async move {
        let deleted = lab.secrets().delete(SECRET, &DeleteParams::default()).await;
        deleted.unwrap();
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        sleep(minutes(20)).await;
        let access = lab.condition(TEAM, "OperatorAccessReady");
        assert_eq!(access.reason, "OperatorTokenSecretUnavailable", "{access:?}");
        assert!(lab.coderd.requests(0).is_empty(), "no call without a token");
        lab.token(SECRET, site::TOKEN).await;
        let took = lab.wait_ready(TEAM, seconds(60)).await;
        println!("a token that arrives late: Ready {took:.1?} after it");
    });
}

/// Each token was sent only to its own server.
fn assert_tokens_apart(lab: &Lab) {
    let sent = lab.sent_requests();
    for (host, token) in &sent {
        let own = match host.as_str() {
            "coder.example.com" => [site::TOKEN, site::NEXT_TOKEN].contains(&token.as_str()),
            _ => token == site::OTHER_TOKEN,
        };
        assert!(own, "{host} was sent the token of another server");
    }
    assert!(!sent.is_empty());
}

#[test]
fn a_server_that_is_replaced_with_its_token_never_sees_the_old_one() {
    on_box(7, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.edit(TEAM, &json!({ "spec": { "server": server(&lab.other) } }))
            .await;
        let moved = || match lab.coderd.names().is_empty() {
            true => unsettled(&lab, TEAM),
            false => Some("the old key exists".to_owned()),
        };
        wait_until_settled(minutes(30), moved).await.unwrap();
        assert_eq!(lab.other.names().len(), 1);
        assert_tokens_apart(&lab);
    });
}

#[test]
fn a_url_that_changes_under_the_same_token_is_refused() {
    on_box(8, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        let url = json!({ "spec": { "server": { "url": site::OTHER_URL } } });
        lab.edit(TEAM, &url).await;
        sleep(minutes(30)).await;
        let access = lab.condition(TEAM, "OperatorAccessReady");
        assert_eq!(access.reason, "TokenOfOtherServer", "{access:?}");
        assert_eq!(
            lab.coderd.connected(&lab.key_name(TEAM)),
            2,
            "the daemons keep their key"
        );
        assert_tokens_apart(&lab);
        // The valid token repairs it.
        lab.edit(TEAM, &json!({ "spec": { "server": server(&lab.other) } }))
            .await;
        let moved = || match lab.other.names().is_empty() {
            true => Some("no new key".to_owned()),
            false => unsettled(&lab, TEAM),
        };
        wait_until_settled(minutes(30), moved).await.unwrap();
        assert_tokens_apart(&lab);
    });
}

#[test]
fn a_secret_that_names_the_new_server_allows_it() {
    on_box(9, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.other.accept_token(site::TOKEN);
        let patch = json!({ "metadata": { "annotations": {
            "coder.aplomb.dev/servers": format!("{},{}", site::URL, site::OTHER_URL),
        } } });
        let params = PatchParams::default();
        let secrets = lab.secrets();
        secrets.patch(SECRET, &params, &Patch::Merge(patch)).await.unwrap();
        let url = json!({ "spec": { "server": { "url": site::OTHER_URL } } });
        lab.edit(TEAM, &url).await;
        let moved = || match lab.other.names().is_empty() {
            true => Some("no new key".to_owned()),
            false => unsettled(&lab, TEAM),
        };
        wait_until_settled(minutes(30), moved).await.unwrap();
        assert!(lab.coderd.names().is_empty(), "the old key is deleted");
    });
}

/// A foreign key with our name is left alone.
#[test]
fn a_foreign_key_of_the_same_name_is_not_touched() {
    on_box(10, |lab| async move {
        let theirs = lab.coderd.sim.create_key("coder", TEAM);
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        sleep(minutes(30)).await;
        assert_eq!(
            lab.coderd.key_for_plaintext(&theirs).as_deref(),
            Some(TEAM),
            "it is the foreign key"
        );
        let said = lab.condition(TEAM, "ProvisionerKeyReady");
        assert!(lab.is_ready(TEAM) || said.reason == "ProvisionerKeyNotOurs", "{said:?}");
        lab.delete(TEAM).await;
        until(minutes(5), "it is deleted", || !lab.exists(TEAM)).await;
        assert_eq!(
            lab.coderd.key_for_plaintext(&theirs).as_deref(),
            Some(TEAM),
            "it is still the foreign key"
        );
    });
}
