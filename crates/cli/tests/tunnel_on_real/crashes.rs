//! The operator killed at moments that nobody chose, with everything else real.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::{HOME, Play, Tally};

/// How often; `make proof` does more.
const CRASHES: u64 = 8;

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note(
        "an operator killed again and again converges",
        converges(play).await,
    );
}

/// Each life is ended a little later after an apply than the one before, so that each effect is hit.
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
        sleep(Duration::from_millis(15 * crash)).await;
        if let Some(operator) = &mut play.stage.operator {
            operator.kill()?;
        }
        play.stage.operate()?;
    }
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
    let verdict = prober.finish()?;
    ensure!(
        verdict.failures == 0,
        "{} requests failed: traffic needs no operator",
        verdict.failures
    );
    let names: Vec<_> = (0..CRASHES)
        .map(|crash| format!("hp/crash-{crash}"))
        .collect();
    let mut args = vec!["delete", "-n", HOME, "hp/steady"];
    args.extend(names.iter().map(String::as_str));
    play.stage.kubectl(&args)?;
    Ok(())
}
