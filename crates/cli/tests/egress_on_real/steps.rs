//! The failovers that kubectl commands cause.

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::chart;
use crate::fixtures::{NODES, TOKEN, cilium_crd, cilium_node, node, ready_status};
use crate::stage::Stage;

pub(crate) fn install(stage: &Stage) -> Result<()> {
    chart::install(&stage.plane, &["egress"])?;
    let things = "deployment/aplomb-egress,pdb/aplomb-egress,serviceaccount/aplomb-egress";
    for thing in things.split(',') {
        stage.kubectl(&["get", thing, "-n", "aplomb-system"])?;
    }
    Ok(())
}

/// The samples and the node DaemonSet pass schemas and rules.
pub(crate) fn apply_samples(stage: &Stage) -> Result<()> {
    let files = [
        "samples/minimal.yaml",
        "samples/probe.yaml",
        "samples/several.yaml",
        "samples/migration.yaml",
        "samples/hold-and-pin.yaml",
        "samples/nodes.yaml",
        "host/",
    ];
    for file in files {
        let file = format!("deploy/egress/{file}");
        stage.kubectl(&["apply", "--dry-run=server", "-f", &file])?;
    }
    Ok(())
}

pub(crate) async fn start_operators(stage: &mut Stage) -> Result<()> {
    stage.kubectl_with(&["apply", "-f", "-"], &cilium_crd().to_string())?;
    stage.kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/ciliumnodes.cilium.io",
        "--timeout=60s",
    ])?;
    for (name, _) in NODES {
        add_node(stage, name)?;
    }
    for name in ["one", "two"] {
        stage.start_replica(name)?;
    }
    for replica in &stage.replicas {
        let ready = async || stage.get_admin(replica, "/readyz").await.is_ok();
        stage.wait_until("a replica is ready", ready).await?;
    }
    Ok(())
}

/// Creates a node with its CiliumNode and makes it Ready.
pub(crate) fn add_node(stage: &Stage, name: &str) -> Result<()> {
    for object in [node(name), cilium_node(name)] {
        stage.kubectl_with(&["apply", "-f", "-"], &object.to_string())?;
    }
    set_node_ready(stage, name, "True")
}

/// Sets the Ready condition of a node, as its kubelet would.
pub(crate) fn set_node_ready(stage: &Stage, name: &str, status: &str) -> Result<()> {
    let patch = ready_status(name, status).to_string();
    stage.kubectl(&[
        "patch",
        "node",
        name,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ])?;
    Ok(())
}

pub(crate) async fn check_first_assignment(stage: &mut Stage) -> Result<()> {
    let literal = format!("--from-literal=token={TOKEN}");
    stage.kubectl(&["create", "secret", "generic", "hcloud", "-n", "aplomb-system", &literal])?;
    let began = Instant::now();
    stage.kubectl(&["apply", "-f", "deploy/egress/samples/minimal.yaml"])?;
    stage.wait_for("condition=Ready")?;
    stage.wait_moved("gateway-a", began).await?;
    let shown = stage.kubectl(&["get", "seg", "web"])?;
    ensure!(shown.contains("gateway-a") && shown.contains("192.0.2.10"), "{shown}");
    print!("{}", indent(&shown));
    Ok(())
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("        {line}\n")).collect()
}

pub(crate) async fn check_metrics(stage: &mut Stage) -> Result<()> {
    let leader = stage.leader().await;
    ensure!(leader.is_some(), "no replica leads");
    for (at, replica) in stage.replicas.iter().enumerate() {
        let text = stage.get_admin(replica, "/metrics").await?;
        let available = r#"aplomb_egress_gateway_available{stable_egress="web"} 1.0"#;
        let shows = text.lines().any(|line| line == available);
        ensure!(shows == (Some(at) == leader), "{} shows {shows}", replica.name);
    }
    Ok(())
}

pub(crate) async fn cordon_gateway(stage: &mut Stage) -> Result<()> {
    let began = Instant::now();
    stage.kubectl(&["cordon", "gateway-a"])?;
    stage.wait_moved("gateway-b", began).await?;
    stage.kubectl(&["uncordon", "gateway-a"])?;
    Ok(())
}

pub(crate) async fn unlabel_node(stage: &mut Stage) -> Result<()> {
    let began = Instant::now();
    stage.kubectl(&["label", "node", "gateway-b", "egress.aplomb.dev/candidate-"])?;
    stage.wait_moved("gateway-a", began).await?;
    stage.kubectl(&["label", "node", "gateway-b", "egress.aplomb.dev/candidate=web"])?;
    Ok(())
}

pub(crate) async fn delete_node(stage: &mut Stage) -> Result<()> {
    let began = Instant::now();
    stage.kubectl(&["delete", "node,ciliumnode", "gateway-a"])?;
    stage.wait_moved("gateway-b", began).await?;
    add_node(stage, "gateway-a")
}

pub(crate) async fn fail_gateway(stage: &mut Stage) -> Result<()> {
    let patch = json!({ "spec": { "graces": { "unhealthy": "2s" } } }).to_string();
    stage.kubectl(&["patch", "seg", "web", "--type=merge", "-p", &patch])?;
    let began = Instant::now();
    set_node_ready(stage, "gateway-b", "Unknown")?;
    stage.wait_moved("gateway-a", began).await?;
    set_node_ready(stage, "gateway-b", "True")
}

pub(crate) async fn check_labels(stage: &mut Stage) -> Result<()> {
    let before = stage.kubectl(&["get", "seg", "web", "-o", "jsonpath={.status.lastMove}"])?;
    stage.kubectl(&["label", "node", "gateway-a", "egress.aplomb.dev/gateway-"])?;
    let back = async || stage.labeled_nodes("nodes").is_ok_and(|nodes| nodes == ["gateway-a"]);
    stage.wait_until("the label is back", back).await?;
    let after = stage.kubectl(&["get", "seg", "web", "-o", "jsonpath={.status.lastMove}"])?;
    ensure!(before == after, "the address moved because of a label: {after}");
    Ok(())
}

pub(crate) fn check_events(stage: &Stage) -> Result<()> {
    let args = ["get", "events.events.k8s.io", "-n", "default", "-o"];
    let path = r#"jsonpath={range .items[*]}{.reason} {.regarding.kind} {.note}{"\n"}{end}"#;
    let events = stage.kubectl(&[&args[..], &[path]].concat())?;
    // A deletion may be observed when it begins or when it ends.
    for causes in [
        &["NodeCordoned"][..],
        &["CandidateLost"],
        &["NodeDeleted", "NodeTerminating"],
        &["NodeUnhealthy"],
    ] {
        let tells = |line: &str| {
            let moved = line.starts_with("Moved StableEgress");
            moved && causes.iter().any(|cause| line.contains(cause))
        };
        ensure!(
            events.lines().any(tells),
            "no Event of a move with one of the causes {causes:?}:\n{events}"
        );
    }
    Ok(())
}
