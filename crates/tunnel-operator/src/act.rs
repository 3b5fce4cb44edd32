//! Carries out one step at a time, each of them safe to repeat: a crash may come between any two.

use aplomb::writer::ApplyEffect;
use aplomb::{Context, Error, ErrorClass, Kind, ObjectKey, Result, View};
use aplomb_api::gateway_api::{Gateway, HttpRoute};
use aplomb_api::tunnel::{
    ChildRevision, Claimant, HostnameClaim, HostnameClaimSpec, HttpProxy, labels,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ObjectMeta;

use crate::children::{ChildObjects, build_children, spec_digest};
use crate::evidence::ProbeResult;
use crate::context::TunnelContext;
use crate::probe::answered_connectors;
use crate::report;
use crate::gc::claimant_exists;
use crate::world::{AppliedChild, ChildrenState, Observed, Plan, Progress, TunnelStep};

/// Acts for one tunnel.
pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<HttpProxy>,
    pub(crate) office: &'a TunnelContext,
    pub(crate) key: &'a ObjectKey,
    pub(crate) world: &'a Observed,
    pub(crate) plan: &'a Plan,
}

impl Act<'_> {
    /// Takes `step` and notes in `progress` what came of it.
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

    /// Whether `step` makes something that was there before. It may be missing because the tunnel was
    /// deleted, which its own watch need not have told yet.
    fn was_created_before(&self, step: &TunnelStep) -> bool {
        let status = self.world.proxy.status.as_ref();
        let mut revisions = status.iter().flat_map(|status| &status.revisions);
        match step {
            TunnelStep::Claim(hostname) => {
                revisions.any(|it| it.kind == "HostnameClaim" && it.name == *hostname)
            }
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

    /// Asks the server itself.
    async fn exists(&self) -> Result<bool> {
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let all = kube::Api::<HttpProxy>::namespaced(self.cx.client(), namespace);
        let found = all.get_opt(&self.key.name).await.map_err(Error::from)?;
        Ok(found.is_some_and(|found| {
            found.metadata.uid == self.world.proxy.metadata.uid
                && found.metadata.deletion_timestamp.is_none()
        }))
    }

    fn accepted_hostnames(&self) -> Vec<String> {
        let all = self.plan.status.hostname_statuses.iter();
        let accepted = all.filter(|it| it.accepted);
        accepted.map(|it| it.hostname.clone()).collect()
    }

    /// Whoever creates the object first has the hostname. If that was another, it is read, since the
    /// cache may not show it yet.
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
                        format!("{hostname} was just let go"),
                    ));
                };
                found
            }
            Err(error) => return Err(error),
        };
        progress.other_claims.insert(hostname.to_owned(), made);
        Ok(())
    }

    /// Takes a claim away: one of ours, or one whose claimant the server does not know either. A cache
    /// that lags behind decides nothing here, and is waited for rather than asked again.
    async fn delete_claim(&self, hostname: &str, progress: &mut Progress) -> Result<()> {
        let key = ObjectKey::new(None, hostname);
        let cached = self.cx.cache::<HostnameClaim>()?.get(&key);
        let again = !progress.unclaimed.insert(hostname.to_owned());
        let Some(claim) = cached.filter(|_| !again) else {
            let what = format!("the claim on {hostname} is not as the cache shows it");
            return Err(Error::new(ErrorClass::Conflict, what));
        };
        let claimant = &claim.spec.claimant;
        let ours = Some(&*claimant.uid) == self.world.proxy.metadata.uid.as_deref();
        if !ours && claimant_exists(&self.cx.client(), claimant).await? {
            progress.known_claimants.insert(claimant.uid.clone());
            return Ok(());
        }
        progress.other_claims.remove(hostname);
        self.cx.delete_other::<HostnameClaim>(&key).await
    }

    /// Writes the children, backends first: a gateway that sees a route can then see all of it.
    async fn write_children(&self) -> Result<ChildrenState> {
        let ChildObjects {
            gateway,
            route,
            slices,
        } = build_children(&self.world.proxy, &self.accepted_hostnames()).map_err(Error::fault)?;
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

    /// Why an object of a child's name is not ours to write. One that nobody controls is taken over only
    /// if it says itself that it belongs to a tunnel of this name, as one from a backup does.
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
                "there is a {kind} {:?} in this namespace that is not this tunnel's: delete it, or give \
                 the HTTPProxy another name",
                &*key.name
            )
        }))
    }

    /// The type of addresses cannot be changed, so a slice of another type goes first.
    async fn replace_slice_type(&self, desired: &EndpointSlice) -> Result<()> {
        let key = View::meta(desired).key();
        let found = self.cx.cache::<EndpointSlice>()?.get(&key);
        match found {
            Some(found) if found.address_type != desired.address_type => {
                self.cx.delete_other::<EndpointSlice>(&key).await
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
        if let Some(gateway) = gateway.filter(|it| report::is_child(&it.metadata, proxy)) {
            let status = report::gateway_status(&gateway, standing, self.world);
            self.cx.report::<Gateway>(self.key, status).await?;
        }
        let route = self.cx.cache::<HttpRoute>()?.get(self.key);
        if let Some(route) = route.filter(|it| report::is_child(&it.metadata, proxy)) {
            let status = report::route_status(&route, standing, self.world);
            self.cx.report::<HttpRoute>(self.key, status).await?;
        }
        Ok(())
    }

    /// Proves the tunnel, and says whether there is still one: gateways may know of its deletion before its
    /// own watch tells, and what is doubtful anyway is worth a look before it is told.
    async fn probe(&self) -> Result<bool> {
        let (office, hostnames) = (self.office, self.accepted_hostnames());
        let round = office.prober.probe(self.world, &hostnames).await;
        let (before, interval) = (
            self.world.probe_result.as_ref(),
            self.world.proxy.spec.proof_interval.0,
        );
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
