//! Gathers all that a decision about one CoderProvisioner needs. Reads caches and memory; makes no
//! writes and no calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use aplomb::{Context, ObjectKey, ObjectRef, Result};
use aplomb_api::coder::{CoderProvisioner, CoderProvisionerStatus, KeyRecord};
use k8s_openapi::api::core::v1::Secret;
use tokio::time::Instant;

use super::children::name;
use super::decide::{candidate_names, secret_ref};
use super::{KeyScope, Observed, Progress};
use crate::access::{Access, AccessDenied, ServerClaim, bound_token, resolve_access};
use crate::children_state::{self, SecretState};
use crate::context::CoderContext;
use crate::pods::owned_deployment;
use crate::token_secrets::is_secret_kept;
use crate::views::ControlPlaneView;

/// The index of objects by the keys they claim.
pub(crate) const INDEX_CLAIMS: &str = "claims";

/// Looks at one CoderProvisioner.
pub(crate) struct Observer<'a> {
    pub(crate) object: &'a Arc<CoderProvisioner>,
    pub(crate) cx: &'a Context<CoderProvisioner>,
    pub(crate) context: &'a CoderContext,
    pub(crate) object_ref: &'a ObjectRef,
    pub(crate) pass_started: Instant,
}

impl Observer<'_> {
    /// The world as it is now, for a pass that has seen so much of servers.
    pub(crate) fn observe(&self, seen: &Progress) -> Result<Observed> {
        let status = self.object.status.clone().unwrap_or_default();
        let access = self.resolve_access()?;
        let secret = self.secret_state()?;
        let deployment = owned_deployment(self.cx, &self.object.metadata, &name(self.object))?;
        Ok(Observed {
            now: self.context.clock.now(),
            instant: Instant::now(),
            pass_started: self.pass_started,
            bound_scopes: self.bound_scopes(&status, access.as_ref().ok())?,
            foreign_claims: self.foreign_claims(&status, seen, access.as_ref().ok(), &secret)?,
            secret_kept: is_secret_kept(self.cx, self.namespace(), access.as_ref().ok())?,
            secret,
            deployment: deployment.map(|it| children_state::deployment_state(&it)),
            remembered: self.context.remembered_state(self.object_ref, self.cx.leader_term()),
            progress: seen.clone(),
            object: self.object.clone(),
            access,
            status,
        })
    }

    fn namespace(&self) -> &str {
        self.object_ref.key.namespace.as_deref().unwrap_or_default()
    }

    fn resolve_access(&self) -> Result<std::result::Result<Access, AccessDenied>> {
        let claim = ServerClaim {
            namespace: self.namespace(),
            control_plane: self.object.spec.control_plane_ref.as_ref(),
            server: self.object.spec.server.as_ref(),
        };
        let planes = self.cx.cache::<ControlPlaneView>()?;
        let found = resolve_access(claim, planes, self.cx.cache::<Secret>()?);
        Ok(found.and_then(|access| self.context.check_reachable(access)))
    }

    /// Where records can be reached: with the token they were bound to, or with today's of that server.
    fn bound_scopes(&self, status: &CoderProvisionerStatus, access: Option<&Access>) -> Result<BTreeSet<KeyScope>> {
        let secrets = self.cx.cache::<Secret>()?;
        let mut bound = BTreeSet::new();
        for key in key_records(status) {
            let KeyRecord { binding, .. } = key;
            if bound_token(self.namespace(), binding, secrets).is_some() {
                bound.insert(KeyScope::for_key(key));
            }
            let today = access.filter(|it| it.url == binding.server_url);
            bound.extend(today.map(|it| KeyScope::new(&it.binding, &key.organization_id)));
        }
        Ok(bound)
    }

    /// Names that this object has, may take next or is handed over, and that another object claims in the
    /// same place.
    fn foreign_claims(
        &self,
        status: &CoderProvisionerStatus,
        seen: &Progress,
        access: Option<&Access>,
        secret: &SecretState,
    ) -> Result<BTreeSet<String>> {
        let all = self.cx.cache::<CoderProvisioner>()?;
        let organization = seen.organization.as_ref().and_then(|it| it.as_ref().ok());
        let organization = organization.map(|it| it.id.clone());
        let Some(organization) = organization.or_else(|| status.organization_id.clone()) else {
            return Ok(BTreeSet::new());
        };
        let url = access.map(|it| &it.url);
        let Some(url) = url.or(status.control_plane_url.as_ref()) else {
            return Ok(BTreeSet::new());
        };
        let next = candidate_names(self.object, status.rotation.sequence);
        let own = key_records(status).map(|it| it.name.clone());
        let claimed = |name: &String| {
            let found = all.by_index(INDEX_CLAIMS, &claim_key(url, &organization, name));
            found.iter().any(|it| it.metadata.uid != self.object.metadata.uid)
        };
        let handed = match secret {
            SecretState::Owned { key_name, .. } => key_name.clone(),
            _ => None,
        };
        Ok(own.chain(next).chain(handed).filter(claimed).collect())
    }

    fn secret_state(&self) -> Result<SecretState> {
        let reference = secret_ref(self.object);
        let key = ObjectKey::new(Some(self.namespace()), &reference.name);
        let found = self.cx.cache::<Secret>()?.get(&key);
        let uid = self.object.metadata.uid.as_deref();
        let field = "spec.key.secretName";
        Ok(children_state::secret_state(found.as_deref(), &reference, uid, field))
    }
}

/// Every key that a status holds.
pub(crate) fn key_records(status: &CoderProvisionerStatus) -> impl Iterator<Item = &KeyRecord> {
    let retiring = status.retiring.iter().map(|it| &it.key);
    retiring.chain(&status.pending).chain(&status.key)
}

/// What the index of claims holds for one key.
fn claim_key(url: &str, organization: &str, name: &str) -> String {
    format!("{url} {organization} {name}")
}

/// Every key that an object claims, for the index.
pub(crate) fn claims(object: &CoderProvisioner) -> Vec<String> {
    let records = object.status.iter().flat_map(key_records);
    let claim = |it: &KeyRecord| claim_key(&it.binding.server_url, &it.organization_id, &it.name);
    records.map(claim).collect()
}
