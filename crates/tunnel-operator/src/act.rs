//! Executes one step at a time. Every step is safe to repeat, because the process may crash between two.

use aplomb::writer::ApplyEffect;
use aplomb::{Context, Error, ErrorClass, Kind, ObjectKey, Result, View};
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{
    ChildRevision, Claimant, HostnameClaim, HostnameClaimSpec, HttpProxy, labels,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ObjectMeta;

use crate::children::{ChildObjects, children, digest};
use crate::evidence::ProbeResult;
use crate::office::TunnelContext;
use crate::prove::answered;
use crate::report;
use crate::sweep::is_there;
use crate::world::{AppliedChild, ChildrenState, Observed, Plan, Progress, Step};

/// Executes the steps of one tunnel.
pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<HttpProxy>,
    pub(crate) office: &'a TunnelContext,
    pub(crate) key: &'a ObjectKey,
    pub(crate) world: &'a Observed,
    pub(crate) plan: &'a Plan,
}

impl Act<'_> {
    /// Executes `step` and records the result in `progress`.
    pub(crate) async fn take(&self, step: &Step, progress: &mut Progress) -> Result<()> {
        match step {
            Step::Claim(_) | Step::Write if self.made_before(step) && !self.is_there().await? => {
                progress.gone = true;
                Ok(())
            }
            Step::Claim(hostname) => self.claim(hostname, progress).await,
            Step::Unclaim(hostname) => self.unclaim(hostname, progress).await,
            Step::Write => {
                progress.written = Some(self.write().await?);
                Ok(())
            }
            Step::Report => {
                self.report().await?;
                progress.reported = true;
                Ok(())
            }
            Step::Prove => {
                progress.proofs += 1;
                progress.gone = !self.prove().await?;
                Ok(())
            }
        }
    }

    /// Whether `step` recreates something that existed before. It may be missing because the tunnel was
    /// deleted and the watch has not shown that yet.
    fn made_before(&self, step: &Step) -> bool {
        let status = self.world.proxy.status.as_ref();
        let mut revisions = status.iter().flat_map(|status| &status.revisions);
        match step {
            Step::Claim(hostname) => {
                revisions.any(|it| it.kind == "HostnameClaim" && it.name == *hostname)
            }
            _ => revisions.any(|it| self.misses(it)),
        }
    }

    fn misses(&self, child: &ChildRevision) -> bool {
        let key = ObjectKey::new(self.key.namespace.as_deref(), &child.name);
        match child.kind.as_str() {
            "Gateway" => self.lacks::<Gateway>(&key),
            "HTTPRoute" => self.lacks::<HttpRoute>(&key),
            "EndpointSlice" => self.lacks::<EndpointSlice>(&key),
            _ => false,
        }
    }

    fn lacks<C: Kind>(&self, key: &ObjectKey) -> bool {
        self.cx.cache::<C>().is_ok_and(|all| all.get(key).is_none())
    }

    /// Reads from the API server, not the cache.
    async fn is_there(&self) -> Result<bool> {
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let all = kube::Api::<HttpProxy>::namespaced(self.cx.client(), namespace);
        let found = all.get_opt(&self.key.name).await.map_err(Error::from)?;
        Ok(found.is_some_and(|found| {
            found.metadata.uid == self.world.proxy.metadata.uid
                && found.metadata.deletion_timestamp.is_none()
        }))
    }

    fn hostnames(&self) -> Vec<String> {
        let all = self.plan.status.hostname_statuses.iter();
        let accepted = all.filter(|it| it.accepted);
        accepted.map(|it| it.hostname.clone()).collect()
    }

    /// The first writer to create the object owns the hostname. If another claim exists, it is read from the
    /// server, because the cache may not have it yet.
    async fn claim(&self, hostname: &str, progress: &mut Progress) -> Result<()> {
        let meta = &self.world.proxy.metadata;
        let claim = HostnameClaim {
            metadata: ObjectMeta {
                name: Some(hostname.to_owned()),
                ..ObjectMeta::default()
            },
            spec: HostnameClaimSpec {
                claimant: Claimant {
                    namespace: meta.namespace.clone().unwrap_or_default(),
                    name: meta.name.clone().unwrap_or_default(),
                    uid: meta.uid.clone().unwrap_or_default(),
                },
            },
        };
        let made = match self.cx.create(&claim).await {
            Ok(made) => made,
            Err(error) if error.class() == ErrorClass::Exists => {
                let all = kube::Api::<HostnameClaim>::all(self.cx.client());
                let found = all.get_opt(hostname).await.map_err(Error::from)?;
                let Some(found) = found else {
                    return Err(Error::new(
                        ErrorClass::Conflict,
                        format!("claim on {hostname} was just released"),
                    ));
                };
                found
            }
            Err(error) => return Err(error),
        };
        progress.rivals.insert(hostname.to_owned(), made);
        Ok(())
    }

    /// Deletes a claim that is ours, or whose claimant does not exist on the server either. If the cache is
    /// stale, the step fails with a conflict and is retried once the cache has caught up.
    async fn unclaim(&self, hostname: &str, progress: &mut Progress) -> Result<()> {
        let key = ObjectKey::new(None, hostname);
        let cached = self.cx.cache::<HostnameClaim>()?.get(&key);
        let again = !progress.unclaimed.insert(hostname.to_owned());
        let Some(claim) = cached.filter(|_| !again) else {
            let what = format!("claim on {hostname} changed since it was cached");
            return Err(Error::new(ErrorClass::Conflict, what));
        };
        let claimant = &claim.spec.claimant;
        let ours = Some(&*claimant.uid) == self.world.proxy.metadata.uid.as_deref();
        if !ours && is_there(&self.cx.client(), claimant).await? {
            progress.alive.insert(claimant.uid.clone());
            return Ok(());
        }
        progress.rivals.remove(hostname);
        self.cx.delete_other::<HostnameClaim>(&key).await
    }

    /// Writes the children, backends first, so that a gateway that sees the route can resolve all of its
    /// backends.
    async fn write(&self) -> Result<ChildrenState> {
        let ChildObjects {
            gateway,
            route,
            slices,
        } = children(&self.world.proxy, &self.hostnames()).map_err(Error::fault)?;
        let mut written = Vec::new();
        for slice in slices {
            if let Some(foreign) = self.foreign::<EndpointSlice>(&slice)? {
                return Ok(ChildrenState::Foreign(foreign));
            }
            self.retype(&slice).await?;
            written.push(self.apply("EndpointSlice", slice).await?);
        }
        if let Some(foreign) = self.foreign::<Gateway>(&gateway)? {
            return Ok(ChildrenState::Foreign(foreign));
        }
        written.push(self.apply("Gateway", gateway).await?);
        if let Some(foreign) = self.foreign::<HttpRoute>(&route)? {
            return Ok(ChildrenState::Foreign(foreign));
        }
        written.push(self.apply("HTTPRoute", route).await?);
        self.cx.prune::<EndpointSlice>().await?;
        Ok(ChildrenState::Children(written))
    }

    async fn apply<C: Kind>(&self, kind: &str, desired: C) -> Result<AppliedChild> {
        let asked = digest(&serde_json::to_value(&desired)?);
        let applied = self.cx.adopt(desired).await?;
        let meta = kube::Resource::meta(&applied.object);
        let changed = applied.effect != ApplyEffect::Unchanged;
        let revision = ChildRevision {
            kind: kind.to_owned(),
            name: meta.name.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            digest: asked,
        };
        Ok(AppliedChild {
            revision: self.office.memory.child(self.key, revision, changed),
            changed,
        })
    }

    /// Why an existing object with a child's name must not be written. An object without a controller is
    /// adopted only if its label names this tunnel, as for an object restored from a backup.
    fn foreign<C: Kind>(&self, desired: &C) -> Result<Option<String>> {
        let key = View::meta(desired).key();
        let Some(found) = self.cx.cache::<C>()?.get(&key) else {
            return Ok(None);
        };
        let uid = self.world.proxy.metadata.uid.as_deref();
        let found = kube::Resource::meta(&*found);
        let owners = found.owner_references.iter().flatten();
        let mut controllers = owners.filter(|it| it.controller == Some(true));
        let label = found.labels.as_ref().and_then(|it| it.get(labels::PROXY));
        let ours = match controllers.next() {
            Some(controller) => Some(controller.uid.as_str()) == uid,
            None => label.map(String::as_str) == Some(&*self.key.name),
        };
        let kind = C::kind(&());
        Ok((!ours).then(|| {
            format!(
                "{kind} {:?} in this namespace does not belong to this HTTPProxy: delete it or \
                 rename the HTTPProxy",
                &*key.name
            )
        }))
    }

    /// The address type is immutable, so a slice of another type is deleted first.
    async fn retype(&self, desired: &EndpointSlice) -> Result<()> {
        let key = View::meta(desired).key();
        let found = self.cx.cache::<EndpointSlice>()?.get(&key);
        match found {
            Some(found) if found.address_type != desired.address_type => {
                self.cx.delete_other::<EndpointSlice>(&key).await
            }
            _ => Ok(()),
        }
    }

    async fn report(&self) -> Result<()> {
        let Some(standing) = &self.plan.standing else {
            return Ok(());
        };
        let proxy = &self.world.proxy;
        let gateway = self.cx.cache::<Gateway>()?.get(self.key);
        if let Some(gateway) = gateway.filter(|it| report::is_child(&it.metadata, proxy)) {
            let status = report::gateway(&gateway, standing, self.world);
            self.cx.report::<Gateway>(self.key, status).await?;
        }
        let route = self.cx.cache::<HttpRoute>()?.get(self.key);
        if let Some(route) = route.filter(|it| report::is_child(&it.metadata, proxy)) {
            let status = report::route(&route, standing, self.world);
            self.cx.report::<HttpRoute>(self.key, status).await?;
        }
        Ok(())
    }

    /// Proves the tunnel and returns whether it still exists. Gateways may learn of its deletion before our
    /// watch does, so the server is asked before an ambiguous failure is recorded.
    async fn prove(&self) -> Result<bool> {
        let (office, hostnames) = (self.office, self.hostnames());
        let round = office.prover.prove(self.world, &hostnames).await;
        let (before, interval) = (
            self.world.evidence.as_ref(),
            self.world.proxy.spec.proof_interval.0,
        );
        let evidence = round.clone().after(before, interval);
        let news = evidence.is_doubtful() && before.is_none_or(ProbeResult::is_good);
        if news && !self.is_there().await? {
            return Ok(false);
        }
        for name in answered(self.world, &round) {
            let connector = ObjectKey::new(self.key.namespace.as_deref(), name);
            office.sessions.proven(&connector, round.at);
        }
        office.telemetry.proof(self.key, &round);
        office.memory.proven(self.key, evidence);
        Ok(true)
    }
}
