//! Takes away what nobody takes away otherwise: claims on hostnames whose HTTPProxy is gone, and the
//! records of gateways that died. Before anything is deleted the server itself is asked, so that no
//! cache that lags behind decides; and only what was read is deleted.

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
/// How long a gateway must have been dead until its record goes: long enough for a person to see it.
const DEAD: Duration = Duration::from_secs(600);
/// How long the server may take to show a gateway that was not heard of.
const LOOK: Duration = Duration::from_millis(1_500);

/// Deletes claims whose claimant is gone. A UID never comes back, so one that the server does not know
/// leaves nothing to wait for.
pub(crate) fn claims() -> Controller<HostnameClaim> {
    Controller::new(
        "aplomb-claims",
        |claim: Arc<HostnameClaim>, cx| async move { sweep_claim(&claim, &cx).await },
    )
    .without_status()
    .index::<HostnameClaim>(Scope::default(), CLAIMANT, |claim: &HostnameClaim| {
        vec![claim.spec.claimant.uid.clone()]
    })
    .watches::<HttpProxy>(
        Scope::default(),
        // Whatever else changes of an HTTPProxy, it is there.
        Predicate::unless_same(|_, _| true),
        |proxy, claims| {
            let claims = claims.by_index(CLAIMANT, View::meta(proxy).uid);
            claims.iter().map(|it| View::meta(&**it).key()).collect()
        },
    )
}

async fn sweep_claim(claim: &HostnameClaim, cx: &Context<HostnameClaim>) -> Result<Action> {
    let claimant = &claim.spec.claimant;
    let key = ObjectKey::new(Some(&claimant.namespace), &claimant.name);
    let cached = cx.cache::<HttpProxy>()?.get(&key);
    if cached.is_some_and(|proxy| View::meta(&*proxy).uid == claimant.uid) {
        return Ok(Action::Done);
    }
    if !is_there(&cx.client(), claimant).await? {
        let key = View::meta(claim).key();
        cx.delete::<HostnameClaim>(&key).await?;
    }
    Ok(Action::Done)
}

/// Whether the server knows the claimant of a claim.
pub(crate) async fn is_there(client: &kube::Client, claimant: &Claimant) -> Result<bool> {
    let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), &claimant.namespace);
    let found = proxies.get_metadata_opt(&claimant.name).await;
    let found = found.map_err(Error::from)?;
    Ok(found.is_some_and(|it| it.metadata.uid.as_deref() == Some(&claimant.uid)))
}

/// Deletes the records of gateways that died. And looks at the server for one that is not heard of
/// before it counts as dead: a watch that is dead without anybody's knowing it is silent too.
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
    .without_status()
    .in_scope(scope)
    .predicate(Predicate::unless_same(
        move |old: &GatewayReplica, new: &GatewayReplica| heard.only_beats(old, new),
    ))
    .on_deleted(move |key| gone.replica_gone(key))
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
        Stage::Alive(wait) | Stage::Late(wait) | Stage::Dead(wait) => Ok(Action::RequeueAfter(wait)),
        Stage::Over => {
            // As it was read: one that has renewed meanwhile is a conflict, and is looked at again.
            cx.delete::<GatewayReplica>(&key).await?;
            Ok(Action::Done)
        }
    }
}

/// How far it is with a gateway, and for how long.
enum Stage {
    Alive(Duration),
    /// It has not renewed when it should have.
    Late(Duration),
    Dead(Duration),
    /// It has been dead for long enough.
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
        // One that is dead already is not brought back by our not being able to ask.
        Ok(Err(_)) | Err(_) if matches!(stage(pulses, key), Stage::Late(_)) => pulses.forgive(key),
        Ok(Err(_)) | Err(_) => {}
    }
}
