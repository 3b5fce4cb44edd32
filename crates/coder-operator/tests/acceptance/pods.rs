//! The simulated pods of both servers, with settings.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_fake_services::coderd::{self, FakeCoderd, Work};
use aplomb_simulation::Cluster;
use aplomb_simulation::faults::{Fault, Match, Rule};
use tokio::task::JoinSet;

use crate::site::Site;

/// User name of the simulated kubelet at the API server.
const KUBELET: &str = "kubelet";

/// The pods of a cluster; they stop when this is dropped.
pub struct Pods {
    cluster: Cluster,
    servers: Vec<(String, FakeCoderd)>,
    playing: Mutex<JoinSet<()>>,
}

impl Pods {
    pub fn start(cluster: &Cluster, sites: &[&Site]) -> Self {
        let servers = sites.iter().map(|it| (it.url.to_owned(), it.sim.clone()));
        let pods = Self {
            cluster: cluster.clone(),
            servers: servers.collect(),
            playing: Mutex::default(),
        };
        pods.play(None);
        pods
    }

    /// Gives daemons jobs of this length, one after another. Must be called before the first
    /// starts.
    pub fn set_job_time(&self, job: Duration) {
        let pause = Duration::from_secs(2);
        self.play(Some(Work { job, pause }));
    }

    /// Keeps new pods from becoming ready, as if their Secrets could not be read; or ends that.
    pub fn set_broken(&self, broken: bool) {
        let faults = self.cluster.faults(KUBELET);
        match broken {
            true => faults.add(Rule::new(Fault::InternalError).on(Match::any().resource("secrets"))),
            false => faults.clear(),
        }
    }

    fn play(&self, work: Option<Work>) {
        let servers = self.servers.clone();
        let find = move |url: &str| {
            let known = servers.iter().find(|(known, _)| known == url);
            known.map(|(_, server)| server.clone())
        };
        let pods = coderd::Pods {
            server: Arc::new(find),
            start: Duration::from_secs(1),
            work,
        };
        let mut playing = JoinSet::new();
        playing.spawn(pods.play(self.cluster.plain_client(KUBELET)));
        // Stops the previous simulation.
        *self.playing.lock().unwrap() = playing;
    }
}
