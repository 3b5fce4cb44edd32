//! A tunnel before and after its Connector, a tunnel with a new target, and an agent with a new address.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::{tunnel, with_rules};
use crate::origin::Origin;
use crate::{ALONE, HOME, Play, Tally};

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note("an HTTPProxy before its Connector", before(play).await);
    tally.note("an HTTPProxy after its Connector", after(play).await);
    tally.note(
        "an HTTPProxy gets another Connector",
        repointed(play).await,
    );
    tally.note("a rule is removed", fewer(play).await);
    tally.note(
        "an agent restarted has a new address",
        restarted(play).await,
    );
}

/// The EndpointSlice of a removed rule is deleted.
async fn fewer(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let backends = json!([{ "endpoint": play.endpoint(), "connector": { "name": HOME } }]);
    let api = json!({
        "name": "api",
        "matches": [{ "path": { "value": "/api" } }],
        "backends": backends,
    });
    let rest = json!({ "name": "rest", "backends": backends });
    let slices = || {
        let all = stage.kubectl(&["get", "endpointslices", "-n", HOME, "-o", "name"])?;
        Ok::<_, anyhow::Error>(all.lines().filter(|name| name.contains("fewer")).count())
    };
    let hostname = "fewer.example.com";
    stage.apply(&with_rules(HOME, "fewer", hostname, &json!([api, rest])))?;
    stage.wait(HOME, "hp/fewer", "condition=Ready")?;
    let many = slices()?;
    stage.apply(&with_rules(HOME, "fewer", hostname, &json!([rest])))?;
    let gone = async || slices().is_ok_and(|left| left < many);
    stage.eventually("its EndpointSlice is gone", gone).await?;
    stage.kubectl(&["delete", "-n", HOME, "hp/fewer"])?;
    Ok(())
}

/// Two seconds are promised and asserted in virtual time; here the time is only printed.
fn told(what: &str, took: Duration) {
    println!("        {what}: traffic after {took:.2?}");
}

async fn before(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let origin = Origin::start("early")?;
    let endpoint = format!("http://localhost:{}", origin.port);
    let hostname = "early.example.com";
    stage.apply(&tunnel(HOME, "early-bird", hostname, "early", &endpoint))?;
    let reason = ".status.conditions[?(@.type==\"Ready\")].reason";
    let missing = async || {
        stage
            .value(HOME, "hp/early-bird", reason)
            .is_ok_and(|r| r == "ConnectorNotFound")
    };
    stage
        .eventually("the missing Connector is reported", missing)
        .await?;
    let prober = stage.probe(HOME, "early-bird", hostname)?;
    let began = Instant::now();
    let _agent = stage.agent(HOME, "early", &origin.port.to_string(), &[ALONE])?;
    let took = prober.works_again(began).await?;
    prober.became(true, began).await?;
    prober.finish()?;
    told("from the start of the agent's process", took);
    stage.kubectl(&["delete", "-n", HOME, "hp/early-bird", "connector/early"])?;
    Ok(())
}

async fn after(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let hostname = "after.example.com";
    let prober = stage.probe(HOME, "after", hostname)?;
    let began = Instant::now();
    stage.apply(&tunnel(HOME, "after", hostname, HOME, &play.endpoint()))?;
    let took = prober.works_again(began).await?;
    prober.became(true, began).await?;
    prober.finish()?;
    told("from the start of kubectl", took);
    stage.kubectl(&["delete", "-n", HOME, "hp/after"])?;
    Ok(())
}

async fn repointed(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let other = Origin::start("other")?;
    let _agent = stage.agent(HOME, "other", &other.port.to_string(), &[ALONE])?;
    let hostname = "repointed.example.com";
    stage.apply(&tunnel(HOME, "repointed", hostname, HOME, &play.endpoint()))?;
    stage.wait(HOME, "hp/repointed", "condition=Ready")?;
    stage.wait(HOME, "connector/other", "create")?;
    stage.wait(HOME, "connector/other", "condition=Online")?;
    let prober = stage.probe(HOME, "repointed", hostname)?;
    let began = Instant::now();
    let endpoint = format!("http://localhost:{}", other.port);
    stage.apply(&tunnel(HOME, "repointed", hostname, "other", &endpoint))?;
    let arrived = async || {
        let body = Curl::http(stage.listen(), hostname, "/").body();
        body.is_ok_and(|body| body == "other\n")
    };
    stage.eventually("the other one responds", arrived).await?;
    let took = began.elapsed();
    stage.wait(HOME, "hp/repointed", "condition=Ready")?;
    let verdict = prober.finish()?;
    ensure!(
        verdict.failures == 0,
        "{} requests failed meanwhile",
        verdict.failures
    );
    told("from the start of kubectl", took);
    stage.kubectl(&["delete", "-n", HOME, "hp/repointed", "connector/other"])?;
    Ok(())
}

async fn restarted(play: &mut Play) -> Result<()> {
    let endpoint = play.endpoint();
    let stage = &play.stage;
    let hostname = "restarted.example.com";
    stage.apply(&tunnel(HOME, "restarted", hostname, HOME, &endpoint))?;
    stage.wait(HOME, "hp/restarted", "condition=Ready")?;
    let addresses = ".status.connectionDetails.publicKey.addresses";
    let was = stage.value(HOME, "connector/home", addresses)?;
    let prober = stage.probe(HOME, "restarted", hostname)?;
    prober.works_again(Instant::now()).await?;
    prober.fault();
    play.agent.kill()?;
    let began = Instant::now();
    play.agent = stage.agent(HOME, HOME, &play.origin.port.to_string(), &[])?;
    let took = prober.works_again(began).await?;
    // The promise is one interval after the fault; the restart is a second event of the same fault.
    stage.wait(HOME, "hp/restarted", "condition=Ready")?;
    prober.finish()?;
    let is = stage.value(HOME, "connector/home", addresses)?;
    ensure!(was != is, "the address is the same: {is}");
    let key = json!(stage.value(
        HOME,
        "connector/home",
        ".status.connectionDetails.publicKey.id"
    )?);
    ensure!(key != "", "the key is missing");
    told("from the start of the new process", took);
    stage.kubectl(&["delete", "-n", HOME, "hp/restarted"])?;
    Ok(())
}
