//! A replica as a process that can stop at any point, on the box and on a real server.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use aplomb::tasks::Tasks;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tower::service_fn;

/// The tasks of one replica. Dropping it is a crash: they all end at once.
#[derive(Default)]
pub(crate) struct Process {
    pause: Pause,
    tasks: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Process {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        spawn(&self.pause, &self.tasks, Box::pin(task));
    }

    /// Tasks of an engine that stop with this process.
    pub(crate) fn tasks(&self) -> Tasks {
        let (pause, tasks) = (self.pause.clone(), self.tasks.clone());
        Tasks::with_spawner(move |task| spawn(&pause, &tasks, task))
    }

    /// Suspends the process while time passes.
    pub(crate) fn freeze(&self) {
        self.pause.0.lock().unwrap().frozen = true;
    }

    /// Resumes the process. It cannot observe the pause.
    pub(crate) fn thaw(&self) {
        let mut state = self.pause.0.lock().unwrap();
        state.frozen = false;
        state.sleeping.drain(..).for_each(Waker::wake);
    }
}

fn spawn(pause: &Pause, tasks: &Mutex<Vec<AbortHandle>>, task: BoxFuture<'static, ()>) {
    let task = Pausable {
        pause: pause.clone(),
        task,
    };
    let handle = tokio::spawn(task).abort_handle();
    tasks.lock().unwrap().push(handle);
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.lock().unwrap().drain(..).for_each(|task| task.abort());
    }
}

#[derive(Clone, Default)]
struct Pause(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    frozen: bool,
    sleeping: Vec<Waker>,
}

struct Pausable {
    pause: Pause,
    task: BoxFuture<'static, ()>,
}

impl Future for Pausable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        {
            let mut state = self.pause.0.lock().unwrap();
            if state.frozen {
                state.sleeping.push(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.task.as_mut().poll(context)
    }
}

/// A proxy between a replica and its server: counts its writes, and holds one step on demand.
#[derive(Clone, Default)]
pub(crate) struct Turnstile(Arc<Inner>);

#[derive(Default)]
struct Inner {
    hold: Mutex<Option<(&'static str, &'static str)>>,
    writes: Mutex<Vec<String>>,
    reached: Notify,
    open: Notify,
}

impl Turnstile {
    /// A client whose requests pass through here. A held request has left its sender: it
    /// reaches the server even if the sender no longer waits for the response.
    pub(crate) fn client(&self, client: &Client) -> Client {
        let (inner, this) = (client.clone(), self.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (inner, this) = (inner.clone(), this.clone());
            async move {
                let step = format!("{} {}", request.method(), request.uri().path());
                let held = this.holds(&step);
                let sent = async move {
                    if held {
                        this.0.open.notified().await;
                    }
                    let response = inner.send(request).await?;
                    this.record_answer(step, response.status());
                    Ok::<_, kube::Error>(response)
                };
                if held {
                    tokio::spawn(sent).await.unwrap()
                } else {
                    sent.await
                }
            }
        });
        Client::new(service, client.default_namespace())
    }

    fn record_answer(&self, step: String, status: StatusCode) {
        let aside = step.contains("/leases") || step.contains("/events");
        if !step.starts_with("GET") && !aside && status.is_success() {
            self.0.writes.lock().unwrap().push(step);
        }
    }

    fn holds(&self, step: &str) -> bool {
        let mut hold = self.0.hold.lock().unwrap();
        let held = hold.take_if(|(start, end)| step.starts_with(*start) && step.ends_with(*end));
        if held.is_some() {
            self.0.reached.notify_one();
        }
        held.is_some()
    }

    /// A step of the replica itself.
    pub(crate) async fn step(&self, step: &str) {
        if self.holds(step) {
            self.0.open.notified().await;
        }
    }

    /// Holds the next step, or request, whose name has this beginning and end.
    pub(crate) fn hold(&self, start: &'static str, end: &'static str) {
        *self.0.hold.lock().unwrap() = Some((start, end));
    }

    /// Waits until it is held.
    pub(crate) async fn reached(&self) {
        self.0.reached.notified().await;
    }

    /// Releases the held step.
    pub(crate) fn open(&self) {
        self.0.open.notify_one();
    }

    /// The number of completed writes, except for leases and Events.
    pub(crate) fn writes(&self) -> usize {
        self.0.writes.lock().unwrap().len()
    }
}
