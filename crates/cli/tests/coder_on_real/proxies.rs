//! The life of a CoderWorkspaceProxy.

use anyhow::{Result, ensure};
use tokio::time::Instant;

use crate::fixtures::proxy;
use crate::leak::remember;
use crate::stage::Stage;

const NEAR: &str = "cwp/near";

fn token(stage: &Stage) -> Result<String> {
    stage.field("secret/near-proxy-token", ".data.token")
}

pub(crate) async fn register(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    stage.apply(&proxy("near", &stage.url))?;
    stage.wait(NEAR, "condition=Ready")?;
    remember(stage)?;
    let proxies = stage.names("proxies").await?;
    ensure!(proxies.contains("near"), "{proxies:?}");
    println!("        Ready after {:.1?}", began.elapsed());
    let shown = stage.there(&["get", "cwp"])?;
    for line in shown.lines() {
        println!("        {line}");
    }
    Ok(())
}

pub(crate) async fn retoken(stage: &Stage) -> Result<()> {
    let before = token(stage)?;
    let began = Instant::now();
    stage.there(&["annotate", NEAR, "coder.aplomb.dev/rotate=now"])?;
    stage.wait(NEAR, "jsonpath={.status.rotation.honoured}=now")?;
    stage.wait(NEAR, "condition=Ready")?;
    remember(stage)?;
    ensure!(token(stage)? != before, "the token has not changed");
    println!(
        "        Ready with a new token after {:.1?}",
        began.elapsed()
    );
    Ok(())
}

pub(crate) async fn delete(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    stage.there(&["delete", NEAR, "--timeout=180s"])?;
    let proxies = stage.names("proxies").await?;
    ensure!(!proxies.contains("near"), "{proxies:?}");
    println!("        gone after {:.1?}", began.elapsed());
    Ok(())
}
