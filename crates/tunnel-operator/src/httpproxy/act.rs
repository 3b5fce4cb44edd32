//! Executes one step at a time. Every step is safe to repeat, because the process may crash between two.

use aplomb::writer::ApplyEffect;
use aplomb::{Context, Error, ErrorClass, Kind, ObjectKey, Result, View};
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{ChildRevision, Claimant, HostnameClaim, HostnameClaimSpec, HttpProxy, labels};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ObjectMeta;

use crate::context::TunnelContext;
use crate::gc::claimant_exists;
use crate::httpproxy::child_status::{gateway_status, is_child, route_status};
use crate::httpproxy::children::{ChildObjects, build_children, spec_digest};
use crate::httpproxy::{AppliedChild, ChildrenState, Observed, Plan, Progress, TunnelStep};
use crate::probe::answered_connectors;
use crate::probe::result::ProbeResult;

pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<HttpProxy>,
    pub(crate) office: &'a TunnelContext,
    pub(crate) key: &'a ObjectKey,
    pub(crate) world: &'a Observed,
    pub(crate) plan: &'a Plan,
}

impl Act<'_> {
    /// Executes `step` and records the result in `progress`.
    pub(crate) async fn execute(&self, step: &TunnelStep, progress: &mut Progress) -> Result<()> {
        match step {
            TunnelStep::Claim(_) | TunnelStep::Write if self.was_created_before(step) && !self.exists().await? => {
                progress.deleted = true;
                Ok(())
            }
            TunnelStep::Claim(hostname) => self.create_claim(hostname, progress).await,
            TunnelStep::Unclaim(hostname) => self.delete_claim(hostname, progress).await,
            TunnelStep::Write => {
                progress.written = Some(self.write_children().await?);
                Ok(())
            }
            TunnelStep::Report => {
                self.report_child_status().await?;
                progress.child_status_reported = true;
                Ok(())
            }
            TunnelStep::Prove => {
                progress.probes += 1;
                progress.deleted = !self.probe().await?;
                Ok(())
            }
        }
    }

    /// Whether `step` recreates something that existed before. It may be missing because the tunnel was
    /// deleted and the watch has not shown that yet.
    fn was_created_before(&self, step: &TunnelStep) -> bool {
        let status = self.world.proxy.status.as_ref();
        let mut revisions = status.iter().flat_map(|status| &status.revisions);
        match step {
            TunnelStep::Claim(hostname) => revisions.any(|it| it.kind == "HostnameClaim" && it.name == *hostname),
            _ => revisions.any(|it| self.is_child_missing(it)),
        }
    }

    fn is_child_missing(&self, child: &ChildRevision) -> bool {
        let key = ObjectKey::new(self.key.namespace.as_deref(), &child.name);
        match child.kind.as_str() {
            "Gateway" => self.is_absent::<Gateway>(&key),
            "HTTPRoute" => self.is_absent::<HttpRoute>(&key),
            "EndpointSlice" => self.is_absent::<EndpointSlice>(&key),
            _ => false,
        }
    }

    fn is_absent<C: Kind>(&self, key: &ObjectKey) -> bool {
        self.cx.cache::<C>().is_ok_and(|all| all.get(key).is_none())
    }

    /// Reads from the API server, not the cache.
    async fn exists(&self) -> Result<bool> {
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let all = kube::Api::<HttpProxy>::namespaced(self.cx.client(), namespace);
        let found = all.get_opt(&self.key.name).await.map_err(Error::from)?;
        Ok(found.is_some_and(|found| {
            found.metadata.uid == self.world.proxy.metadata.uid && found.metadata.deletion_timestamp.is_none()
        }))
    }

    fn accepted_hostnames(&self) -> Vec<String> {
        let all = self.plan.status.hostname_statuses.iter();
        let accepted = all.filter(|it| it.accepted);
        accepted.map(|it| it.hostname.clone()).collect()
    }

    /// The first writer to create the object owns the hostname. If another claim exists, it is read from the
    /// server, because the cache may not have it yet.
    async fn create_claim(&self, hostname: &str, progress: &mut Progress) -> Result<()> {
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
        progress.other_claims.insert(hostname.to_owned(), made);
        Ok(())
    }

    /// Deletes a claim that is ours, or whose claimant does not exist on the server either. If the cache is
    /// stale, the step fails with a conflict and is retried once the cache has caught up.
    async fn delete_claim(&self, hostname: &str, progress: &mut Progress) -> Result<()> {
        let key = ObjectKey::new(None, hostname);
        let cached = self.cx.cache::<HostnameClaim>()?.get(&key);
        let again = !progress.unclaimed.insert(hostname.to_owned());
        let Some(claim) = cached.filter(|_| !again) else {
            let what = format!("claim on {hostname} changed since it was cached");
            return Err(Error::new(ErrorClass::Conflict, what));
        };
        let claimant = &claim.spec.claimant;
        let ours = Some(&*claimant.uid) == self.world.proxy.metadata.uid.as_deref();
        if !ours && claimant_exists(&self.cx.client(), claimant).await? {
            progress.known_claimants.insert(claimant.uid.clone());
            return Ok(());
        }
        progress.other_claims.remove(hostname);
        self.cx.delete_unowned::<HostnameClaim>(&key).await
    }

    /// Writes the children, backends first, so that a gateway that sees the route can resolve all of its backends.
    async fn write_children(&self) -> Result<ChildrenState> {
        let ChildObjects { gateway, route, slices } =
            build_children(&self.world.proxy, &self.accepted_hostnames()).map_err(Error::fault)?;
        let mut written = Vec::new();
        for slice in slices {
            if let Some(foreign) = self.foreign_reason::<EndpointSlice>(&slice)? {
                return Ok(ChildrenState::Foreign(foreign));
            }
            self.replace_slice_type(&slice).await?;
            written.push(self.apply_child("EndpointSlice", slice).await?);
        }
        if let Some(foreign) = self.foreign_reason::<Gateway>(&gateway)? {
            return Ok(ChildrenState::Foreign(foreign));
        }
        written.push(self.apply_child("Gateway", gateway).await?);
        if let Some(foreign) = self.foreign_reason::<HttpRoute>(&route)? {
            return Ok(ChildrenState::Foreign(foreign));
        }
        written.push(self.apply_child("HTTPRoute", route).await?);
        self.cx.prune::<EndpointSlice>().await?;
        Ok(ChildrenState::Children(written))
    }

    async fn apply_child<C: Kind>(&self, kind: &str, desired: C) -> Result<AppliedChild> {
        let asked = spec_digest(&serde_json::to_value(&desired)?);
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
            revision: self.office.state.child_revision(self.key, revision, changed),
            changed,
        })
    }

    /// Why an existing object with a child's name must not be written. An object without a controller is
    /// adopted only if its label names this tunnel, as for an object restored from a backup.
    fn foreign_reason<C: Kind>(&self, desired: &C) -> Result<Option<String>> {
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
    async fn replace_slice_type(&self, desired: &EndpointSlice) -> Result<()> {
        let key = View::meta(desired).key();
        let found = self.cx.cache::<EndpointSlice>()?.get(&key);
        match found {
            Some(found) if found.address_type != desired.address_type => {
                self.cx.delete_unowned::<EndpointSlice>(&key).await
            }
            _ => Ok(()),
        }
    }

    async fn report_child_status(&self) -> Result<()> {
        let Some(standing) = &self.plan.child_conditions else {
            return Ok(());
        };
        let proxy = &self.world.proxy;
        let gateway = self.cx.cache::<Gateway>()?.get(self.key);
        if let Some(gateway) = gateway.filter(|it| is_child(&it.metadata, proxy)) {
            let status = gateway_status(&gateway, standing, self.world);
            self.cx.apply_child_status::<Gateway>(self.key, status).await?;
        }
        let route = self.cx.cache::<HttpRoute>()?.get(self.key);
        if let Some(route) = route.filter(|it| is_child(&it.metadata, proxy)) {
            let status = route_status(&route, standing, self.world);
            self.cx.apply_child_status::<HttpRoute>(self.key, status).await?;
        }
        Ok(())
    }

    /// Proves the tunnel and returns whether it still exists. Gateways may learn of its deletion before our
    /// watch does, so the server is asked before an ambiguous failure is recorded.
    async fn probe(&self) -> Result<bool> {
        let (office, hostnames) = (self.office, self.accepted_hostnames());
        let round = office.prober.probe(self.world, &hostnames).await;
        let (before, interval) = (self.world.probe_result.as_ref(), self.world.proxy.spec.proof_interval.0);
        let evidence = round.clone().merge_previous(before, interval);
        let news = evidence.is_ambiguous() && before.is_none_or(ProbeResult::is_success);
        if news && !self.exists().await? {
            return Ok(false);
        }
        for name in answered_connectors(self.world, &round) {
            let connector = ObjectKey::new(self.key.namespace.as_deref(), name);
            office.sessions.record_proof(&connector, round.at);
        }
        office.telemetry.record_probe(self.key, &round);
        office.state.record_probe(self.key, evidence);
        Ok(true)
    }
}
