//! Garbage collection: claims on hostnames whose HTTPProxy was deleted, and records of dead gateways. Before
//! a deletion the object is read from the API server, so that a stale cache deletes nothing, and the deletion
//! is conditional on the version that was read.

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
/// How long a gateway must have been dead before its record is deleted: long enough for a person to see it.
const DEAD_RETENTION: Duration = Duration::from_secs(600);
const READ_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Deletes claims whose claimant is gone. UIDs are never reused, so a claimant that does not exist on the
/// server will not return.
pub(crate) fn claim_controller() -> Controller<HostnameClaim> {
    Controller::new("aplomb-claims", |claim: Arc<HostnameClaim>, cx| async move {
        collect_claim(&claim, &cx).await
    })
    .without_status()
    .index::<HostnameClaim>(Scope::default(), BY_CLAIMANT, |claim: &HostnameClaim| {
        vec![claim.spec.claimant.uid.clone()]
    })
    .watches::<HttpProxy>(
        Scope::default(),
        // Only the existence of an HTTPProxy matters here.
        Predicate::unless_same(|_, _| true),
        |proxy, claims| {
            let claims = claims.by_index(BY_CLAIMANT, View::meta(proxy).uid);
            claims.iter().map(|it| View::meta(&**it).key()).collect()
        },
    )
}

async fn collect_claim(claim: &HostnameClaim, cx: &Context<HostnameClaim>) -> Result<Action> {
    let claimant = &claim.spec.claimant;
    let key = ObjectKey::new(Some(&claimant.namespace), &claimant.name);
    let cached = cx.cache::<HttpProxy>()?.get(&key);
    if cached.is_some_and(|proxy| View::meta(&*proxy).uid == claimant.uid) {
        return Ok(Action::Done);
    }
    if !claimant_exists(&cx.client(), claimant).await? {
        let key = View::meta(claim).key();
        cx.delete::<HostnameClaim>(&key).await?;
    }
    Ok(Action::Done)
}

/// Whether the claimant of a claim exists on the API server.
pub(crate) async fn claimant_exists(client: &kube::Client, claimant: &Claimant) -> Result<bool> {
    let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), &claimant.namespace);
    let found = proxies.get_metadata_opt(&claimant.name).await;
    let found = found.map_err(Error::from)?;
    Ok(found.is_some_and(|it| it.metadata.uid.as_deref() == Some(&claimant.uid)))
}

/// Deletes the records of dead gateways. Also reads a late gateway from the API server before it counts as
/// dead, because a broken watch shows no heartbeats either.
pub(crate) fn replica_controller(office: &TunnelContext) -> Controller<GatewayReplica> {
    let (run, heard) = (office.replica_heartbeats.clone(), office.replica_heartbeats.clone());
    let gone = office.clone();
    let scope = Scope {
        namespace: Some(office.namespace.to_string()),
        ..Scope::default()
    };
    Controller::new("aplomb-replicas", move |replica: Arc<GatewayReplica>, cx| {
        let pulses = run.clone();
        async move { reconcile_replica(&replica, &cx, &pulses).await }
    })
    .without_status()
    .in_scope(scope)
    .predicate(Predicate::unless_same(
        move |old: &GatewayReplica, new: &GatewayReplica| heard.is_plain_heartbeat(old, new),
    ))
    .on_deleted(move |key| gone.on_replica_deleted(key))
}

async fn reconcile_replica(
    replica: &GatewayReplica,
    cx: &Context<GatewayReplica>,
    pulses: &HeartbeatTracker,
) -> Result<Action> {
    pulses.record(replica);
    let key = View::meta(replica).key();
    if matches!(
        replica_stage(pulses, &key),
        ReplicaStage::Late(_) | ReplicaStage::Expired
    ) {
        confirm_replica(cx, &key, pulses).await;
    }
    match replica_stage(pulses, &key) {
        ReplicaStage::Alive(wait) | ReplicaStage::Late(wait) | ReplicaStage::Dead(wait) => {
            Ok(Action::RequeueAfter(wait))
        }
        ReplicaStage::Expired => {
            // Conditional on the version that was read: if it has renewed since, this is a conflict and is retried.
            cx.delete::<GatewayReplica>(&key).await?;
            Ok(Action::Done)
        }
    }
}

/// The stage of a gateway, and for how long it lasts.
enum ReplicaStage {
    Alive(Duration),
    /// It has missed a renewal.
    Late(Duration),
    Dead(Duration),
    /// It has been dead long enough.
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
        // A failed read does not bring a dead gateway back.
        Ok(Err(_)) | Err(_) if matches!(replica_stage(pulses, key), ReplicaStage::Late(_)) => pulses.extend_grace(key),
        Ok(Err(_)) | Err(_) => {}
    }
}
