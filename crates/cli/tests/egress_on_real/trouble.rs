//! What goes wrong around a failover: holds, the provider, its token, the leader.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::fixtures::{NEXT_TOKEN, project, server};
use crate::stage::Stage;

const HOLD: &str = "egress.aplomb.dev/hold";

pub(crate) async fn hold(stage: &mut Stage) -> Result<()> {
    stage.kubectl(&["annotate", "seg", "web", &format!("{HOLD}=true")])?;
    stage.wait("condition=Held")?;
    stage.kubectl(&["cordon", "gateway-a"])?;
    // The status follows the cordon, and nothing else does.
    stage.wait("jsonpath={.status.candidates.ready}=2")?;
    ensure!(
        stage.holder().await? == Some(server("gateway-a")),
        "it moved in spite of a hold"
    );
    ensure!(
        stage.labelled("nodes")? == ["gateway-a"],
        "labels changed in spite of a hold"
    );
    let began = Instant::now();
    stage.kubectl(&["annotate", "seg", "web", &format!("{HOLD}-")])?;
    stage.moved_to("gateway-b", began).await?;
    stage.kubectl(&["uncordon", "gateway-a"])?;
    Ok(())
}

pub(crate) async fn unassigned(stage: &mut Stage) -> Result<()> {
    let patch = json!({ "spec": { "resync": "10s" } }).to_string();
    stage.kubectl(&["patch", "seg", "web", "--type=merge", "-p", &patch])?;
    let free = json!({ "floating_ips": project()["floating_ips"] });
    stage.control("PUT", "/_sim/state", Some(free)).await?;
    ensure!(stage.holder().await?.is_none(), "it is still assigned");
    let began = Instant::now();
    let back = async || stage.holder().await.is_ok_and(|holder| holder.is_some());
    stage.eventually("it is assigned again", back).await?;
    stage.moved_to("gateway-b", began).await
}

pub(crate) async fn throttled(stage: &mut Stage) -> Result<()> {
    let fault =
        json!({ "method": "POST", "path": "*/actions/assign", "code": "rate_limit_exceeded" });
    stage.control("POST", "/_sim/faults", Some(fault)).await?;
    let began = Instant::now();
    stage.kubectl(&["cordon", "gateway-b"])?;
    let leader = stage.leader().await.context("nobody leads")?;
    let refused = async || {
        let text = stage.admin(&stage.replicas[leader], "/metrics").await;
        text.unwrap_or_default().lines().any(|line| {
            let ours = line.starts_with("aplomb_egress_provider_requests_total")
                && line
                    .contains(r#"operation="assign",code="rate_limit_exceeded",lane="failover""#);
            let count = line
                .rsplit(' ')
                .next()
                .and_then(|count| count.parse::<f64>().ok());
            ours && count.is_some_and(|count| count >= 3.0)
        })
    };
    stage
        .eventually("three refusals are counted", refused)
        .await?;
    ensure!(
        stage.labelled("nodes")? == ["gateway-b"],
        "the old gateway lost its label"
    );
    ensure!(
        stage.holder().await? == Some(server("gateway-b")),
        "it moved in spite of a 429"
    );
    println!(
        "        refused for {:.1?}, the old gateway untouched",
        began.elapsed()
    );
    stage.control("DELETE", "/_sim/faults", None).await?;
    stage.moved_to("gateway-a", Instant::now()).await?;
    stage.kubectl(&["uncordon", "gateway-b"])?;
    Ok(())
}

pub(crate) async fn rotate(stage: &mut Stage) -> Result<()> {
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
    ensure!(
        stage.labelled("nodes")? == ["gateway-a"],
        "a refused token must not cost the gateway"
    );
    put(NEXT_TOKEN)?;
    stage.wait("condition=Ready")
}

pub(crate) async fn hand_over(stage: &mut Stage) -> Result<()> {
    let leader = stage.leader().await.context("nobody leads")?;
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
    let began = Instant::now();
    stage.kubectl(&["cordon", "gateway-a"])?;
    stage.moved_to("gateway-b", began).await?;
    stage.kubectl(&["uncordon", "gateway-a"])?;
    Ok(())
}

pub(crate) async fn kill(stage: &mut Stage) -> Result<()> {
    stage.replica("three")?;
    let standby = stage.replicas.last().context("it was just added")?;
    let ready = async || stage.admin(standby, "/readyz").await.is_ok();
    stage.eventually("the new replica is ready", ready).await?;
    let leader = stage.leader().await.context("nobody leads")?;
    let began = Instant::now();
    stage.replicas[leader].running = false;
    stage.replicas[leader].process.kill()?;
    stage.kubectl(&["cordon", "gateway-b"])?;
    stage.moved_to("gateway-a", began).await?;
    stage.kubectl(&["uncordon", "gateway-b"])?;
    Ok(())
}
