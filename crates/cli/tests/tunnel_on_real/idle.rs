//! Two minutes without any change; only `make proof` takes the time.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::audit;
use crate::fixtures::tunnel;
use crate::{TENANT, Tally, TestRun};

const IDLE_TIME: Duration = Duration::from_secs(120);

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record(
        "two idle minutes cost heartbeats and nothing else",
        check_no_writes(play).await,
    );
}

async fn check_no_writes(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    for number in 0..10 {
        let hostname = format!("idle-{number}.example.com");
        stage.apply(&tunnel(
            TENANT,
            &format!("idle-{number}"),
            &hostname,
            TENANT,
            &play.endpoint(),
        ))?;
        stage.wait_for(TENANT, &format!("hp/idle-{number}"), "condition=Ready")?;
    }
    // Wait for the effects of the last changes to end.
    sleep(Duration::from_secs(10)).await;
    let before = audit::read_entries(stage)?.len();
    sleep(IDLE_TIME).await;
    let all = audit::read_entries(stage)?;
    let since = &all[before..];
    let writes = since.iter().filter(|entry| entry.is_write());
    let (beats, others): (Vec<_>, Vec<_>) = writes.partition(|entry| entry.resource == "gatewayreplicas");
    let leases = since
        .iter()
        .filter(|entry| entry.resource == "leases" && entry.verb != "watch")
        .count();
    println!(
        "idle: {} s, 10 tunnels: {} heartbeats of gateways, {leases} of Leases, {} other writes",
        IDLE_TIME.as_secs(),
        beats.len(),
        others.len()
    );
    ensure!(others.is_empty(), "{:?}", audit::count_entries(others));
    ensure!(beats.len() <= 30, "{} writes of GatewayReplicas", beats.len());
    Ok(())
}
