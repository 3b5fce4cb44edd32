//! A cluster with the kinds of tunnels, in virtual time; and the words in which a test speaks of it.

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

/// Where the operator and its gateways are.
pub const NAMESPACE: &str = "aplomb-system";
/// Where tunnels are.
pub const TENANT: &str = "default";

/// A cluster with the kinds of tunnels.
#[derive(Clone)]
pub struct Lab {
    pub cluster: Cluster,
    pub net: Net,
}

/// What a condition says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
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

/// The same for its trace.
pub fn recorded_on_box<T, F, S>(seed: u64, scenario: S) -> Vec<String>
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    run(Simulation::new(seed), scenario).trace
}

/// The same for a run that is too long to be remembered.
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
    let world = Simulation::new(seed)
        .memory(1_000)
        .server(move |it| it.window(window));
    run(world, scenario).value
}

fn run<T, F, S>(world: Simulation, scenario: S) -> Run<T>
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    world
        .interpose(aplomb_virtual_time::install)
        .run(|cluster| async move {
            let lab = Lab {
                cluster,
                net: Net::default(),
            };
            install(&lab.user()).await;
            scenario(lab).await
        })
}

impl Lab {
    /// Somebody else's client, which meets no faults.
    pub fn user(&self) -> Client {
        self.cluster.plain_client("user")
    }

    /// What status says of a Connector.
    pub fn connector(&self, name: &str) -> ConnectorStatus {
        self.status("connectors", name)
    }

    /// What status says of an HTTPProxy.
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

    /// A condition of a Connector; with empty words if there is none.
    pub fn condition(&self, name: &str, kind: &str) -> Shown {
        shown(self.connector(name).conditions, kind)
    }

    /// A condition of an HTTPProxy; with empty words if there is none.
    pub fn of_proxy(&self, name: &str, kind: &str) -> Shown {
        shown(self.proxy(name).conditions, kind)
    }

    pub fn is_ready(&self, name: &str) -> bool {
        self.of_proxy(name, "Ready").status == "True"
    }

    /// Waits until an HTTPProxy is ready; how long it took.
    pub async fn ready(&self, name: &str, limit: Duration) -> Duration {
        let began = Instant::now();
        while !self.is_ready(name) {
            let said = || self.proxy(name).conditions;
            assert!(
                began.elapsed() < limit,
                "not ready within {limit:?}: {:#?}",
                said()
            );
            sleep(Duration::from_millis(10)).await;
        }
        began.elapsed()
    }

    pub fn is_online(&self, name: &str) -> bool {
        self.condition(name, "Online").status == "True"
    }

    /// Waits until a Connector is online; how long it took.
    pub async fn online(&self, name: &str, limit: Duration) -> Duration {
        until(limit, "it is online", || self.is_online(name)).await
    }

    /// Waits until a Connector is offline; how long it took.
    pub async fn offline(&self, name: &str, limit: Duration) -> Duration {
        until(limit, "it is offline", || !self.is_online(name)).await
    }

    /// The reasons of Events so far.
    pub fn events(&self) -> Vec<String> {
        let events = self.cluster.server().list("", "events");
        let reason = |it: &Arc<Value>| it["reason"].as_str().unwrap_or_default().to_owned();
        events.iter().map(reason).collect()
    }

    /// Follows the status of Connectors from now on.
    pub fn follow(&self) -> Turns {
        let turns = Turns::default();
        let all = turns.clone();
        self.cluster.server().on_commit(Arc::new(move |change| {
            if change.key.resource.resource != "connectors" {
                return;
            }
            let status = |object: &Option<Arc<Value>>| {
                let status = object.as_ref().and_then(|it| it.get("status"));
                let mut status = status.cloned().unwrap_or_default();
                // The agent's.
                if let Some(fields) = status.as_object_mut() {
                    fields.remove("connectionDetails");
                }
                status
            };
            let (old, new) = (status(&change.old), status(&change.new));
            if old != new {
                let mut all = all.0.lock().unwrap();
                all.push(online(&new).to_owned());
            }
        }));
        turns
    }
}

fn shown(conditions: Vec<Condition>, kind: &str) -> Shown {
    let found = conditions.into_iter().find(|it| it.type_ == kind);
    let shown = |it: Condition| Shown {
        status: it.status,
        reason: it.reason,
        message: it.message,
    };
    found.map(shown).unwrap_or_default()
}

/// Makes an HTTPProxy whose one rule leads to a connector.
pub async fn tunnel(user: &Client, name: &str, connector: &str) {
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

fn online(status: &Value) -> &str {
    let conditions = status["conditions"].as_array();
    let online = conditions.into_iter().flatten();
    let mut online = online.filter(|it| it["type"] == "Online");
    online
        .next()
        .and_then(|it| it["status"].as_str())
        .unwrap_or_default()
}

/// What `Online` said after each write of the operator to the status of a Connector.
#[derive(Clone, Default)]
pub struct Turns(Arc<Mutex<Vec<String>>>);

impl Turns {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The definitions of the Gateway API and of ours.
fn definitions() -> Vec<CustomResourceDefinition> {
    let theirs = aplomb_api::gateway_api::DEFINITIONS;
    let read = |(_, text): (_, &str)| serde_saphyr::from_str(text).expect("a definition");
    let mut all: Vec<CustomResourceDefinition> = theirs.into_iter().map(read).collect();
    all.extend(aplomb_api::definitions());
    all
}

/// Makes the namespace, the kinds and the class.
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
    class(user, CLASS, &json!({})).await;
}

/// Makes a ConnectorClass.
pub async fn class(user: &Client, name: &str, spec: &Value) {
    let classes: Api<ConnectorClass> = Api::all(user.clone());
    let class = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "ConnectorClass",
        "metadata": { "name": name }, "spec": spec,
    });
    let class = serde_json::from_value(class).expect("a class");
    classes
        .create(&PostParams::default(), &class)
        .await
        .unwrap();
}

/// Waits until `holds`, looking often; how long it took.
pub async fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

/// That `holds` at every look for so long.
pub async fn throughout(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while began.elapsed() < time {
        assert!(holds(), "after {:?} no longer: {what}", began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
