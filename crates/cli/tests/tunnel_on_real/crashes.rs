//! The operator killed at arbitrary moments, with everything else real.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::{TENANT, Tally, TestRun};

const CRASHES: u64 = 16;
/// The time until the first kill, about when the caches are synced; and how much longer each following run
/// is.
const UPTIME_MILLIS: (u64, u64) = (150, 25);

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record(
        "an operator killed again and again converges",
        check_convergence(play).await,
    );
}

/// There is always a tunnel to create; each run is a little longer than the previous one, so that it is killed in
/// another step.
async fn check_convergence(play: &mut TestRun) -> Result<()> {
    let endpoint = play.endpoint();
    let steady = "steady.example.com";
    play.stage.apply(&tunnel(TENANT, "steady", steady, TENANT, &endpoint))?;
    play.stage.wait_for(TENANT, "hp/steady", "condition=Ready")?;
    let prober = play.stage.start_prober(TENANT, "steady", steady)?;
    for crash in 0..CRASHES {
        let (name, hostname) = (format!("crash-{crash}"), format!("crash-{crash}.example.com"));
        play.stage.apply(&tunnel(TENANT, &name, &hostname, TENANT, &endpoint))?;
        play.stage.start_operator_without_lease()?;
        sleep(Duration::from_millis(UPTIME_MILLIS.0 + UPTIME_MILLIS.1 * crash)).await;
        if let Some(operator) = &mut play.stage.operator {
            operator.kill()?;
        }
    }
    play.stage.start_operator_without_lease()?;
    let began = Instant::now();
    for crash in 0..CRASHES {
        play.stage
            .wait_for(TENANT, &format!("hp/crash-{crash}"), "condition=Ready")?;
        let hostname = format!("crash-{crash}.example.com");
        Curl::http(play.stage.listen_address(), &hostname, "/").fetch_body()?;
    }
    println!(
        "        {CRASHES} crashes; all Ready {:.1?} after the last",
        began.elapsed()
    );
    let lives = play.stage.operator.as_ref().map(|it| it.log());
    let acted = lives.unwrap_or_default().matches("Started controller").count();
    println!("        {acted} times a controller had started before it was killed");
    let verdict = prober.finish()?;
    ensure!(
        verdict.failures == 0,
        "{} requests failed, although traffic needs no operator",
        verdict.failures
    );
    let names: Vec<_> = (0..CRASHES).map(|crash| format!("hp/crash-{crash}")).collect();
    let mut args = vec!["delete", "-n", TENANT, "hp/steady"];
    args.extend(names.iter().map(String::as_str));
    play.stage.kubectl(&args)?;
    play.stage.start_operator()
}
