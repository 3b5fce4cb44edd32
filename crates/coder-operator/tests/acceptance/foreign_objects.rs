//! Guarantee: a key or proxy of a person or another cluster is neither used nor deleted, whenever
//! it was created and however well its name fits.

use aplomb_api::coder::key_name;
use aplomb_fake_services::coderd::Role;
use aplomb_simulation::{Crash, CrashPoint};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::time::sleep;

use crate::claims::{proxy_unsettled, wait_until_settled};
use crate::lab::{Around, Lab, NAMESPACE, TEAM, minutes, on_box, seconds, until};
use crate::operator::Replica;

const PROXIES: &str = "/api/v2/workspaceproxies";

/// Creates foreign keys with the names that this object would use.
fn create_foreign_keys(lab: &Lab) -> Vec<String> {
    let other = ["another cluster", "a third"].map(|uid| key_name(TEAM, uid, 0));
    let names = [TEAM.to_owned(), "team-1".to_owned()].into_iter();
    names
        .chain(other)
        .map(|it| lab.coderd.sim.create_key("coder", &it))
        .collect()
}

fn assert_keys_exist(lab: &Lab, theirs: &[String]) {
    for one in theirs {
        assert!(lab.coderd.key_for_plaintext(one).is_some(), "{:?}", lab.coderd.names());
    }
}

/// Waits until the object works; rotates its key; deletes it. Only foreign keys are left.
async fn create_and_delete(lab: &Lab, theirs: &[String]) {
    lab.wait_ready(TEAM, minutes(15)).await;
    assert_keys_exist(lab, theirs);
    let first = lab.key_name(TEAM);
    lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
    until(minutes(15), "rotated", || !lab.coderd.names().contains(&first)).await;
    lab.delete(TEAM).await;
    until(minutes(20), "it is deleted", || !lab.exists(TEAM)).await;
    assert_keys_exist(lab, theirs);
    assert_eq!(lab.coderd.names().len(), theirs.len(), "{:?}", lab.coderd.names());
}

#[test]
fn keys_that_were_there_before_are_left_alone() {
    on_box(1, |lab| async move {
        let theirs = create_foreign_keys(&lab);
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        create_and_delete(&lab, &theirs).await;
    });
}

/// Keys created while the name is pending and the response is open, with and without a crash there.
#[test]
fn keys_that_are_made_in_between_are_left_alone() {
    for (dies, fault) in [
        (true, json!({ "method": "POST", "status": 503 })),
        (false, json!({ "method": "POST", "status": 503 })),
        (true, json!({ "method": "POST", "hang": "before" })),
        (false, json!({ "method": "POST", "status": 429 })),
        (true, json!({ "method": "POST", "status": 409 })),
        (false, json!({ "method": "POST", "status": 409 })),
    ] {
        on_box(2, move |lab| async move {
            lab.coderd.fault(&fault);
            let first = Replica::start(&lab, "first");
            lab.provisioner(TEAM, &json!({})).await;
            until(minutes(1), "written down", || lab.status(TEAM).pending.is_some()).await;
            sleep(seconds(2)).await;
            let theirs = create_foreign_keys(&lab);
            if dies {
                first.component.crash();
            }
            lab.coderd.clear_faults();
            let _second = dies.then(|| Replica::start(&lab, "second"));
            create_and_delete(&lab, &theirs).await;
        });
    }
}

/// Crashes around the calls of a first key, with foreign keys created meanwhile.
#[test]
fn keys_that_are_made_during_a_crash_are_left_alone() {
    for effect in 1..24 {
        for point in [CrashPoint::BeforeSend, CrashPoint::AfterCommit] {
            on_box(3, move |lab| async move {
                let first = Replica::start(&lab, "first");
                first.component.crash_at(Crash { effect, point });
                lab.provisioner(TEAM, &json!({})).await;
                sleep(seconds(4)).await;
                let theirs = create_foreign_keys(&lab);
                first.component.crash();
                let _second = Replica::start(&lab, "second");
                lab.wait_ready(TEAM, minutes(15)).await;
                lab.delete(TEAM).await;
                until(minutes(20), "it is deleted", || !lab.exists(TEAM)).await;
                assert_keys_exist(&lab, &theirs);
                assert_eq!(lab.coderd.names().len(), theirs.len(), "{:?}", lab.coderd.names());
            });
        }
    }
}

/// Our key is deleted, and a foreign one with its name is created for other daemons.
#[test]
fn a_key_that_took_the_name_of_ours_is_left_alone() {
    on_box(4, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        sleep(minutes(10)).await;
        let name = lab.key_name(TEAM);
        assert!(lab.coderd.sim.delete_key("coder", &name));
        let theirs = lab.coderd.sim.create_key("coder", &name);
        until(minutes(15), "another key is used", || {
            lab.key_name_now(TEAM).is_some_and(|it| it != name)
        })
        .await;
        lab.wait_ready(TEAM, minutes(15)).await;
        until(minutes(15), "it is reported", || lab.has_event("KeyNotOurs")).await;
        lab.delete(TEAM).await;
        until(minutes(20), "it is deleted", || !lab.exists(TEAM)).await;
        assert_eq!(lab.coderd.key_for_plaintext(&theirs), Some(name));
    });
}

/// The same right before the object is deleted, with daemons and without.
#[test]
fn a_key_that_took_the_name_of_ours_a_moment_ago_is_left_alone() {
    for replicas in [2, 0] {
        on_box(7, move |lab| async move {
            let _replica = lab.start_settled(&json!({ "replicas": replicas })).await;
            sleep(minutes(30)).await;
            let name = lab.key_name(TEAM);
            assert!(lab.coderd.sim.delete_key("coder", &name));
            let theirs = lab.coderd.sim.create_key("coder", &name);
            lab.delete(TEAM).await;
            until(minutes(20), "it is deleted", || !lab.exists(TEAM)).await;
            assert_eq!(lab.coderd.key_for_plaintext(&theirs), Some(name));
        });
    }
}

/// A user's Secret names the key of another object.
#[test]
fn a_key_that_another_object_uses_is_left_to_it() {
    on_box(8, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        let name = lab.key_name(TEAM);
        let brought = json!({
            "metadata": { "name": "late-provisioner-key",
                "annotations": { "coder.aplomb.dev/key-name": name } },
            "stringData": { "key": "anything" },
        });
        let brought = serde_json::from_value(brought).unwrap();
        let made = lab.secrets().create(&PostParams::default(), &brought).await;
        made.unwrap();
        lab.provisioner("late", &json!({})).await;
        lab.wait_ready("late", minutes(15)).await;
        assert_ne!(lab.key_name("late"), name);
        assert!(lab.has_event("KeyNotOurs"), "{:?}", lab.events());
        lab.delete("late").await;
        until(minutes(20), "it is deleted", || !lab.exists("late")).await;
        assert_eq!(lab.coderd.names(), [name].into());
    });
}

/// A user's Deployment has the name of the child.
#[test]
fn a_deployment_that_another_made_is_not_stopped() {
    on_box(9, |lab| async move {
        let theirs = json!({
            "metadata": { "name": "provisioner-team" },
            "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "mine" } },
                "template": { "metadata": { "labels": { "app": "mine" } },
                    "spec": { "containers": [{ "name": "app", "image": "example.com/app" }] } } },
        });
        let all = Api::<Deployment>::namespaced(lab.user(), NAMESPACE);
        let theirs = serde_json::from_value(theirs).unwrap();
        all.create(&PostParams::default(), &theirs).await.unwrap();
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        until(minutes(5), "a key is created", || !lab.coderd.names().is_empty()).await;
        sleep(minutes(1)).await;
        lab.delete(TEAM).await;
        until(minutes(20), "it is deleted", || !lab.exists(TEAM)).await;
        assert!(lab.coderd.names().is_empty());
        let left = lab.stored_object("apps", "deployments", "provisioner-team");
        assert_eq!(left.expect("the Deployment exists")["spec"]["replicas"], 3);
    });
}

fn run_with_gc<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let around = Around::with_seed(seed).with_server(|it| it.role = Role::Owner);
    around.run(scenario)
}

/// A proxy of another cluster, registered in between: neither given a new token nor deleted.
#[test]
fn a_proxy_that_is_registered_in_between_is_left_alone() {
    for (name, dies) in [(TEAM, true), (TEAM, false), ("Team", true), ("Team", false)] {
        run_with_gc(5, move |lab| async move {
            lab.coderd
                .fault(&json!({ "method": "POST", "path": PROXIES, "status": 503 }));
            let first = Replica::start(&lab, "first");
            lab.proxy(TEAM, &json!({})).await;
            until(minutes(1), "written down", || lab.proxy_status(TEAM).pending.is_some()).await;
            sleep(seconds(2)).await;
            let theirs = lab.coderd.sim.create_proxy(name).unwrap();
            if dies {
                first.component.crash();
            }
            lab.coderd.clear_faults();
            let _second = dies.then(|| Replica::start(&lab, "second"));
            until(minutes(10), "it is reported", || {
                lab.proxy_condition(TEAM, "Registered").reason == "ProxyNotOurs"
            })
            .await;
            assert!(lab.has_event("ProxyNotOurs"), "{:?}", lab.events());
            let since = lab.coderd.last_request();
            sleep(minutes(60)).await;
            let calls = lab.coderd.requests(since);
            assert!(calls.len() < 60, "{} calls in an hour", calls.len());
            assert!(calls.iter().all(|it| it.method != "PATCH" && it.method != "DELETE"));
            lab.delete_proxy(TEAM).await;
            let gone = || lab.stored_object("aplomb.dev", "coderworkspaceproxies", TEAM).is_none();
            until(minutes(10), "it is deleted", gone).await;
            let there = lab.coderd.sim.proxies();
            assert!(there.iter().any(|it| it.id == theirs), "{there:?}");
        });
    }
}

/// The response is lost: the proxy has the mark of the object, and is used.
#[test]
fn a_proxy_whose_answer_was_lost_is_ours() {
    run_with_gc(6, |lab| async move {
        let lost = json!({ "method": "POST", "path": PROXIES, "reset": "after", "times": 1 });
        lab.coderd.fault(&lost);
        let _replica = Replica::start(&lab, "first");
        lab.proxy(TEAM, &json!({})).await;
        wait_until_settled(minutes(10), || proxy_unsettled(&lab, TEAM))
            .await
            .unwrap();
    });
}
