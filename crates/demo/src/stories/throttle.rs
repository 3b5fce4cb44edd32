//! A server answers everything with 429 for half a minute, just when an object has to be made there.
//! What counts is how often it is asked in that time, and how often a status is written.

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

use crate::stage::{NAMESPACE, Stage, by_hand};
use crate::tell::{Moment, Teller, Title, Verdict};
use crate::usual::Loop;
use crate::watch::{Eye, condition, holds};

pub(super) const TITLE: Title = Title {
    name: "throttle",
    title: "a refusal is an order to wait",
    elsewhere: "an operator wrote its failure into the status of its own object, was woken by that write \
                and asked again, thousands of times in half a minute.",
};

const PROVISIONER: &str = "on-prem";
/// How long everything is refused, and how long the server asks to be left alone each time.
const REFUSES: Duration = Duration::from_secs(30);
const RETRY_AFTER: &str = "8";
/// The promise.
const ATTEMPTS: usize = 5;
const STATUS_WRITES: u64 = 1;
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the way of a write to its watch is measured.
const SAMPLES: u32 = 5;

/// What was seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The refused requests, since the object was made.
    attempts: Vec<Duration>,
    /// Status writes while the server refused.
    writes: u64,
    /// What the object said meanwhile.
    said: String,
    /// When the server took requests again, and when the object was Ready.
    lifted: Duration,
    ready: Duration,
    /// How long a write takes here until its watch shows it.
    echo: Duration,
}

pub(super) async fn play(stage: &Stage, teller: &Teller) -> Result<Verdict> {
    let mut seen = Seen {
        echo: echo(stage).await?,
        ..Seen::default()
    };
    let all: Api<CoderProvisioner> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut eye = Eye::on(all.clone(), PROVISIONER);
    let (began, first, writes) = (
        Instant::now(),
        stage.coderd.requests().len(),
        written(stage),
    );
    refuse(stage)?;
    all.create(&by_hand(), &provisioner()?).await?;
    teller.event(
        Duration::ZERO,
        "coderd answers everything with 429 for 30 s from now",
    );
    teller.event(
        began.elapsed(),
        "coderprovisioner/on-prem is created, and needs a key from there",
    );
    let limited = eye
        .until(PATIENCE, "RateLimited", |it| said(it).is_some())
        .await?;
    seen.said = said(&limited).unwrap_or_default();
    let what = format!("its status says so once: {}", seen.said);
    teller.event(began.elapsed(), &what);
    sleep_until(began + REFUSES).await;
    seen.lifted = began.elapsed();
    seen.writes = written(stage) - writes;
    let asked = stage.coderd.requests();
    seen.attempts = refused(&asked[first..]);
    let what = format!(
        "coderd was asked {} times; it takes requests again",
        seen.attempts.len()
    );
    teller.event(seen.lifted, &what);
    eye.until(PATIENCE, "Ready", |it| {
        let status = it.status.as_ref();
        status.is_some_and(|status| holds(&status.conditions, "Ready"))
    })
    .await?;
    seen.ready = began.elapsed();
    teller.event(
        seen.ready,
        "Ready: the key is made, and its daemon has connected",
    );
    teller.beside(&moments(&seen));
    Ok(judge(&seen))
}

/// What it says of the limit, if anything.
fn said(provisioner: &CoderProvisioner) -> Option<String> {
    let status = provisioner.status.as_ref()?;
    let key = condition(&status.conditions, "ProvisionerKeyReady")?;
    (key.reason == "RateLimited")
        .then(|| format!("ProvisionerKeyReady {}, RateLimited", key.status))
}

/// From now on, for half a minute.
fn refuse(stage: &Stage) -> Result<()> {
    let fault = json!({
        "path": "/api/v2/",
        "status": 429,
        "bare": true,
        "headers": { "retry-after": RETRY_AFTER },
        "lasts": format!("{}s", REFUSES.as_secs()),
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

fn written(stage: &Stage) -> u64 {
    let telemetry = &stage.office.telemetry;
    telemetry
        .writes
        .writes("CoderProvisioner", "status", WriteResult::Written)
}

/// The refused ones, since the first.
fn refused(asked: &[Entry]) -> Vec<Duration> {
    let refused = asked.iter().filter(|it| it.status == Some(429));
    let times: Vec<_> = refused.map(|it| it.time).collect();
    let since = |time: &jiff::Timestamp| {
        let first = times.first().copied().unwrap_or(*time);
        Duration::try_from(time.duration_since(first)).unwrap_or_default()
    };
    times.iter().map(since).collect()
}

/// How long a write takes until its watch shows it: the median of a few.
async fn echo(stage: &Stage) -> Result<Duration> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("echo".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await?;
    let mut eye = Eye::on(maps.clone(), "echo");
    let mut times = Vec::new();
    for turn in 0..SAMPLES {
        let turn = turn.to_string();
        let began = Instant::now();
        let data = json!({ "data": { "turn": turn } });
        maps.patch("echo", &PatchParams::default(), &Patch::Merge(data))
            .await?;
        let shows =
            |map: &ConfigMap| map.data.as_ref().and_then(|it| it.get("turn")) == Some(&turn);
        eye.until(PATIENCE, "shown", shows).await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    maps.delete("echo", &kube::api::DeleteParams::default())
        .await?;
    let median = times[times.len() / 2];
    ensure!(!median.is_zero(), "no write takes no time");
    Ok(median)
}

fn judge(seen: &Seen) -> Verdict {
    let attempts = seen.attempts.len();
    let recovery = seen.ready.saturating_sub(seen.lifted);
    let pass = (1..=ATTEMPTS).contains(&attempts)
        && seen.writes <= STATUS_WRITES
        && !seen.said.is_empty()
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
    Verdict {
        pass,
        figure,
        numbers,
    }
}

fn moments(seen: &Seen) -> Vec<Moment> {
    let usual = Loop::new(seen.echo);
    let (attempts, writes) = usual.within(REFUSES);
    let mut all = vec![Moment::both(Duration::ZERO, "created; refused with 429")];
    let second = usual.within(Duration::from_secs(1)).0;
    all.push(Moment::usual(
        Duration::from_secs(1),
        format!("request {second}"),
    ));
    let again = seen.attempts.iter().enumerate().skip(1);
    all.extend(again.map(|(at, time)| Moment::ours(*time, format!("request {}", at + 1))));
    all.push(Moment::usual(
        REFUSES,
        format!("request {attempts}, status write {writes}"),
    ));
    all.push(Moment::ours(seen.ready, "Ready"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            attempts: [0, 8, 17, 26].map(Duration::from_secs).to_vec(),
            writes: 1,
            said: "ProvisionerKeyReady False, RateLimited".to_owned(),
            lifted: Duration::from_secs(30),
            ready: Duration::from_secs(36),
            echo: Duration::from_millis(4),
        }
    }

    #[test]
    fn few_requests_and_one_word_pass() {
        let verdict = judge(&seen());
        assert!(verdict.pass, "{verdict:?}");
        assert!(
            verdict.figure.contains("4 requests, 1 status write;"),
            "{verdict:?}"
        );
    }

    #[test]
    fn many_requests_many_words_or_none_fail() {
        let mut eager = seen();
        eager.attempts = vec![Duration::ZERO; 6];
        let mut wordy = seen();
        wordy.writes = 2;
        let mut mute = seen();
        mute.said.clear();
        let mut idle = seen();
        idle.attempts.clear();
        for seen in [eager, wordy, mute, idle] {
            assert!(!judge(&seen).pass, "{seen:?}");
        }
    }

    #[test]
    fn the_usual_loop_is_as_fast_as_this_machine() {
        let text = format!("{:?}", moments(&seen()));
        assert!(text.contains("request 1667, status write 3334"), "{text}");
    }
}
