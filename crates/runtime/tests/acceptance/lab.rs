//! The environment of a scenario: the box in virtual time, or a real kube-apiserver in real time. The same
//! functions run on both, so that both show the same behavior.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
use crate::shared::{self, Shared};

/// A server, and the faults between it and each client.
pub struct Lab {
    place: Place,
}

enum Place {
    Simulated(Cluster),
    Real { client: Client, trace: Trace },
}

impl Lab {
    /// A client with the faults of `faults(identity)` and without retries.
    pub fn client(&self, identity: &str) -> (Client, Faults) {
        match &self.place {
            Place::Simulated(cluster) => (cluster.plain_client(identity), cluster.faults(identity)),
            Place::Real { client, trace } => {
                let faults = Faults::new(identity, trace);
                (faults.plain_client(client), faults)
            }
        }
    }

    /// The client of another user, without faults.
    pub fn user(&self) -> Client {
        self.client("user").0
    }
}

/// One response to a client.
#[derive(Clone, Debug)]
pub struct Answer {
    pub at: Instant,
    pub method: Method,
    pub path: String,
    pub code: u16,
}

impl Answer {
    /// Whether it is a response to a write, except for Events and leases.
    pub fn is_write(&self) -> bool {
        let aside = self.path.contains("/events") || self.path.contains("/leases");
        self.method != Method::GET && !aside
    }
}

/// The cost of a burst of conflicts.
#[derive(Debug)]
pub struct Burst {
    pub conflicts: usize,
    /// The number that the operator itself has counted, if it does.
    pub counted: u64,
    /// From the last conflict to the next write, which was accepted.
    pub silence: Duration,
}

/// All responses to one client, oldest first.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<Vec<Answer>>>);

impl Answers {
    /// A client like `client` whose responses are recorded here.
    pub fn for_client(&self, client: &Client) -> Client {
        let (answers, inner) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (answers, inner) = (answers.clone(), inner.clone());
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let response = inner.send(request).await?;
                let (at, code) = (Instant::now(), response.status().as_u16());
                let answer = Answer { at, method, path, code };
                answers.0.lock().expect("no test panics while it holds it").push(answer);
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, client.default_namespace())
    }

    pub fn all(&self) -> Vec<Answer> {
        self.0.lock().expect("no test panics while it holds it").clone()
    }

    /// The number of conflicts.
    pub fn conflicts(&self) -> usize {
        let answers = self.0.lock().expect("no test panics while it holds it");
        answers.iter().filter(|answer| answer.code == 409).count()
    }

    /// Whether the newest write to the object at `path` was accepted.
    pub fn has_written(&self, path: &str) -> bool {
        let answers = self.0.lock().expect("no test panics while it holds it");
        let newest = answers
            .iter()
            .rfind(|answer| answer.is_write() && answer.path.ends_with(path));
        newest.is_some_and(|answer| answer.code < 300)
    }

    /// The conflicts on the object at `path`, and the time after the last of them.
    pub fn burst(&self, path: &str) -> Burst {
        let on_path = |answer: &Answer| answer.path.ends_with(path);
        let writes: Vec<_> = self.writes().into_iter().filter(on_path).collect();
        let conflict = |answer: &Answer| answer.code == 409;
        let last = writes.iter().rposition(conflict).expect("there were conflicts");
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

/// The factor for limits in real time: machines are noisy, and some are slow.
pub const REAL_TIME_SLACK: u32 = 20;

thread_local! {
    /// The factor for waits on this thread; 1 in virtual time.
    static TIME_SLACK: Cell<u32> = const { Cell::new(1) };
}

/// Runs a scenario on a real server that others have used before, and will use after it.
pub fn on_real<T, F, S>(scenario: S) -> T
where
    S: FnOnce(Lab) -> F,
    F: Future<Output = T>,
{
    let shared = real_time().block_on(shared::take());
    let value = on(&shared, scenario);
    real_time().block_on(shared::give_back(shared));
    value
}

/// Runs a scenario on a real server of its own: it overloads the server, or changes what is not in the namespace.
pub fn on_real_alone<T, F, S>(scenario: S) -> T
where
    S: FnOnce(Lab) -> F,
    F: Future<Output = T>,
{
    let shared = real_time().block_on(shared::start());
    on(&shared, scenario)
}

/// What the scenario has spawned ends with its own runtime.
fn on<T, F, S>(shared: &Shared, scenario: S) -> T
where
    S: FnOnce(Lab) -> F,
    F: Future<Output = T>,
{
    TIME_SLACK.set(REAL_TIME_SLACK);
    real_time().block_on(async {
        let client = shared.plane.client().await.expect("it has a client");
        let trace = Trace::new();
        let place = Place::Real { client, trace };
        scenario(Lab { place }).await
    })
}

fn real_time() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

/// The factor for limits on this thread.
pub fn time_slack() -> u32 {
    TIME_SLACK.get()
}

/// Waits until `holds`, with frequent checks; returns how long it took.
pub async fn wait_until<F>(limit: Duration, what: &str, mut holds: impl FnMut() -> F) -> Duration
where
    F: Future<Output = bool>,
{
    let (began, limit) = (Instant::now(), limit * time_slack());
    while !holds().await {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Installs the kind and creates a page called `front`.
pub async fn page(lab: &Lab) -> Api<Page> {
    page::install(&lab.user()).await.expect("the definition is accepted");
    let pages: Api<Page> = Api::namespaced(lab.user(), "default");
    let mut front = Page::new(
        "front",
        page::PageSpec {
            title: "a title".into(),
            text: String::new(),
        },
    );
    front.metadata.namespace = Some("default".into());
    wait_until(seconds(10), "pages are served", || async {
        pages.create(&PostParams::default(), &front).await.is_ok()
    })
    .await;
    pages
}
