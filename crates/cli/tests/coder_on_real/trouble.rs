//! Failures around a CoderProvisioner: the rate limit, manual changes, tokens, deletions.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::account;
use crate::fixtures::{NEXT_TOKEN, SECRET, TOKEN, provisioner};
use crate::leak::remember;
use crate::stage::Stage;
use crate::steps::outages;

const LATE: &str = "cprov/late";
const KEY_READY: &str = r#".status.conditions[?(@.type=="ProvisionerKeyReady")]"#;

/// Every call is rejected with a message that contains the token.
fn limit() -> Value {
    json!({
        "path": "/api/v2/*",
        "status": 429,
        "body": { "message": format!("You've been rate limited, {TOKEN}") },
        "headers": { "Retry-After": "60" },
    })
}

pub(crate) async fn throttled(stage: &Stage) -> Result<()> {
    stage.control("POST", "/_sim/faults", Some(limit())).await?;
    let since = stage.mark().await?;
    stage.apply(&provisioner("late", &stage.url))?;
    stage.wait(
        LATE,
        &format!("jsonpath={{{KEY_READY}.reason}}=RateLimited"),
    )?;
    let writes = account::status_writes(stage, "late")?;
    sleep(Duration::from_secs(30)).await;
    let calls = stage.requests(since).await?.len();
    let more = account::status_writes(stage, "late")? - writes;
    println!(
        "        {calls} calls of 2 objects in 30 s of 429, {more} status writes after the first"
    );
    ensure!(more == 0, "{more} status writes in one episode");
    ensure!(calls <= 10, "{calls} calls of two objects");
    let ready = stage.field("cprov/team", KEY_READY)?;
    ensure!(
        ready.contains("True"),
        "a working key must stay ready: {ready}"
    );
    Ok(())
}

pub(crate) async fn recovers(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    stage.control("DELETE", "/_sim/faults", None).await?;
    stage.wait(LATE, "condition=Ready")?;
    println!(
        "        Ready {:.1?} after the last rejection",
        began.elapsed()
    );
    remember(stage)?;
    let left = stage.field(LATE, ".status.rateLimited")?;
    ensure!(left.is_empty(), "the status still has {left}");
    Ok(())
}

/// Reads are minutes apart; a new process reads at once.
pub(crate) async fn heals(stage: &mut Stage) -> Result<()> {
    let state = stage.state().await?;
    let mut keys = state["keys"].as_array().context("no keys")?.clone();
    let (all, old) = (keys.len(), stage.field(LATE, ".status.provisionerKeyName")?);
    keys.retain(|key| key["name"] != old.as_str());
    ensure!(keys.len() < all, "{old} is not among {keys:?}");
    stage.operator.as_mut().context("no operator")?.kill()?;
    let change = json!({ "keys": keys });
    stage.control("PUT", "/_sim/state", Some(change)).await?;
    let began = Instant::now();
    stage.operate().await?;
    let next = format!("jsonpath={{.status.provisionerKeyName}}={old}-1");
    stage.wait(LATE, &next)?;
    stage.wait(LATE, "condition=Ready")?;
    println!(
        "        recovered {:.1?} after the operator's start",
        began.elapsed()
    );
    // The daemons of the deleted key were without one for a while, which is expected here.
    let forgiven = json!({ "outages": [] });
    stage.control("PUT", "/_sim/state", Some(forgiven)).await?;
    Ok(())
}

pub(crate) async fn new_token(stage: &Stage) -> Result<()> {
    let put = |token: &str| {
        let patch = json!({ "stringData": { "token": token } }).to_string();
        stage.there(&["patch", "secret", SECRET, "--type=merge", "-p", &patch])
    };
    put("a-token-that-nobody-knows")?;
    let access = r#".status.conditions[?(@.type=="OperatorAccessReady")].reason"#;
    stage.there(&[
        "annotate",
        "--overwrite",
        "cprov/team",
        "coder.aplomb.dev/rotate=second",
    ])?;
    stage.wait(
        "cprov/team",
        &format!("jsonpath={{{access}}}=TokenRejected"),
    )?;
    put(NEXT_TOKEN)?;
    stage.wait("cprov/team", "condition=Ready")?;
    outages(stage).await
}

pub(crate) async fn deletion_waits(stage: &Stage) -> Result<()> {
    stage.control("POST", "/_sim/faults", Some(limit())).await?;
    stage.there(&["delete", LATE, "--wait=false"])?;
    sleep(Duration::from_secs(15)).await;
    stage
        .there(&["get", LATE])
        .context("the object was deleted before its key")?;
    let began = Instant::now();
    stage.control("DELETE", "/_sim/faults", None).await?;
    stage.wait(LATE, "delete")?;
    println!(
        "        gone {:.1?} after the last rejection",
        began.elapsed()
    );
    let keys = stage.names("keys").await?;
    ensure!(!keys.iter().any(|key| key.starts_with("late")), "{keys:?}");
    Ok(())
}

pub(crate) async fn abandoned(stage: &Stage) -> Result<()> {
    stage.apply(&provisioner("orphan", &stage.url))?;
    stage.wait("cprov/orphan", "condition=Ready")?;
    stage.control("POST", "/_sim/faults", Some(limit())).await?;
    stage.there(&["delete", "cprov/orphan", "--wait=false"])?;
    stage.there(&["annotate", "cprov/orphan", "coder.aplomb.dev/abandon=true"])?;
    stage.wait("cprov/orphan", "delete")?;
    stage.control("DELETE", "/_sim/faults", None).await?;
    let keys = stage.names("keys").await?;
    ensure!(
        keys.iter().any(|key| key.starts_with("orphan-")),
        "the abandoned key must stay: {keys:?}"
    );
    Ok(())
}
