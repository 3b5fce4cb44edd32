//! Carries out one step. A step may be repeated; its result is stored before the next one starts. Which step to take,
//! and when, is decided in `decide`.

use std::time::Duration;

use aplomb::leadership::fence::Fence;
use aplomb::{Context, ErrorClass, MetadataPatch, ObjectKey, Result};
use aplomb_api::StableEgress;
use aplomb_api::egress::annotations;
use tokio::time::Instant;

use crate::context::EgressContext;
use crate::decide::{LabelTarget, Step};
use crate::egress::{Observed, ProviderTrouble, gateway_labels};
use crate::hcloud::HcloudAccount;
use crate::views::{CiliumNodeView, HasLabels, NodeView};

/// Deadline of one call to the provider.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<StableEgress>,
    pub(crate) context: &'a EgressContext,
    pub(crate) key: &'a ObjectKey,
    pub(crate) observed: &'a Observed,
    /// The provider account; an error without a token.
    pub(crate) account: std::result::Result<&'a HcloudAccount, ProviderTrouble>,
}

impl Act<'_> {
    /// Runs one step.
    ///
    /// # Errors
    /// The API server's error. Errors of the provider are stored, not returned.
    pub(crate) async fn execute(&self, step: &Step) -> Result<()> {
        match step {
            Step::Read { urgent } => self.read_floating_ip(*urgent).await,
            Step::WriteTerm => self.write_term().await,
            Step::Assign { node, server, .. } => self.assign_server(node, *server).await,
            Step::Poll { action } => self.poll_action(*action).await,
            Step::Strip { node, on } => return self.set_label(node, *on, false).await,
            Step::Label { node, on } => return self.set_label(node, *on, true).await,
        }
        Ok(())
    }

    async fn read_floating_ip(&self, urgent: bool) {
        let fip = &self.observed.spec.floating_ip;
        let fresh = if urgent {
            Duration::ZERO
        } else {
            // Discard reads made before this process became the leader.
            self.observed.floating_ip.resync.min(self.observed.leading_for)
        };
        let seen = match &self.account {
            Ok(account) => {
                let (deadline, fence) = self.call_terms();
                account.refresh(self.key, fip, fresh, urgent, deadline, fence).await
            }
            Err(trouble) => Err(trouble.clone()),
        };
        self.update_state(|memory, now| match seen {
            Ok(_) => memory.record_read(),
            Err(trouble) => memory.record_failure(trouble, now),
        });
    }

    async fn write_term(&self) {
        let (Ok(account), Some(seen)) = (&self.account, &self.observed.floating_ip.observed) else {
            return;
        };
        let (deadline, fence) = self.call_terms();
        let claimed = account.write_term(seen, self.observed.term, deadline, fence).await;
        self.update_state(|memory, now| memory.record_term_write(seen.term, claimed, now));
    }

    async fn assign_server(&self, node: &str, server: i64) {
        let (deadline, fence) = self.call_terms();
        let answer = match (&self.account, &self.observed.floating_ip.observed) {
            (Ok(account), Some(seen)) => account.assign(seen.id, server, deadline, fence).await,
            (Err(trouble), _) => Err(trouble.clone()),
            (_, None) => Err(ProviderTrouble::NotFound),
        };
        self.update_state(|memory, now| memory.record_assign(node, server, answer, now));
    }

    async fn poll_action(&self, action: i64) {
        let (deadline, fence) = self.call_terms();
        let answer = match &self.account {
            Ok(account) => account.poll_action(action, deadline, fence).await,
            Err(trouble) => Err(trouble.clone()),
        };
        self.update_state(|memory, now| memory.record_poll(answer, now));
    }

    async fn set_label(&self, node: &str, on: LabelTarget, wanted: bool) -> Result<()> {
        match on {
            LabelTarget::Node => self.patch_labels::<NodeView>(node, wanted).await,
            LabelTarget::CiliumNode => self.patch_labels::<CiliumNodeView>(node, wanted).await,
        }
    }

    async fn patch_labels<V: HasLabels>(&self, node: &str, wanted: bool) -> Result<()> {
        let (key, cache) = (ObjectKey::new(None, node), self.cx.cache::<V>()?);
        let seen = cache.get(&key);
        let has = |label: &(String, String)| {
            let labels = seen.as_ref().map(|seen| seen.labels());
            labels.and_then(|labels| labels.get(&label.0)) == Some(&label.1)
        };
        let labels = gateway_labels(&self.observed.name, &self.observed.spec);
        // Never remove a label value that this operator did not set.
        let labels = labels.into_iter().filter(|label| wanted || has(label));
        let term = wanted.then(|| self.observed.term.to_string());
        let change = MetadataPatch {
            labels: labels.map(|(key, value)| (key, wanted.then_some(value))).collect(),
            annotations: [(term_annotation(&self.observed.name), term)].into(),
        };
        match self.cx.patch_metadata::<V>(&key, &change).await {
            // The node is deleted, and its labels with it; the watch has not delivered that yet.
            Err(error) if error.class() == ErrorClass::Missing && !wanted => {
                if let Some(seen) = seen {
                    cache.record_delete(&key, seen.meta().uid);
                }
                Ok(())
            }
            other => other,
        }
    }

    /// Deadline of a call, and the fence that permits it.
    fn call_terms(&self) -> (Instant, &Fence) {
        let deadline = self.cx.deadline().min(Instant::now() + CALL_TIMEOUT);
        (deadline, self.cx.fence())
    }

    fn update_state(&self, act: impl FnOnce(&mut crate::state::EgressState, Duration)) {
        let now = self.context.uptime();
        self.context.states.update(self.key, |memory| {
            act(memory, now);
            if let Ok(account) = &self.account {
                memory.set_retry_delay(now, || account.retry_delay());
            }
        });
    }
}

/// Annotation of a gateway with the term of the leader that labeled it. A name that is too long for an annotation key
/// is cut at its beginning.
fn term_annotation(name: &str) -> String {
    const MAX_NAME: usize = 63;
    let from = name.len().saturating_sub(MAX_NAME);
    format!("{}{}", annotations::TERM, name[from..].trim_start_matches(['-', '.']))
}
