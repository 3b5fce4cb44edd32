//! Takes one step at a time, each of them safe to repeat: a crash may come between any two. What a server
//! says is noted as seen; nothing here decides what it means.

use std::sync::Arc;

use aplomb::{Context, Error, ObjectKey, ObjectRef, Result};
use aplomb_api::coder::{CoderProvisioner, FINALIZER, KeyRecord, ServerBinding, annotations};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tokio::time::Instant;

use super::decide::secret_ref;
use super::{BoundKeyScope, Children, Observed, Progress, Step, children};
use crate::blocked::{Blocked, CallResult, is_ambiguous, new_blocked};
use crate::children_state::{self, SecretState};
use crate::client::{
    self, CallError, CallErrorClass, CoderEndpoint, Entitlements, Organization, ProvisionerKeyDaemons,
};
use crate::context::{CoderContext, refusal_key};
use crate::pods::{checksum, scale_to_zero};
use crate::server::{Caller, MaxAge, ServerClient, Timestamped};

/// Acts for one CoderProvisioner.
pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<CoderProvisioner>,
    pub(crate) context: &'a CoderContext,
    pub(crate) object_ref: &'a ObjectRef,
    pub(crate) observed: &'a Observed,
}

impl Act<'_> {
    pub(crate) async fn execute(&self, step: &Step, seen: &mut Progress) -> Result<()> {
        match step {
            Step::Finalize => {
                self.cx.add_finalizer(FINALIZER).await?;
                seen.finalized = true;
            }
            Step::Entitlements => seen.entitlements = Some(self.entitlements().await?),
            Step::Organization => seen.organization = Some(self.organization().await?),
            Step::Keys(at, fresh) => {
                let looked = self.keys(at, *fresh).await?;
                seen.keys.insert(at.place.clone(), looked);
            }
            Step::Daemons(at, fresh) => {
                let looked = self.daemons(at, *fresh, seen).await?;
                seen.daemons.insert(at.place.clone(), looked);
            }
            Step::Create(key) => self.create_key(key, seen).await?,
            Step::Store(key) => self.store_key(key, seen).await?,
            Step::Apply(wanted) => {
                self.apply_children(wanted).await?;
                seen.applied = true;
            }
            Step::Drain => {
                let object = &self.observed.object;
                scale_to_zero(self.cx, &object.metadata, &children::name(object)).await?;
                seen.drained = true;
            }
            Step::Delete(key) => self.delete_key(key, seen).await?,
            Step::Release => {
                self.cx.remove_finalizer(FINALIZER).await?;
                seen.released = true;
            }
        }
        Ok(())
    }

    fn caller(&self) -> Caller<'_> {
        Caller {
            object: self.object_ref,
            bypass: self.observed.object.spec.bypass_rate_limit,
            fence: self.cx.fence(),
            deadline: self.cx.deadline(),
            limited: self.observed.status.rate_limited.as_ref(),
        }
    }

    fn server_for(&self, binding: &ServerBinding) -> Result<ServerClient> {
        let namespace = self.object_ref.key.namespace.as_deref().unwrap_or_default();
        let access = self.observed.access.as_ref().ok();
        let secrets = self.cx.cache::<Secret>()?;
        self.context.server_for_binding(access, binding, namespace, secrets)
    }

    /// Where today's spec leads.
    fn current_binding(&self) -> Result<ServerBinding> {
        let access = self.observed.access.as_ref();
        let access = access.map_err(|denied| Error::fault(denied.message.clone()))?;
        Ok(access.binding.clone())
    }

    async fn entitlements(&self) -> Result<CallResult<Arc<Timestamped<Entitlements>>>> {
        let binding = self.current_binding()?;
        let (server, asker) = (self.server_for(&binding)?, self.caller());
        Ok(self.context.entitlements(&server, &binding, &asker).await)
    }

    async fn organization(&self) -> Result<CallResult<Organization>> {
        let (server, asker) = (self.server_for(&self.current_binding()?)?, self.caller());
        let name = &self.observed.object.spec.organization_name;
        let subject = refusal_key(&format!("organization {name}"), &self.current_binding()?);
        let call = server.organization(&asker, name);
        Ok(self
            .context
            .unless_cached_refusal(CoderEndpoint::Organization, &subject, call)
            .await)
    }

    async fn keys(
        &self,
        at: &BoundKeyScope,
        fresh: MaxAge,
    ) -> Result<CallResult<Arc<Timestamped<Vec<client::ProvisionerKey>>>>> {
        let (server, asker) = (self.server_for(&at.binding)?, self.caller());
        let subject = refusal_key(&format!("keys {}", at.place.organization), &at.binding);
        let call = server.keys(&asker, &at.place.organization, fresh);
        Ok(self
            .context
            .unless_cached_refusal(CoderEndpoint::ListKeys, &subject, call)
            .await)
    }

    /// The daemons; somewhat older ones where the server cannot be asked now.
    async fn daemons(
        &self,
        at: &BoundKeyScope,
        fresh: MaxAge,
        seen: &mut Progress,
    ) -> Result<CallResult<Arc<Timestamped<Vec<ProvisionerKeyDaemons>>>>> {
        let (server, asker) = (self.server_for(&at.binding)?, self.caller());
        let organization = &at.place.organization;
        let subject = refusal_key(&format!("daemons {organization}"), &at.binding);
        let call = server.daemons(&asker, organization, fresh);
        let endpoint = CoderEndpoint::ListDaemons;
        let looked = self.context.unless_cached_refusal(endpoint, &subject, call).await;
        if let Err(hindrance) = &looked
            && let Some(older) = hindrance.fallback_max_age()
            && let Ok(known) = server.daemons(&asker, organization, older).await
        {
            seen.deferred.push(hindrance.clone());
            return Ok(Ok(known));
        }
        Ok(looked)
    }

    /// What a standing refusal of an effect is about: an edit of the object makes it another.
    fn effect_key(&self, what: &str, key: &KeyRecord) -> String {
        let generation = self.observed.object.metadata.generation.unwrap_or(0);
        let uid = self.observed.object.metadata.uid.as_deref().unwrap_or_default();
        let print = self
            .observed
            .access
            .as_ref()
            .map_or("", |it| &it.binding.token_fingerprint);
        let rotate = self.observed.object.annotations().get(annotations::ROTATE);
        let rotate = rotate.map_or("", String::as_str);
        format!("{what} {uid} {generation} {rotate} {} {print}", key.name)
    }

    /// Requests the key, and keeps its plaintext in memory until it is in the Secret.
    async fn create_key(&self, key: &KeyRecord, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.server_for(&key.binding)?, self.caller());
        let tags = &self.observed.object.spec.tags;
        let call = server.create_key(&asker, &key.organization_id, &key.name, tags);
        let subject = self.effect_key("create", key);
        // A pass that is dropped on the way must not believe later that nothing was asked.
        let desk = &self.context.states;
        let unasked = desk.unrequested_name(self.object_ref, self.cx.leader_term());
        desk.set_unrequested_name(self.object_ref, None, self.cx.leader_term());
        match self
            .context
            .unless_cached_refusal(CoderEndpoint::CreateKey, &subject, call)
            .await
        {
            Ok(plaintext) => {
                desk.set_unsaved_key(self.object_ref, Some((key.name.clone(), plaintext)));
                self.store_key(key, seen).await
            }
            Err(hindrance) => {
                if !is_ambiguous(&hindrance) {
                    desk.set_unrequested_name(self.object_ref, unasked, self.cx.leader_term());
                }
                seen.create_blocked = Some(self.confirm_conflict(&server, key, hindrance).await);
                Ok(())
            }
        }
    }

    /// A name that is said to be taken is, if a list says so too. Else the server is not to be believed now.
    async fn confirm_conflict(&self, server: &ServerClient, key: &KeyRecord, said: Blocked) -> Blocked {
        match said {
            Blocked::Refused(error) if error.class == CallErrorClass::Exists => {
                match self.is_key_listed(server, key).await {
                    Ok(true) => Blocked::Refused(error),
                    Ok(false) => Blocked::Refused(CallError {
                        class: CallErrorClass::Server,
                        ..error
                    }),
                    Err(hindrance) => hindrance,
                }
            }
            said => said,
        }
    }

    async fn store_key(&self, key: &KeyRecord, seen: &mut Progress) -> Result<()> {
        let Some((_, plaintext)) = self.context.states.unsaved_key(self.object_ref) else {
            return Err(Error::fault("internal error: the pending key is not in memory"));
        };
        let wanted = self.secret_children(key);
        let secret = children::secret(&self.observed.object, &wanted, plaintext.reveal().as_bytes());
        self.cx.adopt(secret).await?;
        self.context.states.set_unsaved_key(self.object_ref, None);
        seen.created = Some((key.name.clone(), self.server_for(&key.binding)?.now()));
        Ok(())
    }

    /// What the Secret alone is made from.
    fn secret_children(&self, key: &KeyRecord) -> Children {
        let access = self.observed.access.as_ref().ok();
        Children {
            url: key.binding.server_url.clone(),
            image: String::new(),
            secret: secret_ref(&self.observed.object),
            key_name: key.name.clone(),
            ca: access.and_then(|it| it.ca.clone()),
            restarted: None,
            prune: false,
        }
    }

    /// Makes the children as they should be, the Secret first: pods that start must find the key.
    async fn apply_children(&self, wanted: &Children) -> Result<()> {
        let object = &*self.observed.object;
        let key = self.child_key(&wanted.secret.name);
        let held = self.cx.cache::<Secret>()?.get(&key);
        let held = held.ok_or_else(|| Error::fault("internal error: the Secret does not exist"))?;
        let Some(plaintext) = held.data.as_ref().and_then(|it| it.get(&wanted.secret.key)) else {
            return Err(Error::fault("internal error: the Secret has no key"));
        };
        if children_state::secret_contents(&held, &wanted.secret) != intact_secret(&wanted.key_name) {
            let what = "the Secret changed meanwhile";
            return Err(Error::new(aplomb::ErrorClass::Conflict, what));
        }
        let secret = children::secret(object, wanted, &plaintext.0);
        let checksum = checksum(&plaintext.0, wanted.ca.as_deref());
        self.cx.adopt(secret).await?;
        self.cx.apply(children::service_account(object)).await?;
        self.cx.apply(children::role(object)).await?;
        self.cx.apply(children::role_binding(object)).await?;
        let deployment = children::deployment(object, wanted, &checksum)?;
        self.cx.apply(deployment).await?;
        if wanted.prune {
            self.cx.prune::<Secret>().await?;
        }
        Ok(())
    }

    fn child_key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.object_ref.key.namespace.as_deref(), name)
    }

    /// Deletes a key. One that the server says it does not know is gone if a list says so too.
    async fn delete_key(&self, key: &KeyRecord, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.server_for(&key.binding)?, self.caller());
        let call = server.delete_key(&asker, &key.organization_id, &key.name);
        let subject = self.effect_key("delete", key);
        let outcome = self
            .context
            .unless_cached_refusal(CoderEndpoint::DeleteKey, &subject, call)
            .await;
        let outcome = match outcome {
            Err(Blocked::Refused(error)) if error.class == CallErrorClass::Missing => {
                match self.is_key_listed(&server, key).await {
                    Ok(false) => Ok(()),
                    Ok(true) => Err(Blocked::Refused(error)),
                    Err(hindrance) => Err(hindrance),
                }
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) => seen.deleted.push(key.clone()),
            Err(hindrance) => seen.undeleted.push((key.clone(), hindrance)),
        }
        Ok(())
    }

    /// Whether the server has a key of this name now.
    async fn is_key_listed(&self, server: &ServerClient, key: &KeyRecord) -> CallResult<bool> {
        let since = MaxAge::Since(Instant::now());
        let keys = server.keys(&self.caller(), &key.organization_id, since).await;
        let keys = keys.map_err(|it| new_blocked(CoderEndpoint::ListKeys, it))?;
        Ok(keys.value.iter().any(|it| it.name == key.name))
    }
}

/// A Secret that holds the key called `name`.
fn intact_secret(name: &str) -> SecretState {
    SecretState::Owned {
        key_name: Some(name.to_owned()),
        intact: true,
    }
}
