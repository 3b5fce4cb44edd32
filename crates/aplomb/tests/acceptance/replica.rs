//! A replica as a process that can stop in the middle of anything, on the box and on a real server.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use http::{Method, Request};
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

    /// Nothing of it runs any more, while time passes.
    pub(crate) fn freeze(&self) {
        self.pause.0.lock().unwrap().frozen = true;
    }

    /// It runs on, and does not know.
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
        self.tasks
            .lock()
            .unwrap()
            .drain(..)
            .for_each(|task| task.abort());
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

/// Stands between a replica and the server: counts its writes, and holds one request on demand.
#[derive(Clone, Default)]
pub(crate) struct Turnstile(Arc<Inner>);

#[derive(Default)]
struct Inner {
    hold: Mutex<Option<(Method, String)>>,
    writes: Mutex<Vec<String>>,
    reached: Notify,
    open: Notify,
}

impl Turnstile {
    /// A client whose requests pass here.
    pub(crate) fn client(&self, client: &Client) -> Client {
        let (inner, this) = (client.clone(), self.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (inner, this) = (inner.clone(), this.clone());
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                this.pass(&method, &path).await;
                let response = inner.send(request).await?;
                if method != Method::GET && response.status().is_success() {
                    this.0.writes.lock().unwrap().push(path);
                }
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, client.default_namespace())
    }

    async fn pass(&self, method: &Method, path: &str) {
        let held = {
            let mut hold = self.0.hold.lock().unwrap();
            hold.take_if(|(verb, end)| verb == method && path.ends_with(end.as_str()))
        };
        if held.is_some() {
            self.0.reached.notify_one();
            self.0.open.notified().await;
        }
    }

    /// Holds the next request like this.
    pub(crate) fn hold(&self, method: Method, path: &str) {
        *self.0.hold.lock().unwrap() = Some((method, path.to_owned()));
    }

    /// Waits until it is held.
    pub(crate) async fn reached(&self) {
        self.0.reached.notified().await;
    }

    /// Lets it go.
    pub(crate) fn open(&self) {
        self.0.open.notify_one();
    }

    /// The writes to objects at `path` that were carried out.
    pub(crate) fn writes(&self, path: &str) -> usize {
        let writes = self.0.writes.lock().unwrap();
        writes.iter().filter(|write| write.ends_with(path)).count()
    }
}
