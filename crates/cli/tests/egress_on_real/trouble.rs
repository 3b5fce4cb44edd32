//! Failures around a failover: holds, the provider, its token, the leader.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::fixtures::{NEXT_TOKEN, NODES, TOKEN, address, project, server};
use crate::stage::{Stage, successor};

const HOLD: &str = "egress.aplomb.dev/hold";

pub(crate) async fn hold(stage: &mut Stage) -> Result<()> {
    let gateway = stage.active()?;
    stage.kubectl(&["annotate", "seg", "web", &format!("{HOLD}=true")])?;
    stage.wait("condition=Held")?;
    stage.kubectl(&["cordon", &gateway])?;
    // The status follows the cordon; the address and the labels do not.
    stage.wait("jsonpath={.status.candidates.ready}=2")?;
    untouched(stage, &gateway).await?;
    let began = Instant::now();
    stage.kubectl(&["annotate", "seg", "web", &format!("{HOLD}-")])?;
    stage.moved_to(successor(&gateway), began).await?;
    stage.kubectl(&["uncordon", &gateway])?;
    Ok(())
}

/// The gateway has not changed.
async fn untouched(stage: &Stage, gateway: &str) -> Result<()> {
    ensure!(stage.holder().await? == Some(server(gateway)), "the address moved");
    let labelled = stage.labelled("nodes")?;
    ensure!(labelled == [gateway], "labelled are {labelled:?}");
    Ok(())
}

pub(crate) async fn unassigned(stage: &mut Stage) -> Result<()> {
    let gateway = stage.active()?;
    change(stage, &json!({ "resync": "10s" }))?;
    let free = json!({ "floating_ips": project()["floating_ips"] });
    stage.control("PUT", "/_sim/state", Some(free)).await?;
    ensure!(stage.holder().await?.is_none(), "it is still assigned");
    let began = Instant::now();
    let back = async || stage.holder().await.is_ok_and(|holder| holder.is_some());
    stage.eventually("it is assigned again", back).await?;
    stage.moved_to(&gateway, began).await
}

/// A node stops answering probes while Ready is ignored. Afterwards Ready counts again.
pub(crate) async fn probe(stage: &mut Stage) -> Result<()> {
    let outcome = probed(stage).await;
    change(stage, &json!({ "health": { "signal": "ready" } }))?;
    outcome
}

async fn probed(stage: &Stage) -> Result<()> {
    let gateway = stage.active()?;
    let first = TcpListener::bind((address(NODES[0].0), 0)).await?;
    let port = first.local_addr()?.port();
    let mut listeners = BTreeMap::from([(NODES[0].0, first)]);
    for (name, _) in &NODES[1..] {
        listeners.insert(name, TcpListener::bind((address(name), port)).await?);
    }
    let probe = json!({ "port": port, "interval": "2s", "timeout": "1s", "failures": 3 });
    let spec = json!({
        "health": { "signal": "probe", "probe": probe },
        // A grace period in addition to the failures would delay the move.
        "graces": { "unhealthy": null },
        // A node that is Ready is not dead, and six moves have happened.
        "maxMovesPerHour": 100,
    });
    change(stage, &spec)?;
    let reported = async || {
        let leases = stage.kubectl(&["get", "leases", "-n", "aplomb-system", "-o", "name"]);
        leases.is_ok_and(|leases| leases.contains("vantage"))
    };
    stage
        .eventually("the standby reports reachability", reported)
        .await?;
    stage.wait("condition=Ready")?;
    let began = Instant::now();
    listeners.remove(gateway.as_str());
    stage.moved_to(successor(&gateway), began).await
}

fn change(stage: &Stage, spec: &Value) -> Result<()> {
    let patch = json!({ "spec": spec }).to_string();
    stage.kubectl(&["patch", "seg", "web", "--type=merge", "-p", &patch])?;
    Ok(())
}

pub(crate) async fn throttled(stage: &mut Stage) -> Result<()> {
    let gateway = stage.active()?;
    // The provider's message, with the first half of the token.
    let half = &TOKEN[..TOKEN.len() / 2];
    let message = format!("limit of 3600 requests per hour reached for token {half}...");
    let fault = json!({
        "method": "POST",
        "path": "*/actions/assign",
        "status": 429,
        "body": { "error": { "code": "rate_limit_exceeded", "message": message } },
    });
    stage.control("POST", "/_sim/faults", Some(fault)).await?;
    let began = Instant::now();
    stage.kubectl(&["cordon", &gateway])?;
    let leader = stage.leader().await.context("no replica leads")?;
    let refused = async || {
        let metrics = stage.admin(&stage.replicas[leader], "/metrics").await;
        refusals(&metrics.unwrap_or_default()) >= 3.0
    };
    stage
        .eventually("three rejections are counted", refused)
        .await?;
    untouched(stage, &gateway).await?;
    println!(
        "        rejected for {:.1?}, the old gateway unchanged",
        began.elapsed()
    );
    stage.control("DELETE", "/_sim/faults", None).await?;
    stage.moved_to(successor(&gateway), Instant::now()).await?;
    stage.kubectl(&["uncordon", &gateway])?;
    Ok(())
}

/// How many calls of a move were rejected by the rate limit.
fn refusals(metrics: &str) -> f64 {
    let counted = metrics.lines().filter(|line| {
        line.starts_with("aplomb_egress_provider_requests_total")
            && line.contains(r#"operation="assign",code="rate_limit_exceeded",lane="failover""#)
    });
    let values = counted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

pub(crate) async fn rotate(stage: &mut Stage) -> Result<()> {
    let gateway = stage.active()?;
    let secret = |token: &str| json!({ "stringData": { "token": token } }).to_string();
    let put = |token: &str| {
        let patch = secret(token);
        let args = [
            "patch",
            "secret",
            "hcloud",
            "-n",
            "aplomb-system",
            "--type=merge",
            "-p",
            &patch,
        ];
        stage.kubectl(&args)
    };
    put("a-token-that-nobody-knows")?;
    stage.wait(r#"jsonpath={.status.conditions[?(@.type=="Available")].reason}=TokenRefused"#)?;
    untouched(stage, &gateway).await?;
    put(NEXT_TOKEN)?;
    stage.wait("condition=Ready")
}

pub(crate) async fn hand_over(stage: &mut Stage) -> Result<()> {
    let leader = stage.leader().await.context("no replica leads")?;
    let began = Instant::now();
    stage.replicas[leader].running = false;
    stage.replicas[leader].process.terminate()?;
    let stopped = began.elapsed();
    let replaced = async || stage.leader().await.is_some();
    stage.eventually("another leads", replaced).await?;
    println!(
        "        stopped after {stopped:.1?}, replaced after {:.1?}",
        began.elapsed()
    );
    stage.cordon_gateway().await
}

pub(crate) async fn kill(stage: &mut Stage) -> Result<()> {
    stage.replica("three")?;
    let standby = stage.replicas.last().context("the replica was just added")?;
    let ready = async || stage.admin(standby, "/readyz").await.is_ok();
    stage.eventually("the new replica is ready", ready).await?;
    let leader = stage.leader().await.context("no replica leads")?;
    stage.replicas[leader].running = false;
    stage.replicas[leader].process.kill()?;
    stage.cordon_gateway().await
}
