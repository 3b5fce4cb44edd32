//! A tunnel is created while another writer updates the same object again and again, always just before
//! the operator. The measure is how soon after the last conflict a write succeeds.

use std::time::Duration;

use anyhow::{Context, Result};
use aplomb_api::tunnel::HttpProxy;
use kube::Api;
use serde_json::json;
use tokio::time::Instant;

use crate::rival::{Answer, RIVAL as OTHER_WRITER};
use crate::stage::{DemoStage, NAMESPACE, by_hand, proxy, ready};
use crate::tell::{Narrator, StoryMoment, StoryResult, StoryTitle};
use crate::usual::BaselineQueue;
use crate::watch::ObjectWatch;

pub(super) const TITLE: StoryTitle = StoryTitle {
    name: "conflicts",
    title: "a conflict is not a failure",
    elsewhere: "a write that loses (409) counts as a failure, and each failure doubles the delay. \
                After a burst of conflicts, a healthy tunnel was not updated for minutes.",
};

/// The name of the tunnel.
const STORM: &str = "stormy";
/// How often the other writer is first.
const TIMES: u32 = 18;
/// The promise is one second; a busy machine gets five.
const PROMISE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// What was observed. Times count from the creation of the tunnel.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The conflicts.
    conflicts: Vec<Duration>,
    /// The first successful write after the last conflict.
    landed: Duration,
    ready: Duration,
    /// The conflicts that the operator itself counted with the name of the winner.
    counted: u64,
}

pub(super) async fn play(stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
    stage.rival.storm(STORM, TIMES);
    let proxies: Api<HttpProxy> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut eye = ObjectWatch::on(proxies.clone(), STORM);
    let before = counted(stage);
    let began = Instant::now();
    let made = proxy(STORM, &stage.tunnels.shop)?;
    proxies.create(&by_hand(), &made).await?;
    let what =
        format!("httpproxy/{STORM} is created; {OTHER_WRITER} writes it too, always just before");
    teller.event(Duration::ZERO, &what);
    eye.until(PATIENCE, "Ready", ready).await?;
    let ready = began.elapsed();
    let mut seen = sorted(&stage.rival.answers(), began).context("no write succeeded")?;
    seen.ready = ready;
    seen.counted = counted(stage) - before;
    tell(teller, &seen);
    teller.beside(&moments(&seen));
    Ok(judge(&seen))
}

fn counted(stage: &DemoStage) -> u64 {
    stage
        .office
        .telemetry
        .writes
        .conflicts("HTTPProxy", "aplomb-tunnel", OTHER_WRITER)
}

/// The conflicts and the first write after them; `None` if no write succeeded.
fn sorted(answers: &[Answer], began: Instant) -> Option<Seen> {
    let since = |answer: &Answer| answer.at.saturating_duration_since(began);
    let lost = |answer: &&Answer| answer.status == 409;
    let last = answers.iter().rposition(|answer| lost(&answer))?;
    let landed = answers[last..]
        .iter()
        .find(|it| (200..300).contains(&it.status))?;
    Some(Seen {
        conflicts: answers.iter().filter(lost).map(since).collect(),
        landed: since(landed),
        ..Seen::default()
    })
}

fn tell(teller: &Narrator, seen: &Seen) {
    if let (Some(first), Some(last)) = (seen.conflicts.first(), seen.conflicts.last()) {
        teller.event(*first, "first conflict");
        let many = seen.conflicts.len();
        teller.event(
            *last,
            &format!("conflict {many}, the last; {OTHER_WRITER} was first"),
        );
    }
    teller.event(seen.landed, "a write succeeds");
    teller.event(seen.ready, "Ready: proven");
    teller.say(&format!(
        "aplomb trace httpproxy/{STORM} shows each conflict and its winner."
    ));
}

fn judge(seen: &Seen) -> StoryResult {
    let last = seen.conflicts.last().copied().unwrap_or_default();
    let gap = seen.landed.saturating_sub(last);
    let many = seen.conflicts.len();
    let named = usize::try_from(seen.counted).is_ok_and(|counted| counted >= many);
    let stormy = many >= usize::try_from(TIMES).unwrap_or(usize::MAX);
    let won = match named {
        true => format!("all won by {OTHER_WRITER}"),
        false => format!("only {} of them attributed to {OTHER_WRITER}", seen.counted),
    };
    let figure = format!(
        "{many} conflicts, {won}; the next write succeeded {:.3} s after the last",
        gap.as_secs_f64()
    );
    let numbers = json!({
        "conflicts": many,
        "winner": OTHER_WRITER,
        "gapSeconds": gap.as_secs_f64(),
        "readySeconds": seen.ready.as_secs_f64(),
    });
    StoryResult {
        pass: stormy && named && gap <= PROMISE,
        figure,
        numbers,
    }
}

fn moments(seen: &Seen) -> Vec<StoryMoment> {
    let usual = BaselineQueue::default().lands(&seen.conflicts);
    let last = seen.conflicts.last().copied().unwrap_or_default();
    let silence = usual.at.saturating_sub(last).as_secs_f64();
    let ours = format!("conflict {}", seen.conflicts.len());
    let theirs = format!("conflict {}: now waits {silence:.0} s", usual.failures);
    vec![
        StoryMoment::both(Duration::ZERO, "created"),
        StoryMoment::ours(last, ours),
        StoryMoment::usual(last, theirs),
        StoryMoment::ours(seen.landed, "the write succeeds"),
        StoryMoment::ours(seen.ready, "green: proven by a request"),
        StoryMoment::usual(usual.at, "the write succeeds"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn seen(gap: Duration) -> Seen {
        let conflicts: Vec<_> = (0..18).map(|n| ms(40 * n)).collect();
        Seen {
            landed: ms(40 * 17) + gap,
            ready: ms(40 * 17 + 500) + gap,
            counted: 18,
            conflicts,
        }
    }

    #[test]
    fn a_storm_that_is_over_at_once_passes() {
        let verdict = judge(&seen(ms(30)));
        assert!(verdict.pass, "{verdict:?}");
        assert!(verdict.figure.contains("0.030 s after"), "{verdict:?}");
    }

    #[test]
    fn silence_a_small_storm_or_an_unknown_winner_fails() {
        let silent = seen(PROMISE + ms(1));
        let mut small = seen(ms(30));
        small.conflicts.truncate(17);
        let mut unknown = seen(ms(30));
        unknown.counted = 17;
        for seen in [silent, small, unknown] {
            assert!(!judge(&seen).pass, "{seen:?}");
        }
    }

    #[tokio::test]
    async fn what_landed_is_the_first_success_after_the_last_conflict() {
        let began = Instant::now();
        let answer = |at, status| Answer {
            at: began + ms(at),
            status,
        };
        let answers = [(10, 409), (20, 200), (30, 409), (45, 200), (60, 200)];
        let answers = answers.map(|(at, status)| answer(at, status));
        let seen = sorted(&answers, began).expect("a write succeeded");
        assert_eq!((seen.conflicts.len(), seen.landed), (2, ms(45)));
        assert!(sorted(&answers[..1], began).is_none());
    }

    #[test]
    fn the_usual_way_is_silent_for_longer_on_the_same_conflicts() {
        let seen = seen(ms(30));
        let last = moments(&seen).last().expect("there are moments").at;
        assert!(last > Duration::from_secs(60), "{last:?}");
    }
}
