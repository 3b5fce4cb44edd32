//! Takes away what nobody takes away otherwise: claims on hostnames whose HTTPProxy is gone, and the
//! records of gateways that died. Before anything is deleted the server itself is asked, so that no
//! cache that lags behind decides; and only what was read is deleted.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, Error, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::tunnel::{Claimant, GatewayReplica, HostnameClaim, HttpProxy};
use kube::Api;
use tokio::time::{Instant, timeout};

use crate::context::TunnelContext;
use crate::heartbeat::HeartbeatTracker;

/// The index of claims by the UID of their claimant.
const BY_CLAIMANT: &str = "claimant";
/// How long a gateway must have been dead until its record goes: long enough for a person to see it.
const DEAD_RETENTION: Duration = Duration::from_secs(600);
/// How long the server may take to show a gateway that was not heard of.
const READ_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Deletes claims whose claimant is gone. A UID never comes back, so one that the server does not know
/// leaves nothing to wait for.
pub(crate) fn claim_controller() -> Controller<HostnameClaim> {
    Controller::new(
        "aplomb-claims",
        |claim: Arc<HostnameClaim>, cx| async move { collect_claim(&claim, &cx).await },
    )
    .silent()
    .index::<HostnameClaim>(Scope::default(), BY_CLAIMANT, |claim: &HostnameClaim| {
        vec![claim.spec.claimant.uid.clone()]
    })
    .watches::<HttpProxy>(
        Scope::default(),
        // Whatever else changes of an HTTPProxy, it is there.
        Predicate::comparing(|_, _| true),
        |proxy, claims| {
            let claims = claims.by(BY_CLAIMANT, View::meta(proxy).uid);
            claims.iter().map(|it| View::meta(&**it).key()).collect()
        },
    )
}

async fn collect_claim(claim: &HostnameClaim, cx: &Context<HostnameClaim>) -> Result<Action> {
    let claimant = &claim.spec.claimant;
    let key = ObjectKey::new(Some(&claimant.namespace), &claimant.name);
    let cached = cx.cache::<HttpProxy>()?.get(&key);
    if cached.is_some_and(|proxy| View::meta(&*proxy).uid == claimant.uid) {
        return Ok(Action::Settled);
    }
    if !claimant_exists(&cx.client(), claimant).await? {
        let key = View::meta(claim).key();
        cx.delete::<HostnameClaim>(&key).await?;
    }
    Ok(Action::Settled)
}

/// Whether the server knows the claimant of a claim.
pub(crate) async fn claimant_exists(client: &kube::Client, claimant: &Claimant) -> Result<bool> {
    let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), &claimant.namespace);
    let found = proxies.get_metadata_opt(&claimant.name).await;
    let found = found.map_err(Error::from)?;
    Ok(found.is_some_and(|it| it.metadata.uid.as_deref() == Some(&claimant.uid)))
}

/// Deletes the records of gateways that died. And looks at the server for one that is not heard of
/// before it counts as dead: a watch that is dead without anybody's knowing it is silent too.
pub(crate) fn replica_controller(office: &TunnelContext) -> Controller<GatewayReplica> {
    let (run, heard) = (office.replica_heartbeats.clone(), office.replica_heartbeats.clone());
    let gone = office.clone();
    let scope = Scope {
        namespace: Some(office.namespace.to_string()),
        ..Scope::default()
    };
    Controller::new(
        "aplomb-replicas",
        move |replica: Arc<GatewayReplica>, cx| {
            let pulses = run.clone();
            async move { reconcile_replica(&replica, &cx, &pulses).await }
        },
    )
    .silent()
    .within(scope)
    .lens(Predicate::comparing(
        move |old: &GatewayReplica, new: &GatewayReplica| heard.is_plain_heartbeat(old, new),
    ))
    .forgets(move |key| gone.on_replica_deleted(key))
}

async fn reconcile_replica(
    replica: &GatewayReplica,
    cx: &Context<GatewayReplica>,
    pulses: &HeartbeatTracker,
) -> Result<Action> {
    pulses.record(replica);
    let key = View::meta(replica).key();
    if matches!(replica_stage(pulses, &key), ReplicaStage::Late(_) | ReplicaStage::Expired) {
        confirm_replica(cx, &key, pulses).await;
    }
    match replica_stage(pulses, &key) {
        ReplicaStage::Alive(wait) | ReplicaStage::Late(wait) | ReplicaStage::Dead(wait) => Ok(Action::Recheck(wait)),
        ReplicaStage::Expired => {
            // As it was read: one that has renewed meanwhile is a conflict, and is looked at again.
            cx.delete::<GatewayReplica>(&key).await?;
            Ok(Action::Settled)
        }
    }
}

/// How far it is with a gateway, and for how long.
enum ReplicaStage {
    Alive(Duration),
    /// It has not renewed when it should have.
    Late(Duration),
    Dead(Duration),
    /// It has been dead for long enough.
    Expired,
}

fn replica_stage(pulses: &HeartbeatTracker, key: &ObjectKey) -> ReplicaStage {
    let Some(seen) = pulses.last_heartbeat(key) else {
        return ReplicaStage::Alive(READ_TIMEOUT);
    };
    let (now, until) = (Instant::now(), seen.expires_at());
    let late = until - seen.heartbeat.lease / 3;
    if now < late {
        ReplicaStage::Alive(late - now)
    } else if now < until {
        ReplicaStage::Late(until - now)
    } else if now < until + DEAD_RETENTION {
        ReplicaStage::Dead(until + DEAD_RETENTION - now)
    } else {
        ReplicaStage::Expired
    }
}

async fn confirm_replica(cx: &Context<GatewayReplica>, key: &ObjectKey, pulses: &HeartbeatTracker) {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let api: Api<GatewayReplica> = Api::namespaced(cx.client(), namespace);
    match timeout(READ_TIMEOUT, api.get_opt(&key.name)).await {
        Ok(Ok(Some(replica))) => {
            pulses.record(&replica);
        }
        Ok(Ok(None)) => {}
        // One that is dead already is not brought back by our not being able to ask.
        Ok(Err(_)) | Err(_) if matches!(replica_stage(pulses, key), ReplicaStage::Late(_)) => pulses.extend_grace(key),
        Ok(Err(_)) | Err(_) => {}
    }
}
