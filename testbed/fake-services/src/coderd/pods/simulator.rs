//! Carries rollouts out: reads Secrets, starts and stops processes, writes the deployments' status.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::rollout::{Counts, Desired, Rollout, Step};
use super::template::{self, Kind, Source, Template};
use super::{Pods, api};
use crate::coderd::{DaemonHandle, FakeCoderd};

/// When a pod that could not be started, or a status that could not be written, is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What runs in a pod.
#[derive(Clone, Debug)]
enum Process {
    Daemon(DaemonHandle),
    Proxy(FakeCoderd, u64),
}

/// Namespace and name.
type Key = (String, String);

/// A deployment and its pods.
#[derive(Debug, Default)]
struct Set {
    desired: Option<Desired>,
    template: Option<Template>,
    grace: Duration,
    rollout: Rollout<Process>,
    /// When to look again.
    due: Option<Instant>,
    /// What was written last, for which generation.
    told: Option<(i64, Counts)>,
}

/// Follows deployments and carries their rollouts out.
pub(super) struct PodSimulator {
    pods: Pods,
    client: Client,
    sets: BTreeMap<Key, Set>,
    /// What a list that is under way has shown.
    listed: BTreeSet<Key>,
}

impl PodSimulator {
    pub(super) fn new(pods: Pods, client: Client) -> Self {
        Self {
            pods,
            client,
            sets: BTreeMap::new(),
            listed: BTreeSet::new(),
        }
    }

    /// When something is to be done next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.sets.values().filter_map(|set| set.due).min()
    }

    pub(super) fn hear(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(deployment) => {
                self.listed.insert(key(&deployment));
                self.look_at(&deployment);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone = self.sets.iter_mut().filter(|(key, _)| !listed.contains(*key));
                gone.for_each(|(_, set)| set.end());
            }
            Event::Apply(deployment) => self.look_at(&deployment),
            Event::Delete(deployment) => {
                let set = self.sets.get_mut(&key(&deployment));
                set.into_iter().for_each(Set::end);
            }
        }
    }

    fn look_at(&mut self, deployment: &DynamicObject) {
        let template = Template::of(deployment);
        let url = template.as_ref().map(|template| template.url.as_str());
        let own = url.is_some_and(|url| (self.pods.server)(url).is_some());
        let set = self.sets.entry(key(deployment)).or_default();
        set.template = template;
        set.desired = template::desired(deployment, own);
        set.grace = set.desired.as_ref().map_or(set.grace, |it| it.grace);
        set.due = Some(Instant::now());
    }

    /// Does everything that is due.
    pub(super) async fn work(&mut self) {
        let now = Instant::now();
        let due = |set: &Set| set.due.is_some_and(|due| due <= now);
        let keys: Vec<Key> = self
            .sets
            .iter()
            .filter(|(_, set)| due(set))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            if let Some(mut set) = self.sets.remove(&key) {
                self.roll(&key, &mut set).await;
                let over = set.desired.is_none() && set.rollout.is_empty();
                if !over {
                    self.sets.insert(key, set);
                }
            }
        }
    }

    /// Takes a rollout as far as it goes now.
    async fn roll(&self, key: &Key, set: &mut Set) {
        loop {
            let now = Instant::now();
            match set.rollout.next(set.desired.as_ref(), now) {
                Step::Start(number) => {
                    if !self.start(key, set, number).await {
                        set.due = Some(now + AGAIN);
                        break;
                    }
                }
                Step::Stop(pod, process) => {
                    let gone = now + stop(&process, set.grace);
                    set.rollout.stopping(pod, gone);
                }
                Step::Wait(due) => {
                    set.due = due;
                    break;
                }
            }
        }
        self.tell(key, set).await;
    }

    /// Starts a pod. `false`: its key cannot be had now.
    async fn start(&self, key: &Key, set: &mut Set, number: u64) -> bool {
        let (Some(desired), Some(template)) = (&set.desired, &set.template) else {
            return false;
        };
        let (Some(coderd), Some(secret)) = (
            (self.pods.server)(&template.url),
            self.read(&key.0, &template.source).await,
        ) else {
            return false;
        };
        let name = format!("{}-{}-{number}", key.1, desired.revision);
        let process = match template.kind {
            Kind::Daemon => Process::Daemon(coderd.start_daemon(Some(&name), &secret, self.pods.work)),
            Kind::Proxy => {
                let id = coderd.start_proxy_server(Some(&name), &secret);
                Process::Proxy(coderd, id)
            }
        };
        let ready = Instant::now() + self.pods.start;
        set.rollout.started(&desired.revision, process, ready);
        true
    }

    async fn read(&self, namespace: &str, source: &Source) -> Option<String> {
        let (name, member) = match source {
            Source::Text(text) => return Some(text.clone()),
            Source::Secret { name, key } => (name, key),
        };
        let secrets = api(&self.client, Some(namespace), "", "Secret");
        let secret = match secrets.get_opt(name).await {
            Ok(secret) => secret?,
            Err(error) => {
                tracing::warn!(%error, namespace, name, "A Secret cannot be read");
                return None;
            }
        };
        let data = secret.data["data"][member].as_str()?;
        let bytes = STANDARD.decode(data).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Writes the status if it would say something new.
    async fn tell(&self, key: &Key, set: &mut Set) {
        let Some(desired) = set.desired.as_ref().filter(|desired| desired.own) else {
            return;
        };
        let counts = set.rollout.counts(&desired.revision, Instant::now());
        let news = (desired.generation, counts);
        if set.told == Some(news) {
            return;
        }
        let deployments = api(&self.client, Some(&key.0), "apps", "Deployment");
        let patch = Patch::Merge(status(desired, counts));
        let params = PatchParams::default();
        match deployments.patch_status(&key.1, &params, &patch).await {
            Ok(_) => set.told = Some(news),
            Err(kube::Error::Api(error)) if error.code == 404 => set.end(),
            Err(error) => {
                tracing::warn!(%error, name = key.1, "A Deployment's status cannot be written");
                let again = Instant::now() + AGAIN;
                set.due = Some(set.due.map_or(again, |due| due.min(again)));
            }
        }
    }
}

impl Set {
    fn end(&mut self) {
        self.desired = None;
        self.due = Some(Instant::now());
    }
}

/// Asks what runs in a pod to stop. Says how long it takes.
fn stop(process: &Process, grace: Duration) -> Duration {
    match process {
        Process::Daemon(daemon) => daemon.stop(grace),
        Process::Proxy(coderd, id) => {
            coderd.stop_proxy_server(*id);
            Duration::ZERO
        }
    }
}

fn status(desired: &Desired, counts: Counts) -> Value {
    // A count of zero is left out on the wire; null removes it from what was there.
    let count = |count: usize| match count {
        0 => Value::Null,
        count => json!(count),
    };
    json!({ "status": {
        "observedGeneration": desired.generation,
        "replicas": count(counts.replicas),
        "updatedReplicas": count(counts.updated),
        "readyReplicas": count(counts.ready),
        "availableReplicas": count(counts.ready),
        "unavailableReplicas": count(desired.replicas.saturating_sub(counts.ready)),
    }})
}

fn key(deployment: &DynamicObject) -> Key {
    let namespace = deployment.namespace().unwrap_or_default();
    (namespace, deployment.name_any())
}
