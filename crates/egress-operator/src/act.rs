//! Carries out one step. A step may be repeated; its result is stored before the next one starts.
//! Which step to take, and when, is decided in `decide`.

use std::time::Duration;

use aplomb::fence::Fence;
use aplomb::{Context, ErrorClass, MetadataPatch, ObjectKey, Result};
use aplomb_api::StableEgress;
use aplomb_api::egress::annotations;
use tokio::time::Instant;

use crate::cloud::HcloudAccount;
use crate::office::EgressContext;
use crate::views::{CiliumNodeView, HasLabels, NodeView};
use crate::world::{LabelTarget, Observed, ProviderTrouble, Step, gateway_labels};

/// Deadline of one call to the provider.
const CALL: Duration = Duration::from_secs(5);

/// What a step needs to run.
pub(crate) struct Act<'a> {
    pub(crate) cx: &'a Context<StableEgress>,
    pub(crate) office: &'a EgressContext,
    pub(crate) key: &'a ObjectKey,
    pub(crate) world: &'a Observed,
    /// The provider account; an error without a token.
    pub(crate) account: std::result::Result<&'a HcloudAccount, ProviderTrouble>,
}

impl Act<'_> {
    /// Runs one step.
    ///
    /// # Errors
    /// The API server's error. Errors of the provider are stored, not returned.
    pub(crate) async fn take(&self, step: &Step) -> Result<()> {
        match step {
            Step::Read { urgent } => self.read(*urgent).await,
            Step::Claim => self.claim().await,
            Step::Assign { node, server, .. } => self.assign(node, *server).await,
            Step::Poll { action } => self.poll(*action).await,
            Step::Strip { node, on } => return self.label(node, *on, false).await,
            Step::Label { node, on } => return self.label(node, *on, true).await,
        }
        Ok(())
    }

    async fn read(&self, urgent: bool) {
        let fip = &self.world.spec.floating_ip;
        let fresh = if urgent {
            Duration::ZERO
        } else {
            // Discard reads made before this process became the leader.
            self.world.cloud.resync.min(self.world.led)
        };
        let seen = match &self.account {
            Ok(account) => {
                let (deadline, fence) = self.terms();
                account
                    .look(self.key, fip, fresh, urgent, deadline, fence)
                    .await
            }
            Err(trouble) => Err(trouble.clone()),
        };
        self.remember(|memory, now| match seen {
            Ok(_) => memory.looked(),
            Err(trouble) => memory.failed(trouble, now),
        });
    }

    async fn claim(&self) {
        let (Ok(account), Some(seen)) = (&self.account, &self.world.cloud.seen) else {
            return;
        };
        let (deadline, fence) = self.terms();
        let claimed = account.claim(seen, self.world.term, deadline, fence).await;
        self.remember(|memory, now| memory.claimed(seen.term, claimed, now));
    }

    async fn assign(&self, node: &str, server: i64) {
        let (deadline, fence) = self.terms();
        let answer = match (&self.account, &self.world.cloud.seen) {
            (Ok(account), Some(seen)) => account.assign(seen.id, server, deadline, fence).await,
            (Err(trouble), _) => Err(trouble.clone()),
            (_, None) => Err(ProviderTrouble::NotFound),
        };
        self.remember(|memory, now| memory.assigned(node, server, answer, now));
    }

    async fn poll(&self, action: i64) {
        let (deadline, fence) = self.terms();
        let answer = match &self.account {
            Ok(account) => account.poll(action, deadline, fence).await,
            Err(trouble) => Err(trouble.clone()),
        };
        self.remember(|memory, now| memory.polled(answer, now));
    }

    async fn label(&self, node: &str, on: LabelTarget, wanted: bool) -> Result<()> {
        match on {
            LabelTarget::Node => self.relabel::<NodeView>(node, wanted).await,
            LabelTarget::CiliumNode => self.relabel::<CiliumNodeView>(node, wanted).await,
        }
    }

    async fn relabel<V: HasLabels>(&self, node: &str, wanted: bool) -> Result<()> {
        let (key, cache) = (ObjectKey::new(None, node), self.cx.cache::<V>()?);
        let seen = cache.get(&key);
        let has = |label: &(String, String)| {
            let labels = seen.as_ref().map(|seen| seen.labels());
            labels.and_then(|labels| labels.get(&label.0)) == Some(&label.1)
        };
        let labels = gateway_labels(&self.world.name, &self.world.spec);
        // Never remove a label value that this operator did not set.
        let labels = labels.into_iter().filter(|label| wanted || has(label));
        let term = wanted.then(|| self.world.term.to_string());
        let change = MetadataPatch {
            labels: labels
                .map(|(key, value)| (key, wanted.then_some(value)))
                .collect(),
            annotations: [(annotation(&self.world.name), term)].into(),
        };
        match self.cx.relabel::<V>(&key, &change).await {
            // The node is deleted, and its labels with it; the watch has not delivered that yet.
            Err(error) if error.class() == ErrorClass::Missing && !wanted => {
                if let Some(seen) = seen {
                    cache.deleted(&key, seen.meta().uid);
                }
                Ok(())
            }
            other => other,
        }
    }

    /// Deadline of a call, and the fence that permits it.
    fn terms(&self) -> (Instant, &Fence) {
        let deadline = self.cx.deadline().min(Instant::now() + CALL);
        (deadline, self.cx.fence())
    }

    fn remember(&self, act: impl FnOnce(&mut crate::memory::EgressState, Duration)) {
        let now = self.office.uptime();
        self.office.memories.change(self.key, |memory| {
            act(memory, now);
            if let Ok(account) = &self.account {
                memory.paced(now, || account.pace());
            }
        });
    }
}

/// Annotation of a gateway with the term of the leader that labeled it. A name that is too long for
/// an annotation key is cut at its beginning.
fn annotation(name: &str) -> String {
    const LONGEST: usize = 63;
    let from = name.len().saturating_sub(LONGEST);
    format!(
        "{}{}",
        annotations::TERM,
        name[from..].trim_start_matches(['-', '.'])
    )
}
