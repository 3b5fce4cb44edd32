//! Which Gateways are considered, and who owns each of them. An owner reference counts only if this gateway
//! itself sees the HTTPProxy of that name and UID in the same namespace, because anyone who may write the
//! object can set the reference.

use aplomb::{ObjectKey, View};
use aplomb_api::tunnel::{CLASS, annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::rules::ObjectAge;
use crate::control::inputs::TableInputs;
use crate::control::views::GatewayView;

#[derive(Clone, Debug)]
pub(super) struct AcceptedGateway<'a> {
    pub(super) gateway: &'a GatewayView,
    pub(super) owner: GatewayOwner,
    /// What its tunnel is known by.
    pub(super) uid: String,
    pub(super) age: ObjectAge,
}

impl AcceptedGateway<'_> {
    /// The ConnectorClass whose networks are open to its backends. Its HTTPProxy may name any class, so
    /// that what is said of it is as good.
    pub(super) fn class_name(&self) -> &str {
        let said = self.gateway.metadata.annotations.get(annotations::CLASS);
        match self.owner {
            GatewayOwner::Proxy => said.map_or(CLASS, String::as_str),
            GatewayOwner::Unowned => CLASS,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GatewayOwner {
    /// An HTTPProxy's.
    Proxy,
    /// Written by a user, without an HTTPProxy.
    Unowned,
}

/// Those that are looked at, oldest first.
pub(super) fn accepted_gateways(world: &TableInputs) -> Vec<AcceptedGateway<'_>> {
    let all = world.gateways.iter().map(|gateway| &**gateway);
    let mut admitted: Vec<_> = all.filter_map(|gateway| accept(world, gateway)).collect();
    admitted.sort_by(|one, other| one.age.cmp(&other.age));
    admitted
}

fn accept<'a>(world: &TableInputs, gateway: &'a GatewayView) -> Option<AcceptedGateway<'a>> {
    let meta = gateway.meta();
    if &*gateway.spec.gateway_class_name != CLASS || meta.deleting {
        return None;
    }
    let (whose, uid) = match controlling_proxy(meta.owners) {
        None => (GatewayOwner::Unowned, meta.uid.to_owned()),
        Some(ProxyRef { name, uid }) => {
            let seen = world.proxies.get(&ObjectKey::new(meta.namespace, name));
            let its_own = seen.is_some_and(|seen| seen == uid) && name == meta.name;
            (GatewayOwner::Proxy, its_own.then(|| uid.to_owned())?)
        }
    };
    Some(AcceptedGateway {
        gateway,
        owner: whose,
        uid,
        age: ObjectAge::new(&gateway.metadata),
    })
}

/// An HTTPProxy, as a reference names it.
pub(crate) struct ProxyRef<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// The HTTPProxy that an object with these owners says it is controlled by.
pub(crate) fn controlling_proxy(owners: &[OwnerReference]) -> Option<ProxyRef<'_>> {
    let mut owners = owners.iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let (group, _) = owner.api_version.split_once('/')?;
    (owner.kind == "HTTPProxy" && group == "aplomb.dev").then_some(ProxyRef {
        name: &owner.name,
        uid: &owner.uid,
    })
}
