//! The life of a CoderProvisioner without failures.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::chart;
use crate::fixtures::{NAMESPACE, SECRET, TOKEN, control_plane_crd, provisioner};
use crate::leak::remember;
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
pub(crate) fn samples(stage: &Stage) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/coder/samples");
    let mut many = 0;
    for entry in std::fs::read_dir(root).context("deploy/coder/samples")? {
        let file = entry?.path();
        let file = file.to_str().context("a path")?;
        let dry = [
            "create",
            "--dry-run=server",
            "--namespace",
            NAMESPACE,
            "-f",
            file,
        ];
        stage.kubectl(&dry)?;
        many += 1;
    }
    ensure!(many > 0, "no samples found");
    println!("        {many} samples");
    Ok(())
}

pub(crate) async fn start(stage: &mut Stage) -> Result<()> {
    stage.operate().await
}

pub(crate) async fn create(stage: &Stage) -> Result<()> {
    let literal = format!("--from-literal=token={TOKEN}");
    stage.there(&["create", "secret", "generic", SECRET, &literal])?;
    let servers = format!("coder.aplomb.dev/servers={}", stage.url);
    stage.there(&["annotate", "secret", SECRET, &servers])?;
    let began = Instant::now();
    stage.apply(&provisioner("team", &stage.url))?;
    stage.wait(TEAM, "condition=Ready")?;
    println!("        Ready after {:.1?}", began.elapsed());
    remember(stage)?;
    let keys = stage.names("keys").await?;
    ensure!(keys.contains(&key(stage)?), "the server has {keys:?}");
    for child in [
        "secret/team-provisioner-key",
        "serviceaccount/team-provisioner",
    ] {
        stage.there(&["get", child])?;
    }
    Ok(())
}

pub(crate) fn columns(stage: &Stage) -> Result<()> {
    let shown = stage.there(&["get", "cprov"])?;
    for line in shown.lines() {
        println!("        {line}");
    }
    ensure!(shown.contains("True") && shown.contains("2/2"), "{shown}");
    stage.there(&["get", "aplomb"])?;
    Ok(())
}

pub(crate) async fn rotate(stage: &Stage) -> Result<()> {
    let (began, old) = (Instant::now(), key(stage)?);
    stage.there(&["annotate", TEAM, "coder.aplomb.dev/rotate=first"])?;
    rotated(stage, &old, "1", began).await
}

pub(crate) async fn tags(stage: &Stage) -> Result<()> {
    let (began, old) = (Instant::now(), key(stage)?);
    let patch = json!({ "spec": { "tags": { "zone": "b" } } }).to_string();
    stage.there(&["patch", TEAM, "--type=merge", "-p", &patch])?;
    rotated(stage, &old, "2", began).await
}

/// The key moves to another Secret, and the old Secret is deleted.
pub(crate) async fn moved(stage: &Stage) -> Result<()> {
    let (began, old) = (Instant::now(), key(stage)?);
    let patch = json!({ "spec": { "key": { "secretName": "team-key" } } }).to_string();
    stage.there(&["patch", TEAM, "--type=merge", "-p", &patch])?;
    rotated(stage, &old, "3", began).await?;
    stage.there(&["get", "secret/team-key"])?;
    let former = "secret/team-provisioner-key";
    stage.there(&["wait", "--for=delete", former, "--timeout=60s"])?;
    Ok(())
}

/// The operator is killed during a rotation; the next one finishes it.
pub(crate) async fn killed(stage: &mut Stage) -> Result<()> {
    let (began, old) = (Instant::now(), key(stage)?);
    stage.there(&[
        "annotate",
        "--overwrite",
        TEAM,
        "coder.aplomb.dev/rotate=killed",
    ])?;
    stage.operator.as_mut().context("no operator")?.kill()?;
    stage.operate().await?;
    rotated(stage, &old, "4", began).await
}

/// It exits on SIGTERM without logging an error.
pub(crate) fn stop(stage: &mut Stage) -> Result<()> {
    stage.operator.as_mut().context("no operator")?.terminate()
}

/// The key in use.
fn key(stage: &Stage) -> Result<String> {
    stage.field(TEAM, ".status.provisionerKeyName")
}

/// Waits until the daemons use the key of this number, and `old` is deleted; a key was always there.
async fn rotated(stage: &Stage, old: &str, number: &str, began: Instant) -> Result<()> {
    let follows = async || key(stage).is_ok_and(|it| it.ends_with(&format!("-{number}")));
    stage.eventually("the next key is in use", follows).await?;
    let new = &*key(stage)?;
    let gone = async || stage.names("keys").await.is_ok_and(|it| !it.contains(old));
    stage.eventually("the old key is gone", gone).await?;
    stage.wait(TEAM, "condition=Ready")?;
    remember(stage)?;
    let keys = stage.names("keys").await?;
    ensure!(keys.contains(new), "the server has {keys:?}");
    outages(stage).await?;
    println!(
        "        {old} was replaced by {new} after {:.1?}",
        began.elapsed()
    );
    Ok(())
}

/// No daemon was ever connected with a deleted key.
pub(crate) async fn outages(stage: &Stage) -> Result<()> {
    let state = stage.state().await?;
    let outages = state["outages"]
        .as_array()
        .context("no record of outages")?;
    ensure!(outages.is_empty(), "{outages:?}");
    Ok(())
}

pub(crate) async fn delete(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    stage.there(&["delete", TEAM, "--timeout=180s"])?;
    let keys = stage.names("keys").await?;
    ensure!(!keys.iter().any(|key| key.starts_with("team")), "{keys:?}");
    println!("        gone after {:.1?}", began.elapsed());
    Ok(())
}

pub(crate) fn events(stage: &Stage) -> Result<()> {
    let path = r#"jsonpath={range .items[*]}{.reason} {.regarding.kind} {.note}{"\n"}{end}"#;
    let events = stage.there(&["get", "events.events.k8s.io", "-o", path])?;
    for reason in ["KeyRotated", "RateLimited", "Recovered", "KeyOrphaned"] {
        let tells = |line: &str| line.starts_with(reason);
        ensure!(events.lines().any(tells), "no Event {reason}:\n{events}");
    }
    Ok(())
}
