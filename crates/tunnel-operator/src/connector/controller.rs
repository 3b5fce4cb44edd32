//! Wiring of the Connector controller: which kinds are watched, through which predicates, and what they
//! trigger. The predicate records heartbeats without triggering a reconcile.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Cache, Context, Controller, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::tunnel::{Connector, ConnectorClass, GatewayReplica};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Resource};
use tokio::time::timeout;

use super::decide::decide;
use super::observe::{Observer, SessionLosses};
use super::{Plan, ProofDemand, Words};
use crate::context::TunnelContext;
use crate::heartbeat::HeartbeatTracker;
use crate::views::LeaseView;

/// Also the field manager.
const NAME: &str = "aplomb-connector";
/// Timeout of reading a Lease. Together with the lease duration it bounds how long a dead agent goes unnoticed.
const READ_TIMEOUT: Duration = Duration::from_millis(1_500);

pub(crate) fn controller(office: &TunnelContext) -> Controller<Connector> {
    let losses = SessionLosses::default();
    let (run, leases) = (office.clone(), office.lease_heartbeats.clone());
    let (farewell, lost) = (office.clone(), losses.clone());
    let controller = Controller::new(NAME, move |connector, cx| {
        let (office, losses) = (run.clone(), losses.clone());
        async move { reconcile(&connector, &cx, &office, &losses).await }
    });
    let controller = controller
        .predicate(Predicate::unless_same(is_same_input))
        .watches::<LeaseView>(
            Scope::default(),
            Predicate::unless_same(move |old: &LeaseView, new: &LeaseView| {
                connector_for_lease(new).is_none() || leases.is_plain_heartbeat(old, new)
            }),
            |lease, _| connector_for_lease(lease).into_iter().collect(),
        )
        .watches::<ConnectorClass>(Scope::default(), Predicate::generation_changed(), connectors_of_class)
        .triggered_by(&office.connector_trigger, "proof")
        .on_deleted(move |key| {
            farewell.state.on_connector_deleted(key);
            farewell.lease_heartbeats.remove(key);
            farewell.sessions.remove(key);
            lost.on_deleted(key);
        });
    watch_gateways(controller, office)
}

/// Registered gateways affect every connector; lost sessions affect the connectors they name.
fn watch_gateways(controller: Controller<Connector>, office: &TunnelContext) -> Controller<Connector> {
    let within = Scope {
        namespace: Some(office.namespace.to_string()),
        ..Scope::default()
    };
    let replicas = office.replica_heartbeats.clone();
    controller
        .watches::<GatewayReplica>(
            within.clone(),
            Predicate::changed_by(|replica: &GatewayReplica| replica.spec.endpoint_id.clone()),
            |_, all| matching_keys(all, |_| true),
        )
        .watches::<GatewayReplica>(
            within,
            Predicate::unless_same(move |old: &GatewayReplica, new: &GatewayReplica| {
                replicas.record(new);
                old.spec.lost == new.spec.lost && old.spec.more_lost == new.spec.more_lost
            }),
            |replica, _| {
                let lost = replica.spec.lost_sessions();
                lost.map(|(namespace, name, _)| ObjectKey::new(Some(namespace), name))
                    .collect()
            },
        )
}

/// The fields of a Connector that matter: its spec and what its agent reports.
fn is_same_input(old: &Connector, new: &Connector) -> bool {
    let details = |it: &Connector| {
        let status = it.status.as_ref();
        status.and_then(|status| status.connection_details.clone())
    };
    old.metadata.generation == new.metadata.generation && details(old) == details(new)
}

/// The Connector of a Lease: it has the same name and owns the Lease.
fn connector_for_lease(lease: &LeaseView) -> Option<ObjectKey> {
    let meta = lease.meta();
    let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
    let owned = meta.owners.iter().any(|owner| {
        owner.kind == Connector::kind(&())
            && group(&owner.api_version).as_deref() == Some(&*Connector::group(&()))
            && owner.name == meta.name
    });
    owned.then(|| meta.key())
}

fn connectors_of_class(class: &ConnectorClass, all: &Cache<Connector>) -> Vec<ObjectKey> {
    let name = View::meta(class).name;
    matching_keys(all, |it| it.spec.connector_class_name == name)
}

fn matching_keys(all: &Cache<Connector>, wanted: impl Fn(&Connector) -> bool) -> Vec<ObjectKey> {
    let all = all.list();
    let wanted = all.iter().filter(|it| wanted(it));
    wanted.map(|it| View::meta(&**it).key()).collect()
}

async fn reconcile(
    connector: &Arc<Connector>,
    cx: &Context<Connector>,
    office: &TunnelContext,
    losses: &SessionLosses,
) -> Result<Action> {
    let key = View::meta(&**connector).key();
    let observer = Observer {
        connector,
        cx,
        office,
        losses,
        key: &key,
    };
    let mut confirmed = false;
    loop {
        match decide(&observer.observe(confirmed)?) {
            Plan::Confirm => confirm_lease(cx, &key, &office.lease_heartbeats).await,
            Plan::ExtendGrace => office.lease_heartbeats.extend_grace(&key),
            Plan::Publish(words) => return Ok(publish_status(cx, office, &key, *words)),
        }
        confirmed = true;
    }
}

fn publish_status(cx: &Context<Connector>, office: &TunnelContext, key: &ObjectKey, words: Words) -> Action {
    cx.status(&words.status);
    for condition in words.conditions {
        cx.condition(condition);
    }
    if let Some(note) = words.note {
        cx.publish_event(note);
    }
    match words.proof_demand {
        ProofDemand::NoDemand => {}
        ProofDemand::AwaitProof => office.sessions.await_proof(key),
        ProofDemand::ProbeNow => office.sessions.request_probe(key),
    }
    words.requeue_after.map_or(Action::Done, Action::RequeueAfter)
}

/// Reads the Lease before the connector is reported offline, because a broken watch shows no heartbeats
/// either. If the API server does not respond, the deadline is extended.
async fn confirm_lease(cx: &Context<Connector>, key: &ObjectKey, leases: &HeartbeatTracker) {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let api: Api<Lease> = Api::namespaced(cx.client(), namespace);
    match timeout(READ_TIMEOUT, api.get_opt(&key.name)).await {
        Ok(Ok(Some(lease))) => {
            leases.record(&lease);
        }
        Ok(Ok(None)) => {}
        Ok(Err(_)) | Err(_) => leases.extend_grace(key),
    }
}
