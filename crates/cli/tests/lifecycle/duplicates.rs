//! Nothing was done twice, whichever replica led: according to the simulated servers, the API server's audit log, and
//! the metrics of the replicas.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::objects::{Wanted, assigned_server};
use crate::stage::Stage;

/// The kinds that operators create.
const CHILDREN: [&str; 6] = [
    "gateways",
    "httproutes",
    "endpointslices",
    "hostnameclaims",
    "deployments",
    "roles",
];

/// How many requests of this method and path ending were answered with success.
async fn count_answered(stage: &Stage, server: &str, method: &str, end: &str) -> Result<usize> {
    let log = stage.get_simulator(server, "/_sim/requests?since=0").await?;
    let requests = log["requests"].as_array().context("a log of requests")?;
    let counts = |request: &&Value| {
        request["method"] == json!(method)
            && request["path"].as_str().is_some_and(|it| it.ends_with(end))
            && request["status"].as_u64().is_some_and(|it| it < 300)
    };
    Ok(requests.iter().filter(counts).count())
}

/// The servers that the floating IP was assigned to, in order.
async fn assignments(stage: &Stage) -> Result<Vec<u64>> {
    let state = stage.get_simulator(&stage.hetzner, "/_sim/state").await?;
    let actions = state["actions"].as_array().context("a list of actions")?;
    let assigns = actions.iter().filter(|it| it["command"] == json!("assign_floating_ip"));
    let resources = assigns.flat_map(|it| it["resources"].as_array().into_iter().flatten());
    let servers = resources.filter(|it| it["type"] == json!("server"));
    Ok(servers.filter_map(|it| it["id"].as_u64()).collect())
}

/// One key at the start and one for each rotation; the floating IP moved from server to server as often. A leader
/// that finds an assignment of its predecessor in progress may repeat it, which changes nothing.
pub(crate) async fn check_external_duplicates(stage: &Stage, wanted: Wanted) -> Result<()> {
    let keys = count_answered(stage, &stage.coderd, "POST", "/provisionerkeys").await?;
    let mut servers = assignments(stage).await?;
    let asked = servers.len();
    servers.dedup();
    println!(
        "        {} changes: {keys} keys created, {} moves, {} assignments repeated by a successor",
        wanted.changes,
        servers.len(),
        asked - servers.len()
    );
    ensure!(keys == wanted.changes + 1, "{keys} keys were created");
    ensure!(servers.len() == wanted.changes + 1, "it went to {servers:?}");
    // Every change happened during a handover, so each may have been requested once more.
    ensure!(asked - servers.len() <= wanted.changes, "{asked} assignments");
    let on = assigned_server(stage).await?;
    ensure!(servers.last() == Some(&on), "the address is on server {on}");
    Ok(())
}

/// Every child was created once, without conflicts.
pub(crate) fn check_write_duplicates(stage: &Stage) -> Result<()> {
    let mut created: BTreeMap<String, usize> = BTreeMap::new();
    let (mut requests, mut conflicts) = (0, 0);
    for event in stage.server.audit_entries()? {
        let (object, code) = (&event["objectRef"], &event["responseStatus"]["code"]);
        let part = |key: &str| object[key].as_str().unwrap_or_default();
        requests += 1;
        let lease = part("resource") == "leases";
        conflicts += usize::from(*code == json!(409) && !lease);
        let child = CHILDREN.contains(&part("resource")) && object["subresource"].is_null();
        if *code == json!(201) && child {
            let what = [part("resource"), part("namespace"), part("name")].join("/");
            *created.entry(what).or_default() += 1;
        }
    }
    let twice: Vec<_> = created.iter().filter(|(_, count)| **count > 1).collect();
    println!(
        "        {requests} requests, {} children created, {conflicts} conflicts",
        created.len()
    );
    ensure!(created.len() > 20, "only {} were created", created.len());
    ensure!(twice.is_empty(), "created twice: {twice:?}");
    Ok(())
}

/// No effect was in progress when a lease was lost, according to the running replicas.
pub(crate) async fn check_stale_writes(stage: &Stage) -> Result<()> {
    for replica in &stage.replicas {
        let metrics = stage.get(&format!("http://{}/metrics", replica.admin)).await?;
        let stale = metrics
            .lines()
            .find(|line| line.starts_with("aplomb_stale_effects_total") && !line.ends_with(" 0"));
        ensure!(stale.is_none(), "{}: {stale:?}", replica.identity);
    }
    Ok(())
}
