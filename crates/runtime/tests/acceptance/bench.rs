//! A writer with its caches and without an engine, for tests that run one pass at a time.

use std::sync::{Arc, Mutex};

use aplomb::clock::Clock;
use aplomb::informer::Scope;
use aplomb::journal::{Journal, JournalCapacity};
use aplomb::leadership::fence::Fence;
use aplomb::managed_fields::is_foreign_change;
use aplomb::tasks::{TaskHandle, Tasks};
use aplomb::telemetry::Telemetry;
use aplomb::writer::{InFlightWrite, LiveObjects, Pass, PassOwner, Writer};
use aplomb::{Cache, InformerSet, ObjectKey};
use aplomb_simulation::faults::{Fault, Match, Rule, WatchFault};
use http::Request;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, PostParams};
use kube::client::Body;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::lab::{Answers, Lab, seconds};
use crate::page::Page;

pub const MANAGER: &str = "pages.example.com";

/// One process that writes.
pub struct Bench {
    pub pages: Cache<Page>,
    pub maps: Cache<ConfigMap>,
    pub services: Cache<Service>,
    pub deployments: Cache<Deployment>,
    pub answers: Answers,
    pub telemetry: Telemetry,
    pub key: ObjectKey,
    client: Client,
    writer: Writer,
    events: Arc<Mutex<Vec<(ObjectKey, bool)>>>,
    _tasks: Vec<TaskHandle<()>>,
}

impl Bench {
    pub async fn start(lab: &Lab) -> Self {
        Self::start_on(lab, None).await
    }

    /// With watches that have this fault after they have listed.
    pub async fn start_with(lab: &Lab, fault: WatchFault) -> Self {
        Self::start_on(lab, Some(fault)).await
    }

    async fn start_on(lab: &Lab, fault: Option<WatchFault>) -> Self {
        let (client, faults) = lab.client("operator");
        if let Some(fault) = fault {
            faults.add(Rule::new(Fault::Watch(fault)).on(Match::watches()));
        }
        let answers = Answers::default();
        let client = answers.for_client(&client);
        let telemetry = Telemetry::default();
        let hub = InformerSet::new(client.clone(), telemetry.clone());
        let scope = || Scope {
            namespace: Some("default".to_owned()),
            ..Scope::default()
        };
        let pages = hub.informer::<Page>(scope());
        let maps = hub.informer::<ConfigMap>(scope());
        let services = hub.informer::<Service>(scope());
        let deployments = hub.informer::<Deployment>(scope());
        maps.cache().set_foreign_check(|old, new, manager| {
            let json = |map: &ConfigMap| serde_json::to_value(map).unwrap();
            is_foreign_change(&json(old), &json(new), manager)
        });
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = told.clone();
        maps.listen(move |event| log.lock().unwrap().push((event.key(), event.is_written_by(MANAGER))));
        let tasks = hub.start(&Tasks::on_runtime());
        hub.wait_until_synced(Instant::now() + seconds(20)).await.unwrap();
        let writer = writer(&client, &Fence::always_open(), &telemetry);
        Self {
            pages: pages.cache(),
            maps: maps.cache(),
            services: services.cache(),
            deployments: deployments.cache(),
            answers,
            telemetry,
            key: ObjectKey::new(Some("default"), "front"),
            client,
            writer,
            events: told,
            _tasks: tasks,
        }
    }

    /// The newest known state of the page.
    pub fn front(&self) -> Arc<Page> {
        self.pages.get(&self.key).expect("the page exists")
    }

    /// The newest known state of a config map.
    pub fn map(&self, name: &str) -> Option<Arc<ConfigMap>> {
        self.maps.get(&ObjectKey::new(Some("default"), name))
    }

    /// For each event of the config map `name`, whether it was recognized as our own write.
    pub fn event_origins(&self, name: &str) -> Vec<bool> {
        let told = self.events.lock().unwrap();
        let of_map = told.iter().filter(|(key, _)| *key.name == *name);
        of_map.map(|(_, own)| *own).collect()
    }

    pub fn pass(&self, page: &Page) -> Pass {
        self.pass_with(page, Arc::new(self.pages.clone()))
    }

    pub fn pass_with(&self, page: &Page, known: Arc<dyn LiveObjects>) -> Pass {
        begin(&self.writer, page, known)
    }

    /// A pass under a lease whose writes are each delayed for five seconds.
    pub fn fenced_pass(&self, page: &Page, fence: &Fence, held_up: HoldPoint) -> Pass {
        let writer = writer(&held_up.client(&self.client), fence, &self.telemetry);
        begin(&writer, page, Arc::new(self.pages.clone()))
    }

    /// A child that has the page as an owner, but not as its controller.
    pub async fn make_foreign(&self, lab: &Lab, name: &str) {
        let front = self.front();
        let mut owner = front.owner_ref(&()).expect("it has a name");
        owner.controller = None;
        self.make(lab, name, json!([owner])).await;
    }

    /// A config map that another config map controls.
    pub async fn make_controlled(&self, lab: &Lab, name: &str, controller: &str) {
        let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
        let other = config_map(controller, "x");
        let other = maps.create(&PostParams::default(), &other).await.unwrap();
        let owner = other.controller_owner_ref(&()).expect("it has a name");
        self.make(lab, name, json!([owner])).await;
    }

    async fn make(&self, lab: &Lab, name: &str, owners: Value) {
        let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
        let mut map = config_map(name, "theirs");
        map.metadata.owner_references = serde_json::from_value(owners).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
}

fn writer(client: &Client, fence: &Fence, telemetry: &Telemetry) -> Writer {
    Writer::new(
        client.clone(),
        MANAGER,
        fence.clone(),
        telemetry.clone(),
        Clock::system(),
    )
}

fn begin(writer: &Writer, page: &Page, known: Arc<dyn LiveObjects>) -> Pass {
    let owner = PassOwner::new(page, Some(known)).unwrap();
    let journal = Journal::new(JournalCapacity::default(), Clock::system());
    writer.pass(owner, journal)
}

/// Where a write is delayed.
#[derive(Clone, Copy)]
pub enum HoldPoint {
    /// Before it reaches the server.
    BeforeRequest,
    /// On the way back, with its response.
    BeforeResponse,
}

impl HoldPoint {
    fn client(self, client: &Client) -> Client {
        let inner = client.clone();
        let service = service_fn(move |request: Request<Body>| {
            let inner = inner.clone();
            async move {
                if matches!(self, Self::BeforeRequest) {
                    sleep(seconds(5)).await;
                }
                let response = inner.send(request).await?;
                if matches!(self, Self::BeforeResponse) {
                    sleep(seconds(5)).await;
                }
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, client.default_namespace())
    }
}

/// A cache that does not learn about our own writes.
pub struct CacheWithoutWrites<C>(pub C);

/// A cache that shows every object without its data, so that no write of data is skipped.
pub struct CacheWithoutData<C>(pub C);

impl<C: LiveObjects> LiveObjects for CacheWithoutData<C> {
    fn live(&self, key: &ObjectKey) -> Option<Value> {
        let mut live = self.0.live(key)?;
        live["data"] = json!({});
        Some(live)
    }

    fn owned_by(&self, uid: &str) -> Vec<Value> {
        self.0.owned_by(uid)
    }

    fn begin_write(&self, key: &ObjectKey) -> Box<dyn InFlightWrite> {
        self.0.begin_write(key)
    }
}

struct IgnoredWrite;

impl<C: LiveObjects> LiveObjects for CacheWithoutWrites<C> {
    fn live(&self, key: &ObjectKey) -> Option<Value> {
        self.0.live(key)
    }

    fn owned_by(&self, uid: &str) -> Vec<Value> {
        self.0.owned_by(uid)
    }

    fn begin_write(&self, _: &ObjectKey) -> Box<dyn InFlightWrite> {
        Box::new(IgnoredWrite)
    }
}

impl InFlightWrite for IgnoredWrite {
    fn record_write(self: Box<Self>, _: &Value, _: aplomb::cache::WriteReceipt) {}

    fn record_delete(self: Box<Self>, _: &str) {}
}

pub fn config_map(name: &str, value: &str) -> ConfigMap {
    let map = json!({
        "metadata": { "name": name, "namespace": "default", "labels": { "app": "page" } },
        "data": { "value": value },
    });
    serde_json::from_value(map).unwrap()
}

pub fn service(name: &str) -> Service {
    let service = json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "app": "page" },
            "ports": [{ "name": "http", "port": 80 }, { "name": "dns", "port": 53, "protocol": "UDP" }],
        },
    });
    serde_json::from_value(service).unwrap()
}

pub fn deployment(name: &str, cpu: &str) -> Deployment {
    let container = json!({
        "name": "web", "image": "web:1",
        "ports": [{ "containerPort": 8080 }],
        "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
        "resources": { "requests": { "cpu": cpu } },
        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
    });
    let deployment = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [container], "volumes": [{ "name": "data", "emptyDir": {} }] },
            },
        },
    });
    serde_json::from_value(deployment).unwrap()
}
