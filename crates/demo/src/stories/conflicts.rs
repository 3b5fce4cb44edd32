//! A tunnel is created while another writer updates the same object again and again, always just before
//! the operator. The measure is how soon after the last conflict a write succeeds.

use std::time::Duration;

use anyhow::{Context, Result};
use aplomb_api::tunnel::HttpProxy;
use kube::Api;
use serde_json::json;
use tokio::time::Instant;

use crate::baseline::BaselineQueue;
use crate::client::ObjectWatch;
use crate::narration::{Narrator, StoryMoment, StoryResult, StoryTitle};
use crate::rival_writer::{Answer, RIVAL_MANAGER};
use crate::stage::{DemoStage, NAMESPACE, is_ready, proxy, user_post_params};

pub(super) const TITLE: StoryTitle = StoryTitle {
    name: "conflicts",
    title: "a conflict is not a failure",
    elsewhere: "a write that loses (409) counts as a failure, and each failure doubles the delay. \
                After a burst of conflicts, a healthy tunnel was not updated for minutes.",
};

const TUNNEL_NAME: &str = "stormy";
/// How often the other writer is first.
const CONFLICTS: u32 = 18;
/// The promise is a second; five on a busy machine.
const MAX_READY_TIME: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(60);

/// What was observed. Times count from the creation of the tunnel.
#[derive(Clone, Debug, Default)]
struct ConflictMeasurements {
    conflicts: Vec<Duration>,
    /// The first write after the last of them that the server took.
    written: Duration,
    ready: Duration,
    /// How many conflicts the operator itself has counted, and which writer it says was first.
    reported_conflicts: u64,
}

pub(super) async fn play(stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
    stage.rival.start_storm(TUNNEL_NAME, CONFLICTS);
    let proxies: Api<HttpProxy> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut eye = ObjectWatch::new(proxies.clone(), TUNNEL_NAME);
    let before = conflict_count(stage);
    let began = Instant::now();
    let made = proxy(TUNNEL_NAME, &stage.tunnels.shop)?;
    proxies.create(&user_post_params(), &made).await?;
    let what = format!("httpproxy/{TUNNEL_NAME} is created; {RIVAL_MANAGER} writes it too, always a moment sooner");
    teller.print_event(Duration::ZERO, &what);
    eye.wait_until(TIMEOUT, "Ready", is_ready).await?;
    let ready = began.elapsed();
    let mut seen = summarize_answers(&stage.rival.write_answers(), began).context("no write came through")?;
    seen.ready = ready;
    seen.reported_conflicts = conflict_count(stage) - before;
    narrate_result(teller, &seen);
    teller.print_timelines(&moments(&seen));
    Ok(evaluate(&seen))
}

fn conflict_count(stage: &DemoStage) -> u64 {
    stage
        .admin
        .telemetry
        .writes
        .conflicts("HTTPProxy", "aplomb-tunnel", RIVAL_MANAGER)
}

/// What the server's answers came to; nothing, if no write landed.
fn summarize_answers(answers: &[Answer], began: Instant) -> Option<ConflictMeasurements> {
    let since = |answer: &Answer| answer.at.saturating_duration_since(began);
    let lost = |answer: &&Answer| answer.status == 409;
    let last = answers.iter().rposition(|answer| lost(&answer))?;
    let landed = answers[last..].iter().find(|it| (200..300).contains(&it.status))?;
    Some(ConflictMeasurements {
        conflicts: answers.iter().filter(lost).map(since).collect(),
        written: since(landed),
        ..ConflictMeasurements::default()
    })
}

fn narrate_result(teller: &Narrator, seen: &ConflictMeasurements) {
    if let (Some(first), Some(last)) = (seen.conflicts.first(), seen.conflicts.last()) {
        teller.print_event(*first, "the first conflict");
        let many = seen.conflicts.len();
        teller.print_event(
            *last,
            &format!("conflict {many}, the last; lost to {RIVAL_MANAGER}, which was first"),
        );
    }
    teller.print_event(seen.written, "a write lands");
    teller.print_event(seen.ready, "Ready: proven");
    teller.print_text(&format!(
        "aplomb trace httpproxy/{TUNNEL_NAME} has all of it, with who won."
    ));
}

fn evaluate(seen: &ConflictMeasurements) -> StoryResult {
    let last = seen.conflicts.last().copied().unwrap_or_default();
    let gap = seen.written.saturating_sub(last);
    let many = seen.conflicts.len();
    let named = usize::try_from(seen.reported_conflicts).is_ok_and(|counted| counted >= many);
    let stormy = many >= usize::try_from(CONFLICTS).unwrap_or(usize::MAX);
    let won = match named {
        true => format!("all won by {RIVAL_MANAGER}"),
        false => format!(
            "only {} of them known to be won by {RIVAL_MANAGER}",
            seen.reported_conflicts
        ),
    };
    let figure = format!(
        "{many} conflicts, {won}; the next write succeeded {:.3} s after the last",
        gap.as_secs_f64()
    );
    let numbers = json!({
        "conflicts": many,
        "winner": RIVAL_MANAGER,
        "gapSeconds": gap.as_secs_f64(),
        "readySeconds": seen.ready.as_secs_f64(),
    });
    StoryResult {
        pass: stormy && named && gap <= MAX_READY_TIME,
        figure,
        numbers,
    }
}

fn moments(seen: &ConflictMeasurements) -> Vec<StoryMoment> {
    let usual = BaselineQueue::default().write_after(&seen.conflicts);
    let last = seen.conflicts.last().copied().unwrap_or_default();
    let silence = usual.at.saturating_sub(last).as_secs_f64();
    let ours = format!("conflict {}", seen.conflicts.len());
    let theirs = format!("conflict {}: now waits {silence:.0} s", usual.failures);
    vec![
        StoryMoment::both(Duration::ZERO, "created"),
        StoryMoment::ours(last, ours),
        StoryMoment::baseline(last, theirs),
        StoryMoment::ours(seen.written, "the write lands"),
        StoryMoment::ours(seen.ready, "green: proven by a request"),
        StoryMoment::baseline(usual.at, "the write lands"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn sample_measurements(gap: Duration) -> ConflictMeasurements {
        let conflicts: Vec<_> = (0..18).map(|n| from_millis(40 * n)).collect();
        ConflictMeasurements {
            written: from_millis(40 * 17) + gap,
            ready: from_millis(40 * 17 + 500) + gap,
            reported_conflicts: 18,
            conflicts,
        }
    }

    #[test]
    fn a_storm_that_is_over_at_once_passes() {
        let verdict = evaluate(&sample_measurements(from_millis(30)));
        assert!(verdict.pass, "{verdict:?}");
        assert!(verdict.figure.contains("0.030 s after"), "{verdict:?}");
    }

    #[test]
    fn silence_or_few_conflicts_or_an_unknown_winner_fails() {
        let silent = sample_measurements(MAX_READY_TIME + from_millis(1));
        let mut small = sample_measurements(from_millis(30));
        small.conflicts.truncate(17);
        let mut unknown = sample_measurements(from_millis(30));
        unknown.reported_conflicts = 17;
        for seen in [silent, small, unknown] {
            assert!(!evaluate(&seen).pass, "{seen:?}");
        }
    }

    #[tokio::test]
    async fn the_write_is_the_first_success_after_the_last_conflict() {
        let began = Instant::now();
        let answer = |at, status| Answer {
            at: began + from_millis(at),
            status,
        };
        let answers = [(10, 409), (20, 200), (30, 409), (45, 200), (60, 200)];
        let answers = answers.map(|(at, status)| answer(at, status));
        let seen = summarize_answers(&answers, began).expect("a write landed");
        assert_eq!((seen.conflicts.len(), seen.written), (2, from_millis(45)));
        assert!(summarize_answers(&answers[..1], began).is_none());
    }

    #[test]
    fn the_baseline_is_silent_for_longer_on_the_same_conflicts() {
        let seen = sample_measurements(from_millis(30));
        let last = moments(&seen).last().expect("there are some").at;
        assert!(last > Duration::from_secs(60), "{last:?}");
    }
}
