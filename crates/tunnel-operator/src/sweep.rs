//! Garbage collection: claims on hostnames whose HTTPProxy was deleted, and records of dead gateways. Before
//! a deletion the object is read from the API server, so that a stale cache deletes nothing, and the deletion
//! is conditional on the version that was read.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, Error, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::tunnel::{Claimant, GatewayReplica, HostnameClaim, HttpProxy};
use kube::Api;
use tokio::time::{Instant, timeout};

use crate::office::TunnelContext;
use crate::pulse::HeartbeatTracker;

/// The index of claims by the UID of their claimant.
const CLAIMANT: &str = "claimant";
/// How long a gateway must have been dead before its record is deleted: long enough for a person to see it.
const DEAD: Duration = Duration::from_secs(600);
/// Timeout of the read of a late gateway.
const LOOK: Duration = Duration::from_millis(1_500);

/// Deletes claims whose claimant is gone. UIDs are never reused, so a claimant that does not exist on the
/// server will not return.
pub(crate) fn claims() -> Controller<HostnameClaim> {
    Controller::new(
        "aplomb-claims",
        |claim: Arc<HostnameClaim>, cx| async move { sweep_claim(&claim, &cx).await },
    )
    .silent()
    .index::<HostnameClaim>(Scope::default(), CLAIMANT, |claim: &HostnameClaim| {
        vec![claim.spec.claimant.uid.clone()]
    })
    .watches::<HttpProxy>(
        Scope::default(),
        // Only the existence of an HTTPProxy matters here.
        Predicate::comparing(|_, _| true),
        |proxy, claims| {
            let claims = claims.by(CLAIMANT, View::meta(proxy).uid);
            claims.iter().map(|it| View::meta(&**it).key()).collect()
        },
    )
}

async fn sweep_claim(claim: &HostnameClaim, cx: &Context<HostnameClaim>) -> Result<Action> {
    let claimant = &claim.spec.claimant;
    let key = ObjectKey::new(Some(&claimant.namespace), &claimant.name);
    let cached = cx.cache::<HttpProxy>()?.get(&key);
    if cached.is_some_and(|proxy| View::meta(&*proxy).uid == claimant.uid) {
        return Ok(Action::Settled);
    }
    if !is_there(&cx.client(), claimant).await? {
        let key = View::meta(claim).key();
        cx.delete::<HostnameClaim>(&key).await?;
    }
    Ok(Action::Settled)
}

/// Whether the claimant of a claim exists on the API server.
pub(crate) async fn is_there(client: &kube::Client, claimant: &Claimant) -> Result<bool> {
    let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), &claimant.namespace);
    let found = proxies.get_metadata_opt(&claimant.name).await;
    let found = found.map_err(Error::from)?;
    Ok(found.is_some_and(|it| it.metadata.uid.as_deref() == Some(&claimant.uid)))
}

/// Deletes the records of dead gateways. Also reads a late gateway from the API server before it counts as
/// dead, because a broken watch shows no heartbeats either.
pub(crate) fn replicas(office: &TunnelContext) -> Controller<GatewayReplica> {
    let (run, heard) = (office.replicas.clone(), office.replicas.clone());
    let gone = office.clone();
    let scope = Scope {
        namespace: Some(office.namespace.to_string()),
        ..Scope::default()
    };
    Controller::new(
        "aplomb-replicas",
        move |replica: Arc<GatewayReplica>, cx| {
            let pulses = run.clone();
            async move { watch_over(&replica, &cx, &pulses).await }
        },
    )
    .silent()
    .within(scope)
    .lens(Predicate::comparing(
        move |old: &GatewayReplica, new: &GatewayReplica| heard.only_beats(old, new),
    ))
    .forgets(move |key| gone.replica_gone(key))
}

async fn watch_over(
    replica: &GatewayReplica,
    cx: &Context<GatewayReplica>,
    pulses: &HeartbeatTracker,
) -> Result<Action> {
    pulses.hear(replica);
    let key = View::meta(replica).key();
    if matches!(stage(pulses, &key), Stage::Late(_) | Stage::Over) {
        look(cx, &key, pulses).await;
    }
    match stage(pulses, &key) {
        Stage::Alive(wait) | Stage::Late(wait) | Stage::Dead(wait) => Ok(Action::Recheck(wait)),
        Stage::Over => {
            // Conditional on the version that was read: if it has renewed since, this is a conflict and is
            // retried.
            cx.delete::<GatewayReplica>(&key).await?;
            Ok(Action::Settled)
        }
    }
}

/// The stage of a gateway, and for how long it lasts.
enum Stage {
    Alive(Duration),
    /// It has missed a renewal.
    Late(Duration),
    Dead(Duration),
    /// It has been dead long enough.
    Over,
}

fn stage(pulses: &HeartbeatTracker, key: &ObjectKey) -> Stage {
    let Some(seen) = pulses.seen(key) else {
        return Stage::Alive(LOOK);
    };
    let (now, until) = (Instant::now(), seen.until());
    let late = until - seen.beat.lease / 3;
    if now < late {
        Stage::Alive(late - now)
    } else if now < until {
        Stage::Late(until - now)
    } else if now < until + DEAD {
        Stage::Dead(until + DEAD - now)
    } else {
        Stage::Over
    }
}

async fn look(cx: &Context<GatewayReplica>, key: &ObjectKey, pulses: &HeartbeatTracker) {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let api: Api<GatewayReplica> = Api::namespaced(cx.client(), namespace);
    match timeout(LOOK, api.get_opt(&key.name)).await {
        Ok(Ok(Some(replica))) => {
            pulses.hear(&replica);
        }
        Ok(Ok(None)) => {}
        // A failed read does not bring a dead gateway back.
        Ok(Err(_)) | Err(_) if matches!(stage(pulses, key), Stage::Late(_)) => pulses.forgive(key),
        Ok(Err(_)) | Err(_) => {}
    }
}
