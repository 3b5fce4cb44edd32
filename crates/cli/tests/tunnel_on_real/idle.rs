//! Two minutes without any change; only `make proof` takes the time.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::audit;
use crate::fixtures::tunnel;
use crate::{HOME, Play, Tally};

const QUIET: Duration = Duration::from_secs(120);

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note(
        "two idle minutes cost heartbeats and nothing else",
        quiet(play).await,
    );
}

async fn quiet(play: &Play) -> Result<()> {
    let stage = &play.stage;
    for number in 0..10 {
        let hostname = format!("idle-{number}.example.com");
        stage.apply(&tunnel(
            HOME,
            &format!("idle-{number}"),
            &hostname,
            HOME,
            &play.endpoint(),
        ))?;
        stage.wait(HOME, &format!("hp/idle-{number}"), "condition=Ready")?;
    }
    // Wait for the effects of the last changes to end.
    sleep(Duration::from_secs(10)).await;
    let before = audit::entries(stage)?.len();
    sleep(QUIET).await;
    let all = audit::entries(stage)?;
    let since = &all[before..];
    let writes = since.iter().filter(|entry| entry.is_write());
    let (beats, others): (Vec<_>, Vec<_>) =
        writes.partition(|entry| entry.resource == "gatewayreplicas");
    let leases = since
        .iter()
        .filter(|entry| entry.resource == "leases" && entry.verb != "watch")
        .count();
    println!(
        "idle: {} s, 10 tunnels: {} heartbeats of gateways, {leases} of Leases, {} other writes",
        QUIET.as_secs(),
        beats.len(),
        others.len()
    );
    ensure!(others.is_empty(), "{:?}", audit::counted(others));
    ensure!(
        beats.len() <= 30,
        "{} writes of GatewayReplicas",
        beats.len()
    );
    Ok(())
}
