//! Plays the pods of deployments that run Coder's provisioners and workspace proxies, where nobody
//! else does: on a server without kubelets.
//!
//! It follows the deployments, lets a rollout of daemons and proxy servers happen in a simulated
//! coderd, and writes the deployments' status. It makes no pods and no replica sets, so it must not
//! run beside a deployment controller.

mod rollout;
mod simulator;
mod template;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher as watch};
use tokio::time::{Instant, sleep_until};

use super::FakeCoderd;
use super::daemons::Work;
use simulator::PodSimulator;

/// Which deployments are followed.
const SELECTOR: &str = "app.kubernetes.io/name in (coder-provisioner, coder-workspace-proxy)";

/// Finds the coderd behind a URL.
pub type Find = Arc<dyn Fn(&str) -> Option<FakeCoderd> + Send + Sync>;

/// How pods behave.
#[derive(Clone)]
pub struct Pods {
    /// The coderd behind a URL; `None`: somebody else plays those pods.
    pub server: Find,
    /// How long a pod takes until it is ready.
    pub start: Duration,
    /// What daemons do all the time.
    pub work: Option<Work>,
}

impl std::fmt::Debug for Pods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Pods");
        shown.field("start", &self.start).field("work", &self.work);
        shown.finish_non_exhaustive()
    }
}

impl Pods {
    /// Pods of one coderd, whatever its URL, ready after a second and without work.
    #[must_use]
    pub fn of(coderd: FakeCoderd) -> Self {
        Self {
            server: Arc::new(move |_| Some(coderd.clone())),
            start: Duration::from_secs(1),
            work: None,
        }
    }

    /// Plays until it is dropped. What runs then goes on running.
    pub async fn play(self, client: Client) {
        let deployments = api(&client, None, "apps", "Deployment");
        let config = watcher::Config::default().labels(SELECTOR);
        let events = watch(deployments, config).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut player = PodSimulator::new(self, client);
        loop {
            let due = player.due();
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(Ok(event)) => player.hear(event),
                    Some(Err(error)) => tracing::warn!(%error, "Deployments cannot be watched"),
                    None => return,
                },
                () = wait(due) => {}
            }
            player.work().await;
        }
    }
}

fn api(client: &Client, namespace: Option<&str>, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn wait(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
