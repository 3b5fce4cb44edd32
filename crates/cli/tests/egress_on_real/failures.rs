//! Failures around a failover: holds, the provider, its token, the leader.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::fixtures::{NEXT_TOKEN, NODES, TOKEN, node_address, project, server_id};
use crate::stage::{Stage, standby_of};

const HOLD: &str = "egress.aplomb.dev/hold";

pub(crate) async fn check_hold(stage: &mut Stage) -> Result<()> {
    let gateway = stage.active_node()?;
    stage.kubectl(&["annotate", "seg", "web", &format!("{HOLD}=true")])?;
    stage.wait_for("condition=Held")?;
    stage.kubectl(&["cordon", &gateway])?;
    // The status follows the cordon; the address and the labels do not.
    stage.wait_for("jsonpath={.status.candidates.ready}=2")?;
    check_untouched(stage, &gateway).await?;
    let began = Instant::now();
    stage.kubectl(&["annotate", "seg", "web", &format!("{HOLD}-")])?;
    stage.wait_moved(standby_of(&gateway), began).await?;
    stage.kubectl(&["uncordon", &gateway])?;
    Ok(())
}

/// The gateway has not changed.
async fn check_untouched(stage: &Stage, gateway: &str) -> Result<()> {
    ensure!(
        stage.assigned_server().await? == Some(server_id(gateway)),
        "the address moved"
    );
    let labelled = stage.labeled_nodes("nodes")?;
    ensure!(labelled == [gateway], "labelled are {labelled:?}");
    Ok(())
}

pub(crate) async fn check_unassigned(stage: &mut Stage) -> Result<()> {
    let gateway = stage.active_node()?;
    patch_spec(stage, &json!({ "resync": "10s" }))?;
    let free = json!({ "floating_ips": project()["floating_ips"] });
    stage.control("PUT", "/_sim/state", Some(free)).await?;
    ensure!(stage.assigned_server().await?.is_none(), "it is still assigned");
    let began = Instant::now();
    let back = async || stage.assigned_server().await.is_ok_and(|holder| holder.is_some());
    stage.wait_until("it is assigned again", back).await?;
    stage.wait_moved(&gateway, began).await
}

/// A node stops answering probes while Ready is ignored. Afterwards Ready counts again.
pub(crate) async fn check_probe(stage: &mut Stage) -> Result<()> {
    let outcome = wait_probed(stage).await;
    patch_spec(stage, &json!({ "health": { "signal": "ready" } }))?;
    outcome
}

async fn wait_probed(stage: &Stage) -> Result<()> {
    let gateway = stage.active_node()?;
    let first = TcpListener::bind((node_address(NODES[0].0), 0)).await?;
    let port = first.local_addr()?.port();
    let mut listeners = BTreeMap::from([(NODES[0].0, first)]);
    for (name, _) in &NODES[1..] {
        listeners.insert(name, TcpListener::bind((node_address(name), port)).await?);
    }
    let probe = json!({ "port": port, "interval": "2s", "timeout": "1s", "failures": 3 });
    let spec = json!({
        "health": { "signal": "probe", "probe": probe },
        // A grace period in addition to the failures would delay the move.
        "graces": { "unhealthy": null },
        // A node that is Ready is not dead, and six moves have happened.
        "maxMovesPerHour": 100,
    });
    patch_spec(stage, &spec)?;
    let reported = async || {
        let leases = stage.kubectl(&["get", "leases", "-n", "aplomb-system", "-o", "name"]);
        leases.is_ok_and(|leases| leases.contains("vantage"))
    };
    stage.wait_until("the standby reports reachability", reported).await?;
    stage.wait_for("condition=Ready")?;
    let began = Instant::now();
    listeners.remove(gateway.as_str());
    stage.wait_moved(standby_of(&gateway), began).await
}

fn patch_spec(stage: &Stage, spec: &Value) -> Result<()> {
    let patch = json!({ "spec": spec }).to_string();
    stage.kubectl(&["patch", "seg", "web", "--type=merge", "-p", &patch])?;
    Ok(())
}

pub(crate) async fn check_throttling(stage: &mut Stage) -> Result<()> {
    let gateway = stage.active_node()?;
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
        let metrics = stage.get_admin(&stage.replicas[leader], "/metrics").await;
        count_refusals(&metrics.unwrap_or_default()) >= 3.0
    };
    stage.wait_until("three rejections are counted", refused).await?;
    check_untouched(stage, &gateway).await?;
    println!(
        "        rejected for {:.1?}, the old gateway unchanged",
        began.elapsed()
    );
    stage.control("DELETE", "/_sim/faults", None).await?;
    stage.wait_moved(standby_of(&gateway), Instant::now()).await?;
    stage.kubectl(&["uncordon", &gateway])?;
    Ok(())
}

/// How many calls of a move were rejected by the rate limit.
fn count_refusals(metrics: &str) -> f64 {
    let counted = metrics.lines().filter(|line| {
        line.starts_with("aplomb_egress_provider_requests_total")
            && line.contains(r#"operation="assign",code="rate_limit_exceeded",lane="failover""#)
    });
    let values = counted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

pub(crate) async fn rotate_token(stage: &mut Stage) -> Result<()> {
    let gateway = stage.active_node()?;
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
    stage.wait_for(r#"jsonpath={.status.conditions[?(@.type=="Available")].reason}=TokenRefused"#)?;
    check_untouched(stage, &gateway).await?;
    put(NEXT_TOKEN)?;
    stage.wait_for("condition=Ready")
}

pub(crate) async fn check_handover(stage: &mut Stage) -> Result<()> {
    let leader = stage.leader().await.context("no replica leads")?;
    let began = Instant::now();
    stage.replicas[leader].running = false;
    stage.replicas[leader].process.terminate()?;
    let stopped = began.elapsed();
    let replaced = async || stage.leader().await.is_some();
    stage.wait_until("another leads", replaced).await?;
    println!(
        "        stopped after {stopped:.1?}, replaced after {:.1?}",
        began.elapsed()
    );
    stage.cordon_gateway().await
}

pub(crate) async fn kill_leader(stage: &mut Stage) -> Result<()> {
    stage.start_replica("three")?;
    let standby = stage.replicas.last().context("the replica was just added")?;
    let ready = async || stage.get_admin(standby, "/readyz").await.is_ok();
    stage.wait_until("the new replica is ready", ready).await?;
    let leader = stage.leader().await.context("no replica leads")?;
    stage.replicas[leader].running = false;
    stage.replicas[leader].process.kill()?;
    stage.cordon_gateway().await
}
