//! The operator as a whole: what a program sets, what a test replaces, and the engine made of it.

use std::sync::Arc;

use aplomb::admin::Board;
use aplomb::budget;
use aplomb::telemetry::Metrics;
use aplomb::{Clock, Engine, LeaseConfig, Poke, Result, Tasks, Telemetry};

use crate::classes;
use crate::client::{Ask, Http};
use crate::memory::Memory;
use crate::office::{Office, sessions};
use crate::prove::Prover;
use crate::pulse::Pulses;
use crate::telemetry::Tunnels;
use crate::{connector, controller, plain, sweep};

/// What Events and the lease call the operator.
const NAME: &str = "aplomb-tunnel";

/// What a program sets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The base domain of the platform's hostnames, where a class names none.
    pub domain: String,
    /// The namespace of the lease and of the gateways.
    pub namespace: String,
    /// What this replica is called. No two may share it.
    pub identity: String,
    /// Whether replicas elect a leader.
    pub leader_elect: bool,
    /// The address at which the program can be looked at, to be written on the lease.
    pub admin: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            domain: "tunnels.example.com".to_owned(),
            namespace: "aplomb-system".to_owned(),
            identity: NAME.to_owned(),
            leader_elect: true,
            admin: None,
        }
    }
}

/// What a test replaces.
#[derive(Clone)]
pub struct Parts {
    /// Asks gateways for proofs.
    pub ask: Arc<dyn Ask>,
    /// Spreads proofs over time.
    pub seed: u64,
    /// Wall time.
    pub clock: Clock,
    /// Where tasks run; the current runtime unless set.
    pub tasks: Option<Tasks>,
    /// Where the runtime counts.
    pub telemetry: Telemetry,
    /// Where the operator is shown.
    pub board: Board,
    /// The API server's budgets, where operators of one process share them.
    pub server: Option<budget::Server>,
    /// Where the operator counts.
    pub tunnels: Tunnels,
}

impl Parts {
    /// The real ones.
    #[must_use]
    pub fn real(seed: u64) -> Self {
        Self {
            ask: Arc::new(Http::new()),
            seed,
            clock: Clock::system(),
            tasks: None,
            telemetry: Telemetry::default(),
            board: Board::default(),
            server: None,
            tunnels: Tunnels::default(),
        }
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// The operator, ready to run with any client.
#[must_use]
pub fn operator(client: kube::Client, settings: &Settings, parts: Parts) -> Engine {
    let (proxies, connectors) = (Poke::default(), Poke::default());
    let memory = Memory::default();
    let office = Office {
        namespace: settings.namespace.as_str().into(),
        domain: settings.domain.as_str().into(),
        leases: Pulses::default(),
        replicas: Pulses::default(),
        sessions: sessions(&memory, &proxies, &connectors),
        prover: Prover::new(parts.ask, parts.seed),
        memory,
        proxies,
        connectors,
        telemetry: parts.tunnels.clone(),
        clock: parts.clock.clone(),
    };
    let metrics = Metrics::new(move |registry| parts.tunnels.register(registry));
    let engine = Engine::new(NAME, client).settings(|set| {
        let (namespace, identity) = (&settings.namespace, &settings.identity);
        let lease = LeaseConfig::new(namespace, NAME, identity).at(settings.admin.as_deref());
        set.lease = Some(lease).filter(|_| settings.leader_elect);
        set.board = parts.board;
        set.server = parts.server;
        set.metrics = vec![metrics];
        set.telemetry = parts.telemetry;
        set.clock = parts.clock;
        set.tasks = parts.tasks;
    });
    engine
        .controller(controller::controller(&office))
        .controller(connector::controller(&office))
        .controller(plain::controller(&office))
        .controller(sweep::claims())
        .controller(sweep::replicas(&office))
}

/// Makes the two classes if nobody has, then runs the operator until `shutdown`.
///
/// # Errors
/// A watch was not ready in time.
pub async fn run(
    client: kube::Client,
    settings: &Settings,
    parts: Parts,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    classes::ensure(&client).await?;
    operator(client, settings, parts).run(shutdown).await
}
