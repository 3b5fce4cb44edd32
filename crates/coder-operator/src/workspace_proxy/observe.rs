//! Gathers all that a decision about one CoderWorkspaceProxy needs. Reads caches and memory; makes
//! no writes and no calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use aplomb::{Context, ObjectKey, ObjectRef, Result};
use aplomb_api::coder::{CoderWorkspaceProxy, CoderWorkspaceProxyStatus, ServerBinding};
use k8s_openapi::api::core::v1::Secret;
use tokio::time::Instant;

use super::children::name;
use super::decide::secret_ref;
use super::{Observed, Progress, ProxyScope};
use crate::access::{Access, AccessDenied, ServerClaim, bound_token, resolve_access};
use crate::children_state::{self, SecretState};
use crate::context::CoderContext;
use crate::pods::owned_deployment;
use crate::token_secrets::is_secret_kept;
use crate::views::ControlPlaneView;

/// Looks at one CoderWorkspaceProxy.
pub(crate) struct Observer<'a> {
    pub(crate) object: &'a Arc<CoderWorkspaceProxy>,
    pub(crate) cx: &'a Context<CoderWorkspaceProxy>,
    pub(crate) context: &'a CoderContext,
    pub(crate) object_ref: &'a ObjectRef,
    pub(crate) pass_started: Instant,
}

impl Observer<'_> {
    /// The world as it is now, for a pass that has seen so much of servers.
    pub(crate) fn observe(&self, seen: &Progress) -> Result<Observed> {
        let status = self.object.status.clone().unwrap_or_default();
        let access = self.resolve_access()?;
        let today = access.as_ref().and_then(|it| it.as_ref().ok());
        let deployment = owned_deployment(self.cx, &self.object.metadata, &name(self.object))?;
        Ok(Observed {
            now: self.context.clock.now(),
            instant: Instant::now(),
            pass_started: self.pass_started,
            bound_scopes: self.bound_scopes(&status, today)?,
            secret_kept: is_secret_kept(self.cx, self.namespace(), today)?,
            secret: self.secret_state()?,
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

    fn resolve_access(&self) -> Result<Option<std::result::Result<Access, AccessDenied>>> {
        let Some(bootstrap) = &self.object.spec.bootstrap else {
            return Ok(None);
        };
        let claim = ServerClaim {
            namespace: self.namespace(),
            control_plane: bootstrap.control_plane_ref.as_ref(),
            server: bootstrap.server.as_ref(),
        };
        let planes = self.cx.cache::<ControlPlaneView>()?;
        let found = resolve_access(claim, planes, self.cx.cache::<Secret>()?);
        Ok(Some(found.and_then(|it| self.context.check_reachable(it))))
    }

    /// Where records can be reached: with the token they were bound to, or with today's of that server.
    fn bound_scopes(
        &self,
        status: &CoderWorkspaceProxyStatus,
        access: Option<&Access>,
    ) -> Result<BTreeSet<ProxyScope>> {
        let secrets = self.cx.cache::<Secret>()?;
        let mut bound = BTreeSet::new();
        for binding in bindings(status) {
            if bound_token(self.namespace(), binding, secrets).is_some() {
                bound.insert(ProxyScope::for_binding(binding));
            }
            let today = access.filter(|it| it.url == binding.server_url);
            bound.extend(today.map(|it| ProxyScope::for_binding(&it.binding)));
            // A record is reached with today's token of its server whatever token it was made with.
            bound.extend(today.map(|_| ProxyScope::for_binding(binding)));
        }
        Ok(bound)
    }

    fn secret_state(&self) -> Result<SecretState> {
        let reference = secret_ref(self.object);
        let key = ObjectKey::new(Some(self.namespace()), &reference.name);
        let found = self.cx.cache::<Secret>()?.get(&key);
        if self.object.spec.bootstrap.is_none() {
            // A user's Secret, whichever client writes it.
            let held = found.map(|it| children_state::secret_contents(&it, &reference));
            return Ok(held.unwrap_or(SecretState::Absent));
        }
        let uid = self.object.metadata.uid.as_deref();
        let field = "spec.bootstrap.generatedTokenSecretName";
        Ok(children_state::secret_state(found.as_deref(), &reference, uid, field))
    }
}

/// Every binding that a status holds.
pub(crate) fn bindings(status: &CoderWorkspaceProxyStatus) -> impl Iterator<Item = &ServerBinding> {
    let retiring = status.retiring.iter().map(|it| &it.binding);
    let pending = status.pending.iter().map(|it| &it.binding);
    retiring.chain(pending).chain(&status.binding)
}
