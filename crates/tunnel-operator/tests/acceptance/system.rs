//! Operator, gateway and agent together, on the box in virtual time or on a real kube-apiserver in real time,
//! so that both run the same scenarios. Only the network between them is simulated.

use std::sync::Arc;
use std::time::Duration;

use aplomb::admin::AdminRegistry;
use aplomb::{Clock, Tasks, Telemetry};
use aplomb_controlplane::{ControlPlane, Options};
use aplomb_simulation::faults::Faults;
use aplomb_simulation::trace::Trace;
use aplomb_tunnel_operator::{TunnelDeps, TunnelMetrics};
use kube::Client;
use tokio::sync::watch;

use crate::answers::Answers;
use crate::lab::{self, Lab, install};
use crate::net::Net;
use crate::{agent, gateway, operator};

/// All components of working tunnels.
#[derive(Clone)]
pub struct TunnelSystem {
    /// A user's client, without injected faults.
    pub user: Client,
    /// Faults injected into the operator's requests.
    pub faults: Faults,
    /// The responses to the operator.
    pub answers: Answers,
    operator: Client,
    others: Client,
    net: Net,
}

impl TunnelSystem {
    fn new(user: Client, operator: Client, faults: Faults) -> Self {
        Self {
            others: user.clone(),
            user,
            faults,
            answers: Answers::default(),
            operator,
            net: Net::default(),
        }
    }

    /// Runs all components concurrently with `scenario`. A `careless` operator treats conflicts as failures.
    pub async fn run_with<T>(&self, careless: bool, scenario: impl Future<Output = T>) -> T {
        let parts = TunnelDeps {
            probe_client: Arc::new(self.net.clone()),
            seed: 1,
            clock: Clock::system(),
            tasks: None,
            telemetry: Telemetry::default(),
            admin: AdminRegistry::default(),
            server: None,
            tunnels: TunnelMetrics::default(),
        };
        let client = self.answers.record(&self.operator, careless);
        let operator = operator::run(client, "operator".to_owned(), false, parts);
        let gateway = gateway::run(
            self.others.clone(),
            gateway::Life {
                number: 1,
                net: self.net.clone(),
                clock: Clock::system(),
                tasks: Tasks::on_runtime(),
            },
        );
        let (_stop, stopped) = watch::channel(false);
        let life = agent::Life {
            name: "laptop".to_owned(),
            lease: Duration::from_secs(30),
            net: self.net.clone(),
            adversary: None,
            stopped,
        };
        let agent = agent::run(self.others.clone(), Clock::system(), life);
        tokio::select! { biased;
            result = scenario => result,
            () = operator => panic!("the operator ended"),
            () = gateway => panic!("the gateway ended"),
            () = agent => panic!("the agent ended"),
        }
    }
}

/// Runs a scenario on the box.
pub fn on_box<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(TunnelSystem) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    lab::on_box(seed, |lab: Lab| async move {
        let (client, faults) = (lab.cluster.plain_client("operator"), lab.cluster.faults("operator"));
        scenario(TunnelSystem::new(lab.user(), client, faults)).await
    })
}

/// Runs a scenario on a real server.
pub fn on_real<T, F, S>(scenario: S) -> T
where
    S: FnOnce(TunnelSystem) -> F,
    F: Future<Output = T>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the runtime starts");
    runtime.block_on(async {
        let plane = ControlPlane::start(Options::with_garbage_collection()).await;
        let plane = plane.expect("the control plane starts");
        let user = plane.client().await.expect("the control plane has a client");
        install(&user).await;
        let faults = Faults::new("operator", &Trace::new());
        let client = faults.plain_client(&user);
        let ended = scenario(TunnelSystem::new(user, client, faults)).await;
        drop(plane);
        ended
    })
}
