//! The two objects an agent watches, each in its newest state. Uses watches, never polling.

use std::sync::Arc;
use std::time::Duration;

use aplomb::informer::ReflectorTiming;
use aplomb::tasks::TaskHandle;
use aplomb::{CacheEvent, InformerSet, Scope, Tasks, Telemetry, View};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long to wait for the informers before retrying.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub(crate) enum ObservedObject<T> {
    /// Not seen yet.
    #[default]
    Unknown,
    Present(Arc<T>),
    /// It existed and was deleted.
    Deleted,
}

impl<T> ObservedObject<T> {
    pub(crate) fn present(&self) -> Option<&Arc<T>> {
        match self {
            Self::Present(object) => Some(object),
            Self::Unknown | Self::Deleted => None,
        }
    }
}

/// The watches; they stop when this is dropped.
#[derive(Debug)]
pub(crate) struct AgentInformers {
    informers: InformerSet,
    tasks: Vec<TaskHandle<()>>,
}

impl AgentInformers {
    pub(crate) fn new(client: kube::Client) -> Self {
        // A user waits for these events.
        let timing = ReflectorTiming {
            backoff: (Duration::from_millis(200), Duration::from_secs(5)),
            ..ReflectorTiming::default()
        };
        Self {
            informers: InformerSet::with_timing(client, Telemetry::default(), timing),
            tasks: Vec::new(),
        }
    }

    /// The registered object. Another object with the same name does not count.
    pub(crate) fn watch_object<T: View>(
        &mut self,
        namespace: &str,
        registered: &T,
    ) -> watch::Receiver<ObservedObject<T>> {
        let (name, uid) = (registered.meta().name, registered.meta().uid.to_owned());
        let watch = self.informers.informer::<T>(Scope {
            namespace: Some(namespace.to_owned()),
            fields: Some(format!("metadata.name={name}")),
            ..Scope::default()
        });
        let seen = watch::Sender::new(ObservedObject::Unknown);
        let shown = seen.subscribe();
        watch.listen(move |event| {
            let now = match event {
                CacheEvent::Added { new, .. } | CacheEvent::Changed { new, .. } => match new.meta().uid == uid {
                    true => ObservedObject::Present(new.clone()),
                    false => ObservedObject::Deleted,
                },
                CacheEvent::Deleted { .. } => ObservedObject::Deleted,
                CacheEvent::Unreadable { .. } => return,
            };
            seen.send_replace(now);
        });
        shown
    }

    /// Waits until both have completed their initial list, however long the API server is unavailable.
    pub(crate) async fn wait_synced(&self) {
        while self
            .informers
            .wait_until_synced(Instant::now() + SYNC_TIMEOUT)
            .await
            .is_err()
        {}
    }

    pub(crate) fn start(&mut self) {
        self.tasks.extend(self.informers.start(&Tasks::on_runtime()));
    }
}
