//! An agent as the API server sees it: its Connector, its addresses, and its lease renewal, which is the real
//! one. It carries no traffic.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb::Clock;
use aplomb_api::tunnel::Connector;
use aplomb_simulation::Component;
use aplomb_tunnel_agent::lease::{LeaseRenewer, LeaseSettings, RenewalResult, RenewalSchedule};
use aplomb_tunnel_protocol::ConnectorId;
use http::{Request, Response, StatusCode};
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::lab::{Lab, TENANT};
use crate::net::{Net, hex, key_of};

/// The field manager of agents.
const MANAGER: &str = "aplomb-agent";

/// An agent: a simulated process. Freezing it simulates a crash.
pub struct Agent {
    pub component: Component,
    name: String,
    net: Net,
    stop: watch::Sender<bool>,
    pub adversary: Option<Adversary>,
}

impl Agent {
    /// An agent with this lease and reliable heartbeats.
    pub fn start(lab: &Lab, name: &str, lease: Duration) -> Self {
        Self::with(lab, name, lease, None)
    }

    /// An agent whose heartbeats fail as often as possible without two successes being a lease apart.
    pub fn with_failing_heartbeats(lab: &Lab, name: &str, lease: Duration, seed: u64) -> Self {
        Self::with(lab, name, lease, Some(Adversary::new(lease, seed)))
    }

    fn with(lab: &Lab, name: &str, lease: Duration, adversary: Option<Adversary>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (owned, against, net) = (name.to_owned(), adversary.clone(), lab.net.clone());
        let component = lab.cluster.start(&identity(name), move |process| {
            let life = Life {
                name: owned.clone(),
                lease,
                net: net.clone(),
                adversary: against.clone(),
                stopped: stopped.clone(),
            };
            let clock = process.clock().clone();
            run(process.plain_client(), Clock::new(move || clock.now()), life)
        });
        Self {
            component,
            name: name.to_owned(),
            net: lab.net.clone(),
            stop,
            adversary,
        }
    }

    /// Stops it at once, without a release.
    pub fn kill(&self) {
        self.component.freeze();
        self.net.set_reachable(&self.name, false);
    }

    /// Continues it, unaware of the time that has passed.
    pub fn resume(&self) {
        self.net.set_reachable(&self.name, true);
        self.component.thaw();
    }

    /// Stops it as Ctrl-C does.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// The process name of a connector's agent.
pub fn identity(connector: &str) -> String {
    format!("agent-{connector}")
}

/// Settings of one run of an agent.
pub struct Life {
    pub name: String,
    pub lease: Duration,
    pub net: Net,
    pub adversary: Option<Adversary>,
    pub stopped: watch::Receiver<bool>,
}

/// Runs until it is stopped, then releases the lease.
pub async fn run(client: Client, clock: Clock, life: Life) {
    let session = format!("{:016x}", fastrand::Rng::new().u64(..));
    let connector = register(&client, &life.name, life.lease, &session).await;
    let uid = connector.uid().unwrap_or_default();
    let id = ConnectorId {
        namespace: TENANT.to_owned(),
        uid: uid.clone(),
    };
    life.net.add_agent(&life.name, id, &session);
    let settings = LeaseSettings {
        namespace: TENANT.to_owned(),
        connector: life.name.clone(),
        uid,
        session,
        lease: life.lease,
        clock,
        seed: 7,
        renewal: watch::Sender::new(RenewalResult::default()),
    };
    let beats = match &life.adversary {
        Some(adversary) => adversary.wrap(&client),
        None => client,
    };
    let mut stopped = life.stopped;
    let shutdown = async move {
        if stopped.wait_for(|it| *it).await.is_err() {
            pending::<()>().await;
        }
    };
    LeaseRenewer::run(beats, settings, shutdown).await;
    life.net.set_reachable(&life.name, false);
    pending().await
}

/// Creates the Connector, and registers the agent's addresses.
async fn register(client: &Client, name: &str, lease: Duration, session: &str) -> Connector {
    let connectors: Api<Connector> = Api::namespaced(client.clone(), TENANT);
    let params = PatchParams::apply(MANAGER).force();
    let head = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "Connector", "metadata": { "name": name },
    });
    let mut object = head.clone();
    object["spec"] = json!({ "leaseDurationSeconds": lease.as_secs() });
    let made = connectors.patch(name, &params, &Patch::Apply(object)).await;
    let mut details = head;
    details["status"] = json!({ "connectionDetails": {
        "publicKey": {
            "id": hex(key_of(name).public().as_bytes()),
            "addresses": [{ "address": "192.0.2.1", "port": 4433 }],
        },
        "session": session,
        "agentVersion": "0.0.0",
        "device": "laptop",
    }});
    let details = Patch::Apply(details);
    let said = connectors.patch_status(name, &params, &details).await;
    said.expect("status is written");
    made.expect("Connector is created")
}

/// Fails heartbeats in every possible way, but never lets two successes be a lease apart.
#[derive(Clone)]
pub struct Adversary {
    lease: Duration,
    schedule: RenewalSchedule,
    state: Arc<Mutex<State>>,
}

struct State {
    rng: fastrand::Rng,
    last: Instant,
    /// Until when every possible failure is injected.
    until: Instant,
    tally: Tally,
}

/// The effects of an adversary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub failed: u64,
    pub heartbeats: u64,
    /// The longest time between two successes.
    pub longest: Duration,
}

/// The fate of a heartbeat.
enum HeartbeatOutcome {
    Delivered,
    Refused(StatusCode),
    /// It arrives, but the response is lost.
    Unanswered,
    Dropped,
}

impl Adversary {
    fn new(lease: Duration, seed: u64) -> Self {
        Self {
            lease,
            schedule: RenewalSchedule::new(lease),
            state: Arc::new(Mutex::new(State {
                rng: fastrand::Rng::with_seed(seed),
                last: Instant::now(),
                until: Instant::now(),
                tally: Tally::default(),
            })),
        }
    }

    pub fn tally(&self) -> Tally {
        self.state.lock().unwrap().tally
    }

    /// A client behind this adversary.
    fn wrap(&self, client: &Client) -> Client {
        let (it, inner) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (it, inner) = (it.clone(), inner.clone());
            async move {
                match it.fate() {
                    HeartbeatOutcome::Refused(code) => {
                        let response = Response::builder().status(code).body(Body::empty());
                        Ok(response.expect("a response"))
                    }
                    HeartbeatOutcome::Dropped => pending().await,
                    HeartbeatOutcome::Unanswered => {
                        inner.send(request).await?;
                        it.arrived();
                        sleep(it.lease).await;
                        pending().await
                    }
                    HeartbeatOutcome::Delivered => {
                        let response = inner.send(request).await?;
                        it.arrived();
                        Ok::<_, kube::Error>(response)
                    }
                }
            }
        });
        Client::new(service, client.default_namespace())
    }

    fn fate(&self) -> HeartbeatOutcome {
        let mut state = self.state.lock().unwrap();
        // The next attempt starts at most one timeout from now, and must still be in time.
        let next = Instant::now() + self.schedule.timeout() + Duration::from_millis(50);
        if next >= state.last + self.lease || Instant::now() >= state.until {
            return HeartbeatOutcome::Delivered;
        }
        state.tally.failed += 1;
        // About once in two leases, everything succeeds, which ends the outage.
        let rarely = self.schedule.timeout().div_duration_f64(2 * self.lease);
        if state.rng.f64() < rarely {
            return HeartbeatOutcome::Unanswered;
        }
        match state.rng.u8(0..6) {
            0 => HeartbeatOutcome::Refused(StatusCode::CONFLICT),
            1 => HeartbeatOutcome::Refused(StatusCode::TOO_MANY_REQUESTS),
            2 => HeartbeatOutcome::Refused(StatusCode::SERVICE_UNAVAILABLE),
            _ => HeartbeatOutcome::Dropped,
        }
    }

    fn arrived(&self) {
        let mut state = self.state.lock().unwrap();
        let gap = state.last.elapsed();
        state.last = Instant::now();
        // Most of them longer than a lease, if that were permitted.
        let torment = self.lease.mul_f64(2.0 * state.rng.f64());
        state.until = state.last + torment;
        state.tally.heartbeats += 1;
        state.tally.longest = state.tally.longest.max(gap);
    }
}
