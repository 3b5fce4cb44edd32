//! A cluster with the tunnel CRDs in virtual time, and the helpers that the tests use.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_api::tunnel::{CLASS, ConnectorClass, ConnectorStatus, HttpProxy, HttpProxyStatus};
use aplomb_apiserver::storage::Window;
use aplomb_simulation::{Cluster, Run, Simulation};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::api::{Api, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::net::Net;

/// The namespace of the operator and its gateways.
pub const NAMESPACE: &str = "aplomb-system";
/// The namespace of the tunnels.
pub const TENANT: &str = "default";

/// A cluster with the tunnel CRDs.
#[derive(Clone)]
pub struct Lab {
    pub cluster: Cluster,
    pub net: Net,
}

/// The content of a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionText {
    pub status: String,
    pub reason: String,
    pub message: String,
}

/// Runs a scenario on the box.
pub fn on_box<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    run(Simulation::new(seed), scenario).value
}

/// The same, returning the trace.
pub fn recorded_on_box<T, F, S>(seed: u64, scenario: S) -> Vec<String>
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    run(Simulation::new(seed), scenario).trace
}

/// The same for a run that is too long to record.
pub fn on_box_for_long<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let window = Window {
        compaction: seconds(30),
        ..Window::default()
    };
    let world = Simulation::new(seed).memory(1_000).server(move |it| it.window(window));
    run(world, scenario).value
}

fn run<T, F, S>(world: Simulation, scenario: S) -> Run<T>
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    world.interpose(aplomb_virtual_time::install).run(|cluster| async move {
        let lab = Lab {
            cluster,
            net: Net::default(),
        };
        install(&lab.user()).await;
        scenario(lab).await
    })
}

impl Lab {
    /// A user's client, without injected faults.
    pub fn user(&self) -> Client {
        self.cluster.plain_client("user")
    }

    /// The status of a Connector.
    pub fn connector(&self, name: &str) -> ConnectorStatus {
        self.status("connectors", name)
    }

    /// The status of an HTTPProxy.
    pub fn proxy(&self, name: &str) -> HttpProxyStatus {
        self.status("httpproxies", name)
    }

    fn status<T: DeserializeOwned + Default>(&self, plural: &str, name: &str) -> T {
        let stored = self.cluster.server();
        let stored = stored.get("aplomb.dev", plural, TENANT, name);
        let status = stored.and_then(|it| it.get("status").cloned());
        let read = |status| serde_json::from_value(status).expect("a status");
        status.map(read).unwrap_or_default()
    }

    /// A condition of a Connector; empty if there is none.
    pub fn condition(&self, name: &str, kind: &str) -> ConditionText {
        find_condition(self.connector(name).conditions, kind)
    }

    /// A condition of an HTTPProxy; empty if there is none.
    pub fn proxy_condition(&self, name: &str, kind: &str) -> ConditionText {
        find_condition(self.proxy(name).conditions, kind)
    }

    pub fn is_ready(&self, name: &str) -> bool {
        self.proxy_condition(name, "Ready").status == "True"
    }

    /// Waits until an HTTPProxy is ready; returns how long it took.
    pub async fn wait_ready(&self, name: &str, limit: Duration) -> Duration {
        let began = Instant::now();
        while !self.is_ready(name) {
            let said = || self.proxy(name).conditions;
            assert!(began.elapsed() < limit, "not ready within {limit:?}: {:#?}", said());
            sleep(Duration::from_millis(10)).await;
        }
        began.elapsed()
    }

    pub fn is_online(&self, name: &str) -> bool {
        self.condition(name, "Online").status == "True"
    }

    /// Waits until a Connector is online; returns how long it took.
    pub async fn wait_online(&self, name: &str, limit: Duration) -> Duration {
        until(limit, "the connector is online", || self.is_online(name)).await
    }

    /// Waits until a Connector is offline; returns how long it took.
    pub async fn wait_offline(&self, name: &str, limit: Duration) -> Duration {
        until(limit, "the connector is offline", || !self.is_online(name)).await
    }

    /// The reasons of all Events so far.
    pub fn events(&self) -> Vec<String> {
        let events = self.cluster.server().list("", "events");
        let reason = |it: &Arc<Value>| it["reason"].as_str().unwrap_or_default().to_owned();
        events.iter().map(reason).collect()
    }

    /// Records the transitions of Connectors from now on.
    pub fn follow_status(&self) -> OnlineHistory {
        let turns = OnlineHistory::default();
        let all = turns.clone();
        self.cluster.server().on_commit(Arc::new(move |change| {
            if change.key.resource.resource != "connectors" {
                return;
            }
            let status = |object: &Option<Arc<Value>>| {
                let status = object.as_ref().and_then(|it| it.get("status"));
                let mut status = status.cloned().unwrap_or_default();
                // The fields of the agent.
                if let Some(fields) = status.as_object_mut() {
                    fields.remove("connectionDetails");
                }
                status
            };
            let (old, new) = (status(&change.old), status(&change.new));
            if old != new {
                let mut all = all.0.lock().unwrap();
                all.push(online_status(&new).to_owned());
            }
        }));
        turns
    }
}

fn find_condition(conditions: Vec<Condition>, kind: &str) -> ConditionText {
    let found = conditions.into_iter().find(|it| it.type_ == kind);
    let shown = |it: Condition| ConditionText {
        status: it.status,
        reason: it.reason,
        message: it.message,
    };
    found.map(shown).unwrap_or_default()
}

/// Creates an HTTPProxy with one rule to a connector.
pub async fn create_tunnel(user: &Client, name: &str, connector: &str) {
    let proxies: Api<HttpProxy> = Api::namespaced(user.clone(), TENANT);
    let proxy = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy", "metadata": { "name": name },
        "spec": { "rules": [{ "backends": [
            { "endpoint": "http://localhost:3000", "connector": { "name": connector } },
        ] }] },
    });
    let proxy = serde_json::from_value(proxy).expect("an HTTPProxy");
    let made = proxies.create(&PostParams::default(), &proxy).await;
    made.expect("an HTTPProxy");
}

fn online_status(status: &Value) -> &str {
    let conditions = status["conditions"].as_array();
    let online = conditions.into_iter().flatten();
    let mut online = online.filter(|it| it["type"] == "Online");
    online.next().and_then(|it| it["status"].as_str()).unwrap_or_default()
}

/// The `Online` condition after each write of the operator to the status of a Connector.
#[derive(Clone, Default)]
pub struct OnlineHistory(Arc<Mutex<Vec<String>>>);

impl OnlineHistory {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The CRDs of the Gateway API and ours.
fn definitions() -> Vec<CustomResourceDefinition> {
    let theirs = aplomb_api::gateway_api::DEFINITIONS;
    let read = |(_, text): (_, &str)| serde_saphyr::from_str(text).expect("a definition");
    let mut all: Vec<CustomResourceDefinition> = theirs.into_iter().map(read).collect();
    all.extend(aplomb_api::definitions());
    all
}

/// Creates the namespace, the CRDs and the class.
pub async fn install(user: &Client) {
    let namespaces: Api<Namespace> = Api::all(user.clone());
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(user.clone());
    for definition in definitions() {
        crds.create(&params, &definition).await.unwrap();
    }
    let classes: Api<ConnectorClass> = Api::all(user.clone());
    while classes.list(&Default::default()).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    create_class(user, CLASS, &json!({})).await;
}

/// Creates a ConnectorClass.
pub async fn create_class(user: &Client, name: &str, spec: &Value) {
    let classes: Api<ConnectorClass> = Api::all(user.clone());
    let class = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "ConnectorClass",
        "metadata": { "name": name }, "spec": spec,
    });
    let class = serde_json::from_value(class).expect("a class");
    classes.create(&PostParams::default(), &class).await.unwrap();
}

/// Polls until `holds`; returns how long it took.
pub async fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

/// Asserts that `holds` at every poll for `time`.
pub async fn assert_throughout(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while began.elapsed() < time {
        assert!(holds(), "not true after {:?}: {what}", began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
