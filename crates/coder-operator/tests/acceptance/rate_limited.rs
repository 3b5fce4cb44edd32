//! Guarantee: while a server rate limits everything, an object makes at most five attempts in the
//! first half minute and one status write in the whole episode, whatever events arrive; it reports
//! that in a stable condition, and clears it when the server responds again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Lab, SECRET, TEAM, minutes, on_box, seconds, until};
use crate::operator::Replica;

const KEY_READY: &str = "ProvisionerKeyReady";

/// Cost of an episode.
#[derive(Debug)]
struct Cost {
    /// Calls in the first half minute, and in all.
    early: usize,
    calls: usize,
    /// Status writes from the creation of the object on.
    writes: u64,
}

/// Creates an object while a server refuses everything for `time`. Returns the cost.
async fn run_episode(lab: &Lab, headers: bool, time: Duration) -> Cost {
    lab.coderd.refuse_all(headers);
    let writes = lab.status_writes();
    let _replica = Replica::start(lab, "first");
    lab.provisioner(TEAM, &json!({})).await;
    let refused = || !lab.coderd.requests(0).is_empty();
    until(seconds(30), "a first call", refused).await;
    sleep(seconds(30)).await;
    let early = lab.coderd.requests(0).len();
    let said = lab.condition(TEAM, KEY_READY);
    assert_eq!((said.status.as_str(), said.reason.as_str()), ("False", "RateLimited"));
    sleep(time.saturating_sub(seconds(30))).await;
    assert_eq!(lab.condition(TEAM, KEY_READY), said, "one message per episode");
    let cost = Cost {
        early,
        calls: lab.coderd.requests(0).len(),
        writes: writes.load(Ordering::Relaxed),
    };
    lab.coderd.clear_faults();
    lab.wait_ready(TEAM, minutes(10)).await;
    assert_eq!(lab.status(TEAM).rate_limited, None, "the episode has ended");
    assert_eq!(lab.condition(TEAM, KEY_READY).status, "True");
    assert!(
        lab.has_event("RateLimited") && lab.has_event("Recovered"),
        "{:?}",
        lab.events()
    );
    cost
}

#[test]
fn half_a_minute_of_429_is_five_attempts_and_one_status_write() {
    for headers in [true, false] {
        let cost = on_box(
            1,
            move |lab| async move { run_episode(&lab, headers, seconds(30)).await },
        );
        println!(
            "30 s of 429, headers {headers}: {} attempts, {} status writes",
            cost.early, cost.writes
        );
        assert!(cost.early <= 5, "{cost:?}");
        assert_eq!(cost.writes, 1, "{cost:?}");
    }
}

#[test]
fn longer_episodes_are_one_status_write_too() {
    for (time, most) in [(minutes(5), 12), (minutes(60), 60)] {
        for headers in [true, false] {
            let cost = on_box(2, move |lab| async move { run_episode(&lab, headers, time).await });
            println!(
                "{time:?} of 429, headers {headers}: {} attempts, {} status writes",
                cost.calls, cost.writes
            );
            assert!(cost.early <= 5 && cost.calls <= most, "{cost:?}");
            assert_eq!(cost.writes, 1, "{cost:?}");
        }
    }
}

/// Edits twenty times a second everything that triggers the operator: labels, annotations, the
/// token Secret and, as the fourth kind, the spec.
async fn run_with_events(lab: &Lab, time: Duration, kinds: u64) -> u64 {
    let (mut edits, every) = (0, Duration::from_millis(50));
    while every * u32::try_from(edits).expect("few") < time {
        edits += 1;
        let label = json!({ "metadata": { "labels": { "edit": edits.to_string() } } });
        match edits % kinds {
            0 => lab.edit(TEAM, &label).await,
            1 => lab.annotate(TEAM, "example.com/edit", &edits.to_string()).await,
            2 => edit_secret(lab, SECRET, edits).await,
            _ => {
                let spec = json!({ "spec": { "extraArgs": [format!("--log-human=/dev/fd/{}", edits % 3)] } });
                lab.edit(TEAM, &spec).await;
            }
        }
        sleep(every).await;
    }
    edits
}

async fn edit_secret(lab: &Lab, secret: &str, edits: u64) {
    use kube::api::{Patch, PatchParams};
    let patch = json!({ "metadata": { "annotations": { "example.com/touch": edits.to_string() } } });
    let params = PatchParams::default();
    let secrets = lab.secrets();
    secrets.patch(secret, &params, &Patch::Merge(patch)).await.unwrap();
}

#[test]
fn no_event_adds_a_call() {
    on_box(3, |lab| async move {
        lab.coderd.refuse_all(true);
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        let edits = run_with_events(&lab, seconds(30), 4).await;
        let calls = lab.coderd.requests(0).len();
        println!("30 s of 429 with {edits} edits of the object and its Secrets: {calls} attempts");
        assert!(calls <= 5, "{calls}");
    });
}

#[test]
fn a_working_key_stays_ready_while_the_server_refuses() {
    on_box(4, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        sleep(minutes(2)).await;
        let key = lab.condition(TEAM, KEY_READY);
        lab.coderd.refuse_all(true);
        let writes = lab.status_writes();
        let edits = run_with_events(&lab, seconds(30), 3).await;
        sleep(minutes(30)).await;
        assert_eq!(lab.condition(TEAM, KEY_READY), key, "the condition does not change");
        let limited = lab.status(TEAM).rate_limited;
        assert!(limited.is_some(), "the status reports it: {limited:?}");
        let written = writes.load(Ordering::Relaxed);
        println!("30 min of 429 with a working key and {edits} edits: {written} status writes");
        assert_eq!(written, 1);
        lab.coderd.clear_faults();
        let recovered = || lab.status(TEAM).rate_limited.is_none();
        until(minutes(15), "the episode has ended", recovered).await;
        assert!(lab.is_ready(TEAM));
    });
}

/// Rotations wait; the daemons keep their key.
#[test]
fn a_rotation_that_is_refused_waits_with_the_old_key() {
    on_box(5, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.coderd.refuse_all(true);
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
        sleep(minutes(10)).await;
        assert_eq!(lab.coderd.connected(&lab.key_name(TEAM)), 2, "the old key is in use");
        assert_eq!(lab.condition(TEAM, KEY_READY).status, "True");
        lab.coderd.clear_faults();
        let rotated = || lab.status(TEAM).rotation.honoured.as_deref() == Some("one");
        until(minutes(15), "it is executed", rotated).await;
        assert_eq!(lab.coderd.outages(), Vec::<String>::new());
    });
}

/// The text of the refusal never changes the condition.
#[test]
fn the_message_of_an_episode_is_stable_for_any_server_message() {
    on_box(6, |lab| async move {
        for number in 0..200 {
            let message = format!("limit {number}");
            lab.coderd.fault(&json!({
                "path": "/api/v2/", "status": 429, "times": 1,
                "body": { "message": message }, "headers": { "Retry-After": (number % 7).to_string() },
            }));
        }
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        until(seconds(30), "refused", || lab.status(TEAM).rate_limited.is_some()).await;
        let writes = lab.status_writes();
        sleep(minutes(10)).await;
        assert_eq!(writes.load(Ordering::Relaxed), 0, "after the first");
    });
}
