//! Takes one step at a time, each of them safe to repeat: a crash may come between any two. What a server
//! says is noted as seen; nothing here decides what it means.

use aplomb::{Context, Error, ObjectKey, Result};
use aplomb_api::coder::{
    CoderWorkspaceProxy, FINALIZER, PendingProxy, RetiringProxy, ServerBinding, annotations,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tokio::time::Instant;

use super::children;
use super::decide::{looks, secret_ref};
use super::world::{Children, Observed, Progress, ProxyRegistration, ProxyScope, Step};
use crate::client::{CallError, CallErrorClass, CoderEndpoint, CreatedProxy};
use crate::hindrance::{Blocked, CallResult, hindrance, unclear};
use crate::object::Object;
use crate::office::CoderContext;
use crate::pods::{checksum, drain};
use crate::server::{Caller, MaxAge, ServerClient};

/// Acts for one CoderWorkspaceProxy.
pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<CoderWorkspaceProxy>,
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
            Step::Entitlements => self.entitlements(seen).await?,
            Step::Look(binding, name, fresh) => self.look(binding, name, *fresh, seen).await?,
            Step::Register(pending) => self.register(pending, seen).await?,
            Step::Retoken(current) => self.change(current, true, seen).await?,
            Step::Describe(current) => self.change(current, false, seen).await?,
            Step::Store(id) => self.store(id, seen).await?,
            Step::Apply(wanted) => {
                self.apply(wanted).await?;
                seen.applied = true;
            }
            Step::Drain => {
                let object = &self.world.object;
                drain(self.cx, &object.metadata, &children::name(object)).await?;
                seen.drained = true;
            }
            Step::Deregister(old) => self.deregister(old, seen).await?,
            Step::Release => {
                self.cx.release(FINALIZER).await?;
                seen.released = true;
            }
        }
        Ok(())
    }

    fn asker(&self) -> Caller<'_> {
        let bootstrap = self.world.object.spec.bootstrap.as_ref();
        Caller {
            who: self.who,
            bypass: bootstrap.is_some_and(|it| it.bypass_rate_limit),
            fence: self.cx.fence(),
            deadline: self.cx.deadline(),
            limited: self.world.status.rate_limited.as_ref(),
        }
    }

    /// The server of a binding.
    fn at(&self, binding: &ServerBinding) -> Result<ServerClient> {
        let namespace = self.who.key.namespace.as_deref().unwrap_or_default();
        let access = self.world.access.as_ref().and_then(|it| it.as_ref().ok());
        let secrets = self.cx.cache::<Secret>()?;
        self.office
            .bound_server(access, binding, namespace, secrets)
    }

    async fn entitlements(&self, seen: &mut Progress) -> Result<()> {
        let Some(Ok(access)) = &self.world.access else {
            return Err(Error::fault("internal error: no server to read the license from"));
        };
        let (server, asker) = (self.at(&access.binding)?, self.asker());
        let looked = self.office.entitlements(&server, &access.binding, &asker);
        seen.entitlements = Some(looked.await);
        Ok(())
    }

    async fn look(
        &self,
        binding: &ServerBinding,
        name: &str,
        fresh: MaxAge,
        seen: &mut Progress,
    ) -> Result<()> {
        let (server, asker) = (self.at(binding)?, self.asker());
        let subject = format!("{} {name}", subject("proxy", binding));
        let call = server.proxy(&asker, name, fresh);
        let endpoint = CoderEndpoint::GetProxy;
        let mut looked = self.office.unless_refused(endpoint, &subject, call).await;
        // What must be newer than something cannot be stood in for by what is older.
        if let (Err(hindrance), MaxAge::Within(_)) = (&looked, fresh)
            && let Some(older) = hindrance.stand_in()
            && let Ok(known) = server.proxy(&asker, name, older).await
        {
            seen.put_off.push(hindrance.clone());
            looked = Ok(known);
        }
        let place = (ProxyScope::of(binding), name.to_owned());
        seen.proxies.insert(place, looked);
        Ok(())
    }

    /// What a standing refusal of an effect is about: an edit of the object or its annotations makes it
    /// another.
    fn effect(&self, what: &str, binding: &ServerBinding, name: &str) -> String {
        let meta = &self.world.object.metadata;
        let generation = meta.generation.unwrap_or(0);
        let uid = meta.uid.as_deref().unwrap_or_default();
        let rotate = self.world.object.annotations().get(annotations::ROTATE);
        let rotate = rotate.map_or("", String::as_str);
        let about = subject(what, binding);
        format!("{about} {uid} {generation} {rotate} {name}")
    }

    /// Registers the name, and keeps the token in memory until it is in the Secret.
    async fn register(&self, pending: &PendingProxy, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.at(&pending.binding)?, self.asker());
        let looks = looks(&self.world.object);
        let call = server.create_proxy(&asker, &looks);
        let subject = self.effect("register", &pending.binding, &pending.name);
        let endpoint = CoderEndpoint::CreateProxy;
        // A pass that is dropped on the way must not believe later that nothing was asked.
        let desk = &self.office.desk;
        let unasked = desk.unasked(self.who, self.cx.term());
        desk.set_unasked(self.who, None, self.cx.term());
        match self.office.unless_refused(endpoint, &subject, call).await {
            Ok(made) => self.keep(made, seen).await,
            Err(hindrance) => {
                if !unclear(&hindrance) {
                    desk.set_unasked(self.who, unasked, self.cx.term());
                }
                seen.hindered = Some(self.doubted(&server, pending, hindrance).await);
                Ok(())
            }
        }
    }

    /// A name that is said to be taken is, if a look says so too. Else the server is not to be believed
    /// now.
    async fn doubted(
        &self,
        server: &ServerClient,
        pending: &PendingProxy,
        said: Blocked,
    ) -> Blocked {
        match said {
            Blocked::Refused(error) if error.class == CallErrorClass::Exists => {
                match self.there(server, &pending.name).await {
                    Ok(true) => Blocked::Refused(error),
                    Ok(false) => self.taken(server, pending, error).await,
                    Err(hindrance) => hindrance,
                }
            }
            said => said,
        }
    }

    /// A name that is taken, and that no proxy has: one has it in another case, or the server is not to be
    /// believed now.
    async fn taken(
        &self,
        server: &ServerClient,
        pending: &PendingProxy,
        said: CallError,
    ) -> Blocked {
        match server.takes_name(&self.asker(), &pending.name).await {
            Ok(true) => {
                // Were it ours, it would have been found: nothing was made.
                let name = Some(pending.name.clone());
                self.office.desk.set_unasked(self.who, name, self.cx.term());
                Blocked::Refused(said)
            }
            Ok(false) => Blocked::Refused(CallError {
                class: CallErrorClass::Server,
                ..said
            }),
            Err(pushback) => hindrance(CoderEndpoint::GetProxy, pushback),
        }
    }

    /// Whether the server has a proxy of this name or id now.
    async fn there(&self, server: &ServerClient, name: &str) -> CallResult<bool> {
        let since = MaxAge::Since(Instant::now());
        let found = server.proxy(&self.asker(), name, since).await;
        let found = found.map_err(|it| hindrance(CoderEndpoint::GetProxy, it))?;
        Ok(found.value.is_some())
    }

    /// Tells the server the looks, and has it make a new token if it is to be one.
    async fn change(
        &self,
        current: &ProxyRegistration,
        regenerate: bool,
        seen: &mut Progress,
    ) -> Result<()> {
        let (server, asker) = (self.at(&current.binding)?, self.asker());
        let looks = looks(&self.world.object);
        let call = server.patch_proxy(&asker, &current.id, &looks, regenerate);
        let what = if regenerate { "retoken" } else { "describe" };
        let subject = self.effect(what, &current.binding, &current.name);
        let endpoint = CoderEndpoint::PatchProxy;
        match self.office.unless_refused(endpoint, &subject, call).await {
            Ok(changed) if regenerate => self.keep(changed, seen).await,
            Ok(_) => {
                seen.described = true;
                Ok(())
            }
            Err(hindrance) => {
                seen.hindered = Some(hindrance);
                Ok(())
            }
        }
    }

    async fn keep(&self, made: CreatedProxy, seen: &mut Progress) -> Result<()> {
        // The data that was read is outdated.
        seen.proxies.clear();
        let Some(token) = made.token else {
            return Err(Error::fault("the server created a token but did not return it"));
        };
        let id = made.proxy.id;
        let hand = Some((id.clone(), token));
        self.office.desk.set_in_hand(self.who, hand);
        self.store(&id, seen).await
    }

    async fn store(&self, id: &str, seen: &mut Progress) -> Result<()> {
        let held = self.office.desk.in_hand(self.who);
        let Some((_, token)) = held.filter(|(held, _)| held == id) else {
            return Err(Error::fault(
                "internal error: the pending token is not in memory",
            ));
        };
        let access = self.world.access.as_ref().and_then(|it| it.as_ref().ok());
        let wanted = Children {
            url: String::new(),
            image: String::new(),
            secret: secret_ref(&self.world.object),
            id: None,
            ca: access.and_then(|it| it.ca.clone()),
            prune: false,
        };
        let token = token.reveal().as_bytes();
        let secret = children::secret(&self.world.object, &wanted, id, token);
        self.cx.adopt(secret).await?;
        self.office.desk.set_in_hand(self.who, None);
        seen.made = Some(id.to_owned());
        Ok(())
    }

    /// Makes the children as they should be, the Secret first: pods that start must find the token.
    async fn apply(&self, wanted: &Children) -> Result<()> {
        let object = &*self.world.object;
        let key = ObjectKey::new(self.who.key.namespace.as_deref(), &wanted.secret.name);
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
    async fn deregister(&self, old: &RetiringProxy, seen: &mut Progress) -> Result<()> {
        let (server, asker) = (self.at(&old.binding)?, self.asker());
        let call = server.delete_proxy(&asker, &old.id);
        let subject = self.effect("deregister", &old.binding, &old.id);
        let endpoint = CoderEndpoint::DeleteProxy;
        seen.proxies.clear();
        let outcome = match self.office.unless_refused(endpoint, &subject, call).await {
            Err(Blocked::Refused(error)) if error.class == CallErrorClass::Missing => {
                match self.there(&server, &old.id).await {
                    Ok(false) => Ok(()),
                    Ok(true) => Err(Blocked::Refused(error)),
                    Err(hindrance) => Err(hindrance),
                }
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) => seen.deleted.push(old.id.clone()),
            Err(hindrance) => seen.undone.push((old.clone(), hindrance)),
        }
        Ok(())
    }
}

/// What a standing refusal is about: another token is another subject.
fn subject(what: &str, binding: &ServerBinding) -> String {
    let ServerBinding {
        server_url,
        token_fingerprint,
        ..
    } = binding;
    format!("{what} {server_url} {token_fingerprint}")
}
