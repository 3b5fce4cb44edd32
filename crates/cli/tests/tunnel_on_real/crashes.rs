//! The operator killed at arbitrary moments, with everything else real.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::{HOME, Play, Tally};

const CRASHES: u64 = 16;
/// The time until the first kill, about when the caches are synced; and how much longer each following run
/// is.
const LIFE: (u64, u64) = (150, 25);

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note(
        "an operator killed again and again converges",
        converges(play).await,
    );
}

/// There is always a tunnel to create; each run is a little longer than the previous one, so that it is killed in
/// another step.
async fn converges(play: &mut Play) -> Result<()> {
    let endpoint = play.endpoint();
    let steady = "steady.example.com";
    play.stage
        .apply(&tunnel(HOME, "steady", steady, HOME, &endpoint))?;
    play.stage.wait(HOME, "hp/steady", "condition=Ready")?;
    let prober = play.stage.probe(HOME, "steady", steady)?;
    for crash in 0..CRASHES {
        let (name, hostname) = (
            format!("crash-{crash}"),
            format!("crash-{crash}.example.com"),
        );
        play.stage
            .apply(&tunnel(HOME, &name, &hostname, HOME, &endpoint))?;
        play.stage.operate_at_once()?;
        sleep(Duration::from_millis(LIFE.0 + LIFE.1 * crash)).await;
        if let Some(operator) = &mut play.stage.operator {
            operator.kill()?;
        }
    }
    play.stage.operate_at_once()?;
    let began = Instant::now();
    for crash in 0..CRASHES {
        play.stage
            .wait(HOME, &format!("hp/crash-{crash}"), "condition=Ready")?;
        let hostname = format!("crash-{crash}.example.com");
        Curl::http(play.stage.listen(), &hostname, "/").body()?;
    }
    println!(
        "        {CRASHES} crashes; all Ready {:.1?} after the last",
        began.elapsed()
    );
    let lives = play.stage.operator.as_ref().map(|it| it.log());
    let acted = lives
        .unwrap_or_default()
        .matches("Started controller")
        .count();
    println!("        {acted} times a controller had started before it was killed");
    let verdict = prober.finish()?;
    ensure!(
        verdict.failures == 0,
        "{} requests failed, although traffic needs no operator",
        verdict.failures
    );
    let names: Vec<_> = (0..CRASHES)
        .map(|crash| format!("hp/crash-{crash}"))
        .collect();
    let mut args = vec!["delete", "-n", HOME, "hp/steady"];
    args.extend(names.iter().map(String::as_str));
    play.stage.kubectl(&args)?;
    play.stage.operate()
}
