//! Takes one step at a time, each of them safe to repeat: a crash may come between any two. What a server
//! says is noted as seen; nothing here decides what it means.

use aplomb::{Context, Error, ObjectKey, ObjectRef, Result};
use aplomb_api::coder::{CoderWorkspaceProxy, FINALIZER, PendingProxy, RetiringProxy, ServerBinding, annotations};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tokio::time::Instant;

use super::decide::{proxy_display, secret_ref};
use super::{Children, Observed, Progress, ProxyRegistration, ProxyScope, Step, children};
use crate::blocked::{Blocked, CallResult, is_ambiguous, new_blocked};
use crate::client::{CallError, CallErrorClass, CoderEndpoint, CreatedProxy};
use crate::context::{CoderContext, refusal_key};
use crate::pods::{checksum, scale_to_zero};
use crate::server::{Caller, MaxAge, ServerClient};

/// Acts for one CoderWorkspaceProxy.
pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<CoderWorkspaceProxy>,
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
            Step::Entitlements => self.entitlements(seen).await?,
            Step::Read(binding, name, fresh) => self.read_proxy(binding, name, *fresh, seen).await?,
            Step::Register(pending) => self.register_proxy(pending, seen).await?,
            Step::RotateToken(current) => self.patch_proxy(current, true, seen).await?,
            Step::PatchDisplay(current) => self.patch_proxy(current, false, seen).await?,
            Step::Store(id) => self.store_token(id, seen).await?,
            Step::Apply(wanted) => {
                self.apply_children(wanted).await?;
                seen.applied = true;
            }
            Step::Drain => {
                let object = &self.observed.object;
                scale_to_zero(self.cx, &object.metadata, &children::name(object)).await?;
                seen.drained = true;
            }
            Step::Deregister(old) => self.deregister_proxy(old, seen).await?,
            Step::Release => {
                self.cx.remove_finalizer(FINALIZER).await?;
                seen.released = true;
            }
        }
        Ok(())
    }

    fn caller(&self) -> Caller<'_> {
        let bootstrap = self.observed.object.spec.bootstrap.as_ref();
        Caller {
            object: self.object_ref,
            bypass: bootstrap.is_some_and(|it| it.bypass_rate_limit),
            fence: self.cx.fence(),
            deadline: self.cx.deadline(),
            limited: self.observed.status.rate_limited.as_ref(),
        }
    }

    fn server_for(&self, binding: &ServerBinding) -> Result<ServerClient> {
        let namespace = self.object_ref.key.namespace.as_deref().unwrap_or_default();
        let access = self.observed.access.as_ref().and_then(|it| it.as_ref().ok());
        let secrets = self.cx.cache::<Secret>()?;
        self.context.server_for_binding(access, binding, namespace, secrets)
    }

    async fn entitlements(&self, seen: &mut Progress) -> Result<()> {
        let Some(Ok(access)) = &self.observed.access else {
            return Err(Error::fault("internal error: no server to read the license from"));
        };
        let (server, asker) = (self.server_for(&access.binding)?, self.caller());
        let looked = self.context.entitlements(&server, &access.binding, &asker);
        seen.entitlements = Some(looked.await);
        Ok(())
    }

    async fn read_proxy(&self, binding: &ServerBinding, name: &str, fresh: MaxAge, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.server_for(binding)?, self.caller());
        let subject = format!("{} {name}", refusal_key("proxy", binding));
        let call = server.proxy(&asker, name, fresh);
        let endpoint = CoderEndpoint::GetProxy;
        let mut looked = self.context.unless_cached_refusal(endpoint, &subject, call).await;
        // What must be newer than something cannot be stood in for by what is older.
        if let (Err(hindrance), MaxAge::Within(_)) = (&looked, fresh)
            && let Some(older) = hindrance.fallback_max_age()
            && let Ok(known) = server.proxy(&asker, name, older).await
        {
            seen.deferred.push(hindrance.clone());
            looked = Ok(known);
        }
        let place = (ProxyScope::for_binding(binding), name.to_owned());
        seen.proxies.insert(place, looked);
        Ok(())
    }

    /// What a standing refusal of an effect is about: an edit of the object or its annotations makes it
    /// another.
    fn effect_key(&self, what: &str, binding: &ServerBinding, name: &str) -> String {
        let meta = &self.observed.object.metadata;
        let generation = meta.generation.unwrap_or(0);
        let uid = meta.uid.as_deref().unwrap_or_default();
        let rotate = self.observed.object.annotations().get(annotations::ROTATE);
        let rotate = rotate.map_or("", String::as_str);
        let about = refusal_key(what, binding);
        format!("{about} {uid} {generation} {rotate} {name}")
    }

    /// Registers the name, and keeps the token in memory until it is in the Secret.
    async fn register_proxy(&self, pending: &PendingProxy, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.server_for(&pending.binding)?, self.caller());
        let looks = proxy_display(&self.observed.object);
        let call = server.create_proxy(&asker, &looks);
        let subject = self.effect_key("register", &pending.binding, &pending.name);
        let endpoint = CoderEndpoint::CreateProxy;
        // A pass that is dropped on the way must not believe later that nothing was asked.
        let desk = &self.context.states;
        let unasked = desk.unrequested_name(self.object_ref, self.cx.leader_term());
        desk.set_unrequested_name(self.object_ref, None, self.cx.leader_term());
        match self.context.unless_cached_refusal(endpoint, &subject, call).await {
            Ok(made) => self.keep_token(made, seen).await,
            Err(hindrance) => {
                if !is_ambiguous(&hindrance) {
                    desk.set_unrequested_name(self.object_ref, unasked, self.cx.leader_term());
                }
                seen.blocked = Some(self.confirm_conflict(&server, pending, hindrance).await);
                Ok(())
            }
        }
    }

    /// A name that is said to be taken is, if a look says so too. Else the server is not to be believed
    /// now.
    async fn confirm_conflict(&self, server: &ServerClient, pending: &PendingProxy, said: Blocked) -> Blocked {
        match said {
            Blocked::Refused(error) if error.class == CallErrorClass::Exists => {
                match self.proxy_exists(server, &pending.name).await {
                    Ok(true) => Blocked::Refused(error),
                    Ok(false) => self.confirm_name_taken(server, pending, error).await,
                    Err(hindrance) => hindrance,
                }
            }
            said => said,
        }
    }

    /// A name that is taken, and that no proxy has: one has it in another case, or the server is not to be
    /// believed now.
    async fn confirm_name_taken(&self, server: &ServerClient, pending: &PendingProxy, said: CallError) -> Blocked {
        match server.is_name_taken(&self.caller(), &pending.name).await {
            Ok(true) => {
                // Were it ours, it would have been found: nothing was made.
                let name = Some(pending.name.clone());
                self.context
                    .states
                    .set_unrequested_name(self.object_ref, name, self.cx.leader_term());
                Blocked::Refused(said)
            }
            Ok(false) => Blocked::Refused(CallError {
                class: CallErrorClass::Server,
                ..said
            }),
            Err(pushback) => new_blocked(CoderEndpoint::GetProxy, pushback),
        }
    }

    /// Whether the server has a proxy of this name or id now.
    async fn proxy_exists(&self, server: &ServerClient, name: &str) -> CallResult<bool> {
        let since = MaxAge::Since(Instant::now());
        let found = server.proxy(&self.caller(), name, since).await;
        let found = found.map_err(|it| new_blocked(CoderEndpoint::GetProxy, it))?;
        Ok(found.value.is_some())
    }

    /// Tells the server the looks, and has it make a new token if it is to be one.
    async fn patch_proxy(&self, current: &ProxyRegistration, regenerate: bool, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.server_for(&current.binding)?, self.caller());
        let looks = proxy_display(&self.observed.object);
        let call = server.patch_proxy(&asker, &current.id, &looks, regenerate);
        let what = if regenerate { "retoken" } else { "describe" };
        let subject = self.effect_key(what, &current.binding, &current.name);
        let endpoint = CoderEndpoint::PatchProxy;
        match self.context.unless_cached_refusal(endpoint, &subject, call).await {
            Ok(changed) if regenerate => self.keep_token(changed, seen).await,
            Ok(_) => {
                seen.display_sent = true;
                Ok(())
            }
            Err(hindrance) => {
                seen.blocked = Some(hindrance);
                Ok(())
            }
        }
    }

    async fn keep_token(&self, made: CreatedProxy, seen: &mut Progress) -> Result<()> {
        // The data that was read is outdated.
        seen.proxies.clear();
        let Some(token) = made.token else {
            return Err(Error::fault("the server created a token but did not return it"));
        };
        let id = made.proxy.id;
        let hand = Some((id.clone(), token));
        self.context.states.set_unsaved_key(self.object_ref, hand);
        self.store_token(&id, seen).await
    }

    async fn store_token(&self, id: &str, seen: &mut Progress) -> Result<()> {
        let held = self.context.states.unsaved_key(self.object_ref);
        let Some((_, token)) = held.filter(|(held, _)| held == id) else {
            return Err(Error::fault("internal error: the pending token is not in memory"));
        };
        let access = self.observed.access.as_ref().and_then(|it| it.as_ref().ok());
        let wanted = Children {
            url: String::new(),
            image: String::new(),
            secret: secret_ref(&self.observed.object),
            id: None,
            ca: access.and_then(|it| it.ca.clone()),
            prune: false,
        };
        let token = token.reveal().as_bytes();
        let secret = children::secret(&self.observed.object, &wanted, id, token);
        self.cx.adopt(secret).await?;
        self.context.states.set_unsaved_key(self.object_ref, None);
        seen.token_stored = Some(id.to_owned());
        Ok(())
    }

    /// Makes the children as they should be, the Secret first: pods that start must find the token.
    async fn apply_children(&self, wanted: &Children) -> Result<()> {
        let object = &*self.observed.object;
        let key = ObjectKey::new(self.object_ref.key.namespace.as_deref(), &wanted.secret.name);
        let held = self.cx.cache::<Secret>()?.get(&key);
        let data = held.as_ref().and_then(|it| it.data.as_ref());
        let Some(token) = data.and_then(|it| it.get(&wanted.secret.key)) else {
            return Err(Error::fault("internal error: the Secret has no token"));
        };
        if let Some(id) = &wanted.id {
            let secret = children::secret(object, wanted, id, &token.0);
            self.cx.adopt(secret).await?;
        }
        let checksum = checksum(&token.0, wanted.ca.as_deref());
        let deployment = children::deployment(object, wanted, &checksum)?;
        self.cx.apply(deployment).await?;
        self.cx.apply(children::service(object)?).await?;
        if wanted.prune {
            self.cx.prune::<Secret>().await?;
        }
        Ok(())
    }

    /// Takes a registration back. One that the server says it does not know is gone if a look says so too.
    async fn deregister_proxy(&self, old: &RetiringProxy, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.server_for(&old.binding)?, self.caller());
        let call = server.delete_proxy(&asker, &old.id);
        let subject = self.effect_key("deregister", &old.binding, &old.id);
        let endpoint = CoderEndpoint::DeleteProxy;
        seen.proxies.clear();
        let outcome = match self.context.unless_cached_refusal(endpoint, &subject, call).await {
            Err(Blocked::Refused(error)) if error.class == CallErrorClass::Missing => {
                match self.proxy_exists(&server, &old.id).await {
                    Ok(false) => Ok(()),
                    Ok(true) => Err(Blocked::Refused(error)),
                    Err(hindrance) => Err(hindrance),
                }
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) => seen.deleted.push(old.id.clone()),
            Err(hindrance) => seen.deregister_blocked.push((old.clone(), hindrance)),
        }
        Ok(())
    }
}
