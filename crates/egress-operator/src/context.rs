//! State shared by all reconciles: provider accounts, in-memory state, node filters and metrics.

use std::path::PathBuf;
use std::time::Duration;

use aplomb::leadership::fence::Fence;
use aplomb::{Clock, ObjectKey, Trigger};
use aplomb_api::StableEgress;
use aplomb_api::egress::{MoveStatus, StableEgressSpec};
use aplomb_http_client::ApiToken;
use kube::ResourceExt;

use crate::decide::Plan;
use crate::egress::{Observed, ProviderTrouble};
use crate::hcloud::{HcloudAccount, HcloudAccounts};
use crate::node_filter::NodeFilters;
use crate::probe::NodeProber;
use crate::state::EgressStates;
use crate::telemetry::{DeadlineBreached, EgressMetrics, GatewayDecided, GatewayRemoved, MoveEnded, MoveStarted};
use crate::views::TokenSecretView;

/// State shared by all reconciles. Clones share it.
#[derive(Clone)]
pub(crate) struct EgressContext {
    pub(crate) accounts: HcloudAccounts,
    pub(crate) prober: NodeProber,
    /// Triggers a StableEgress when a probe result changes.
    pub(crate) trigger: Trigger,
    pub(crate) filters: NodeFilters,
    pub(crate) states: EgressStates,
    pub(crate) telemetry: EgressMetrics,
    pub(crate) clock: Clock,
    /// The namespace of Secrets, and the default namespace of pods.
    pub(crate) namespace: String,
    /// The only namespace whose pods are watched.
    pub(crate) pods: Option<String>,
    pub(crate) identity: String,
    /// Token file for StableEgress objects that name no Secret.
    pub(crate) token_file: Option<PathBuf>,
}

impl EgressContext {
    /// Time since this process started.
    pub(crate) fn uptime(&self) -> Duration {
        self.accounts.uptime()
    }

    pub(crate) fn account(
        &self,
        egress: &StableEgress,
        secrets: &aplomb::Cache<TokenSecretView>,
    ) -> Result<HcloudAccount, ProviderTrouble> {
        let (token, label) = self.read_token(egress, secrets).map_err(ProviderTrouble::NoToken)?;
        let who = ObjectKey::new(None, &egress.name_any());
        Ok(self.accounts.account_for(&who, &token, &label))
    }

    fn read_token(
        &self,
        egress: &StableEgress,
        secrets: &aplomb::Cache<TokenSecretView>,
    ) -> Result<(ApiToken, String), String> {
        let Some(wanted) = &egress.spec.token_secret_ref else {
            return self.token_from_file();
        };
        let (namespace, name, key) = (&self.namespace, &wanted.name, &wanted.key);
        let found = secrets.get(&ObjectKey::new(Some(namespace), name));
        let secret = found.ok_or_else(|| {
            format!("Secret {namespace}/{name} does not exist: create it, or correct spec.tokenSecretRef.name")
        })?;
        let value = secret.value(key).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let token = value.and_then(ApiToken::new).ok_or_else(|| {
            format!("Secret {namespace}/{name} has no token in key {key}: add it, or correct spec.tokenSecretRef.key")
        })?;
        Ok((token, name.clone()))
    }

    /// Read on each call, so that a replaced token takes effect.
    fn token_from_file(&self) -> Result<(ApiToken, String), String> {
        let Some(path) = &self.token_file else {
            let fix = "set spec.tokenSecretRef, or start the operator with --hetzner-token-file";
            return Err(format!("no API token: {fix}"));
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read token file {shown}: {error}"))?;
        let token = ApiToken::new(&text);
        let token = token.ok_or_else(|| format!("token file {shown} is empty or invalid"))?;
        Ok((token, "file".to_owned()))
    }

    /// Why the pods that prepare nodes cannot be watched, if so.
    pub(crate) fn pods_unwatched(&self, spec: &StableEgressSpec) -> Option<String> {
        let watched = self.pods.as_deref()?;
        let wanted = spec.prepared.as_ref()?.namespace.as_deref();
        let wanted = wanted.unwrap_or(&self.namespace);
        (wanted != watched).then(|| {
            format!(
                "spec.prepared selects pods in {wanted}, but only {watched} is watched: set \
                 spec.prepared.namespace to {watched}, or --pods-namespace to {wanted}"
            )
        })
    }

    pub(crate) fn record_decision(&self, key: &ObjectKey, world: &Observed, plan: &Plan, fence: &Fence) {
        self.states.update(key, |memory| {
            memory.status = Some(plan.status.clone());
            let unusable = world.nodes.iter().filter(|node| node.is_unusable());
            memory.reported_unusable = unusable.map(|node| node.name.clone()).collect();
            if plan.status.moving.is_none() {
                memory.moving = None;
            }
        });
        self.telemetry.set_fence(fence);
        self.telemetry.emit(GatewayDecided { world, plan });
        let (was, is) = (&world.status, &plan.status);
        if let Some(moving) = is.moving.as_ref().filter(|_| was.moving.is_none()) {
            self.telemetry.emit(MoveStarted {
                name: &key.name,
                moving,
            });
        }
        let ended = is.last_move.as_ref().filter(|it| was.last_move.as_ref() != Some(*it));
        if let Some(moved) = ended {
            self.telemetry.emit(MoveEnded { name: &key.name, moved });
        }
        let overdue = |it: &&MoveStatus| it.overdue;
        let late = is.moving.as_ref().filter(overdue);
        if let Some(late) = late.filter(|_| !was.moving.as_ref().is_some_and(|it| it.overdue)) {
            self.telemetry.emit(DeadlineBreached {
                name: &key.name,
                to: &late.to,
                deadline: world.spec.move_deadline,
            });
        }
    }

    pub(crate) fn on_deleted(&self, key: &ObjectKey) {
        self.filters.remove(key);
        self.states.remove(key);
        self.prober.remove(key);
        self.accounts.remove(key);
        self.telemetry.emit(GatewayRemoved { name: &key.name });
    }
}

impl std::fmt::Debug for EgressContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EgressContext").finish_non_exhaustive()
    }
}
