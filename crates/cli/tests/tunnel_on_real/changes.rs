//! A tunnel before and after its Connector, a tunnel with a new target, and an agent with a new address.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::{tunnel, with_rules};
use crate::origin::Origin;
use crate::{CONNECTOR_ONLY, TENANT, Tally, TestRun};

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record("an HTTPProxy before its Connector", check_old_backend(play).await);
    tally.record("an HTTPProxy after its Connector", check_new_backend(play).await);
    tally.record("an HTTPProxy gets another Connector", check_backend_change(play).await);
    tally.record("a rule is removed", remove_hostname(play).await);
    tally.record(
        "an agent restarted has a new address",
        check_operator_restart(play).await,
    );
}

/// The EndpointSlice of a removed rule is deleted.
async fn remove_hostname(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let backends = json!([{ "endpoint": play.endpoint(), "connector": { "name": TENANT } }]);
    let api = json!({
        "name": "api",
        "matches": [{ "path": { "value": "/api" } }],
        "backends": backends,
    });
    let rest = json!({ "name": "rest", "backends": backends });
    let slices = || {
        let all = stage.kubectl(&["get", "endpointslices", "-n", TENANT, "-o", "name"])?;
        Ok::<_, anyhow::Error>(all.lines().filter(|name| name.contains("fewer")).count())
    };
    let hostname = "fewer.example.com";
    stage.apply(&with_rules(TENANT, "fewer", hostname, &json!([api, rest])))?;
    stage.wait_for(TENANT, "hp/fewer", "condition=Ready")?;
    let many = slices()?;
    stage.apply(&with_rules(TENANT, "fewer", hostname, &json!([rest])))?;
    let gone = async || slices().is_ok_and(|left| left < many);
    stage.wait_until("its EndpointSlice is gone", gone).await?;
    stage.kubectl(&["delete", "-n", TENANT, "hp/fewer"])?;
    Ok(())
}

/// Two seconds are promised and asserted in virtual time; here the time is only printed.
fn print_duration(what: &str, took: Duration) {
    println!("        {what}: traffic after {took:.2?}");
}

async fn check_old_backend(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let origin = Origin::start("early")?;
    let endpoint = format!("http://localhost:{}", origin.port);
    let hostname = "early.example.com";
    stage.apply(&tunnel(TENANT, "early-bird", hostname, "early", &endpoint))?;
    let reason = ".status.conditions[?(@.type==\"Ready\")].reason";
    let missing = async || {
        stage
            .read_field(TENANT, "hp/early-bird", reason)
            .is_ok_and(|r| r == "ConnectorNotFound")
    };
    stage.wait_until("the missing Connector is reported", missing).await?;
    let prober = stage.start_prober(TENANT, "early-bird", hostname)?;
    let began = Instant::now();
    let _agent = stage.start_agent(TENANT, "early", &origin.port.to_string(), &[CONNECTOR_ONLY])?;
    let took = prober.recovery_time(began).await?;
    prober.wait_ready(true, began).await?;
    prober.finish()?;
    print_duration("from the start of the agent's process", took);
    stage.kubectl(&["delete", "-n", TENANT, "hp/early-bird", "connector/early"])?;
    Ok(())
}

async fn check_new_backend(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let hostname = "after.example.com";
    let prober = stage.start_prober(TENANT, "after", hostname)?;
    let began = Instant::now();
    stage.apply(&tunnel(TENANT, "after", hostname, TENANT, &play.endpoint()))?;
    let took = prober.recovery_time(began).await?;
    prober.wait_ready(true, began).await?;
    prober.finish()?;
    print_duration("from the start of kubectl", took);
    stage.kubectl(&["delete", "-n", TENANT, "hp/after"])?;
    Ok(())
}

async fn check_backend_change(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let other = Origin::start("other")?;
    let _agent = stage.start_agent(TENANT, "other", &other.port.to_string(), &[CONNECTOR_ONLY])?;
    let hostname = "repointed.example.com";
    stage.apply(&tunnel(TENANT, "repointed", hostname, TENANT, &play.endpoint()))?;
    stage.wait_for(TENANT, "hp/repointed", "condition=Ready")?;
    stage.wait_for(TENANT, "connector/other", "create")?;
    stage.wait_for(TENANT, "connector/other", "condition=Online")?;
    let prober = stage.start_prober(TENANT, "repointed", hostname)?;
    let began = Instant::now();
    let endpoint = format!("http://localhost:{}", other.port);
    stage.apply(&tunnel(TENANT, "repointed", hostname, "other", &endpoint))?;
    let arrived = async || {
        let body = Curl::http(stage.listen_address(), hostname, "/").fetch_body();
        body.is_ok_and(|body| body == "other\n")
    };
    stage.wait_until("the other one responds", arrived).await?;
    let took = began.elapsed();
    stage.wait_for(TENANT, "hp/repointed", "condition=Ready")?;
    let verdict = prober.finish()?;
    ensure!(verdict.failures == 0, "{} requests failed meanwhile", verdict.failures);
    print_duration("from the start of kubectl", took);
    stage.kubectl(&["delete", "-n", TENANT, "hp/repointed", "connector/other"])?;
    Ok(())
}

async fn check_operator_restart(play: &mut TestRun) -> Result<()> {
    let endpoint = play.endpoint();
    let stage = &play.stage;
    let hostname = "restarted.example.com";
    stage.apply(&tunnel(TENANT, "restarted", hostname, TENANT, &endpoint))?;
    stage.wait_for(TENANT, "hp/restarted", "condition=Ready")?;
    let addresses = ".status.connectionDetails.publicKey.addresses";
    let was = stage.read_field(TENANT, "connector/home", addresses)?;
    let prober = stage.start_prober(TENANT, "restarted", hostname)?;
    prober.recovery_time(Instant::now()).await?;
    prober.record_fault();
    play.agent.kill()?;
    let began = Instant::now();
    play.agent = stage.start_agent(TENANT, TENANT, &play.origin.port.to_string(), &[])?;
    let took = prober.recovery_time(began).await?;
    // The promise is one interval after the fault; the restart is a second event of the same fault.
    stage.wait_for(TENANT, "hp/restarted", "condition=Ready")?;
    prober.finish()?;
    let is = stage.read_field(TENANT, "connector/home", addresses)?;
    ensure!(was != is, "the address is the same: {is}");
    let key = json!(stage.read_field(TENANT, "connector/home", ".status.connectionDetails.publicKey.id")?);
    ensure!(key != "", "the key is missing");
    print_duration("from the start of the new process", took);
    stage.kubectl(&["delete", "-n", TENANT, "hp/restarted"])?;
    Ok(())
}
