//! Collects all input of a decision into one [`Observed`]: caches, probe results, and stored state
//! of the provider. Makes no call: `decide` chooses whether one is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aplomb::{Cache, Context, ObjectKey, Result, View};
use aplomb_api::StableEgress;
use aplomb_api::egress::{HealthSignal, PreparedSpec, StableEgressSpec, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::cloud::HcloudAccount;
use crate::interest::NodeFilter;
use crate::memory::{EgressState, StateKey};
use crate::office::EgressContext;
use crate::selector::selects;
use crate::vantage::{disputed, reports};
use crate::views::{CiliumNodeView, LabelMap, NodeView, PodView};
use crate::world::{
    CandidateNode, FloatingIpState, LabelState, NodeProbeResult, NodeReady, Observed,
    gateway_labels,
};

/// Sources of an observation.
pub(crate) struct Observer<'a> {
    pub(crate) egress: &'a StableEgress,
    pub(crate) cx: &'a Context<StableEgress>,
    pub(crate) office: &'a EgressContext,
    pub(crate) key: &'a ObjectKey,
    pub(crate) account: Option<&'a HcloudAccount>,
}

impl Observer<'_> {
    /// Collects the current state.
    ///
    /// # Errors
    /// A cache is missing, which is a bug in the controller setup.
    pub(crate) fn observe(&self) -> Result<Observed> {
        let now = self.office.uptime();
        let term = self.cx.term();
        let since = self.office.memories.since(term, now);
        let whose = StateKey {
            key: self.key,
            uid: View::meta(self.egress).uid,
            term,
        };
        let asked = &self.egress.spec.floating_ip;
        let memory = self.office.memories.of(whose, asked, self.account);
        let status = memory.status.clone();
        let mut status = status
            .or_else(|| self.egress.status.clone())
            .unwrap_or_default();
        if let Some(stored) = &self.egress.status {
            status.conditions.clone_from(&stored.conditions);
        }
        let cloud = self.cloud(&memory, since);
        // Must precede any cache read: see `interest`.
        let server = cloud.seen.as_ref().and_then(|seen| seen.server);
        let interest = interest(
            &self.key.name,
            &self.egress.spec,
            status.active_node.clone(),
            server,
        );
        self.office.interests.set(self.key, interest.clone());
        let nodes = self.nodes(&interest)?;
        let marks = self.egress.metadata.annotations.as_ref();
        Ok(Observed {
            name: self.key.name.to_string(),
            spec: self.egress.spec.clone(),
            hold: marks.and_then(|marks| marks.get(annotations::HOLD).cloned()),
            status,
            now: self.office.clock.now(),
            uptime: self.office.uptime(),
            led: now.saturating_sub(since),
            nodes,
            unwatched: self.office.unwatched(&self.egress.spec),
            told: memory.told,
            cloud,
            moving: memory.moving,
            term,
        })
    }

    fn cloud(&self, memory: &EgressState, since: Duration) -> FloatingIpState {
        let mut cloud = FloatingIpState {
            resync: self.egress.spec.resync.0,
            ..FloatingIpState::default()
        };
        if let Some(account) = self.account {
            // Another leader may have changed what was read before this process led.
            let seen = account.peek(&self.egress.spec.floating_ip);
            cloud.seen = seen.filter(|seen| seen.at >= since);
            cloud.budget = account.budget();
            cloud.resync = account.resync(self.egress.spec.resync.0);
            cloud.not_before = account.not_before();
        }
        memory.tell(&mut cloud);
        cloud
    }

    fn nodes(&self, interest: &NodeFilter) -> Result<Vec<CandidateNode>> {
        let views = self.cx.cache::<NodeView>()?.list();
        let views: Vec<_> = views
            .iter()
            .filter(|node| interest.concerns(node))
            .collect();
        let prepared = match &self.egress.spec.prepared {
            Some(wanted) => Some(prepared(wanted, &self.office.namespace, self.cx.cache()?)),
            None => None,
        };
        let cilium = self.cx.cache::<CiliumNodeView>()?;
        let probed = self.probed()?;
        let node = |view: &&std::sync::Arc<NodeView>| {
            let has = &view.metadata.labels;
            let name = view.name();
            let mirror = cilium.get(&ObjectKey::new(None, name));
            let taken = taken(&interest.gateway, has);
            CandidateNode {
                name: name.to_owned(),
                server: view.server(),
                candidate: selects(&interest.candidates, has),
                // Another StableEgress may use the same value for one of several keys: then the
                // node is its own.
                labels: match &taken {
                    Some(_) => LabelState::None,
                    None => carried(&interest.gateway, has),
                },
                taken,
                cilium: mirror.map(|it| carried(&interest.gateway, &it.metadata.labels)),
                ready: view.ready(),
                cordoned: view.cordoned(),
                terminating: view.meta().deleting,
                prepared: prepared.as_ref().is_none_or(|nodes| nodes.contains(name)),
                probe: probed.get(name).copied(),
            }
        };
        let mut nodes: Vec<_> = views.iter().map(node).collect();
        nodes.extend(left_behind(&interest.gateway, cilium, self.cx.cache()?));
        Ok(nodes)
    }

    /// Probe results, if probes are the health signal.
    fn probed(&self) -> Result<BTreeMap<String, NodeProbeResult>> {
        if self.egress.spec.health.signal != HealthSignal::Probe {
            return Ok(BTreeMap::new());
        }
        let reports = reports(self.cx.cache()?);
        let (own, now) = (&self.office.identity, self.office.clock.now());
        let probed = |(node, failures): (String, u32)| {
            let disputed = failures > 0 && disputed(&reports, own, &self.key.name, &node, now);
            (node, NodeProbeResult { failures, disputed })
        };
        let known = self.office.prober.known(self.key);
        Ok(known.into_iter().map(probed).collect())
    }
}

/// What a StableEgress reads of nodes, with defaults filled in.
pub(crate) fn interest(
    name: &str,
    spec: &StableEgressSpec,
    active: Option<String>,
    server: Option<i64>,
) -> NodeFilter {
    NodeFilter {
        candidates: candidates(name, spec),
        gateway: gateway_labels(name, spec),
        probes: spec.health.signal == HealthSignal::Probe,
        active,
        server,
    }
}

/// The selector of candidates.
fn candidates(name: &str, spec: &StableEgressSpec) -> LabelSelector {
    spec.candidates.clone().unwrap_or_else(|| LabelSelector {
        match_labels: Some([(labels::CANDIDATE.to_owned(), name.to_owned())].into()),
        match_expressions: None,
    })
}

fn carried(wanted: &LabelMap, has: &LabelMap) -> LabelState {
    let carried = wanted
        .iter()
        .filter(|(key, value)| has.get(*key) == Some(*value));
    match carried.count() {
        0 => LabelState::None,
        all if all == wanted.len() => LabelState::All,
        _ => LabelState::Some,
    }
}

/// CiliumNodes with gateway labels whose Node was deleted: only the labels are left.
fn left_behind<'a>(
    gateway: &'a LabelMap,
    cilium: &Cache<CiliumNodeView>,
    nodes: &'a Cache<NodeView>,
) -> impl Iterator<Item = CandidateNode> + 'a {
    let mirrors = cilium.list().into_iter();
    let gone = mirrors.filter(|it| nodes.get(&it.meta().key()).is_none());
    gone.filter_map(|mirror| {
        let labels = carried(gateway, &mirror.metadata.labels);
        (labels != LabelState::None).then(|| CandidateNode {
            name: mirror.meta().name.to_owned(),
            server: None,
            candidate: false,
            labels: LabelState::None,
            taken: None,
            cilium: Some(labels),
            ready: NodeReady::Unknown,
            cordoned: false,
            terminating: true,
            prepared: false,
            probe: None,
        })
    })
}

fn taken(wanted: &LabelMap, has: &LabelMap) -> Option<String> {
    wanted.iter().find_map(|(key, value)| {
        let other = has.get(key).filter(|other| *other != value)?;
        Some(format!("{key}={other}"))
    })
}

/// The nodes on which a pod that prepares them is Ready.
fn prepared(wanted: &PreparedSpec, own: &str, pods: &Cache<PodView>) -> BTreeSet<String> {
    let namespace = wanted.namespace.as_deref().unwrap_or(own);
    let pods = pods.list();
    let matching = pods.iter().filter(|pod| {
        pod.meta().namespace == Some(namespace) && selects(&wanted.selector, &pod.metadata.labels)
    });
    matching
        .filter_map(|pod| pod.ready_on().map(str::to_owned))
        .collect()
}
