//! The life of a CoderWorkspaceProxy.

use anyhow::{Result, ensure};
use tokio::time::Instant;

use crate::fixtures::proxy;
use crate::leak::record_secrets;
use crate::stage::Stage;

const PROXY: &str = "cwp/near";

fn token(stage: &Stage) -> Result<String> {
    stage.read_field("secret/near-proxy-token", ".data.token")
}

pub(crate) async fn register(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    stage.apply(&proxy("near", &stage.url))?;
    stage.wait_for(PROXY, "condition=Ready")?;
    record_secrets(stage)?;
    let proxies = stage.names("proxies").await?;
    ensure!(proxies.contains("near"), "{proxies:?}");
    println!("        Ready after {:.1?}", began.elapsed());
    let shown = stage.get_object(&["get", "cwp"])?;
    for line in shown.lines() {
        println!("        {line}");
    }
    Ok(())
}

pub(crate) async fn replace_token(stage: &Stage) -> Result<()> {
    let before = token(stage)?;
    let began = Instant::now();
    stage.get_object(&["annotate", PROXY, "coder.aplomb.dev/rotate=now"])?;
    stage.wait_for(PROXY, "jsonpath={.status.rotation.honoured}=now")?;
    stage.wait_for(PROXY, "condition=Ready")?;
    record_secrets(stage)?;
    ensure!(token(stage)? != before, "the token has not changed");
    println!("        Ready with a new token after {:.1?}", began.elapsed());
    Ok(())
}

pub(crate) async fn delete(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    stage.get_object(&["delete", PROXY, "--timeout=180s"])?;
    let proxies = stage.names("proxies").await?;
    ensure!(!proxies.contains("near"), "{proxies:?}");
    println!("        gone after {:.1?}", began.elapsed());
    Ok(())
}
