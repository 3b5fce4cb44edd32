//! A server answers everything with 429 for half a minute, just when an object needs something from it.
//! The measure is the number of requests in that time, and the number of status writes.

use std::time::Duration;

use anyhow::{Result, ensure};
use aplomb::telemetry::WriteResult;
use aplomb_api::coder::CoderProvisioner;
use aplomb_fake_services::coderd::Entry;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::baseline::BaselineLoop;
use crate::client::{ObjectWatch, find_condition, is_true};
use crate::narration::{Narrator, StoryMoment, StoryResult, StoryTitle};
use crate::stage::{DemoStage, NAMESPACE, user_post_params};

pub(super) const TITLE: StoryTitle = StoryTitle {
    name: "throttle",
    title: "429 means wait",
    elsewhere: "an operator wrote its failure into the status of its own object, was triggered by that \
                write and retried, thousands of times in half a minute.",
};

const PROVISIONER: &str = "on-prem";
/// How long everything is rejected, and the `Retry-After` of each rejection.
const THROTTLE_TIME: Duration = Duration::from_secs(30);
const RETRY_AFTER: &str = "8";
/// The promise.
const MAX_ATTEMPTS: usize = 5;
const MAX_STATUS_WRITES: u64 = 1;
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often the time from a write to its watch event is measured.
const SAMPLES: u32 = 5;

#[derive(Clone, Debug, Default)]
struct ThrottleMeasurements {
    /// The rejected requests, since the object was created.
    attempts: Vec<Duration>,
    /// Status writes while the server rejected requests.
    writes: u64,
    /// The condition of the object in that time.
    message: String,
    /// When the server accepted requests again, and when the object was Ready.
    lifted: Duration,
    ready: Duration,
    /// The time from a write to its watch event.
    watch_latency: Duration,
}

pub(super) async fn play(stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
    let mut seen = ThrottleMeasurements {
        watch_latency: measure_watch_latency(stage).await?,
        ..ThrottleMeasurements::default()
    };
    let all: Api<CoderProvisioner> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut eye = ObjectWatch::new(all.clone(), PROVISIONER);
    let (began, first, writes) = (Instant::now(), stage.coderd.requests().len(), status_writes(stage));
    start_throttling(stage)?;
    all.create(&user_post_params(), &provisioner()?).await?;
    teller.print_event(Duration::ZERO, "coderd answers everything with 429 for 30 s from now");
    teller.print_event(
        began.elapsed(),
        "coderprovisioner/on-prem is created, and needs a key from coderd",
    );
    let limited = eye
        .wait_until(TIMEOUT, "RateLimited", |it| throttle_message(it).is_some())
        .await?;
    seen.message = throttle_message(&limited).unwrap_or_default();
    let what = format!("its status shows it once: {}", seen.message);
    teller.print_event(began.elapsed(), &what);
    sleep_until(began + THROTTLE_TIME).await;
    seen.lifted = began.elapsed();
    seen.writes = status_writes(stage) - writes;
    let asked = stage.coderd.requests();
    seen.attempts = refused_times(&asked[first..]);
    let what = format!(
        "coderd received {} requests; it accepts them again",
        seen.attempts.len()
    );
    teller.print_event(seen.lifted, &what);
    eye.wait_until(TIMEOUT, "Ready", |it| {
        let status = it.status.as_ref();
        status.is_some_and(|status| is_true(&status.conditions, "Ready"))
    })
    .await?;
    seen.ready = began.elapsed();
    teller.print_event(seen.ready, "Ready: the key is created, and its daemon is connected");
    teller.print_timelines(&moments(&seen));
    Ok(evaluate(&seen))
}

/// The condition that reports the rate limit, if there is one.
fn throttle_message(provisioner: &CoderProvisioner) -> Option<String> {
    let status = provisioner.status.as_ref()?;
    let key = find_condition(&status.conditions, "ProvisionerKeyReady")?;
    (key.reason == "RateLimited").then(|| format!("ProvisionerKeyReady {}, RateLimited", key.status))
}

/// Rejects everything for half a minute from now.
fn start_throttling(stage: &DemoStage) -> Result<()> {
    let fault = json!({
        "path": "/api/v2/",
        "status": 429,
        "bare": true,
        "headers": { "retry-after": RETRY_AFTER },
        "lasts": format!("{}s", THROTTLE_TIME.as_secs()),
    });
    stage.coderd.fault(serde_json::from_value(fault)?);
    Ok(())
}

fn provisioner() -> Result<CoderProvisioner> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "CoderProvisioner",
        "metadata": { "name": PROVISIONER, "namespace": NAMESPACE },
        "spec": {
            "server": {
                "url": "https://coder.example.com",
                "tokenSecretRef": { "name": "coder-token" },
            },
            "image": "registry.example.com/coder/coder:v2.36.1",
        },
    }))?)
}

fn status_writes(stage: &DemoStage) -> u64 {
    let telemetry = &stage.admin.telemetry;
    telemetry
        .writes
        .writes("CoderProvisioner", "status", WriteResult::Written)
}

fn refused_times(asked: &[Entry]) -> Vec<Duration> {
    let refused = asked.iter().filter(|it| it.status == Some(429));
    let times: Vec<_> = refused.map(|it| it.time).collect();
    let since = |time: &jiff::Timestamp| {
        let first = times.first().copied().unwrap_or(*time);
        Duration::try_from(time.duration_since(first)).unwrap_or_default()
    };
    times.iter().map(since).collect()
}

/// The time from a write to its watch event: the median of a few.
async fn measure_watch_latency(stage: &DemoStage) -> Result<Duration> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("echo".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await?;
    let mut eye = ObjectWatch::new(maps.clone(), "echo");
    let mut times = Vec::new();
    for turn in 0..SAMPLES {
        let turn = turn.to_string();
        let began = Instant::now();
        let data = json!({ "data": { "turn": turn } });
        maps.patch("echo", &PatchParams::default(), &Patch::Merge(data)).await?;
        let shows = |map: &ConfigMap| map.data.as_ref().and_then(|it| it.get("turn")) == Some(&turn);
        eye.wait_until(TIMEOUT, "shown", shows).await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    maps.delete("echo", &kube::api::DeleteParams::default()).await?;
    let median = times[times.len() / 2];
    ensure!(!median.is_zero(), "a write cannot take no time");
    Ok(median)
}

fn evaluate(seen: &ThrottleMeasurements) -> StoryResult {
    let attempts = seen.attempts.len();
    let recovery = seen.ready.saturating_sub(seen.lifted);
    let pass = (1..=MAX_ATTEMPTS).contains(&attempts)
        && seen.writes <= MAX_STATUS_WRITES
        && !seen.message.is_empty()
        && !seen.ready.is_zero();
    let plural = if seen.writes == 1 { "" } else { "s" };
    let figure = format!(
        "30 s of 429: {attempts} requests, {} status write{plural}; Ready {:.1} s after the end of it",
        seen.writes,
        recovery.as_secs_f64()
    );
    let numbers = json!({
        "attempts": attempts,
        "statusWrites": seen.writes,
        "recoverySeconds": recovery.as_secs_f64(),
    });
    StoryResult { pass, figure, numbers }
}

fn moments(seen: &ThrottleMeasurements) -> Vec<StoryMoment> {
    let usual = BaselineLoop::new(seen.watch_latency);
    let (attempts, writes) = usual.count_within(THROTTLE_TIME);
    let mut all = vec![StoryMoment::both(Duration::ZERO, "created; rejected with 429")];
    let second = usual.count_within(Duration::from_secs(1)).0;
    all.push(StoryMoment::baseline(
        Duration::from_secs(1),
        format!("request {second}"),
    ));
    let again = seen.attempts.iter().enumerate().skip(1);
    all.extend(again.map(|(at, time)| StoryMoment::ours(*time, format!("request {}", at + 1))));
    all.push(StoryMoment::baseline(
        THROTTLE_TIME,
        format!("request {attempts}, status write {writes}"),
    ));
    all.push(StoryMoment::ours(seen.ready, "Ready"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_measurements() -> ThrottleMeasurements {
        ThrottleMeasurements {
            attempts: [0, 8, 17, 26].map(Duration::from_secs).to_vec(),
            writes: 1,
            message: "ProvisionerKeyReady False, RateLimited".to_owned(),
            lifted: Duration::from_secs(30),
            ready: Duration::from_secs(36),
            watch_latency: Duration::from_millis(4),
        }
    }

    #[test]
    fn few_requests_and_one_message_pass() {
        let verdict = evaluate(&sample_measurements());
        assert!(verdict.pass, "{verdict:?}");
        assert!(verdict.figure.contains("4 requests, 1 status write;"), "{verdict:?}");
    }

    #[test]
    fn many_requests_or_many_messages_or_none_fail() {
        let mut eager = sample_measurements();
        eager.attempts = vec![Duration::ZERO; 6];
        let mut wordy = sample_measurements();
        wordy.writes = 2;
        let mut mute = sample_measurements();
        mute.message.clear();
        let mut idle = sample_measurements();
        idle.attempts.clear();
        for seen in [eager, wordy, mute, idle] {
            assert!(!evaluate(&seen).pass, "{seen:?}");
        }
    }

    #[test]
    fn the_baseline_loop_is_as_fast_as_this_machine() {
        let text = format!("{:?}", moments(&sample_measurements()));
        assert!(text.contains("request 1667, status write 3334"), "{text}");
    }
}
