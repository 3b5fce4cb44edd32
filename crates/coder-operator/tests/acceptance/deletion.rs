//! Guarantee: a deletion also deletes the key, however long the server refuses; unless it is
//! abandoned or reaches its deadline, and then what is left behind is reported.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::claims::{leftover, wait_until_settled};
use crate::lab::{Lab, SECRET, TEAM, minutes, on_box, seconds, until};
use crate::operator::Replica;

const ABANDON: &str = "coder.aplomb.dev/abandon";

async fn refuse_for_an_hour(lab: Lab, fault: Value) -> (Duration, usize) {
    let replica = lab.start_settled(&json!({})).await;
    lab.coderd.fault(&fault);
    let since = lab.coderd.last_request();
    lab.delete(TEAM).await;
    sleep(minutes(60)).await;
    assert!(lab.exists(TEAM), "it waits for its key");
    assert_eq!(lab.coderd.names().len(), 1);
    let calls = lab.coderd.requests(since).len();
    let at_the_end = lab.keys_when_gone();
    lab.coderd.clear_faults();
    let key = until(minutes(10), "the key is deleted", || lab.coderd.names().is_empty()).await;
    wait_until_settled(minutes(2), || leftover(&lab, TEAM)).await.unwrap();
    assert_eq!(
        *at_the_end.lock().unwrap(),
        Some(0),
        "the object is deleted after its key"
    );
    assert!(!lab.has_event("KeyOrphaned"), "nothing is left behind");
    drop(replica);
    (key, calls)
}

#[test]
fn an_hour_of_refusals_does_not_leak_the_key() {
    for (what, fault) in [
        ("429", json!({ "path": "/api/v2/", "status": 429 })),
        ("429 on DELETE alone", json!({ "method": "DELETE", "status": 429 })),
        ("503", json!({ "path": "/api/v2/", "status": 503 })),
        ("no answer", json!({ "path": "/api/v2/", "hang": "before" })),
    ] {
        let (took, calls) = on_box(1, move |lab| refuse_for_an_hour(lab, fault));
        println!("{what} for an hour: {calls} calls, the key is deleted {took:.0?} after it ended");
    }
}

#[test]
fn an_abandoned_deletion_goes_at_once_and_is_reported() {
    for (first, second) in [(true, false), (false, true)] {
        on_box(2, move |lab| async move {
            let replica = lab.start_settled(&json!({})).await;
            lab.coderd.refuse_all(true);
            if first {
                lab.annotate(TEAM, ABANDON, "true").await;
            }
            lab.delete(TEAM).await;
            if second {
                sleep(minutes(5)).await;
                assert!(lab.exists(TEAM));
                lab.annotate(TEAM, ABANDON, "true").await;
            }
            let took = until(seconds(10), "it is deleted", || !lab.exists(TEAM)).await;
            assert!(lab.has_event("KeyOrphaned"), "{:?}", lab.events());
            let orphans = replica.metric(&["orphan"]);
            assert!(orphans >= 1.0, "{}", replica.metrics());
            println!("abandoned: deleted after {took:.1?}, {orphans} orphan reported");
        });
    }
}

#[test]
fn any_other_value_of_the_annotation_abandons_nothing() {
    on_box(3, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.coderd.refuse_all(true);
        lab.annotate(TEAM, ABANDON, "yes").await;
        lab.delete(TEAM).await;
        sleep(minutes(30)).await;
        assert!(lab.exists(TEAM));
    });
}

#[test]
fn a_deadline_ends_the_wait() {
    on_box(4, |lab| async move {
        let _replica = lab.start_settled(&json!({ "deletionDeadline": "2h" })).await;
        lab.coderd.refuse_all(true);
        lab.delete(TEAM).await;
        sleep(minutes(118)).await;
        assert!(lab.exists(TEAM), "not before the deadline");
        until(minutes(10), "it is deleted", || !lab.exists(TEAM)).await;
        assert!(lab.has_event("KeyOrphaned"));
    });
}

#[test]
fn a_token_that_is_gone_holds_it_until_the_deadline() {
    on_box(5, |lab| async move {
        let _replica = lab.start_settled(&json!({ "deletionDeadline": "1h" })).await;
        let deleted = lab.secrets().delete(SECRET, &Default::default()).await;
        deleted.unwrap();
        // The finalizer is removed by force: otherwise it stays while its token is needed.
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let params = PatchParams::default();
        let freed = lab.secrets().patch(SECRET, &params, &free).await;
        freed.unwrap();
        lab.delete(TEAM).await;
        sleep(minutes(50)).await;
        assert!(lab.exists(TEAM), "the token may come back");
        until(minutes(20), "it is deleted", || !lab.exists(TEAM)).await;
        assert!(lab.has_event("KeyOrphaned"));
    });
}

#[test]
fn an_object_that_never_had_a_key_goes_without_a_call() {
    on_box(6, |lab| async move {
        lab.coderd.refuse_all(true);
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        sleep(minutes(3)).await;
        lab.delete(TEAM).await;
        let took = until(seconds(10), "it is deleted", || !lab.exists(TEAM)).await;
        assert!(!lab.has_event("KeyOrphaned"), "there was none");
        println!("never had a key: deleted after {took:.1?}, the server refusing all the time");
    });
}

#[test]
fn the_daemons_finish_their_jobs_before_the_key_goes() {
    on_box(7, |lab| async move {
        lab.pods.set_job_time(seconds(40));
        let _replica = lab.start_settled(&json!({})).await;
        sleep(seconds(30)).await;
        lab.delete(TEAM).await;
        wait_until_settled(minutes(20), || leftover(&lab, TEAM)).await.unwrap();
        assert_eq!(lab.coderd.outages(), Vec::<String>::new());
        assert_eq!(lab.coderd.sim.jobs_cut(), 0);
    });
}

/// A 404 of DELETE alone proves nothing: it also means that the token cannot see the organization.
#[test]
fn a_404_does_not_prove_that_the_key_is_gone() {
    on_box(8, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.coderd
            .fault(&json!({ "path": "/api/v2/organizations/", "status": 404 }));
        lab.delete(TEAM).await;
        sleep(minutes(60)).await;
        assert!(lab.exists(TEAM), "the organization is not visible, the key may exist");
        lab.coderd.clear_faults();
        wait_until_settled(minutes(30), || leftover(&lab, TEAM)).await.unwrap();
    });
}
