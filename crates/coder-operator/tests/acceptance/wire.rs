//! The transport from the operator to the servers: by host, each call an effect of the process, and
//! optionally with a fault that the harness must detect.

use std::sync::Arc;

use aplomb_fake_services::coderd::FakeCoderd;
use aplomb_http_client::{BoxError, Transport};
use aplomb_simulation::Process;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use tokio::sync::Notify;
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt, service_fn};

use crate::lab::{Lab, Sent};

/// A deliberate fault of the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    #[default]
    None,
    /// Deletions of keys report success without effect.
    DeletesNothing,
    /// A key is created a second time under a name that is in no status.
    MakesTwo,
}

/// The servers by their hosts.
#[derive(Clone)]
pub struct Wire {
    hosts: Arc<[(String, FakeCoderd)]>,
    sent: Sent,
    wake: Arc<Notify>,
    flaw: Flaw,
}

impl Wire {
    pub fn for_lab(lab: &Lab, flaw: Flaw) -> Self {
        let host = |url: &str| url.trim_start_matches("https://").to_owned();
        let hosts = [&lab.coderd, &lab.other].map(|site| (host(site.url), site.sim.clone()));
        Self {
            hosts: Arc::new(hosts),
            sent: lab.sent.clone(),
            wake: lab.wake.clone(),
            flaw,
        }
    }

    /// A transport of this process: every call is an effect of it.
    pub fn transport(&self, process: &Process) -> Transport {
        let (wire, process) = (self.clone(), process.clone());
        BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
            let (wire, process) = (wire.clone(), process.clone());
            async move {
                let uri = request.uri();
                let host = uri.host().unwrap_or_default();
                let what = format!("{} {host}{}", request.method(), uri.path());
                let stir = wire.wake.clone();
                let carried = async move {
                    let answer = wire.send(request).await;
                    stir.notify_one();
                    answer
                };
                process.effect(&what, carried).await
            }
        }))
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, BoxError> {
        let host = request.uri().host().unwrap_or_default();
        let found = self.hosts.iter().find(|(name, _)| name == host);
        let (_, sim) = found.ok_or_else(|| format!("no server for {host}"))?;
        if let Some(token) = request.headers().get("coder-session-token") {
            let token = token.to_str()?.to_owned();
            self.sent.lock().unwrap().insert((host.to_owned(), token));
        }
        let of_keys = request.uri().path().contains("/provisionerkeys");
        match (self.flaw, request.method()) {
            (Flaw::DeletesNothing, &Method::DELETE) if of_keys => {
                let mut answer = Response::new(Bytes::new());
                *answer.status_mut() = StatusCode::NO_CONTENT;
                Ok(answer)
            }
            (Flaw::MakesTwo, &Method::POST) if of_keys => {
                let _made = sim.service().oneshot(clone_request(&request)).await?;
                sim.service().oneshot(request).await
            }
            _ => sim.service().oneshot(request).await,
        }
    }
}

/// The same request with another key name.
fn clone_request(request: &Request<Bytes>) -> Request<Bytes> {
    let mut body: serde_json::Value = serde_json::from_slice(request.body()).expect("JSON");
    body["name"] = format!("{}-twin", body["name"].as_str().unwrap_or_default()).into();
    let mut twin = request.clone();
    *twin.body_mut() = Bytes::from(body.to_string());
    twin
}
