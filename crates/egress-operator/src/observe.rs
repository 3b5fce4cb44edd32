//! Collects all input of a decision into one [`Observed`]: caches, probe results, and stored state of the provider.
//! Makes no call: `decide` chooses whether one is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aplomb::{Cache, Context, ObjectKey, Result, View};
use aplomb_api::StableEgress;
use aplomb_api::egress::{HealthSignal, PreparedSpec, StableEgressSpec, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::context::EgressContext;
use crate::egress::{CandidateNode, FloatingIpState, LabelState, NodeProbeResult, NodeReady, Observed, gateway_labels};
use crate::hcloud::HcloudAccount;
use crate::node_filter::{NodeFilter, matches};
use crate::peer_reports::{is_disputed, read_reports};
use crate::state::{EgressState, StateKey};
use crate::views::{CiliumNodeView, LabelMap, NodeView, PodView};

pub(crate) struct Observer<'a> {
    pub(crate) egress: &'a StableEgress,
    pub(crate) cx: &'a Context<StableEgress>,
    pub(crate) context: &'a EgressContext,
    pub(crate) key: &'a ObjectKey,
    pub(crate) account: Option<&'a HcloudAccount>,
}

impl Observer<'_> {
    /// Collects the current state.
    ///
    /// # Errors
    /// A cache is missing, which is a bug in the controller setup.
    pub(crate) fn observe(&self) -> Result<Observed> {
        let now = self.context.uptime();
        let term = self.cx.leader_term();
        let since = self.context.states.leader_since(term, now);
        let whose = StateKey {
            key: self.key,
            uid: View::meta(self.egress).uid,
            term,
        };
        let asked = &self.egress.spec.floating_ip;
        let memory = self.context.states.state_for(whose, asked, self.account);
        let status = memory.status.clone();
        let mut status = status.or_else(|| self.egress.status.clone()).unwrap_or_default();
        if let Some(stored) = &self.egress.status {
            status.conditions.clone_from(&stored.conditions);
        }
        let cloud = self.floating_ip_state(&memory, since);
        // Must precede any cache read: see `node_filter`.
        let server = cloud.observed.as_ref().and_then(|seen| seen.server);
        let interest = node_filter(&self.key.name, &self.egress.spec, status.active_node.clone(), server);
        self.context.filters.set(self.key, interest.clone());
        let nodes = self.observe_nodes(&interest)?;
        let marks = self.egress.metadata.annotations.as_ref();
        Ok(Observed {
            name: self.key.name.to_string(),
            spec: self.egress.spec.clone(),
            hold: marks.and_then(|marks| marks.get(annotations::HOLD).cloned()),
            status,
            now: self.context.clock.now(),
            uptime: self.context.uptime(),
            leading_for: now.saturating_sub(since),
            nodes,
            unwatched: self.context.pods_unwatched(&self.egress.spec),
            reported_unusable: memory.reported_unusable,
            floating_ip: cloud,
            moving: memory.moving,
            term,
        })
    }

    fn floating_ip_state(&self, memory: &EgressState, since: Duration) -> FloatingIpState {
        let mut cloud = FloatingIpState {
            resync: self.egress.spec.resync.0,
            ..FloatingIpState::default()
        };
        if let Some(account) = self.account {
            // Another leader may have changed what was read before this process led.
            let seen = account.last_seen(&self.egress.spec.floating_ip);
            cloud.observed = seen.filter(|seen| seen.at >= since);
            cloud.budget = account.remaining();
            cloud.resync = account.read_interval(self.egress.spec.resync.0);
            cloud.next_read_at = account.next_read_at();
        }
        memory.copy_troubles(&mut cloud);
        cloud
    }

    fn observe_nodes(&self, interest: &NodeFilter) -> Result<Vec<CandidateNode>> {
        let views = self.cx.cache::<NodeView>()?.list();
        let views: Vec<_> = views.iter().filter(|node| interest.matches_node(node)).collect();
        let prepared = match &self.egress.spec.prepared {
            Some(wanted) => Some(prepared_nodes(wanted, &self.context.namespace, self.cx.cache()?)),
            None => None,
        };
        let cilium = self.cx.cache::<CiliumNodeView>()?;
        let probed = self.probe_results()?;
        let node = |view: &&std::sync::Arc<NodeView>| {
            let has = &view.metadata.labels;
            let name = view.name();
            let mirror = cilium.get(&ObjectKey::new(None, name));
            let taken = conflicting_label(&interest.gateway, has);
            CandidateNode {
                name: name.to_owned(),
                server: view.server_id(),
                candidate: matches(&interest.candidates, has),
                // Another StableEgress may use the same value for one of several keys: then the node is its own.
                labels: match &taken {
                    Some(_) => LabelState::None,
                    None => label_state(&interest.gateway, has),
                },
                conflicting_label: taken,
                cilium: mirror.map(|it| label_state(&interest.gateway, &it.metadata.labels)),
                ready: view.ready(),
                cordoned: view.cordoned(),
                terminating: view.meta().deleting,
                prepared: prepared.as_ref().is_none_or(|nodes| nodes.contains(name)),
                probe_result: probed.get(name).copied(),
            }
        };
        let mut nodes: Vec<_> = views.iter().map(node).collect();
        nodes.extend(orphan_cilium_nodes(&interest.gateway, cilium, self.cx.cache()?));
        Ok(nodes)
    }

    fn probe_results(&self) -> Result<BTreeMap<String, NodeProbeResult>> {
        if self.egress.spec.health.signal != HealthSignal::Probe {
            return Ok(BTreeMap::new());
        }
        let reports = read_reports(self.cx.cache()?);
        let (own, now) = (&self.context.identity, self.context.clock.now());
        let probed = |(node, failures): (String, u32)| {
            let disputed = failures > 0 && is_disputed(&reports, own, &self.key.name, &node, now);
            (node, NodeProbeResult { failures, disputed })
        };
        let known = self.context.prober.failures(self.key);
        Ok(known.into_iter().map(probed).collect())
    }
}

/// What a StableEgress reads of nodes, with defaults filled in.
pub(crate) fn node_filter(
    name: &str,
    spec: &StableEgressSpec,
    active: Option<String>,
    server: Option<i64>,
) -> NodeFilter {
    NodeFilter {
        candidates: candidate_selector(name, spec),
        gateway: gateway_labels(name, spec),
        probes: spec.health.signal == HealthSignal::Probe,
        active,
        server,
    }
}

fn candidate_selector(name: &str, spec: &StableEgressSpec) -> LabelSelector {
    spec.candidates.clone().unwrap_or_else(|| LabelSelector {
        match_labels: Some([(labels::CANDIDATE.to_owned(), name.to_owned())].into()),
        match_expressions: None,
    })
}

fn label_state(wanted: &LabelMap, has: &LabelMap) -> LabelState {
    let carried = wanted.iter().filter(|(key, value)| has.get(*key) == Some(*value));
    match carried.count() {
        0 => LabelState::None,
        all if all == wanted.len() => LabelState::All,
        _ => LabelState::Some,
    }
}

/// CiliumNodes with gateway labels whose Node was deleted: only the labels are left.
fn orphan_cilium_nodes<'a>(
    gateway: &'a LabelMap,
    cilium: &Cache<CiliumNodeView>,
    nodes: &'a Cache<NodeView>,
) -> impl Iterator<Item = CandidateNode> + 'a {
    let mirrors = cilium.list().into_iter();
    let gone = mirrors.filter(|it| nodes.get(&it.meta().key()).is_none());
    gone.filter_map(|mirror| {
        let labels = label_state(gateway, &mirror.metadata.labels);
        (labels != LabelState::None).then(|| CandidateNode {
            name: mirror.meta().name.to_owned(),
            server: None,
            candidate: false,
            labels: LabelState::None,
            conflicting_label: None,
            cilium: Some(labels),
            ready: NodeReady::Unknown,
            cordoned: false,
            terminating: true,
            prepared: false,
            probe_result: None,
        })
    })
}

fn conflicting_label(wanted: &LabelMap, has: &LabelMap) -> Option<String> {
    wanted.iter().find_map(|(key, value)| {
        let other = has.get(key).filter(|other| *other != value)?;
        Some(format!("{key}={other}"))
    })
}

/// The nodes on which a pod that prepares them is Ready.
fn prepared_nodes(wanted: &PreparedSpec, own: &str, pods: &Cache<PodView>) -> BTreeSet<String> {
    let namespace = wanted.namespace.as_deref().unwrap_or(own);
    let pods = pods.list();
    let matching = pods
        .iter()
        .filter(|pod| pod.meta().namespace == Some(namespace) && matches(&wanted.selector, &pod.metadata.labels));
    matching.filter_map(|pod| pod.ready_on().map(str::to_owned)).collect()
}
