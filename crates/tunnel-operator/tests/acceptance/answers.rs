//! Records the responses to one client, and how it handled bursts of conflicts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::service_fn;

/// One response.
#[derive(Clone, Debug)]
struct Answer {
    at: Instant,
    path: String,
    code: StatusCode,
}

/// The cost of a burst of conflicts.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub conflicts: usize,
    /// The longest time from a conflict to the next attempt.
    pub longest_gap: Duration,
    /// Time of the last conflict.
    pub last: Instant,
}

/// Every response to a write of one client, oldest first.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<Vec<Answer>>>);

impl Answers {
    /// Wraps `client` and records its responses. If it is `careless`, it treats a conflict as a server error.
    pub fn record(&self, client: &Client, careless: bool) -> Client {
        let (answers, inner) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (answers, inner) = (answers.clone(), inner.clone());
            async move {
                let write = request.method() != Method::GET;
                let path = request.uri().path().to_owned();
                let mut response = inner.send(request).await?;
                let code = response.status();
                if write {
                    let at = Instant::now();
                    answers.0.lock().unwrap().push(Answer { at, path, code });
                }
                if careless && code == StatusCode::CONFLICT {
                    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                    *response.body_mut() = Body::empty();
                }
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, client.default_namespace())
    }

    /// The conflicts on the object at `path` so far, and the attempts after each.
    pub fn burst(&self, path: &str) -> Option<Burst> {
        let answers = self.0.lock().unwrap();
        let on_path: Vec<_> = answers.iter().filter(|it| it.path.ends_with(path)).collect();
        let conflicts = on_path.iter().filter(|it| it.code == StatusCode::CONFLICT);
        let last = conflicts.clone().next_back()?.at;
        let pairs = on_path.windows(2);
        let silences = pairs
            .filter(|pair| pair[0].code == StatusCode::CONFLICT)
            .map(|pair| pair[1].at - pair[0].at);
        Some(Burst {
            conflicts: conflicts.count(),
            longest_gap: silences.max().unwrap_or_default(),
            last,
        })
    }

    /// The total number of conflicts.
    pub fn conflicts(&self) -> usize {
        let answers = self.0.lock().unwrap();
        let lost = answers.iter().filter(|it| it.code == StatusCode::CONFLICT);
        lost.count()
    }
}
