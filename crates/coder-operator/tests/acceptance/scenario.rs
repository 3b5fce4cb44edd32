//! The sequences that are played with a crash or a fault at each point.

use std::time::Duration;

use serde_json::json;

use crate::claims::{find_unclaimed, leftover, proxy_leftover, proxy_unsettled, unsettled, wait_until_settled};
use crate::lab::{Lab, TEAM, minutes};

/// Long enough for two retries at intervals of ten minutes.
const PATIENCE: Duration = minutes(45);

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// A CoderProvisioner is created, its key is rotated by annotation and by tags, and it is
    /// deleted.
    Provisioner,
    /// A CoderWorkspaceProxy is created, given a new token and another display name, and deleted.
    Proxy,
}

impl Story {
    /// Plays it; returns what went wrong.
    pub async fn play(self, lab: &Lab, bypass: bool) -> Result<(), String> {
        tokio::select! {
            biased;
            stray = find_unclaimed(lab.clone()) => Err(stray),
            ended = self.run_checked(lab, bypass) => ended,
        }
    }

    async fn run_checked(self, lab: &Lab, bypass: bool) -> Result<(), String> {
        match self {
            Self::Provisioner => provisioner(lab, bypass).await,
            Self::Proxy => proxy(lab, bypass).await,
        }
    }
}

async fn provisioner(lab: &Lab, bypass: bool) -> Result<(), String> {
    let rests = || wait_until_settled(PATIENCE, || unsettled(lab, TEAM));
    lab.provisioner(TEAM, &json!({ "bypassRateLimit": bypass })).await;
    rests().await.map_err(|it| format!("created: {it}"))?;
    lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
    let honoured = || match lab.status(TEAM).rotation.honoured.as_deref() {
        Some("one") => unsettled(lab, TEAM),
        other => Some(format!("honoured is {other:?}")),
    };
    let rotated = wait_until_settled(PATIENCE, honoured).await;
    rotated.map_err(|it| format!("rotated: {it}"))?;
    let before = lab.status(TEAM).tags_hash;
    lab.edit(TEAM, &json!({ "spec": { "tags": { "zone": "b" } } })).await;
    let tagged = || match lab.status(TEAM).tags_hash == before {
        true => Some("the tags are the old ones".to_owned()),
        false => unsettled(lab, TEAM),
    };
    let tagged = wait_until_settled(PATIENCE, tagged).await;
    tagged.map_err(|it| format!("tagged: {it}"))?;
    let outages = lab.coderd.outages();
    if !outages.is_empty() {
        return Err(format!("outages: {outages:?}"));
    }
    lab.delete(TEAM).await;
    let gone = wait_until_settled(PATIENCE, || leftover(lab, TEAM)).await;
    gone.map_err(|it| format!("deleted: {it}"))?;
    Ok(())
}

async fn proxy(lab: &Lab, bypass: bool) -> Result<(), String> {
    let rests = || wait_until_settled(PATIENCE, || proxy_unsettled(lab, TEAM));
    lab.proxy(TEAM, &json!({ "bypassRateLimit": bypass })).await;
    rests().await.map_err(|it| format!("created: {it}"))?;
    let annotated = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "one" } } });
    lab.edit_proxy(TEAM, &annotated).await;
    let honoured = || match lab.proxy_status(TEAM).rotation.honoured.as_deref() {
        Some("one") => proxy_unsettled(lab, TEAM),
        other => Some(format!("honoured is {other:?}")),
    };
    let rotated = wait_until_settled(PATIENCE, honoured).await;
    rotated.map_err(|it| format!("given a new token: {it}"))?;
    let looks = json!({ "spec": { "bootstrap": { "displayName": "Near you" } } });
    lab.edit_proxy(TEAM, &looks).await;
    let shown = || match lab.coderd.proxy_display(TEAM).as_deref() {
        Some("Near you") => proxy_unsettled(lab, TEAM),
        other => Some(format!("the server has {other:?}")),
    };
    let shown = wait_until_settled(PATIENCE, shown).await;
    shown.map_err(|it| format!("displayed differently: {it}"))?;
    lab.delete_proxy(TEAM).await;
    let gone = wait_until_settled(PATIENCE, || proxy_leftover(lab, TEAM)).await;
    gone.map_err(|it| format!("deleted: {it}"))?;
    Ok(())
}
