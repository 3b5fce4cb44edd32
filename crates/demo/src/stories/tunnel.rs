//! A tunnel is created, breaks and recovers. Green must mean that a request works, checked at every change.

use std::time::Duration;

use anyhow::Result;
use aplomb_api::tunnel::HttpProxy;
use kube::Api;
use serde_json::json;
use tokio::time::Instant;

use crate::request;
use crate::stage::{DemoStage, NAMESPACE, SHOP, by_hand, hostname, proxy, ready};
use crate::tell::{Narrator, StoryMoment, StoryResult, StoryTitle};
use crate::usual::BaselineHeartbeat;
use crate::watch::{ObjectWatch, condition, holds};

pub(super) const TITLE: StoryTitle = StoryTitle {
    name: "tunnel",
    title: "green means that it works",
    elsewhere: "a tunnel is green when its objects are written. The agent's addresses are sent with its \
                next heartbeat, and no request is made to check the tunnel.",
};

/// The promise, and how long the story waits before it gives up.
const PROMISE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);
/// A broken tunnel is detected within its proof interval of 2 s; a busy machine gets five times that.
const WITHDRAWN: Duration = Duration::from_secs(10);

/// What was observed. Times count from the creation of the tunnel.
#[derive(Clone, Debug, Default)]
struct Seen {
    accepted: Duration,
    programmed: Duration,
    proven: Duration,
    stopped: Duration,
    withdrawn: Duration,
    restarted: Duration,
    back: Duration,
    /// Failed requests at moments when the tunnel was green.
    lies: Vec<String>,
    /// From the agent's first heartbeat until the tunnel was created.
    age: Duration,
}

pub(super) async fn play(stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
    let proxies: Api<HttpProxy> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut eye = ObjectWatch::on(proxies.clone(), SHOP);
    let mut seen = Seen {
        age: stage.tunnels.registered.elapsed(),
        ..Seen::default()
    };
    let made = proxy(SHOP, &stage.tunnels.shop)?;
    let tale = Tale {
        stage,
        teller,
        began: Instant::now(),
    };
    proxies.create(&by_hand(), &made).await?;
    teller.event(
        Duration::ZERO,
        "httpproxy/shop is created, for a service on this machine",
    );
    tale.rise(&mut eye, &mut seen).await?;
    tale.fall(&mut eye, &mut seen).await?;
    teller.beside(&moments(&seen));
    Ok(judge(&seen))
}

/// The state that the steps of the story share.
struct Tale<'a> {
    stage: &'a DemoStage,
    teller: &'a Narrator,
    began: Instant,
}

impl Tale<'_> {
    /// From created to green.
    async fn rise(&self, eye: &mut ObjectWatch<HttpProxy>, seen: &mut Seen) -> Result<()> {
        let stages = [
            ("Accepted", "Accepted: the hostname is claimed"),
            (
                "Programmed",
                "Programmed: every gateway has it in its table",
            ),
        ];
        for (kind, what) in stages {
            let reached = |it: &HttpProxy| {
                let status = it.status.as_ref();
                status.is_some_and(|status| holds(&status.conditions, kind))
            };
            eye.until(PATIENCE, kind, reached).await?;
            let at = self.began.elapsed();
            self.teller.event(at, what);
            match kind {
                "Accepted" => seen.accepted = at,
                _ => seen.programmed = at,
            }
        }
        seen.proven = self.green(eye, seen).await?;
        let what = "Ready: a nonce came back through the gateway, signed by the agent";
        self.teller.event(seen.proven, what);
        let curl = format!(
            "curl -H 'Host: {}' http://{}/",
            hostname(SHOP),
            self.gateway()
        );
        let answer = self.stage.tunnels.shop.answer().trim();
        let what = format!("{curl} -> {answer}");
        self.teller.event(self.began.elapsed(), &what);
        Ok(())
    }

    /// From green to broken, and back.
    async fn fall(&self, eye: &mut ObjectWatch<HttpProxy>, seen: &mut Seen) -> Result<()> {
        self.stage.tunnels.shop.stop();
        seen.stopped = self.began.elapsed();
        self.teller
            .event(seen.stopped, "the service on this machine stops");
        let broken = eye.until(PATIENCE, "not Ready", |it| !ready(it)).await?;
        seen.withdrawn = self.began.elapsed();
        let why = condition(&broken.status.unwrap_or_default().conditions, "Ready")
            .map(|it| it.reason.clone())
            .unwrap_or_default();
        let what = format!("Ready turns False: {why}");
        self.teller.event(seen.withdrawn, &what);
        self.stage.tunnels.shop.again().await?;
        seen.restarted = self.began.elapsed();
        self.teller.event(seen.restarted, "the service is back");
        seen.back = self.green(eye, seen).await?;
        self.teller.event(seen.back, "Ready again: a new proof");
        Ok(())
    }

    /// Waits for green, and sends a request at that moment.
    async fn green(&self, eye: &mut ObjectWatch<HttpProxy>, seen: &mut Seen) -> Result<Duration> {
        eye.until(PATIENCE, "Ready", ready).await?;
        let at = self.began.elapsed();
        let wanted = self.stage.tunnels.shop.answer();
        match request::get(self.gateway(), &hostname(SHOP)).await {
            Ok(answer) if answer.status.is_success() && answer.body == wanted => {}
            Ok(answer) => seen.lies.push(answer.status.to_string()),
            Err(error) => seen.lies.push(format!("{error:#}")),
        }
        Ok(at)
    }

    fn gateway(&self) -> std::net::SocketAddr {
        self.stage.tunnels.gateway
    }
}

fn judge(seen: &Seen) -> StoryResult {
    let withdrawn = seen.withdrawn.saturating_sub(seen.stopped);
    let back = seen.back.saturating_sub(seen.restarted);
    let honest = seen.lies.is_empty();
    let pass = honest && seen.proven < PROMISE && withdrawn <= WITHDRAWN;
    let lied = match seen.lies.first() {
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
        "greenWithoutTraffic": seen.lies.len(),
    });
    StoryResult {
        pass,
        figure,
        numbers,
    }
}

fn moments(seen: &Seen) -> Vec<StoryMoment> {
    let told = BaselineHeartbeat::default()
        .after(seen.age)
        .saturating_sub(seen.age);
    vec![
        StoryMoment::both(Duration::ZERO, "created"),
        StoryMoment::ours(seen.accepted, "accepted"),
        StoryMoment::usual(seen.programmed, "green: its objects are written"),
        StoryMoment::ours(seen.proven, "green: proven by a request"),
        StoryMoment::ours(seen.withdrawn, "not green: the service is gone"),
        StoryMoment::usual(seen.withdrawn, "still green: not checked"),
        StoryMoment::ours(seen.back, "green: a new proof"),
        StoryMoment::usual(told, "the agent's next heartbeat: first request succeeds"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        let ms = Duration::from_millis;
        Seen {
            accepted: ms(100),
            programmed: ms(200),
            proven: ms(300),
            stopped: ms(400),
            withdrawn: ms(2_000),
            restarted: ms(2_100),
            back: ms(2_400),
            lies: Vec::new(),
            age: ms(30_000),
        }
    }

    #[test]
    fn green_and_prompt_and_true_passes() {
        let verdict = judge(&seen());
        assert!(verdict.pass, "{verdict:?}");
        assert!(verdict.figure.contains("proven in 0.30 s"), "{verdict:?}");
    }

    #[test]
    fn one_lie_or_one_delay_fails() {
        let mut lied = seen();
        lied.lies.push("502 Bad Gateway".to_owned());
        let mut slow = seen();
        slow.proven = PROMISE;
        let mut deaf = seen();
        deaf.withdrawn = deaf.stopped + WITHDRAWN + Duration::from_millis(1);
        for seen in [lied, slow, deaf] {
            assert!(!judge(&seen).pass, "{seen:?}");
        }
    }

    #[test]
    fn the_usual_way_waits_for_a_heartbeat_of_this_run() {
        let moments = moments(&seen());
        let last = moments.last().expect("there are some");
        assert_eq!(last.at, Duration::from_secs(570));
    }
}
