//! A run as a function of its seed: a cluster in virtual time on a thread of its own.
//!
//! A test starts a box in three lines:
//!
//! ```
//! use aplomb_simulation::Simulation;
//! use kube::Api;
//! use k8s_openapi::api::core::v1::Namespace;
//!
//! let run = Simulation::new(7).run(|cluster| async move {
//!     let namespaces: Api<Namespace> = Api::all(cluster.client("test"));
//!     namespaces.get("default").await.expect("every cluster has it")
//! });
//! assert_eq!(run.value.metadata.name.as_deref(), Some("default"));
//! ```
//!
//! Time is tokio's paused clock: it stands still while anything can run and jumps to the next
//! timer when nothing can, so an hour takes as long as the work in it. What `std` reads from the
//! machine (hash keys, the wall clock) follows the seed only if the test binary interposes libc;
//! give [`Simulation::interpose`] the function that does it.
//!
//! A panic fails the run even if a restart or a `catch_unwind` heals it, unless the test says with
//! [`Simulation::expect_panic`] that it is part of the scenario.
//!
//! For a run to be replayed, the code in it must not use other threads, `spawn_blocking`, real
//! sockets, an unbiased `tokio::select!` or the order of a `HashMap` that is not seeded by `std`.
#![forbid(unsafe_code)]

mod cluster;
pub mod faults;
mod panics;
pub mod trace;

use std::any::Any;
use std::cell::OnceCell;
use std::fmt;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use aplomb_apimachinery::clock::Clock;
use aplomb_apiserver::server::{ApiServer, Builder};
use aplomb_controllers::Controllers;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::trace::Trace;

pub use cluster::{Cluster, Component, Counts, Crash, CrashPoint, Process, ReplicaClock, StillRunning, WriteLog};

/// When every world begins: 2026-01-01T00:00:00Z.
const EPOCH_SECONDS: u64 = 1_767_225_600;

/// How many lines of the trace a failed run shows.
const SHOWN_ON_FAILURE: usize = 25;

/// Worlds of one process take turns: what they share (statics that are made on first use, pools in
/// libraries) would otherwise depend on which of them comes first to what.
static TURN: Mutex<()> = Mutex::new(());

type Elapsed = Box<dyn Fn() -> Duration>;
type Install = Box<dyn FnOnce(u64, Duration, Elapsed) -> Box<dyn Any> + Send>;
type Configure = Box<dyn FnOnce(Builder) -> Builder + Send>;

/// A world that is about to be run.
pub struct Simulation {
    seed: u64,
    actors: Controllers,
    install: Option<Install>,
    configure: Option<Configure>,
    memory: usize,
    expected: Vec<&'static str>,
}

/// What is left of a run.
#[derive(Clone, Debug)]
pub struct Run<T> {
    /// What the closure returned.
    pub value: T,
    /// Every request, answer, event, effect and fault.
    pub trace: Vec<String>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("seed", &self.seed)
            .field("actors", &self.actors)
            .finish()
    }
}

impl Simulation {
    /// A world whose every draw comes from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            actors: Controllers::default(),
            install: None,
            configure: None,
            memory: usize::MAX,
            expected: Vec::new(),
        }
    }

    /// Which actors are part of it; the garbage collector and the namespace lifecycle unless set.
    #[must_use]
    pub fn actors(mut self, actors: Controllers) -> Self {
        self.actors = actors;
        self
    }

    /// Changes how the API server is made (RBAC, window).
    #[must_use]
    pub fn server(mut self, configure: impl FnOnce(Builder) -> Builder + Send + 'static) -> Self {
        self.configure = Some(Box::new(configure));
        self
    }

    /// Keeps only so many of the newest lines of the trace and of the newest writes, for a run that is
    /// too long to keep.
    #[must_use]
    pub fn memory(mut self, newest: usize) -> Self {
        self.memory = newest;
        self
    }

    /// The run panics with `text` in the message, at least once, and that is not a failure. May be
    /// called for several texts. A panic of the scenario itself always fails the run.
    #[must_use]
    pub fn expect_panic(mut self, text: &'static str) -> Self {
        self.expected.push(text);
        self
    }

    /// Makes libc's time and randomness virtual on the thread of the run: `install` is given the
    /// seed, the beginning of time since 1970 and a reading of the virtual clock, and what it
    /// returns is dropped at the end. Only test binaries have such a function.
    #[must_use]
    pub fn interpose<G: 'static>(mut self, install: fn(u64, Duration, Elapsed) -> G) -> Self {
        self.install = Some(Box::new(move |seed, epoch, elapsed| {
            Box::new(install(seed, epoch, elapsed)) as Box<dyn Any>
        }));
        self
    }

    /// Runs it on a thread of its own, after any other world of this process, and returns when
    /// `scenario` does.
    ///
    /// # Panics
    /// When the scenario does, and when anything in the run did that [`Simulation::expect_panic`] does
    /// not name; the seed and the end of the trace are printed first.
    pub fn run<T, F, S>(self, scenario: S) -> Run<T>
    where
        S: FnOnce(Cluster) -> F + Send + 'static,
        F: Future<Output = T>,
        T: Send + 'static,
    {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = self.seed;
        let kept = Arc::new(OnceLock::new());
        let trace = kept.clone();
        let named = thread::Builder::new().name(format!("seed-{seed}"));
        let run = named
            .spawn(move || {
                panics::watch();
                let expected = self.expected.clone();
                let value = self.run_here(scenario, &trace);
                panics::settle(&expected);
                value
            })
            .expect("a thread can start");
        let value = run.join();
        let trace = kept.get().map(Trace::lines).unwrap_or_default();
        match value {
            Ok(value) => Run { value, trace },
            Err(panic) => {
                let from = trace.len().saturating_sub(SHOWN_ON_FAILURE);
                eprintln!("seed {seed} failed; its trace ends with");
                trace[from..].iter().for_each(|line| eprintln!("  {line}"));
                resume_unwind(panic)
            }
        }
    }

    fn run_here<T, F, S>(self, scenario: S, kept: &OnceLock<Trace>) -> T
    where
        S: FnOnce(Cluster) -> F,
        F: Future<Output = T>,
    {
        let started: Rc<OnceCell<Instant>> = Rc::default();
        let source = started.clone();
        let elapsed: Elapsed = Box::new(move || source.get().map(Instant::elapsed).unwrap_or_default());
        let epoch = Duration::from_secs(EPOCH_SECONDS);
        // Before the runtime, so that its clock too begins where the virtual one does.
        let _guard = self.install.map(|install| install(self.seed, epoch, elapsed));
        // Seeds itself from the identity of the thread, which is counted per process.
        fastrand::seed(self.seed);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a current-thread runtime can be made");
        runtime.block_on(async move {
            started.get_or_init(Instant::now);
            let trace = kept.get_or_init(|| Trace::of_last(self.memory)).clone();
            let epoch = Timestamp::from_second(EPOCH_SECONDS.cast_signed()).unwrap_or_default();
            let builder = ApiServer::builder().clock(Clock::new(epoch, self.seed));
            let builder = match self.configure {
                Some(configure) => configure(builder),
                None => builder,
            };
            let server = builder.build();
            let _actors = self.actors.start(&server);
            scenario(Cluster::new(self.seed, server, trace, self.memory)).await
        })
    }
}
