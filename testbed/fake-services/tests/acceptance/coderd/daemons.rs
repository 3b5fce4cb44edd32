//! Daemons: seen while they live, and what the deletion of their key does to them.

use std::time::Duration;

use aplomb_fake_services::coderd::{FakeCoderd, Work};
use serde_json::Value;

use super::{KEYS, OWNER, coderd, get, new_key, status};

const MINUTE: Duration = Duration::from_secs(60);

async fn wait(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

/// Names and statuses of the daemons that are listed under a key.
async fn listed(coderd: &FakeCoderd, key: &str) -> Vec<(String, String)> {
    let (_, list) = get(coderd, &format!("{KEYS}/daemons")).await;
    let all = list.as_array().expect("a list");
    let of_key = all.iter().find(|it| it["key"]["name"] == key);
    let daemons = of_key.and_then(|it| it["daemons"].as_array());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let daemons = daemons.into_iter().flatten();
    daemons.map(|it| (text(&it["name"]), text(&it["status"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_daemon_is_listed_under_its_key_until_three_heartbeats_are_missing() {
    let coderd = coderd(|_| {});
    let secret = new_key(&coderd, "build").await;
    let daemon = coderd.start_daemon(Some("pod-1"), &secret, None);
    assert_eq!(listed(&coderd, "build").await, [("pod-1".into(), "idle".into())]);
    wait(3600).await;
    assert!(daemon.job(Duration::from_secs(30)));
    assert_eq!(listed(&coderd, "build").await, [("pod-1".into(), "busy".into())]);
    wait(30).await;
    assert_eq!(daemon.stop(MINUTE), Duration::ZERO);
    assert_eq!(daemon.daemon(), None);
    wait(149).await;
    assert_eq!(listed(&coderd, "build").await.len(), 1);
    wait(2).await;
    assert_eq!(listed(&coderd, "build").await, []);
    let (_, list) = get(&coderd, &format!("{KEYS}/daemons")).await;
    let names: Vec<_> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| it["key"]["name"].clone())
        .collect();
    assert_eq!(names, ["built-in", "user-auth", "psk", "build"]);
}

#[tokio::test(start_paused = true)]
async fn sessions_outlive_their_key_on_a_server_that_does_not_end_them() {
    let coderd = coderd(|_| {});
    let secret = new_key(&coderd, "build").await;
    let daemon = coderd.connect_daemon(&secret);
    assert_eq!(status(&coderd, OWNER, "DELETE", &format!("{KEYS}/build")).await, 204);
    wait(3600).await;
    assert!(daemon.daemon().is_some_and(|it| it.connected));
    assert_eq!(coderd.outages(), []);
    assert_eq!(listed(&coderd, "build").await, []);
}

#[tokio::test(start_paused = true)]
async fn sessions_end_with_their_key_and_dialling_goes_on_for_ever() {
    let coderd = coderd(|config| config.ends_sessions = true);
    let secret = new_key(&coderd, "build").await;
    let daemon = coderd.connect_daemon(&secret);
    wait(10).await;
    assert!(daemon.daemon().is_some_and(|it| it.connected));
    assert!(coderd.delete_key("coder", "build"));
    wait(3600).await;
    let outages = coderd.outages();
    assert_eq!((outages.len(), outages[0].until), (1, None));
    assert_eq!(outages[0].since.to_string(), "2026-01-01T00:00:10Z");
    let refused = daemon.daemon().expect("it never exits").refused;
    // After 50 ms, then doubled up to every 10 s.
    assert!((360..=372).contains(&refused), "{refused}");
    daemon.kill();
    assert!(coderd.outages()[0].until.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_job_keeps_its_session_until_it_ends() {
    let coderd = coderd(|config| config.ends_sessions = true);
    let secret = new_key(&coderd, "build").await;
    let (stays, leaves) = (coderd.connect_daemon(&secret), coderd.connect_daemon(&secret));
    assert!(stays.job(Duration::from_secs(90)) && leaves.job(Duration::from_secs(90)));
    assert!(!stays.job(MINUTE), "one job at a time");
    coderd.delete_key("coder", "build");
    assert_eq!(leaves.stop(Duration::from_secs(600)), Duration::from_secs(90));
    wait(89).await;
    assert_eq!(coderd.outages(), []);
    wait(1).await;
    // The one that was asked to stop has finished and left.
    assert_eq!(coderd.outages().len(), 1);
    assert_eq!((leaves.daemon(), coderd.jobs_cut()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_longer_than_the_grace_is_cut() {
    let coderd = coderd(|_| {});
    let secret = new_key(&coderd, "build").await;
    let daemon = coderd.connect_daemon(&secret);
    assert!(daemon.job(MINUTE));
    assert_eq!(daemon.stop(Duration::from_secs(20)), Duration::from_secs(20));
    wait(20).await;
    assert_eq!((daemon.daemon(), coderd.jobs_cut()), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_daemon_with_work_is_busy_as_often_as_it_says() {
    let coderd = coderd(|_| {});
    let secret = new_key(&coderd, "build").await;
    let work = Work {
        job: Duration::from_secs(30),
        pause: Duration::from_secs(10),
    };
    let daemon = coderd.start_daemon(None, &secret, Some(work));
    let mut busy = 0;
    for _ in 0..400 {
        wait(1).await;
        busy += u64::from(daemon.daemon().is_some_and(|it| it.busy));
    }
    assert_eq!(busy, 300);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_was_never_connected_has_no_outage() {
    let coderd = coderd(|config| config.ends_sessions = true);
    let daemon = coderd.connect_daemon(&"z".repeat(43));
    wait(60).await;
    assert!(daemon.daemon().is_some_and(|it| !it.connected && it.refused > 5));
    assert_eq!(coderd.outages(), []);
}
