//! Gathers all that a decision about one CoderWorkspaceProxy needs. Reads caches and memory; writes nothing
//! and asks nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use aplomb::{Context, Key, Result, View};
use aplomb_api::coder::{Binding, CoderWorkspaceProxy, CoderWorkspaceProxyStatus, annotations};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tokio::time::Instant;

use super::children::name;
use super::decide::secret_ref;
use super::world::{DeploymentSeen, Place, Seen, World};
use crate::access::{Access, Claim, Denied, bound_token, resolve};
use crate::object::Object;
use crate::office::Office;
use crate::provisioner::children::digest;
use crate::provisioner::world::{Memory, SecretSeen};
use crate::views::ControlPlaneView;

/// Looks at one CoderWorkspaceProxy.
pub(crate) struct Observer<'a> {
    pub(crate) object: &'a Arc<CoderWorkspaceProxy>,
    pub(crate) cx: &'a Context<CoderWorkspaceProxy>,
    pub(crate) office: &'a Office,
    pub(crate) who: &'a Object,
    pub(crate) began: Instant,
}

impl Observer<'_> {
    /// The world as it is now, for a pass that has seen so much of servers.
    pub(crate) fn observe(&self, seen: &Seen) -> Result<World> {
        let status = self.object.status.clone().unwrap_or_default();
        let access = self.access(&status)?;
        let today = access.as_ref().and_then(|it| it.as_ref().ok());
        Ok(World {
            now: self.office.clock.now(),
            instant: Instant::now(),
            began: self.began,
            bound: self.bound(&status, today)?,
            secret: self.secret()?,
            deployment: self.deployment()?,
            memory: self.memory(),
            seen: seen.clone(),
            object: self.object.clone(),
            access,
            status,
        })
    }

    fn namespace(&self) -> &str {
        self.who.key.namespace.as_deref().unwrap_or_default()
    }

    fn access(
        &self,
        status: &CoderWorkspaceProxyStatus,
    ) -> Result<Option<std::result::Result<Access, Denied>>> {
        let Some(bootstrap) = &self.object.spec.bootstrap else {
            return Ok(None);
        };
        let claim = Claim {
            namespace: self.namespace(),
            control_plane: bootstrap.control_plane_ref.as_ref(),
            server: bootstrap.server.as_ref(),
            bound: status.binding.as_ref(),
        };
        let planes = self.cx.cache::<ControlPlaneView>()?;
        let found = resolve(claim, planes, self.cx.cache::<Secret>()?);
        Ok(Some(found.and_then(|it| self.office.reachable(it))))
    }

    /// Where records can be reached: with the token they were bound to, or with today's of that server.
    fn bound(
        &self,
        status: &CoderWorkspaceProxyStatus,
        access: Option<&Access>,
    ) -> Result<BTreeSet<Place>> {
        let secrets = self.cx.cache::<Secret>()?;
        let mut bound = BTreeSet::new();
        for binding in bindings(status) {
            if bound_token(self.namespace(), binding, secrets).is_some() {
                bound.insert(Place::of(binding));
            }
            let today = access.filter(|it| it.url == binding.server_url);
            bound.extend(today.map(|it| Place::of(&it.binding)));
            // A record is reached with today's token of its server whatever token it was made with.
            bound.extend(today.map(|_| Place::of(binding)));
        }
        Ok(bound)
    }

    fn secret(&self) -> Result<SecretSeen> {
        let reference = secret_ref(self.object);
        let key = Key::new(Some(self.namespace()), &reference.name);
        let Some(found) = self.cx.cache::<Secret>()?.get(&key) else {
            return Ok(SecretSeen::Absent);
        };
        let controller = View::meta(&*found).controller().cloned();
        let other = controller.filter(|it| Some(&it.uid) != self.object.metadata.uid.as_ref());
        if let Some(owner) = other.filter(|_| self.object.spec.bootstrap.is_some()) {
            return Ok(SecretSeen::Foreign(format!(
                "the Secret {} belongs to {} {}: choose another spec.bootstrap.generatedTokenSecretName",
                reference.name, owner.kind, owner.name
            )));
        }
        let data = found.data.as_ref();
        let token = data.and_then(|data| data.get(&reference.key));
        let token = token.filter(|it| !it.0.is_empty());
        let noted = found.annotations().get(annotations::KEY_DIGEST);
        let same = |it: &Vec<u8>| noted.is_none_or(|noted| *noted == digest(it));
        Ok(SecretSeen::Ours {
            key_name: found.annotations().get(annotations::KEY_NAME).cloned(),
            whole: token.is_some_and(|it| same(&it.0)),
        })
    }

    fn deployment(&self) -> Result<Option<DeploymentSeen>> {
        let key = Key::new(Some(self.namespace()), &name(self.object));
        let found = self.cx.cache::<Deployment>()?.get(&key);
        Ok(found.map(|found| seen(&found)))
    }

    fn memory(&self) -> Memory {
        let desk = &self.office.desk;
        Memory {
            unasked: desk.unasked(self.who),
            in_hand: desk.in_hand(self.who).map(|(id, _)| id),
        }
    }
}

/// Every binding that a status holds.
pub(crate) fn bindings(status: &CoderWorkspaceProxyStatus) -> impl Iterator<Item = &Binding> {
    let retiring = status.retiring.iter().map(|it| &it.binding);
    let pending = status.pending.iter().map(|it| &it.binding);
    retiring.chain(pending).chain(&status.binding)
}

fn seen(found: &Deployment) -> DeploymentSeen {
    let replicas = found.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1);
    let status = found.status.clone().unwrap_or_default();
    let updated = status.updated_replicas.unwrap_or(0);
    DeploymentSeen {
        replicas,
        ready: status.ready_replicas.unwrap_or(0),
        rolled: status.observed_generation >= found.metadata.generation
            && updated >= replicas
            && status.replicas.unwrap_or(0) <= updated,
    }
}
