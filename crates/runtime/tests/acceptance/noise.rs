//! Promise: converged objects cost nothing, regardless of the changes around them.
//! Heartbeats, relists and resyncs cause no write, and only resyncs cause runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aplomb::informer::Scope;
use aplomb::telemetry::{EventResult, Telemetry};
use aplomb::{Action, Context, Controller, Engine, MetaRef, Predicate, Result, View, ViewMeta};
use aplomb_simulation::faults::{Fault, Match, Rule, WatchFault};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Answers, Lab, on_box, on_real_alone, seconds, wait_until};
use crate::page::{self, Page, PageSpec};

/// The used fields of a node: whether it takes pods, and its conditions without their times.
#[derive(serde::Deserialize)]
struct NodeView {
    metadata: ViewMeta,
    #[serde(default)]
    spec: Cordon,
    #[serde(default)]
    status: Health,
}

#[derive(Clone, Default, PartialEq, serde::Deserialize)]
struct Cordon {
    #[serde(default)]
    unschedulable: bool,
}

#[derive(Clone, Default, PartialEq, serde::Deserialize)]
struct Health {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, PartialEq, serde::Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl View for NodeView {
    type Kind = Node;
    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

fn health_predicate() -> Predicate<NodeView> {
    Predicate::changed_by(|node: &NodeView| (node.spec.clone(), node.status.clone()))
}

/// The amount of noise.
#[derive(Clone, Copy)]
struct Noise {
    pages: usize,
    nodes: usize,
    beats: usize,
    /// Between two heartbeats of the same node.
    pause: Duration,
    resync: Option<Duration>,
}

/// The effects of the noise.
#[derive(Debug, PartialEq)]
struct Cost {
    runs: usize,
    writes: usize,
    /// Pages whose version has changed.
    changed: usize,
}

/// The state of a scenario.
struct Stage {
    user: Client,
    answers: Answers,
    runs: Arc<AtomicUsize>,
    telemetry: Telemetry,
    noise: Noise,
}

async fn set_up(lab: &Lab, noise: Noise) -> Stage {
    let user = lab.user();
    page::install(&user).await.expect("the kind is accepted");
    let nodes: Api<Node> = Api::all(user.clone());
    for number in 0..noise.nodes {
        let metadata = json!({ "metadata": { "name": format!("node-{number}") } });
        let node = serde_json::from_value(metadata).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        write_heartbeat(&nodes, number, 0, "True").await;
    }
    let pages: Api<Page> = Api::namespaced(user.clone(), "default");
    for number in 0..noise.pages {
        let spec = PageSpec {
            title: "a title".to_owned(),
            text: String::new(),
        };
        let page = Page::new(&format!("page-{number}"), spec);
        wait_until(seconds(10), "pages are served", || async {
            pages.create(&PostParams::default(), &page).await.is_ok()
        })
        .await;
    }
    Stage {
        user,
        answers: Answers::default(),
        runs: Arc::default(),
        telemetry: Telemetry::default(),
        noise,
    }
}

/// A heartbeat like a kubelet's: the time of each condition, and rarely anything else.
async fn write_heartbeat(nodes: &Api<Node>, number: usize, minute: usize, ready: &str) {
    let time = format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
    let condition = json!({
        "type": "Ready", "status": ready, "reason": "Kubelet", "message": "",
        "lastHeartbeatTime": time, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
    let name = format!("node-{number}");
    let beat = nodes.patch_status(&name, &PatchParams::default(), &patch).await;
    beat.expect("the user's requests meet no faults");
}

async fn reconcile(page: Arc<Page>, context: Context<Page>) -> Result<Action> {
    let metadata = ObjectMeta {
        name: page.metadata.name.clone(),
        namespace: page.namespace(),
        ..ObjectMeta::default()
    };
    let data = Some([("title".to_owned(), page.spec.title.clone())].into());
    let map = ConfigMap {
        metadata,
        data,
        ..ConfigMap::default()
    };
    context.apply(map).await?;
    context.status(json!({ "words": 1 }));
    Ok(Action::Done)
}

impl Stage {
    fn operator(&self, client: &Client, lens: Predicate<NodeView>) -> Engine {
        let runs = self.runs.clone();
        let mut controller = Controller::<Page>::new("page", move |page, context| {
            runs.fetch_add(1, Ordering::Relaxed);
            reconcile(page, context)
        })
        .owns::<ConfigMap>(Predicate::always())
        .watches(Scope::default(), lens, |_: &NodeView, pages| {
            let pages = pages.list();
            pages.iter().map(|page| View::meta(&**page).key()).collect()
        });
        if let Some(every) = self.noise.resync {
            controller = controller.resync(every);
        }
        let telemetry = self.telemetry.clone();
        Engine::new("noise", self.answers.for_client(client))
            .configure(|settings| settings.telemetry = telemetry)
            .controller(controller)
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    /// Name and version of every page and its child.
    async fn versions(&self) -> Vec<(String, Option<String>)> {
        let pages: Api<Page> = Api::namespaced(self.user.clone(), "default");
        let maps: Api<ConfigMap> = Api::namespaced(self.user.clone(), "default");
        let all = ListParams::default();
        let pages = pages.list(&all).await.unwrap().items;
        let maps = maps.list(&all).await.unwrap().items;
        let pages = pages.iter().map(|page| (page.name_any(), page.resource_version()));
        let maps = maps.iter().map(|map| (map.name_any(), map.resource_version()));
        pages.chain(maps).collect()
    }

    /// Waits until every page has run and nothing was written for a while.
    async fn wait_until_converged(&self) {
        let mut written = usize::MAX;
        while written != self.answers.writes().len() || self.runs() < self.noise.pages {
            written = self.answers.writes().len();
            sleep(seconds(2)).await;
        }
    }

    async fn measure_cost(&self, noise: impl Future<Output = ()>) -> Cost {
        let (runs, writes, versions) = (self.runs(), self.answers.writes().len(), self.versions().await);
        noise.await;
        let after = self.versions().await;
        let changed = after.iter().filter(|page| !versions.contains(page)).count();
        Cost {
            runs: self.runs() - runs,
            writes: self.answers.writes().len() - writes,
            changed,
        }
    }

    async fn heartbeats(&self) {
        let nodes: Api<Node> = Api::all(self.user.clone());
        for round in 1..=self.noise.beats {
            for node in 0..self.noise.nodes {
                write_heartbeat(&nodes, node, round, "True").await;
            }
            sleep(self.noise.pause).await;
        }
    }
}

/// Heartbeats and relists with converged pages, then a node that fails: the effects of each.
async fn noisy(lab: Lab, noise: Noise, lens: Predicate<NodeView>) -> (Cost, Cost) {
    let stage = set_up(&lab, noise).await;
    let (client, faults) = lab.client("operator");
    let engine = stage.operator(&client, lens);
    let scenario = async {
        stage.wait_until_converged().await;
        assert_eq!(stage.runs(), noise.pages, "own writes caused no run");
        // Each watch has expired when it is reopened, within a minute.
        for resource in ["nodes", "pages", "configmaps"] {
            let rule = Rule::new(Fault::Watch(WatchFault::Expired));
            faults.add(rule.on(Match::watches().resource(resource)).once());
        }
        let quiet = stage.measure_cost(stage.heartbeats()).await;
        let nodes: Api<Node> = Api::all(stage.user.clone());
        let news = stage.measure_cost(async {
            write_heartbeat(&nodes, 0, 61, "False").await;
            sleep(seconds(3)).await;
        });
        (quiet, news.await)
    };
    let costs = tokio::select! { biased;
        costs = scenario => costs,
        ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    };
    for kind in ["Node", "Page", "ConfigMap"] {
        let metrics = stage.telemetry.text();
        let expired = format!("{{kind=\"{kind}\",reason=\"expired\"}}");
        assert!(metrics.contains(&expired), "{expired} {metrics}");
    }
    let dropped = stage.telemetry.watch.events("Node", EventResult::Noise);
    assert!(costs.0.runs > 0 || dropped > 0, "heartbeats are counted");
    costs
}

const NOTHING: Cost = Cost {
    runs: 0,
    writes: 0,
    changed: 0,
};

#[test]
fn heartbeats_and_relists_cost_no_run_and_no_write() {
    let noise = Noise {
        pages: 40,
        nodes: 20,
        beats: 30,
        pause: seconds(10),
        resync: None,
    };
    let (quiet, news) = on_box(5, move |lab| noisy(lab, noise, health_predicate()));
    assert_eq!(quiet, NOTHING);
    assert_eq!((news.runs, news.writes), (40, 0), "a failing node causes runs");
    let less = Noise {
        pages: 10,
        nodes: 5,
        beats: 12,
        ..noise
    };
    let (off, _) = on_box(5, move |lab| noisy(lab, less, Predicate::always()));
    assert!(off.runs >= 100, "without the lens heartbeats run: {off:?}");
    assert_eq!((off.writes, off.changed), (0, 0), "and the runs write nothing");
}

#[test]
#[ignore = "needs the real control plane"]
fn real_heartbeats_and_relists_cost_no_run_and_no_write() {
    let noise = Noise {
        pages: 10,
        nodes: 10,
        beats: 20,
        pause: Duration::from_millis(3_300),
        resync: None,
    };
    let (quiet, news) = on_real_alone(move |lab| noisy(lab, noise, health_predicate()));
    assert_eq!(quiet, NOTHING);
    assert_eq!((news.runs, news.writes), (10, 0), "a failing node causes runs");
}

/// The effects of ten resyncs of converged pages.
async fn resynced(lab: Lab, noise: Noise) -> Cost {
    let stage = set_up(&lab, noise).await;
    let engine = stage.operator(&lab.client("operator").0, health_predicate());
    let scenario = async {
        stage.wait_until_converged().await;
        let from = stage.runs();
        let resyncs = wait_until(seconds(120), "ten resyncs", || async {
            stage.runs() >= from + 10 * stage.noise.pages
        });
        stage.measure_cost(async { _ = resyncs.await }).await
    };
    tokio::select! { biased;
        cost = scenario => cost,
        ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    }
}

fn ten_resyncs() -> Noise {
    Noise {
        pages: 10,
        nodes: 0,
        beats: 0,
        pause: Duration::ZERO,
        resync: Some(seconds(2)),
    }
}

#[test]
fn ten_resyncs_leave_every_version_as_it_was() {
    let cost = on_box(6, |lab| resynced(lab, ten_resyncs()));
    assert!(cost.runs >= 100, "{cost:?}");
    assert_eq!((cost.writes, cost.changed), (0, 0));
}

#[test]
#[ignore = "needs the real control plane"]
fn real_ten_resyncs_leave_every_version_as_it_was() {
    let cost = on_real_alone(|lab| resynced(lab, ten_resyncs()));
    assert!(cost.runs >= 100, "{cost:?}");
    assert_eq!((cost.writes, cost.changed), (0, 0));
}
