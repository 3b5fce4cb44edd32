//! A killed agent, and leases so long that no heartbeat happens in the test.

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::origin::Origin;
use crate::stage::Stage;
use crate::{ALONE, HOME, Play, Tally};

/// The lease of the agent that is killed.
const LEASE: u64 = 6;

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note(
        "a killed agent is offline once its lease expires",
        killed(play).await,
    );
    tally.note(
        "a lease of 1,200 s delays nothing",
        unhurried(&play.stage).await,
    );
}

async fn killed(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let port = play.origin.port.to_string();
    let mut agent = stage.agent(
        HOME,
        "mortal",
        &port,
        &[ALONE, "--lease", &LEASE.to_string()],
    )?;
    let hostname = "mortal.example.com";
    stage.apply(&tunnel(
        HOME,
        "mortality",
        hostname,
        "mortal",
        &play.endpoint(),
    ))?;
    stage.wait(HOME, "hp/mortality", "condition=Ready")?;
    let prober = stage.probe(HOME, "mortality", hostname)?;
    prober.works_again(Instant::now()).await?;
    prober.fault();
    let began = Instant::now();
    agent.kill()?;
    let ready = prober.became(false, began).await?;
    let online = ".status.conditions[?(@.type==\"Online\")].status";
    let offline = async || {
        stage
            .value(HOME, "connector/mortal", online)
            .is_ok_and(|is| is == "False")
    };
    stage
        .eventually("the Connector is offline", offline)
        .await?;
    let took = began.elapsed();
    println!(
        "        Ready fell after {ready:.1?}; offline after {took:.1?}, kubectl included; lease {LEASE} s, limit 2 s more"
    );
    Curl::http(stage.listen(), hostname, "/")
        .answer()?
        .is(503, "ConnectorOffline")?;
    let since = stage.value(HOME, "connector/mortal", ".status.offlineSince")?;
    ensure!(!since.is_empty(), "offlineSince is not set");
    prober.finish()?;
    stage.kubectl(&["delete", "-n", HOME, "hp/mortality", "connector/mortal"])?;
    Ok(())
}

/// The Lease is renewed every 400 s, so everything here happens without a heartbeat.
async fn unhurried(stage: &Stage) -> Result<()> {
    let origin = Origin::start("unhurried")?;
    let _agent = stage.agent(
        HOME,
        "unhurried",
        &origin.port.to_string(),
        &[ALONE, "--lease", "1200"],
    )?;
    stage.wait(HOME, "connector/unhurried", "create")?;
    stage.wait(HOME, "connector/unhurried", "condition=Online")?;
    let renewed = || stage.value(HOME, "lease/unhurried", ".spec.renewTime");
    let before = renewed()?;
    let endpoint = format!("http://localhost:{}", origin.port);
    for round in 0..3 {
        let (name, hostname) = (
            format!("unhurried-{round}"),
            format!("unhurried-{round}.example.com"),
        );
        let prober = stage.probe(HOME, &name, &hostname)?;
        let began = Instant::now();
        stage.apply(&tunnel(HOME, &name, &hostname, "unhurried", &endpoint))?;
        let took = prober.works_again(began).await?;
        prober.became(true, began).await?;
        prober.finish()?;
        println!("        traffic {took:.2?} after kubectl began");
    }
    ensure!(before == renewed()?, "there was a heartbeat");
    let names: Vec<_> = (0..3)
        .map(|round| format!("hp/unhurried-{round}"))
        .collect();
    let mut args = vec!["delete", "-n", HOME, "connector/unhurried"];
    args.extend(names.iter().map(String::as_str));
    stage.kubectl(&args).context("cleaning up")?;
    Ok(())
}
