//! A simulated cluster, provider and network in virtual time, with helpers for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_api::egress::labels::GATEWAY;
use aplomb_api::egress::{StableEgress, StableEgressStatus};
use aplomb_apiserver::storage::Window;
use aplomb_controllers::Controllers;
use aplomb_fake_services::hcloud::{Change, Config, FakeHcloud, FloatingIp, Server, Token};
use aplomb_simulation::{Cluster, Simulation};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::label_watch::Labelled;
use crate::nodes::{self, Nodes};
use crate::operator::Replica;
use crate::reachability::Reach;
use crate::valve::Valve;

/// Namespace of the operator.
pub const NAMESPACE: &str = "aplomb-system";
/// The name of most StableEgresses here.
pub const WEB: &str = "web";
/// As long as a real token. No part of it may appear anywhere.
pub const TOKEN: &str = "q7Zp2mVx9KfT4wYb8RnL3cHs6DjG5aEuX1oWiQ0tNvMzBkCrPyUeFgJhSdAlOxIw";
/// Name of its Secret.
pub const SECRET: &str = "hcloud";

/// The floating IP with this number.
pub fn floating_ip(number: usize) -> u64 {
    100 + u64::try_from(number).expect("there are few")
}

/// A cluster, a provider and a network.
#[derive(Clone)]
pub struct Lab {
    pub cluster: Cluster,
    pub hetzner: FakeHcloud,
    pub reach: Reach,
    pub valve: Valve,
    pub nodes: Nodes,
    pub labeled: Labelled,
    tokens: Vec<String>,
    dead: Arc<Mutex<BTreeSet<String>>>,
}

/// A condition's fields.
#[derive(Debug, Default)]
pub struct Shown {
    pub status: String,
    pub reason: String,
    pub message: String,
}

/// Settings of the simulation.
#[derive(Clone)]
pub struct Around {
    pub seed: u64,
    pub actors: Controllers,
    /// Secrets by name, with their tokens; each token is a separate project.
    pub tokens: Vec<(String, String)>,
    /// Minimum and maximum duration of provider actions; default: as the simulator has it.
    pub action: Option<(Duration, Duration)>,
    /// Whether the run is too long to keep its trace.
    pub long_running: bool,
}

impl Around {
    pub fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            actors: Controllers::default(),
            tokens: vec![(SECRET.to_owned(), TOKEN.to_owned())],
            action: None,
            long_running: false,
        }
    }

    /// Runs a scenario in it.
    pub fn run<T, F, S>(self, scenario: S) -> T
    where
        S: FnOnce(Lab) -> F + Send + 'static,
        F: Future<Output = T>,
        T: Send + 'static,
    {
        let mut world = Simulation::new(self.seed)
            .actors(self.actors.clone())
            .interpose(aplomb_virtual_time::install);
        if self.long_running {
            let window = Window {
                compaction: seconds(30),
                ..Window::default()
            };
            world = world.memory(1_000).server(move |it| it.window(window));
        }
        let run = world.run(|cluster| async move {
            let lab = Lab::new(cluster, &self).await;
            scenario(lab).await
        });
        run.value
    }
}

/// Runs a scenario with default settings.
pub fn on_box<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    Around::with_seed(seed).run(scenario)
}

impl Lab {
    async fn new(cluster: Cluster, around: &Around) -> Self {
        let mut config = Config::new(cluster.server().clock().clone(), around.seed, "");
        let token = |(secret, text): &(String, String)| Token::new(text).of(secret);
        config.tokens = around.tokens.iter().map(token).collect();
        if let Some((least, most)) = around.action {
            config.action_time = least..=most;
        }
        let user = cluster.plain_client("user");
        let lab = Self {
            hetzner: FakeHcloud::new(config),
            reach: Reach::default(),
            valve: Valve::default(),
            nodes: Nodes::new(user.clone()),
            labeled: Labelled::follow(cluster.server(), "nodes"),
            dead: Arc::default(),
            tokens: around.tokens.iter().map(|(_, token)| token.clone()).collect(),
            cluster,
        };
        install(&user).await;
        for (secret, token) in &around.tokens {
            lab.secret(secret, token).await;
        }
        lab
    }

    /// A user's client, without injected faults.
    pub fn user(&self) -> Client {
        self.cluster.plain_client("user")
    }

    /// The token with this number.
    pub fn token(&self, number: usize) -> String {
        self.tokens[number].clone()
    }

    /// Puts a token into a Secret.
    pub async fn secret(&self, name: &str, token: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.user(), NAMESPACE);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "stringData": { "token": token },
        });
        let params = PatchParams::apply("user").force();
        let applied = secrets.patch(name, &params, &Patch::Apply(secret)).await;
        applied.unwrap();
    }

    /// Makes nodes `0..count`, candidates for `egress`, and their servers.
    pub async fn candidates(&self, egress: &str, count: usize) {
        let mut servers = self.hetzner.state().servers;
        for number in 0..count {
            self.nodes.create(&nodes::node(number, Some(egress))).await;
            servers.push(server(number));
        }
        self.change(Change {
            servers: Some(servers),
            ..Change::default()
        });
    }

    pub fn change(&self, change: Change) {
        self.hetzner.change(change).expect("valid settings");
    }

    /// Creates or changes the floating IP with this number.
    pub fn floating_ip(&self, number: usize, name: &str, act: impl FnOnce(&mut FloatingIp)) {
        let mut all = self.hetzner.state().floating_ips;
        let id = floating_ip(number);
        let at = all.iter().position(|it| it.id == id).unwrap_or_else(|| {
            let ip = format!("203.0.113.{}", number + 10);
            let new = json!({ "id": id, "name": name, "ip": ip });
            all.push(serde_json::from_value(new).expect("a floating IP"));
            all.len() - 1
        });
        act(&mut all[at]);
        self.change(Change {
            floating_ips: Some(all),
            ..Change::default()
        });
    }

    /// Moves the first floating IP, as a person does in the provider's console.
    pub fn move_manually(&self, server: Option<u64>) {
        self.floating_ip(0, WEB, |it| it.server = server);
    }

    /// Creates a StableEgress; `spec` overrides the default fields.
    pub async fn egress(&self, name: &str, spec: &Value) {
        let egresses: Api<StableEgress> = Api::all(self.user());
        let mut all = json!({ "floatingIP": { "name": name }, "tokenSecretRef": { "name": SECRET } });
        merge(&mut all, spec);
        let made = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "StableEgress",
            "metadata": { "name": name }, "spec": all,
        });
        let made: StableEgress = serde_json::from_value(made).expect("a StableEgress");
        egresses.create(&PostParams::default(), &made).await.unwrap();
    }

    /// Changes a StableEgress.
    pub async fn edit(&self, name: &str, patch: &Value) {
        let egresses: Api<StableEgress> = Api::all(self.user());
        let params = PatchParams::default();
        let patched = egresses.patch(name, &params, &Patch::Merge(patch)).await;
        patched.unwrap();
    }

    /// Creates candidates, a floating IP and a StableEgress called `web`, and a replica that has
    /// settled on the first node.
    pub async fn start_settled(&self, count: usize, spec: &Value) -> Replica {
        self.candidates(WEB, count).await;
        self.floating_ip(0, WEB, |_| {});
        self.egress(WEB, spec).await;
        let replica = Replica::start(self, "first");
        self.wait_serving(0, seconds(60)).await;
        replica
    }

    /// Waits until a node serves: it alone holds the floating IP and the label, and the status
    /// agrees.
    pub async fn wait_serving(&self, number: usize, limit: Duration) -> Duration {
        let what = format!("{} serves", nodes::name(number));
        until(limit, &what, || self.is_serving(number)).await
    }

    pub fn is_serving(&self, number: usize) -> bool {
        let node = nodes::name(number);
        self.hetzner.holder(floating_ip(0)) == Some(nodes::server(number))
            && self.labeled.single_node(WEB) == Some(node.clone())
            && self.status(WEB).active_node == Some(node)
            && self.condition(WEB, "Available").status == "True"
    }

    /// Kills a node at once and permanently, with all that runs on it.
    pub fn kill(&self, number: usize) {
        self.reach.set_silent(nodes::address(number), true);
        self.dead.lock().unwrap().insert(nodes::name(number));
    }

    pub fn is_dead(&self, node: &str) -> bool {
        self.dead.lock().unwrap().contains(node)
    }

    /// The status of a StableEgress.
    pub fn status(&self, name: &str) -> StableEgressStatus {
        let stored = self.cluster.server();
        let stored = stored.get("aplomb.dev", "stableegresses", "", name);
        let status = stored.and_then(|it| it.get("status").cloned());
        let read = |status| serde_json::from_value(status).expect("a status");
        status.map(read).unwrap_or_default()
    }

    /// A condition of a StableEgress; empty if there is none.
    pub fn condition(&self, name: &str, kind: &str) -> Shown {
        let conditions = self.status(name).conditions;
        let found = conditions.into_iter().find(|it| it.type_ == kind);
        let shown = |it: Condition| Shown {
            status: it.status,
            reason: it.reason,
            message: it.message,
        };
        found.map(shown).unwrap_or_default()
    }

    /// Events about StableEgress objects so far: their reasons and texts.
    pub fn events(&self) -> Vec<(String, String)> {
        let events = self.cluster.server().list("", "events");
        let text = |event: &Value, keys: [&str; 2]| {
            let found = keys.iter().find_map(|key| event.get(*key)?.as_str());
            found.unwrap_or_default().to_owned()
        };
        let told = events.iter().map(|event| {
            let words = text(event, ["message", "note"]);
            (text(event, ["reason", "reason"]), words)
        });
        told.collect()
    }

    /// The gateway labels of Nodes, by node.
    pub fn gateways(&self) -> BTreeMap<String, String> {
        let nodes = self.cluster.server().list("", "nodes");
        let labelled = nodes.iter().filter_map(|node| {
            let value = node.pointer("/metadata/labels")?.get(GATEWAY)?.as_str()?;
            let name = node.pointer("/metadata/name")?.as_str()?;
            Some((name.to_owned(), value.to_owned()))
        });
        labelled.collect()
    }
}

/// The server of a node.
pub fn server(number: usize) -> Server {
    let server = json!({ "id": nodes::server(number), "name": nodes::name(number) });
    serde_json::from_value(server).expect("a server")
}

async fn install(user: &Client) {
    let namespaces: Api<Namespace> = Api::all(user.clone());
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(user.clone());
    crds.create(&params, &StableEgress::crd()).await.unwrap();
    let egresses: Api<StableEgress> = Api::all(user.clone());
    while egresses.list(&Default::default()).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
}

/// Merges the members of `with` into `value`.
pub fn merge(value: &mut Value, with: &Value) {
    match (value, with) {
        (Value::Object(value), Value::Object(with)) => {
            for (key, with) in with {
                merge(value.entry(key).or_insert(Value::Null), with);
            }
        }
        (value, with) => *value = with.clone(),
    }
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

/// Asserts that `holds` throughout `time`.
pub async fn assert_throughout(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while began.elapsed() < time {
        assert!(holds(), "after {:?} no longer: {what}", began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
