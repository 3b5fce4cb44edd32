//! Guarantee: a key is replaced without a moment in which a connected daemon has no valid key,
//! whatever the reason; the old one is deleted in the end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::claims::{unsettled, wait_until_settled};
use crate::lab::{Around, Lab, TEAM, minutes, on_box, seconds};
use crate::objects::server;
use crate::site::SECOND;

const ROTATE: &str = "coder.aplomb.dev/rotate";

/// Why a key is replaced.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Tags,
    KeyName,
    Organization,
    Server,
    Annotation,
    Age,
}

const CAUSES: [Cause; 6] = [
    Cause::Tags,
    Cause::KeyName,
    Cause::Organization,
    Cause::Server,
    Cause::Annotation,
    Cause::Age,
];

impl Cause {
    async fn apply(self, lab: &Lab) {
        let spec = match self {
            Self::Tags => json!({ "tags": { "zone": "b" } }),
            Self::KeyName => json!({ "key": { "name": "renamed" } }),
            Self::Organization => json!({ "organizationName": SECOND }),
            Self::Server => json!({ "server": server(&lab.other) }),
            Self::Annotation => return lab.annotate(TEAM, ROTATE, "one").await,
            Self::Age => json!({ "key": { "rotateAfter": "1h" } }),
        };
        lab.edit(TEAM, &json!({ "spec": spec })).await;
    }
}

/// Rotates once, while the daemons have jobs of this length. Returns how long until the old key is
/// deleted.
async fn rotate(lab: Lab, cause: Cause, job: Duration) -> Duration {
    lab.pods.set_job_time(job);
    let _replica = lab.start_settled(&json!({ "replicas": 3 })).await;
    if matches!(cause, Cause::Age) {
        sleep(minutes(61)).await;
    }
    let old = lab.status(TEAM).key.expect("a key");
    cause.apply(&lab).await;
    let rotated = || match lab.status(TEAM).key {
        Some(key)
            if key.name == old.name && key.binding == old.binding && key.organization_id == old.organization_id =>
        {
            Some("it is the old key".to_owned())
        }
        _ => unsettled(&lab, TEAM),
    };
    let took = wait_until_settled(minutes(30), rotated).await.unwrap();
    let outages = [lab.coderd.outages(), lab.other.outages()].concat();
    assert_eq!(outages, Vec::<String>::new(), "{cause:?}");
    assert_eq!(lab.coderd.sim.jobs_cut(), 0, "{cause:?}: jobs ended by themselves");
    took
}

#[test]
fn no_daemon_is_without_a_key_while_it_is_replaced() {
    for cause in CAUSES {
        for job in [seconds(20), seconds(50)] {
            let took = on_box(1, move |lab| rotate(lab, cause, job));
            println!("rotated by {cause:?} under jobs of {job:?}: 0 outages, the old key deleted after {took:.0?}");
        }
    }
}

#[test]
fn two_rotations_in_a_row_leave_one_key() {
    on_box(2, |lab| async move {
        lab.pods.set_job_time(seconds(20));
        let _replica = lab.start_settled(&json!({ "replicas": 3 })).await;
        lab.annotate(TEAM, ROTATE, "one").await;
        sleep(seconds(5)).await;
        lab.annotate(TEAM, ROTATE, "two").await;
        sleep(seconds(1)).await;
        lab.edit(TEAM, &json!({ "spec": { "tags": { "zone": "c" } } })).await;
        let done = || match lab.status(TEAM).rotation.honoured.as_deref() {
            Some("two") => unsettled(&lab, TEAM),
            other => Some(format!("{other:?}")),
        };
        wait_until_settled(minutes(30), done).await.unwrap();
        assert_eq!(lab.coderd.names().len(), 1);
        assert_eq!(lab.coderd.outages(), Vec::<String>::new());
    });
}

#[test]
fn a_spec_that_is_changed_back_leaves_one_key() {
    on_box(3, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        for zone in [json!({ "zone": "b" }), Value::Null, json!({ "zone": "b" }), Value::Null] {
            lab.edit(TEAM, &json!({ "spec": { "tags": zone } })).await;
            sleep(Duration::from_millis(700)).await;
        }
        sleep(minutes(1)).await;
        wait_until_settled(minutes(30), || unsettled(&lab, TEAM)).await.unwrap();
        let tags = lab.coderd.sim.keys().into_iter().map(|key| key.tags.len());
        assert_eq!(tags.sum::<usize>(), 0, "the key has the current tags");
        assert_eq!(lab.coderd.outages(), Vec::<String>::new());
    });
}

/// The pods of the new key never become ready: daemons with the old key keep it.
#[test]
fn the_old_key_stays_while_the_new_pods_do_not_come() {
    on_box(4, |lab| async move {
        let _replica = lab.start_settled(&json!({ "replicas": 3 })).await;
        let old = lab.key_name(TEAM);
        lab.pods.set_broken(true);
        lab.annotate(TEAM, ROTATE, "one").await;
        sleep(minutes(60)).await;
        let names = lab.coderd.names();
        assert!(names.contains(&old), "an hour later: {names:?}");
        assert!(lab.coderd.connected(&old) >= 1, "its daemons are connected");
        assert_eq!(lab.coderd.outages(), Vec::<String>::new());
        lab.pods.set_broken(false);
        wait_until_settled(minutes(30), || unsettled(&lab, TEAM)).await.unwrap();
        assert!(!lab.coderd.names().contains(&old), "now it is deleted");
    });
}

#[test]
fn an_old_server_that_keeps_sessions_is_served_alike() {
    for cause in CAUSES {
        let around = Around::with_seed(5).with_server(|it| it.version = "2.30".parse().unwrap());
        around.run(move |lab| rotate(lab, cause, seconds(20)));
    }
}
