//! A killed agent, and leases so long that no heartbeat happens in the test.

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::origin::Origin;
use crate::stage::Stage;
use crate::{CONNECTOR_ONLY, TENANT, Tally, TestRun};

/// The lease of the agent that is killed.
const LEASE_SECONDS: u64 = 6;

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record(
        "a killed agent is offline once its lease expires",
        check_agent_kill(play).await,
    );
    tally.record(
        "a lease of 1,200 s delays nothing",
        check_slow_renewal(&play.stage).await,
    );
}

async fn check_agent_kill(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let port = play.origin.port.to_string();
    let mut agent = stage.start_agent(
        TENANT,
        "mortal",
        &port,
        &[CONNECTOR_ONLY, "--lease", &LEASE_SECONDS.to_string()],
    )?;
    let hostname = "mortal.example.com";
    stage.apply(&tunnel(TENANT, "mortality", hostname, "mortal", &play.endpoint()))?;
    stage.wait_for(TENANT, "hp/mortality", "condition=Ready")?;
    let prober = stage.start_prober(TENANT, "mortality", hostname)?;
    prober.recovery_time(Instant::now()).await?;
    prober.record_fault();
    let began = Instant::now();
    agent.kill()?;
    let ready = prober.wait_ready(false, began).await?;
    let online = ".status.conditions[?(@.type==\"Online\")].status";
    let offline = async || {
        stage
            .read_field(TENANT, "connector/mortal", online)
            .is_ok_and(|is| is == "False")
    };
    stage.wait_until("the Connector is offline", offline).await?;
    let took = began.elapsed();
    println!(
        "        Ready fell after {ready:.1?}; offline after {took:.1?}, kubectl included; lease {LEASE_SECONDS} s, limit 2 s more"
    );
    Curl::http(stage.listen_address(), hostname, "/")
        .send()?
        .expect(503, "ConnectorOffline")?;
    let since = stage.read_field(TENANT, "connector/mortal", ".status.offlineSince")?;
    ensure!(!since.is_empty(), "offlineSince is not set");
    prober.finish()?;
    stage.kubectl(&["delete", "-n", TENANT, "hp/mortality", "connector/mortal"])?;
    Ok(())
}

/// The Lease is renewed every 400 s, so everything here happens without a heartbeat.
async fn check_slow_renewal(stage: &Stage) -> Result<()> {
    let origin = Origin::start("unhurried")?;
    let _agent = stage.start_agent(
        TENANT,
        "unhurried",
        &origin.port.to_string(),
        &[CONNECTOR_ONLY, "--lease", "1200"],
    )?;
    stage.wait_for(TENANT, "connector/unhurried", "create")?;
    stage.wait_for(TENANT, "connector/unhurried", "condition=Online")?;
    let renewed = || stage.read_field(TENANT, "lease/unhurried", ".spec.renewTime");
    let before = renewed()?;
    let endpoint = format!("http://localhost:{}", origin.port);
    for round in 0..3 {
        let (name, hostname) = (format!("unhurried-{round}"), format!("unhurried-{round}.example.com"));
        let prober = stage.start_prober(TENANT, &name, &hostname)?;
        let began = Instant::now();
        stage.apply(&tunnel(TENANT, &name, &hostname, "unhurried", &endpoint))?;
        let took = prober.recovery_time(began).await?;
        prober.wait_ready(true, began).await?;
        prober.finish()?;
        println!("        traffic {took:.2?} after kubectl began");
    }
    ensure!(before == renewed()?, "there was a heartbeat");
    let names: Vec<_> = (0..3).map(|round| format!("hp/unhurried-{round}")).collect();
    let mut args = vec!["delete", "-n", TENANT, "connector/unhurried"];
    args.extend(names.iter().map(String::as_str));
    stage.kubectl(&args).context("cleaning up")?;
    Ok(())
}
