//! Promise: what a person or another cluster made at the server is neither used nor deleted, at whatever
//! moment it was made and however well its name fits.

use aplomb_api::coder::key_name;
use aplomb_fake_services::coderd::Role;
use aplomb_simulation::{Crash, CrashPoint};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::time::sleep;

use crate::claims::{proxy_unsettled, settles};
use crate::lab::{Around, Lab, NAMESPACE, TEAM, minutes, on_box, seconds, until};
use crate::operator::Replica;

const PROXIES: &str = "/api/v2/workspaceproxies";

/// Somebody else's keys under the names that this object would like.
fn theirs(lab: &Lab) -> Vec<String> {
    let other = ["another cluster", "a third"].map(|uid| key_name(TEAM, uid, 0));
    let names = [TEAM.to_owned(), "team-1".to_owned()].into_iter();
    names
        .chain(other)
        .map(|it| lab.coderd.sim.create_key("coder", &it))
        .collect()
}

fn are_there(lab: &Lab, theirs: &[String]) {
    for one in theirs {
        assert!(lab.coderd.key_of(one).is_some(), "{:?}", lab.coderd.names());
    }
}

/// Waits until the object works; rotates its key; deletes it. Nothing is left but what others have made.
async fn lives_and_goes(lab: &Lab, theirs: &[String]) {
    lab.ready(TEAM, minutes(15)).await;
    are_there(lab, theirs);
    let first = lab.key_name(TEAM);
    lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
    until(minutes(15), "rotated", || {
        !lab.coderd.names().contains(&first)
    })
    .await;
    lab.delete(TEAM).await;
    until(minutes(20), "it goes", || !lab.exists(TEAM)).await;
    are_there(lab, theirs);
    assert_eq!(
        lab.coderd.names().len(),
        theirs.len(),
        "{:?}",
        lab.coderd.names()
    );
}

#[test]
fn keys_that_were_there_before_are_left_alone() {
    on_box(1, |lab| async move {
        let theirs = theirs(&lab);
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        lives_and_goes(&lab, &theirs).await;
    });
}

/// Made while the name is written down and the answer is open, and the operator dies there or lives.
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
            until(minutes(1), "written down", || {
                lab.status(TEAM).pending.is_some()
            })
            .await;
            sleep(seconds(2)).await;
            let theirs = theirs(&lab);
            if dies {
                first.component.crash();
            }
            lab.coderd.behaves();
            let _second = dies.then(|| Replica::start(&lab, "second"));
            lives_and_goes(&lab, &theirs).await;
        });
    }
}

/// Whatever is done first: crashes around the calls of a first key, with others making theirs meanwhile.
#[test]
fn keys_that_are_made_during_a_crash_are_left_alone() {
    for effect in 1..24 {
        for point in [CrashPoint::BeforeSend, CrashPoint::AfterCommit] {
            on_box(3, move |lab| async move {
                let first = Replica::start(&lab, "first");
                first.component.crash_at(Crash { effect, point });
                lab.provisioner(TEAM, &json!({})).await;
                sleep(seconds(4)).await;
                let theirs = theirs(&lab);
                first.component.crash();
                let _second = Replica::start(&lab, "second");
                lab.ready(TEAM, minutes(15)).await;
                lab.delete(TEAM).await;
                until(minutes(20), "it goes", || !lab.exists(TEAM)).await;
                are_there(&lab, &theirs);
                assert_eq!(
                    lab.coderd.names().len(),
                    theirs.len(),
                    "{:?}",
                    lab.coderd.names()
                );
            });
        }
    }
}

/// Somebody deletes our key and makes one of its name, for daemons of their own.
#[test]
fn a_key_that_took_the_name_of_ours_is_left_alone() {
    on_box(4, |lab| async move {
        let _replica = lab.settled(&json!({})).await;
        sleep(minutes(10)).await;
        let name = lab.key_name(TEAM);
        assert!(lab.coderd.sim.delete_key("coder", &name));
        let theirs = lab.coderd.sim.create_key("coder", &name);
        until(minutes(15), "another is used", || {
            lab.key_name_now(TEAM).is_some_and(|it| it != name)
        })
        .await;
        lab.ready(TEAM, minutes(15)).await;
        until(minutes(15), "it is told", || lab.told("KeyNotOurs")).await;
        lab.delete(TEAM).await;
        until(minutes(20), "it goes", || !lab.exists(TEAM)).await;
        assert_eq!(lab.coderd.key_of(&theirs), Some(name));
    });
}

/// The same right before the object is deleted, with daemons and without.
#[test]
fn a_key_that_took_the_name_of_ours_a_moment_ago_is_left_alone() {
    for replicas in [2, 0] {
        on_box(7, move |lab| async move {
            let _replica = lab.settled(&json!({ "replicas": replicas })).await;
            sleep(minutes(30)).await;
            let name = lab.key_name(TEAM);
            assert!(lab.coderd.sim.delete_key("coder", &name));
            let theirs = lab.coderd.sim.create_key("coder", &name);
            lab.delete(TEAM).await;
            until(minutes(20), "it goes", || !lab.exists(TEAM)).await;
            assert_eq!(lab.coderd.key_of(&theirs), Some(name));
        });
    }
}

/// A Secret that a person brings along names the key of another object.
#[test]
fn a_key_that_another_object_uses_is_left_to_it() {
    on_box(8, |lab| async move {
        let _replica = lab.settled(&json!({})).await;
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
        lab.ready("late", minutes(15)).await;
        assert_ne!(lab.key_name("late"), name);
        assert!(lab.told("KeyNotOurs"), "{:?}", lab.events());
        lab.delete("late").await;
        until(minutes(20), "it goes", || !lab.exists("late")).await;
        assert_eq!(lab.coderd.names(), [name].into());
    });
}

/// A Deployment of a person has the name of the child.
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
        until(minutes(5), "a key is made", || {
            !lab.coderd.names().is_empty()
        })
        .await;
        sleep(minutes(1)).await;
        lab.delete(TEAM).await;
        until(minutes(20), "it goes", || !lab.exists(TEAM)).await;
        assert!(lab.coderd.names().is_empty());
        let left = lab.stored("apps", "deployments", "provisioner-team");
        assert_eq!(left.expect("it is there")["spec"]["replicas"], 3);
    });
}

fn on_owned<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let around = Around::seed(seed).server(|it| it.role = Role::Owner);
    around.run(scenario)
}

/// A proxy of another cluster, registered in between: neither given a new token nor taken back.
#[test]
fn a_proxy_that_is_registered_in_between_is_left_alone() {
    for (name, dies) in [(TEAM, true), (TEAM, false), ("Team", true), ("Team", false)] {
        on_owned(5, move |lab| async move {
            lab.coderd
                .fault(&json!({ "method": "POST", "path": PROXIES, "status": 503 }));
            let first = Replica::start(&lab, "first");
            lab.proxy(TEAM, &json!({})).await;
            until(minutes(1), "written down", || {
                lab.proxy_status(TEAM).pending.is_some()
            })
            .await;
            sleep(seconds(2)).await;
            let theirs = lab.coderd.sim.create_proxy(name).unwrap();
            if dies {
                first.component.crash();
            }
            lab.coderd.behaves();
            let _second = dies.then(|| Replica::start(&lab, "second"));
            until(minutes(10), "it is told", || {
                lab.proxy_condition(TEAM, "Registered").reason == "ProxyNotOurs"
            })
            .await;
            assert!(lab.told("ProxyNotOurs"), "{:?}", lab.events());
            let since = lab.coderd.mark();
            sleep(minutes(60)).await;
            let calls = lab.coderd.requests(since);
            assert!(calls.len() < 60, "{} calls in an hour", calls.len());
            assert!(
                calls
                    .iter()
                    .all(|it| it.method != "PATCH" && it.method != "DELETE")
            );
            lab.delete_proxy(TEAM).await;
            let gone = || {
                lab.stored("aplomb.dev", "coderworkspaceproxies", TEAM)
                    .is_none()
            };
            until(minutes(10), "it goes", gone).await;
            let there = lab.coderd.sim.proxies();
            assert!(there.iter().any(|it| it.id == theirs), "{there:?}");
        });
    }
}

/// Its answer is lost: the proxy bears the mark of the object, and is used.
#[test]
fn a_proxy_whose_answer_was_lost_is_ours() {
    on_owned(6, |lab| async move {
        let lost = json!({ "method": "POST", "path": PROXIES, "reset": "after", "times": 1 });
        lab.coderd.fault(&lost);
        let _replica = Replica::start(&lab, "first");
        lab.proxy(TEAM, &json!({})).await;
        settles(minutes(10), || proxy_unsettled(&lab, TEAM))
            .await
            .unwrap();
    });
}
