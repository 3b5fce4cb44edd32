//! Where a scenario runs: the box in virtual time, or a real kube-apiserver in real time. The same
//! functions run on both, so that what was shown on one is shown on the other.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_controlplane::{ControlPlane, Options};
use aplomb_simulation::faults::Faults;
use aplomb_simulation::trace::Trace;
use aplomb_simulation::{Cluster, Simulation};
use http::{Method, Request};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::client::Body;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::page::{self, Page};

/// A server, and the faults between it and each client.
pub struct Lab {
    place: Place,
}

enum Place {
    Simulated(Cluster),
    Real {
        client: Client,
        trace: Trace,
        _plane: Box<ControlPlane>,
    },
}

impl Lab {
    /// A client that meets `faults(identity)` and retries nothing by itself.
    pub fn client(&self, identity: &str) -> (Client, Faults) {
        match &self.place {
            Place::Simulated(cluster) => (cluster.plain_client(identity), cluster.faults(identity)),
            Place::Real { client, trace, .. } => {
                let faults = Faults::new(identity, trace);
                (faults.plain_client(client), faults)
            }
        }
    }

    /// Somebody else's client, which meets no faults.
    pub fn user(&self) -> Client {
        self.client("user").0
    }
}

/// One answer that a client got.
#[derive(Clone, Debug)]
pub struct Answer {
    pub at: Instant,
    pub method: Method,
    pub path: String,
    pub code: u16,
}

impl Answer {
    /// Whether it answers a write, events and leases aside.
    pub fn is_write(&self) -> bool {
        let aside = self.path.contains("/events") || self.path.contains("/leases");
        self.method != Method::GET && !aside
    }
}

/// What a burst of conflicts cost.
#[derive(Debug)]
pub struct Burst {
    pub conflicts: usize,
    /// How many of them the operator itself has counted, if it does.
    pub counted: u64,
    /// From the last conflict to the next write, which was accepted.
    pub silence: Duration,
}

/// Every answer of one client, oldest first.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<Vec<Answer>>>);

impl Answers {
    /// A client that answers as `client` does, written down here.
    pub fn of(&self, client: &Client) -> Client {
        let (answers, inner) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (answers, inner) = (answers.clone(), inner.clone());
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let response = inner.send(request).await?;
                let (at, code) = (Instant::now(), response.status().as_u16());
                let answer = Answer {
                    at,
                    method,
                    path,
                    code,
                };
                answers
                    .0
                    .lock()
                    .expect("no test panics while it holds it")
                    .push(answer);
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, client.default_namespace())
    }

    pub fn all(&self) -> Vec<Answer> {
        self.0
            .lock()
            .expect("no test panics while it holds it")
            .clone()
    }

    /// How many conflicts there were.
    pub fn conflicts(&self) -> usize {
        let answers = self.0.lock().expect("no test panics while it holds it");
        answers.iter().filter(|answer| answer.code == 409).count()
    }

    /// Whether the newest write to the object at `path` was accepted.
    pub fn landed(&self, path: &str) -> bool {
        let answers = self.0.lock().expect("no test panics while it holds it");
        let newest = answers
            .iter()
            .rfind(|answer| answer.is_write() && answer.path.ends_with(path));
        newest.is_some_and(|answer| answer.code < 300)
    }

    /// The conflicts on the object at `path`, and what came after the last of them.
    pub fn burst(&self, path: &str) -> Burst {
        let on_path = |answer: &Answer| answer.path.ends_with(path);
        let writes: Vec<_> = self.writes().into_iter().filter(on_path).collect();
        let conflict = |answer: &Answer| answer.code == 409;
        let last = writes
            .iter()
            .rposition(conflict)
            .expect("there were conflicts");
        Burst {
            counted: 0,
            conflicts: writes.iter().filter(|answer| conflict(answer)).count(),
            silence: writes[last + 1].at - writes[last].at,
        }
    }

    pub fn writes(&self) -> Vec<Answer> {
        self.all().into_iter().filter(Answer::is_write).collect()
    }
}

/// Runs a scenario on the box.
pub fn on_box<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    in_world(Simulation::new(seed), scenario)
}

/// Runs a scenario on the box of `world`.
pub fn in_world<T, F, S>(world: Simulation, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let world = world.interpose(aplomb_virtual_time::install);
    let run = world.run(move |cluster| {
        scenario(Lab {
            place: Place::Simulated(cluster),
        })
    });
    run.value
}

/// How many times what is promised real time is given: machines are noisy, and some are slow.
pub const NOISY: u32 = 20;

thread_local! {
    /// The same for what is waited for on this thread; virtual time is given none.
    static GIVEN: Cell<u32> = const { Cell::new(1) };
}

/// Runs a scenario on a real server.
pub fn on_real<T, F, S>(scenario: S) -> T
where
    S: FnOnce(Lab) -> F,
    F: Future<Output = T>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    GIVEN.set(NOISY);
    runtime.block_on(async {
        let options = Options::with_garbage_collection();
        let plane = ControlPlane::start(options)
            .await
            .expect("the control plane starts");
        let client = plane.client().await.expect("it has a client");
        let trace = Trace::new();
        let place = Place::Real {
            client,
            trace,
            _plane: Box::new(plane),
        };
        scenario(Lab { place }).await
    })
}

/// How many times what is promised the time of this thread is given.
pub fn given() -> u32 {
    GIVEN.get()
}

/// Waits until `holds`, looking often; how long it took.
pub async fn until<F>(limit: Duration, what: &str, mut holds: impl FnMut() -> F) -> Duration
where
    F: Future<Output = bool>,
{
    let (began, limit) = (Instant::now(), limit * given());
    while !holds().await {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The kind is installed and there is a page called `front`.
pub async fn page(lab: &Lab) -> Api<Page> {
    page::install(&lab.user())
        .await
        .expect("the definition is accepted");
    let pages: Api<Page> = Api::namespaced(lab.user(), "default");
    let mut front = Page::new(
        "front",
        page::PageSpec {
            title: "a title".into(),
            text: String::new(),
        },
    );
    front.metadata.namespace = Some("default".into());
    until(seconds(10), "pages are served", || async {
        pages.create(&PostParams::default(), &front).await.is_ok()
    })
    .await;
    pages
}
