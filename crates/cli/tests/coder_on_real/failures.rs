//! Failures around a CoderProvisioner: the rate limit, manual changes, tokens, deletions.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fixtures::{NEXT_TOKEN, SECRET, TOKEN, provisioner};
use crate::leak::record_secrets;
use crate::rights_check;
use crate::stage::Stage;
use crate::steps::check_outages;

const LATE_PROVISIONER: &str = "cprov/late";
const KEY_READY: &str = r#".status.conditions[?(@.type=="ProvisionerKeyReady")]"#;

/// Every call is rejected with a message that contains the token.
fn rate_limit_rule() -> Value {
    json!({
        "path": "/api/v2/*",
        "status": 429,
        "body": { "message": format!("You've been rate limited, {TOKEN}") },
        "headers": { "Retry-After": "60" },
    })
}

pub(crate) async fn check_throttling(stage: &Stage) -> Result<()> {
    stage.control("POST", "/_sim/faults", Some(rate_limit_rule())).await?;
    let since = stage.last_request().await?;
    stage.apply(&provisioner("late", &stage.url))?;
    stage.wait_for(
        LATE_PROVISIONER,
        &format!("jsonpath={{{KEY_READY}.reason}}=RateLimited"),
    )?;
    let writes = rights_check::status_writes(stage, "late")?;
    sleep(Duration::from_secs(30)).await;
    let calls = stage.requests(since).await?.len();
    let more = rights_check::status_writes(stage, "late")? - writes;
    println!("        {calls} calls of 2 objects in 30 s of 429, {more} status writes after the first");
    ensure!(more == 0, "{more} status writes in one episode");
    ensure!(calls <= 10, "{calls} calls of two objects");
    let ready = stage.read_field("cprov/team", KEY_READY)?;
    ensure!(ready.contains("True"), "a working key must stay ready: {ready}");
    Ok(())
}

pub(crate) async fn check_recovery(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    stage.control("DELETE", "/_sim/faults", None).await?;
    stage.wait_for(LATE_PROVISIONER, "condition=Ready")?;
    println!("        Ready {:.1?} after the last rejection", began.elapsed());
    record_secrets(stage)?;
    let left = stage.read_field(LATE_PROVISIONER, ".status.rateLimited")?;
    ensure!(left.is_empty(), "the status still has {left}");
    Ok(())
}

/// Reads are minutes apart; a new process reads at once.
pub(crate) async fn check_self_healing(stage: &mut Stage) -> Result<()> {
    let state = stage.debug_state().await?;
    let mut keys = state["keys"].as_array().context("no keys")?.clone();
    let (all, old) = (
        keys.len(),
        stage.read_field(LATE_PROVISIONER, ".status.provisionerKeyName")?,
    );
    keys.retain(|key| key["name"] != old.as_str());
    ensure!(keys.len() < all, "{old} is not among {keys:?}");
    stage.operator.as_mut().context("no operator")?.kill()?;
    let change = json!({ "keys": keys });
    stage.control("PUT", "/_sim/state", Some(change)).await?;
    let began = Instant::now();
    stage.start_operator().await?;
    let next = format!("jsonpath={{.status.provisionerKeyName}}={old}-1");
    stage.wait_for(LATE_PROVISIONER, &next)?;
    stage.wait_for(LATE_PROVISIONER, "condition=Ready")?;
    println!("        recovered {:.1?} after the operator's start", began.elapsed());
    // The daemons of the deleted key were without one for a while, which is expected here.
    let forgiven = json!({ "outages": [] });
    stage.control("PUT", "/_sim/state", Some(forgiven)).await?;
    Ok(())
}

pub(crate) async fn replace_token(stage: &Stage) -> Result<()> {
    let put = |token: &str| {
        let patch = json!({ "stringData": { "token": token } }).to_string();
        stage.get_object(&["patch", "secret", SECRET, "--type=merge", "-p", &patch])
    };
    put("a-token-that-nobody-knows")?;
    let access = r#".status.conditions[?(@.type=="OperatorAccessReady")].reason"#;
    stage.get_object(&[
        "annotate",
        "--overwrite",
        "cprov/team",
        "coder.aplomb.dev/rotate=second",
    ])?;
    stage.wait_for("cprov/team", &format!("jsonpath={{{access}}}=TokenRejected"))?;
    put(NEXT_TOKEN)?;
    stage.wait_for("cprov/team", "condition=Ready")?;
    check_outages(stage).await
}

pub(crate) async fn check_deletion_waits(stage: &Stage) -> Result<()> {
    stage.control("POST", "/_sim/faults", Some(rate_limit_rule())).await?;
    stage.get_object(&["delete", LATE_PROVISIONER, "--wait=false"])?;
    sleep(Duration::from_secs(15)).await;
    stage
        .get_object(&["get", LATE_PROVISIONER])
        .context("the object was deleted before its key")?;
    let began = Instant::now();
    stage.control("DELETE", "/_sim/faults", None).await?;
    stage.wait_for(LATE_PROVISIONER, "delete")?;
    println!("        gone {:.1?} after the last rejection", began.elapsed());
    let keys = stage.names("keys").await?;
    ensure!(!keys.iter().any(|key| key.starts_with("late")), "{keys:?}");
    Ok(())
}

pub(crate) async fn check_abandoned(stage: &Stage) -> Result<()> {
    stage.apply(&provisioner("orphan", &stage.url))?;
    stage.wait_for("cprov/orphan", "condition=Ready")?;
    stage.control("POST", "/_sim/faults", Some(rate_limit_rule())).await?;
    stage.get_object(&["delete", "cprov/orphan", "--wait=false"])?;
    stage.get_object(&["annotate", "cprov/orphan", "coder.aplomb.dev/abandon=true"])?;
    stage.wait_for("cprov/orphan", "delete")?;
    stage.control("DELETE", "/_sim/faults", None).await?;
    let keys = stage.names("keys").await?;
    ensure!(
        keys.iter().any(|key| key.starts_with("orphan-")),
        "the abandoned key must stay: {keys:?}"
    );
    Ok(())
}
