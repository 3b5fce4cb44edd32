//! Troubles a server can be in, and what it answers then.
//!
//! The real server is brought into each on a control plane of its own, so that no other case meets
//! it; the box has the fault layer in front of it. Both have to answer alike, byte for byte.

use std::time::Duration;

use anyhow::{Result, bail};
use aplomb_controlplane::{ControlPlane, Options};
use aplomb_simulation::faults::{Fault, Faults, Rule};
use aplomb_simulation::trace::Trace;
use kube::Client;
use serde_json::json;
use tower::{Layer, service_fn};

use crate::answer::Answer;
use crate::case_run::{GROUP, MERGE, ask};
use crate::server::install_fixtures_of;

/// One trouble.
#[derive(Clone, Copy, Debug)]
pub enum ServerFault {
    /// More requests than it takes at once.
    Overload,
    /// A request that takes longer than it was given.
    Timeout,
    /// A watch cache that is not filled yet.
    Initializing,
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// A version that does not come: the server waits three seconds for it.
const FUTURE: &str = "/api/v1/namespaces/default/configmaps?resourceVersion=999999999";
/// Longer than it takes on a loaded machine, shorter than the limit of a case.
const ATTEMPTS: usize = 400;

impl ServerFault {
    /// What the client asks for when it meets the trouble.
    fn request(self) -> (&'static str, String) {
        match self {
            Self::Overload => ("GET", MAPS.to_owned()),
            Self::Timeout => ("GET", format!("{FUTURE}&timeout=1s")),
            // A list with a selector is not passed on to the store.
            Self::Initializing => (
                "GET",
                format!("/apis/{GROUP}/v1/widgets?labelSelector=a%3Db&resourceVersion=1"),
            ),
        }
    }

    /// The answer of the fault layer in front of a server.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn in_front_of(self, client: &Client) -> Result<Answer> {
        let faults = Faults::new("user", &Trace::new());
        match self {
            Self::Overload => {
                faults.add(Rule::new(Fault::TooManyRequestsText { retry_after: 1 }));
            }
            Self::Timeout => faults.add(Rule::new(Fault::Timeout { committed: false })),
            Self::Initializing => faults.outages().restart(Duration::ZERO, Duration::from_secs(60)),
        }
        let (method, path) = self.request();
        ask(&behind(&faults, client), method, &path, &[], Vec::new()).await
    }

    /// The answer of a real server that is in it.
    ///
    /// # Errors
    /// When it could not be brought into it.
    pub async fn on(self, plane: &ControlPlane) -> Result<Answer> {
        match self {
            Self::Overload => overloaded(plane).await,
            Self::Timeout => timed_out(plane).await,
            Self::Initializing => initializing(plane).await,
        }
    }
}

/// A client that meets `faults` and, unlike [`Faults::client`], sees each of them.
#[must_use]
pub fn behind(faults: &Faults, client: &Client) -> Client {
    let inner = client.clone();
    let server = service_fn(move |request| {
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(faults.layer(server), client.default_namespace())
}

/// Starts a control plane whose server takes one request at a time.
///
/// # Errors
/// When it does not come up.
pub async fn plane() -> Result<ControlPlane> {
    let flags = [
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=1",
        "--max-mutating-requests-inflight=1",
    ];
    let options = Options {
        apiserver_args: flags.map(str::to_owned).to_vec(),
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await?;
    install_fixtures_of(&plane.client().await?).await?;
    Ok(plane)
}

/// An administrator, who is never refused, takes the one place there is, by a read that waits
/// for a version to come; somebody else finds it taken.
async fn overloaded(plane: &ControlPlane) -> Result<Answer> {
    let admin = plane.client().await?;
    let somebody = plane.client_of(0, &plane.tokens().restricted).await?;
    let (method, path) = ServerFault::Overload.request();
    for _ in 0..ATTEMPTS {
        let mut waiting = std::pin::pin!(ask(&admin, "GET", FUTURE, &[], Vec::new()));
        loop {
            let asking = ask(&somebody, method, &path, &[], Vec::new());
            tokio::select! {
                answer = asking => {
                    let answer = answer?;
                    if answer.code == 429 {
                        return Ok(answer);
                    }
                }
                _ = &mut waiting => break,
            }
        }
    }
    bail!("the server takes whatever it is asked")
}

/// A read that waits for a version to come does not look at the time it was given, so that the
/// time-out answers in its place.
async fn timed_out(plane: &ControlPlane) -> Result<Answer> {
    let client = plane.client().await?;
    let (method, path) = ServerFault::Timeout.request();
    ask(&client, method, &path, &[], Vec::new()).await
}

/// A custom resource whose definition changed gets a new cache at the next request.
async fn initializing(plane: &ControlPlane) -> Result<Answer> {
    let client = plane.client().await?;
    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{GROUP}");
    let (method, path) = ServerFault::Initializing.request();
    for turn in 0..ATTEMPTS {
        let names = json!({ "spec": { "names": { "shortNames": [format!("w{turn}")] } } });
        let headers = [("content-type", MERGE)];
        let body = names.to_string().into_bytes();
        ask(&client, "PATCH", &definition, &headers, body).await?.code(200)?;
        for _ in 0..20 {
            let answer = ask(&client, method, &path, &[], Vec::new()).await?;
            if answer.code == 429 {
                return Ok(answer);
            }
        }
    }
    bail!("every cache was ready at once")
}
