//! Wiring of the Connector controller: which kinds are watched, through which predicates, and what they
//! trigger. The predicate records heartbeats without triggering a reconcile.

use std::sync::Arc;

use aplomb::{Action, Cache, Context, Controller, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::tunnel::{Connector, ConnectorClass, GatewayReplica};
use kube::Resource;

use super::act::confirm;
use super::decide::decide;
use super::observe::{Observer, SessionLosses};
use super::{Plan, ProofDemand, Words};
use crate::office::TunnelContext;
use crate::pulse::LeaseView;

/// Also the field manager.
const NAME: &str = "aplomb-connector";

/// The controller of Connector.
pub(crate) fn controller(office: &TunnelContext) -> Controller<Connector> {
    let losses = SessionLosses::default();
    let (run, leases) = (office.clone(), office.leases.clone());
    let (farewell, lost) = (office.clone(), losses.clone());
    let controller = Controller::new(NAME, move |connector, cx| {
        let (office, losses) = (run.clone(), losses.clone());
        async move { reconcile(&connector, &cx, &office, &losses).await }
    });
    let controller = controller
        .lens(Predicate::comparing(same))
        .watches::<LeaseView>(
            Scope::default(),
            Predicate::comparing(move |old: &LeaseView, new: &LeaseView| {
                connector_of(new).is_none() || leases.only_beats(old, new)
            }),
            |lease, _| connector_of(lease).into_iter().collect(),
        )
        .watches::<ConnectorClass>(Scope::default(), Predicate::generation(), of_class)
        .poked_by(&office.connectors, "proof")
        .forgets(move |key| {
            farewell.memory.forget_connector(key);
            farewell.leases.forget(key);
            farewell.sessions.forget(key);
            lost.forget(key);
        });
    gateways(controller, office)
}

/// Registered gateways affect every connector; lost sessions affect the connectors they name.
fn gateways(controller: Controller<Connector>, office: &TunnelContext) -> Controller<Connector> {
    let within = Scope {
        namespace: Some(office.namespace.to_string()),
        ..Scope::default()
    };
    let replicas = office.replicas.clone();
    controller
        .watches::<GatewayReplica>(
            within.clone(),
            Predicate::fields(|replica: &GatewayReplica| replica.spec.endpoint_id.clone()),
            |_, all| keys(all, |_| true),
        )
        .watches::<GatewayReplica>(
            within,
            Predicate::comparing(move |old: &GatewayReplica, new: &GatewayReplica| {
                replicas.hear(new);
                old.spec.lost == new.spec.lost && old.spec.more_lost == new.spec.more_lost
            }),
            |replica, _| {
                let lost = replica.spec.all_lost();
                lost.map(|(namespace, name, _)| ObjectKey::new(Some(namespace), name))
                    .collect()
            },
        )
}

/// The fields of a Connector that matter: its spec and what its agent reports.
fn same(old: &Connector, new: &Connector) -> bool {
    let details = |it: &Connector| {
        let status = it.status.as_ref();
        status.and_then(|status| status.connection_details.clone())
    };
    old.metadata.generation == new.metadata.generation && details(old) == details(new)
}

/// The Connector of a Lease: it has the same name and owns the Lease.
fn connector_of(lease: &LeaseView) -> Option<ObjectKey> {
    let meta = lease.meta();
    let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
    let owned = meta.owners.iter().any(|owner| {
        owner.kind == Connector::kind(&())
            && group(&owner.api_version).as_deref() == Some(&*Connector::group(&()))
            && owner.name == meta.name
    });
    owned.then(|| meta.key())
}

fn of_class(class: &ConnectorClass, all: &Cache<Connector>) -> Vec<ObjectKey> {
    let name = View::meta(class).name;
    keys(all, |it| it.spec.connector_class_name == name)
}

fn keys(all: &Cache<Connector>, wanted: impl Fn(&Connector) -> bool) -> Vec<ObjectKey> {
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
            Plan::Confirm => confirm(cx, &key, &office.leases).await,
            Plan::Forgive => office.leases.forgive(&key),
            Plan::Say(words) => return Ok(say(cx, office, &key, *words)),
        }
        confirmed = true;
    }
}

fn say(cx: &Context<Connector>, office: &TunnelContext, key: &ObjectKey, words: Words) -> Action {
    cx.status(&words.status);
    for condition in words.conditions {
        cx.condition(condition);
    }
    if let Some(note) = words.note {
        cx.event(note);
    }
    match words.wish {
        ProofDemand::Nothing => {}
        ProofDemand::Await => office.sessions.awaits(key),
        ProofDemand::Now => office.sessions.prove_soon(key),
    }
    words.again.map_or(Action::Settled, Action::Recheck)
}
