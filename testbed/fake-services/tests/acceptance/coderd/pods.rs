//! The player of pods on a server without kubelets: rollouts of daemons and proxy servers.

use std::time::Duration;

use aplomb_apimachinery::clock::Clock;
use aplomb_fake_services::coderd::{Config, FakeCoderd, Pods, Work};
use aplomb_simulation::Simulation;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{OWNER, PROXIES, call};

const URL: &str = "http://coder.example.com";
const ELSEWHERE: &str = "http://other.example.com";

/// A cluster, two Coder servers, and who plays the pods of both.
struct Lab {
    user: Client,
    coderd: FakeCoderd,
    other: FakeCoderd,
}

fn lab<F: Future<Output = ()>>(work: Option<Work>, scenario: impl FnOnce(Lab) -> F + Send + 'static) {
    let world = Simulation::new(3).interpose(aplomb_virtual_time::install);
    world.run(move |cluster| async move {
        let clock: Clock = cluster.server().clock().clone();
        let mut config = Config::new(clock, 1, OWNER);
        config.ends_sessions = true;
        let [coderd, other] = [(); 2].map(|()| FakeCoderd::new(config.clone()));
        let (here, there) = (coderd.clone(), other.clone());
        let server = move |url: &str| match url {
            URL => Some(here.clone()),
            ELSEWHERE => Some(there.clone()),
            _ => None,
        };
        let mut pods = Pods::of(coderd.clone());
        (pods.server, pods.work) = (std::sync::Arc::new(server), work);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(pods.play(cluster.plain_client("player")));
        let user = cluster.plain_client("user");
        scenario(Lab { user, coderd, other }).await;
    });
}

impl Lab {
    async fn secret(&self, value: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.user.clone(), "default");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
            "stringData": { "key": value },
        });
        let params = PatchParams::apply("user").force();
        let applied = secrets.patch("key", &params, &Patch::Apply(secret)).await;
        applied.expect("it is applied");
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.user.clone(), "default")
    }

    /// Applies the deployment with a number of replicas and a mark on its template.
    async fn deploy(&self, name: &str, env: [&str; 2], url: &str, replicas: u32, mark: &str) {
        let labels = json!({ "app.kubernetes.io/name": name });
        let from = json!({ "secretKeyRef": { "name": "key", "key": "key" } });
        let container = json!({
            "name": "main", "image": "registry.example.com/coder:1",
            "env": [{ "name": env[0], "value": url }, { "name": env[1], "valueFrom": from }],
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "pods", "labels": labels },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels, "annotations": { "mark": mark } },
                    "spec": { "containers": [container], "terminationGracePeriodSeconds": 600 },
                },
            },
        });
        let params = PatchParams::apply("user").force();
        let applied = self
            .deployments()
            .patch("pods", &params, &Patch::Apply(deployment))
            .await;
        applied.expect("it is applied");
    }

    async fn provisioner(&self, url: &str, replicas: u32, mark: &str) {
        let env = ["CODER_URL", "CODER_PROVISIONER_DAEMON_KEY"];
        self.deploy("coder-provisioner", env, url, replicas, mark).await;
    }

    async fn status(&self) -> DeploymentStatus {
        let deployment = self.deployments().get("pods").await.expect("it is there");
        deployment.status.unwrap_or_default()
    }
}

/// The keys that connected daemons have, and whether each is busy.
fn connected(coderd: &FakeCoderd) -> Vec<(String, bool)> {
    let all = coderd.daemons().into_iter();
    all.filter_map(|it| Some((it.key?, it.busy))).collect()
}

async fn after(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn daemons_come_with_a_deployment_follow_its_replicas_and_go_with_it() {
    lab(None, |lab| async move {
        // The pods wait for their Secret.
        lab.provisioner(URL, 2, "one").await;
        after(5).await;
        assert_eq!(lab.status().await.ready_replicas, None);
        lab.secret(&lab.coderd.create_key("coder", "one")).await;
        after(5).await;
        let status = lab.status().await;
        assert_eq!((status.observed_generation, status.ready_replicas), (Some(1), Some(2)));
        assert_eq!(connected(&lab.coderd), [("one".into(), false), ("one".into(), false)]);
        lab.provisioner(URL, 0, "one").await;
        after(5).await;
        assert_eq!(connected(&lab.coderd), []);
        assert_eq!(lab.status().await.replicas, None);
        lab.provisioner(URL, 1, "one").await;
        after(5).await;
        let gone = lab.deployments().delete("pods", &DeleteParams::default()).await;
        gone.expect("it is deleted");
        after(5).await;
        assert_eq!(connected(&lab.coderd), []);
        assert_eq!(lab.coderd.outages(), []);
    });
}

#[test]
fn a_rollout_to_a_new_key_lets_jobs_finish_and_nobody_is_without_one() {
    let work = Work {
        job: Duration::from_secs(40),
        pause: Duration::from_secs(1),
    };
    lab(Some(work), |lab| async move {
        lab.secret(&lab.coderd.create_key("coder", "one")).await;
        lab.provisioner(URL, 2, "one").await;
        after(10).await;
        lab.secret(&lab.coderd.create_key("coder", "two")).await;
        lab.provisioner(URL, 2, "two").await;
        after(5).await;
        // The new ones are there, the old ones are busy.
        assert_eq!(connected(&lab.coderd).len(), 4);
        assert_eq!(lab.status().await.updated_replicas, Some(2));
        after(45).await;
        assert!(connected(&lab.coderd).iter().all(|(key, _)| key == "two"));
        lab.coderd.delete_key("coder", "one");
        after(120).await;
        assert_eq!((lab.coderd.outages(), lab.coderd.jobs_cut()), (vec![], 0));
    });
}

#[test]
fn deleting_the_key_before_the_rollout_is_seen_as_an_outage() {
    lab(None, |lab| async move {
        lab.secret(&lab.coderd.create_key("coder", "one")).await;
        lab.provisioner(URL, 1, "one").await;
        after(5).await;
        lab.coderd.delete_key("coder", "one");
        lab.secret(&lab.coderd.create_key("coder", "two")).await;
        lab.provisioner(URL, 1, "two").await;
        after(60).await;
        let outages = lab.coderd.outages();
        assert_eq!(outages.len(), 1);
        assert!(outages[0].until.is_some(), "it ended with the old pod");
        assert_eq!(connected(&lab.coderd), [("two".into(), false)]);
    });
}

#[test]
fn pods_move_to_the_server_that_their_template_names() {
    lab(None, |lab| async move {
        lab.secret(&lab.coderd.create_key("coder", "one")).await;
        lab.provisioner(URL, 1, "one").await;
        after(5).await;
        lab.secret(&lab.other.create_key("coder", "one")).await;
        lab.provisioner(ELSEWHERE, 1, "one").await;
        after(5).await;
        assert_eq!(connected(&lab.coderd), []);
        assert_eq!(connected(&lab.other), [("one".into(), false)]);
    });
}

#[test]
fn proxy_servers_report_with_their_token() {
    lab(None, |lab| async move {
        let new = json!({ "name": "sydney" });
        let (_, body): (u16, Value) = call(&lab.coderd, "POST", PROXIES, new).await;
        lab.secret(body["proxy_token"].as_str().expect("a token")).await;
        let env = ["CODER_PRIMARY_ACCESS_URL", "CODER_PROXY_SESSION_TOKEN"];
        lab.deploy("coder-workspace-proxy", env, URL, 2, "one").await;
        after(5).await;
        assert_eq!(lab.coderd.proxy_health("sydney"), Some("ok"));
        assert_eq!(lab.status().await.available_replicas, Some(2));
    });
}
