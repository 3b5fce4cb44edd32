//! The life of a CoderProvisioner without failures.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::chart;
use crate::fixtures::{NAMESPACE, SECRET, TOKEN, control_plane_crd, provisioner};
use crate::leak::record_secrets;
use crate::stage::Stage;

const TEAM: &str = "cprov/team";

pub(crate) fn install(stage: &Stage) -> Result<()> {
    chart::install(&stage.plane, &["coder"])?;
    stage.apply(&control_plane_crd())?;
    let crd = "crd/codercontrolplanes.coder.com";
    stage.kubectl(&["wait", "--for=condition=Established", crd, "--timeout=60s"])?;
    for thing in ["deployment/aplomb-coder", "serviceaccount/aplomb-coder"] {
        stage.kubectl(&["get", thing, "-n", "aplomb-system"])?;
    }
    Ok(())
}

/// The samples pass schemas and rules.
pub(crate) fn apply_samples(stage: &Stage) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/coder/samples");
    let mut many = 0;
    for entry in std::fs::read_dir(root).context("deploy/coder/samples")? {
        let file = entry?.path();
        let file = file.to_str().context("a path")?;
        let dry = ["create", "--dry-run=server", "--namespace", NAMESPACE, "-f", file];
        stage.kubectl(&dry)?;
        many += 1;
    }
    ensure!(many > 0, "no samples found");
    println!("        {many} samples");
    Ok(())
}

pub(crate) async fn start_operator(stage: &mut Stage) -> Result<()> {
    stage.start_operator().await
}

pub(crate) async fn create(stage: &Stage) -> Result<()> {
    let literal = format!("--from-literal=token={TOKEN}");
    stage.get_object(&["create", "secret", "generic", SECRET, &literal])?;
    let servers = format!("coder.aplomb.dev/servers={}", stage.url);
    stage.get_object(&["annotate", "secret", SECRET, &servers])?;
    let began = Instant::now();
    stage.apply(&provisioner("team", &stage.url))?;
    stage.wait_for(TEAM, "condition=Ready")?;
    println!("        Ready after {:.1?}", began.elapsed());
    record_secrets(stage)?;
    let keys = stage.names("keys").await?;
    ensure!(keys.contains(&key(stage)?), "the server has {keys:?}");
    for child in ["secret/team-provisioner-key", "serviceaccount/team-provisioner"] {
        stage.get_object(&["get", child])?;
    }
    Ok(())
}

pub(crate) fn check_columns(stage: &Stage) -> Result<()> {
    let shown = stage.get_object(&["get", "cprov"])?;
    for line in shown.lines() {
        println!("        {line}");
    }
    ensure!(shown.contains("True") && shown.contains("2/2"), "{shown}");
    stage.get_object(&["get", "aplomb"])?;
    Ok(())
}

pub(crate) async fn rotate_key(stage: &Stage) -> Result<()> {
    let (began, old) = (Instant::now(), key(stage)?);
    stage.get_object(&["annotate", TEAM, "coder.aplomb.dev/rotate=first"])?;
    wait_rotated(stage, &old, "1", began).await
}

pub(crate) async fn change_tags(stage: &Stage) -> Result<()> {
    let (began, old) = (Instant::now(), key(stage)?);
    let patch = json!({ "spec": { "tags": { "zone": "b" } } }).to_string();
    stage.get_object(&["patch", TEAM, "--type=merge", "-p", &patch])?;
    wait_rotated(stage, &old, "2", began).await
}

/// The key moves to another Secret, and the old Secret is deleted.
pub(crate) async fn change_server(stage: &Stage) -> Result<()> {
    let (began, old) = (Instant::now(), key(stage)?);
    let patch = json!({ "spec": { "key": { "secretName": "team-key" } } }).to_string();
    stage.get_object(&["patch", TEAM, "--type=merge", "-p", &patch])?;
    wait_rotated(stage, &old, "3", began).await?;
    stage.get_object(&["get", "secret/team-key"])?;
    let former = "secret/team-provisioner-key";
    stage.get_object(&["wait", "--for=delete", former, "--timeout=60s"])?;
    Ok(())
}

/// The operator is killed during a rotation; the next one finishes it.
pub(crate) async fn kill_operator(stage: &mut Stage) -> Result<()> {
    let (began, old) = (Instant::now(), key(stage)?);
    stage.get_object(&["annotate", "--overwrite", TEAM, "coder.aplomb.dev/rotate=killed"])?;
    stage.operator.as_mut().context("no operator")?.kill()?;
    stage.start_operator().await?;
    wait_rotated(stage, &old, "4", began).await
}

/// It exits on SIGTERM without logging an error.
pub(crate) fn stop_operator(stage: &mut Stage) -> Result<()> {
    stage.operator.as_mut().context("no operator")?.terminate()
}

/// The key in use.
fn key(stage: &Stage) -> Result<String> {
    stage.read_field(TEAM, ".status.provisionerKeyName")
}

/// Waits until the daemons use the key of this number, and `old` is deleted; a key was always there.
async fn wait_rotated(stage: &Stage, old: &str, number: &str, began: Instant) -> Result<()> {
    let follows = async || key(stage).is_ok_and(|it| it.ends_with(&format!("-{number}")));
    stage.wait_until("the next key is in use", follows).await?;
    let new = &*key(stage)?;
    let gone = async || stage.names("keys").await.is_ok_and(|it| !it.contains(old));
    stage.wait_until("the old key is gone", gone).await?;
    stage.wait_for(TEAM, "condition=Ready")?;
    record_secrets(stage)?;
    let keys = stage.names("keys").await?;
    ensure!(keys.contains(new), "the server has {keys:?}");
    check_outages(stage).await?;
    println!("        {old} was replaced by {new} after {:.1?}", began.elapsed());
    Ok(())
}

/// No daemon was ever connected with a deleted key.
pub(crate) async fn check_outages(stage: &Stage) -> Result<()> {
    let state = stage.debug_state().await?;
    let outages = state["outages"].as_array().context("no record of outages")?;
    ensure!(outages.is_empty(), "{outages:?}");
    Ok(())
}

pub(crate) async fn delete(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    stage.get_object(&["delete", TEAM, "--timeout=180s"])?;
    let keys = stage.names("keys").await?;
    ensure!(!keys.iter().any(|key| key.starts_with("team")), "{keys:?}");
    println!("        gone after {:.1?}", began.elapsed());
    Ok(())
}

pub(crate) fn check_events(stage: &Stage) -> Result<()> {
    let path = r#"jsonpath={range .items[*]}{.reason} {.regarding.kind} {.note}{"\n"}{end}"#;
    let events = stage.get_object(&["get", "events.events.k8s.io", "-o", path])?;
    for reason in ["KeyRotated", "RateLimited", "Recovered", "KeyOrphaned"] {
        let tells = |line: &str| line.starts_with(reason);
        ensure!(events.lines().any(tells), "no Event {reason}:\n{events}");
    }
    Ok(())
}
