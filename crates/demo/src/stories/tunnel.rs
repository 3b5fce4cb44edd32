//! A tunnel is created, breaks and recovers. Green must mean that a request works, checked at every change.

use std::time::Duration;

use anyhow::Result;
use aplomb_api::tunnel::HttpProxy;
use kube::Api;
use serde_json::json;
use tokio::time::Instant;

use crate::baseline::BaselineHeartbeat;
use crate::client::{self, ObjectWatch, find_condition, is_true};
use crate::narration::{Narrator, StoryMoment, StoryResult, StoryTitle};
use crate::stage::{DemoStage, NAMESPACE, SHOP, hostname, is_ready, proxy, user_post_params};

pub(super) const TITLE: StoryTitle = StoryTitle {
    name: "tunnel",
    title: "green means that it works",
    elsewhere: "a tunnel is green when its objects are written. The agent's addresses are sent with its \
                next heartbeat, and no request is made to check the tunnel.",
};

/// The promise, and how long the story waits before it gives up.
const MAX_READY_TIME: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(30);
/// A broken tunnel is detected within its proof interval of 2 s; a busy machine gets five times that.
const MAX_WITHDRAW_TIME: Duration = Duration::from_secs(10);

/// What was observed. Times count from the creation of the tunnel.
#[derive(Clone, Debug, Default)]
struct TunnelMeasurements {
    accepted: Duration,
    programmed: Duration,
    proven: Duration,
    stopped: Duration,
    withdrawn: Duration,
    restarted: Duration,
    recovered: Duration,
    /// Failed requests at moments when the tunnel was green.
    false_ready: Vec<String>,
    /// From the agent's first heartbeat until the tunnel was created.
    age: Duration,
}

pub(super) async fn play(stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
    let proxies: Api<HttpProxy> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut eye = ObjectWatch::new(proxies.clone(), SHOP);
    let mut seen = TunnelMeasurements {
        age: stage.tunnels.registered.elapsed(),
        ..TunnelMeasurements::default()
    };
    let made = proxy(SHOP, &stage.tunnels.shop)?;
    let tale = TunnelStory {
        stage,
        teller,
        began: Instant::now(),
    };
    proxies.create(&user_post_params(), &made).await?;
    teller.print_event(
        Duration::ZERO,
        "httpproxy/shop is created, for a service on this machine",
    );
    tale.measure_creation(&mut eye, &mut seen).await?;
    tale.measure_outage(&mut eye, &mut seen).await?;
    teller.print_timelines(&moments(&seen));
    Ok(evaluate(&seen))
}

/// The state that the steps of the story share.
struct TunnelStory<'a> {
    stage: &'a DemoStage,
    teller: &'a Narrator,
    began: Instant,
}

impl TunnelStory<'_> {
    /// From created to green.
    async fn measure_creation(&self, eye: &mut ObjectWatch<HttpProxy>, seen: &mut TunnelMeasurements) -> Result<()> {
        let stages = [
            ("Accepted", "Accepted: the hostname is claimed"),
            ("Programmed", "Programmed: every gateway has it in its table"),
        ];
        for (kind, what) in stages {
            let reached = |it: &HttpProxy| {
                let status = it.status.as_ref();
                status.is_some_and(|status| is_true(&status.conditions, kind))
            };
            eye.wait_until(TIMEOUT, kind, reached).await?;
            let at = self.began.elapsed();
            self.teller.print_event(at, what);
            match kind {
                "Accepted" => seen.accepted = at,
                _ => seen.programmed = at,
            }
        }
        seen.proven = self.wait_ready(eye, seen).await?;
        let what = "Ready: a nonce came back through the gateway, signed by the agent";
        self.teller.print_event(seen.proven, what);
        let curl = format!("curl -H 'Host: {}' http://{}/", hostname(SHOP), self.gateway());
        let answer = self.stage.tunnels.shop.body().trim();
        let what = format!("{curl} -> {answer}");
        self.teller.print_event(self.began.elapsed(), &what);
        Ok(())
    }

    /// From green to broken, and back.
    async fn measure_outage(&self, eye: &mut ObjectWatch<HttpProxy>, seen: &mut TunnelMeasurements) -> Result<()> {
        self.stage.tunnels.shop.stop();
        seen.stopped = self.began.elapsed();
        self.teller
            .print_event(seen.stopped, "the service on this machine stops");
        let broken = eye.wait_until(TIMEOUT, "not Ready", |it| !is_ready(it)).await?;
        seen.withdrawn = self.began.elapsed();
        let why = find_condition(&broken.status.unwrap_or_default().conditions, "Ready")
            .map(|it| it.reason.clone())
            .unwrap_or_default();
        let what = format!("Ready turns False: {why}");
        self.teller.print_event(seen.withdrawn, &what);
        self.stage.tunnels.shop.restart().await?;
        seen.restarted = self.began.elapsed();
        self.teller.print_event(seen.restarted, "the service is back");
        seen.recovered = self.wait_ready(eye, seen).await?;
        self.teller.print_event(seen.recovered, "Ready again: a new proof");
        Ok(())
    }

    /// Waits for green, and sends a request at that moment.
    async fn wait_ready(&self, eye: &mut ObjectWatch<HttpProxy>, seen: &mut TunnelMeasurements) -> Result<Duration> {
        eye.wait_until(TIMEOUT, "Ready", is_ready).await?;
        let at = self.began.elapsed();
        let wanted = self.stage.tunnels.shop.body();
        match client::get(self.gateway(), &hostname(SHOP)).await {
            Ok(answer) if answer.status.is_success() && answer.body == wanted => {}
            Ok(answer) => seen.false_ready.push(answer.status.to_string()),
            Err(error) => seen.false_ready.push(format!("{error:#}")),
        }
        Ok(at)
    }

    fn gateway(&self) -> std::net::SocketAddr {
        self.stage.tunnels.gateway
    }
}

fn evaluate(seen: &TunnelMeasurements) -> StoryResult {
    let withdrawn = seen.withdrawn.saturating_sub(seen.stopped);
    let back = seen.recovered.saturating_sub(seen.restarted);
    let honest = seen.false_ready.is_empty();
    let pass = honest && seen.proven < MAX_READY_TIME && withdrawn <= MAX_WITHDRAW_TIME;
    let lied = match seen.false_ready.first() {
        None => "never green without traffic".to_owned(),
        Some(first) => format!("green without traffic ({first})"),
    };
    let figure = format!(
        "proven in {:.2} s, {lied}, withdrawn in {:.1} s",
        seen.proven.as_secs_f64(),
        withdrawn.as_secs_f64()
    );
    let numbers = json!({
        "provenSeconds": seen.proven.as_secs_f64(),
        "withdrawnSeconds": withdrawn.as_secs_f64(),
        "backSeconds": back.as_secs_f64(),
        "greenWithoutTraffic": seen.false_ready.len(),
    });
    StoryResult { pass, figure, numbers }
}

fn moments(seen: &TunnelMeasurements) -> Vec<StoryMoment> {
    let told = BaselineHeartbeat::default()
        .heartbeat_after(seen.age)
        .saturating_sub(seen.age);
    vec![
        StoryMoment::both(Duration::ZERO, "created"),
        StoryMoment::ours(seen.accepted, "accepted"),
        StoryMoment::baseline(seen.programmed, "green: its objects are written"),
        StoryMoment::ours(seen.proven, "green: proven by a request"),
        StoryMoment::ours(seen.withdrawn, "not green: the service is gone"),
        StoryMoment::baseline(seen.withdrawn, "still green: not checked"),
        StoryMoment::ours(seen.recovered, "green: a new proof"),
        StoryMoment::baseline(told, "the agent's next heartbeat: first request succeeds"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_measurements() -> TunnelMeasurements {
        let ms = Duration::from_millis;
        TunnelMeasurements {
            accepted: ms(100),
            programmed: ms(200),
            proven: ms(300),
            stopped: ms(400),
            withdrawn: ms(2_000),
            restarted: ms(2_100),
            recovered: ms(2_400),
            false_ready: Vec::new(),
            age: ms(30_000),
        }
    }

    #[test]
    fn ready_and_prompt_and_correct_passes() {
        let verdict = evaluate(&sample_measurements());
        assert!(verdict.pass, "{verdict:?}");
        assert!(verdict.figure.contains("proven in 0.30 s"), "{verdict:?}");
    }

    #[test]
    fn one_false_ready_or_one_delay_fails() {
        let mut lied = sample_measurements();
        lied.false_ready.push("502 Bad Gateway".to_owned());
        let mut slow = sample_measurements();
        slow.proven = MAX_READY_TIME;
        let mut deaf = sample_measurements();
        deaf.withdrawn = deaf.stopped + MAX_WITHDRAW_TIME + Duration::from_millis(1);
        for seen in [lied, slow, deaf] {
            assert!(!evaluate(&seen).pass, "{seen:?}");
        }
    }

    #[test]
    fn the_baseline_waits_for_a_heartbeat_of_this_run() {
        let moments = moments(&sample_measurements());
        let last = moments.last().expect("there are some");
        assert_eq!(last.at, Duration::from_secs(570));
    }
}
