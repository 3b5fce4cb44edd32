//! Takes one step at a time, each of them safe to repeat: a crash may come between any two. What a server
//! says is noted as seen; nothing here decides what it means.

use std::sync::Arc;

use aplomb::{Context, Error, ObjectKey, Result};
use aplomb_api::coder::{CoderProvisioner, FINALIZER, KeyRecord, ServerBinding, annotations};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tokio::time::Instant;

use super::children;
use super::decide::secret_ref;
use super::world::{BoundKeyScope, Children, Observed, Progress, Step};
use crate::client::{
    self, CallError, CallErrorClass, CoderEndpoint, Entitlements, Organization,
    ProvisionerKeyDaemons,
};
use crate::hindrance::{Blocked, CallResult, hindrance, unclear};
use crate::object::Object;
use crate::office::CoderContext;
use crate::pods::{checksum, drain};
use crate::seen::{self, SecretState};
use crate::server::{Caller, MaxAge, ServerClient, Timestamped};

/// Acts for one CoderProvisioner.
pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<CoderProvisioner>,
    pub(crate) office: &'a CoderContext,
    pub(crate) who: &'a Object,
    pub(crate) world: &'a Observed,
}

impl Act<'_> {
    /// Takes `step` and stores its result in `seen`.
    pub(crate) async fn take(&self, step: &Step, seen: &mut Progress) -> Result<()> {
        match step {
            Step::Finalize => {
                self.cx.finalizer(FINALIZER).await?;
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
            Step::Create(key) => self.create(key, seen).await?,
            Step::Store(key) => self.store(key, seen).await?,
            Step::Apply(wanted) => {
                self.apply(wanted).await?;
                seen.applied = true;
            }
            Step::Drain => {
                let object = &self.world.object;
                drain(self.cx, &object.metadata, &children::name(object)).await?;
                seen.drained = true;
            }
            Step::Delete(key) => self.delete(key, seen).await?,
            Step::Release => {
                self.cx.release(FINALIZER).await?;
                seen.released = true;
            }
        }
        Ok(())
    }

    fn asker(&self) -> Caller<'_> {
        Caller {
            who: self.who,
            bypass: self.world.object.spec.bypass_rate_limit,
            fence: self.cx.fence(),
            deadline: self.cx.deadline(),
            limited: self.world.status.rate_limited.as_ref(),
        }
    }

    /// The server of a binding.
    fn at(&self, binding: &ServerBinding) -> Result<ServerClient> {
        let namespace = self.who.key.namespace.as_deref().unwrap_or_default();
        let access = self.world.access.as_ref().ok();
        let secrets = self.cx.cache::<Secret>()?;
        self.office
            .bound_server(access, binding, namespace, secrets)
    }

    /// Where today's spec leads.
    fn binding(&self) -> Result<ServerBinding> {
        let access = self.world.access.as_ref();
        let access = access.map_err(|denied| Error::fault(denied.message.clone()))?;
        Ok(access.binding.clone())
    }

    async fn entitlements(&self) -> Result<CallResult<Arc<Timestamped<Entitlements>>>> {
        let binding = self.binding()?;
        let (server, asker) = (self.at(&binding)?, self.asker());
        Ok(self.office.entitlements(&server, &binding, &asker).await)
    }

    async fn organization(&self) -> Result<CallResult<Organization>> {
        let (server, asker) = (self.at(&self.binding()?)?, self.asker());
        let name = &self.world.object.spec.organization_name;
        let subject = subject("organization", name, &self.binding()?);
        let call = server.organization(&asker, name);
        Ok(self
            .office
            .unless_refused(CoderEndpoint::Organization, &subject, call)
            .await)
    }

    async fn keys(
        &self,
        at: &BoundKeyScope,
        fresh: MaxAge,
    ) -> Result<CallResult<Arc<Timestamped<Vec<client::ProvisionerKey>>>>> {
        let (server, asker) = (self.at(&at.binding)?, self.asker());
        let subject = subject("keys", &at.place.organization, &at.binding);
        let call = server.keys(&asker, &at.place.organization, fresh);
        Ok(self
            .office
            .unless_refused(CoderEndpoint::ListKeys, &subject, call)
            .await)
    }

    /// The daemons; somewhat older ones where the server cannot be asked now.
    async fn daemons(
        &self,
        at: &BoundKeyScope,
        fresh: MaxAge,
        seen: &mut Progress,
    ) -> Result<CallResult<Arc<Timestamped<Vec<ProvisionerKeyDaemons>>>>> {
        let (server, asker) = (self.at(&at.binding)?, self.asker());
        let organization = &at.place.organization;
        let subject = subject("daemons", organization, &at.binding);
        let call = server.daemons(&asker, organization, fresh);
        let endpoint = CoderEndpoint::ListDaemons;
        let looked = self.office.unless_refused(endpoint, &subject, call).await;
        if let Err(hindrance) = &looked
            && let Some(older) = hindrance.stand_in()
            && let Ok(known) = server.daemons(&asker, organization, older).await
        {
            seen.put_off.push(hindrance.clone());
            return Ok(Ok(known));
        }
        Ok(looked)
    }

    /// What a standing refusal of an effect is about: an edit of the object makes it another.
    fn effect(&self, what: &str, key: &KeyRecord) -> String {
        let generation = self.world.object.metadata.generation.unwrap_or(0);
        let uid = self
            .world
            .object
            .metadata
            .uid
            .as_deref()
            .unwrap_or_default();
        let print = self
            .world
            .access
            .as_ref()
            .map_or("", |it| &it.binding.token_fingerprint);
        let rotate = self.world.object.annotations().get(annotations::ROTATE);
        let rotate = rotate.map_or("", String::as_str);
        format!("{what} {uid} {generation} {rotate} {} {print}", key.name)
    }

    /// Requests the key, and keeps its plaintext in memory until it is in the Secret.
    async fn create(&self, key: &KeyRecord, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.at(&key.binding)?, self.asker());
        let tags = &self.world.object.spec.tags;
        let call = server.create_key(&asker, &key.organization_id, &key.name, tags);
        let subject = self.effect("create", key);
        // A pass that is dropped on the way must not believe later that nothing was asked.
        let desk = &self.office.desk;
        let unasked = desk.unasked(self.who, self.cx.term());
        desk.set_unasked(self.who, None, self.cx.term());
        match self
            .office
            .unless_refused(CoderEndpoint::CreateKey, &subject, call)
            .await
        {
            Ok(plaintext) => {
                desk.set_in_hand(self.who, Some((key.name.clone(), plaintext)));
                self.store(key, seen).await
            }
            Err(hindrance) => {
                if !unclear(&hindrance) {
                    desk.set_unasked(self.who, unasked, self.cx.term());
                }
                seen.hindered = Some(self.doubted(&server, key, hindrance).await);
                Ok(())
            }
        }
    }

    /// A name that is said to be taken is, if a list says so too. Else the server is not to be believed now.
    async fn doubted(&self, server: &ServerClient, key: &KeyRecord, said: Blocked) -> Blocked {
        match said {
            Blocked::Refused(error) if error.class == CallErrorClass::Exists => {
                match self.listed(server, key).await {
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

    async fn store(&self, key: &KeyRecord, seen: &mut Progress) -> Result<()> {
        let Some((_, plaintext)) = self.office.desk.in_hand(self.who) else {
            return Err(Error::fault(
                "internal error: the pending key is not in memory",
            ));
        };
        let wanted = self.bare(key);
        let secret = children::secret(&self.world.object, &wanted, plaintext.reveal().as_bytes());
        self.cx.adopt(secret).await?;
        self.office.desk.set_in_hand(self.who, None);
        seen.made = Some((key.name.clone(), self.at(&key.binding)?.now()));
        Ok(())
    }

    /// What the Secret alone is made from.
    fn bare(&self, key: &KeyRecord) -> Children {
        let access = self.world.access.as_ref().ok();
        Children {
            url: key.binding.server_url.clone(),
            image: String::new(),
            secret: secret_ref(&self.world.object),
            key_name: key.name.clone(),
            ca: access.and_then(|it| it.ca.clone()),
            restarted: None,
            prune: false,
        }
    }

    /// Makes the children as they should be, the Secret first: pods that start must find the key.
    async fn apply(&self, wanted: &Children) -> Result<()> {
        let object = &*self.world.object;
        let key = self.child(&wanted.secret.name);
        let held = self.cx.cache::<Secret>()?.get(&key);
        let held = held.ok_or_else(|| Error::fault("internal error: the Secret does not exist"))?;
        let data = held.data.as_ref();
        let Some(plaintext) = data.and_then(|it| it.get(&wanted.secret.key)) else {
            return Err(Error::fault("internal error: the Secret has no key"));
        };
        if seen::held(&held, &wanted.secret) != whole(&wanted.key_name) {
            let what = "the Secret changed meanwhile";
            return Err(Error::new(aplomb::ErrorClass::Conflict, what));
        }
        let secret = children::secret(object, wanted, &plaintext.0);
        let checksum = checksum(&plaintext.0, wanted.ca.as_deref());
        self.cx.adopt(secret).await?;
        self.cx.apply(children::account(object)).await?;
        self.cx.apply(children::role(object)).await?;
        self.cx.apply(children::role_binding(object)).await?;
        let deployment = children::deployment(object, wanted, &checksum)?;
        self.cx.apply(deployment).await?;
        if wanted.prune {
            self.cx.prune::<Secret>().await?;
        }
        Ok(())
    }

    fn child(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.who.key.namespace.as_deref(), name)
    }

    /// Deletes a key. One that the server says it does not know is gone if a list says so too.
    async fn delete(&self, key: &KeyRecord, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.at(&key.binding)?, self.asker());
        let call = server.delete_key(&asker, &key.organization_id, &key.name);
        let subject = self.effect("delete", key);
        let outcome = self
            .office
            .unless_refused(CoderEndpoint::DeleteKey, &subject, call)
            .await;
        let outcome = match outcome {
            Err(Blocked::Refused(error)) if error.class == CallErrorClass::Missing => {
                match self.listed(&server, key).await {
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
    async fn listed(&self, server: &ServerClient, key: &KeyRecord) -> CallResult<bool> {
        let since = MaxAge::Since(Instant::now());
        let keys = server
            .keys(&self.asker(), &key.organization_id, since)
            .await;
        let keys = keys.map_err(|it| hindrance(CoderEndpoint::ListKeys, it))?;
        Ok(keys.value.iter().any(|it| it.name == key.name))
    }
}

/// What a standing refusal of a look is about: another token is another subject.
fn subject(what: &str, organization: &str, binding: &ServerBinding) -> String {
    let ServerBinding {
        server_url,
        token_fingerprint,
        ..
    } = binding;
    format!("{what} {organization} {server_url} {token_fingerprint}")
}

/// A Secret that holds the key called `name`.
fn whole(name: &str) -> SecretState {
    SecretState::Ours {
        key_name: Some(name.to_owned()),
        whole: true,
    }
}
