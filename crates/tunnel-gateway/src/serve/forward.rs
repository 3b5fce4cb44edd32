//! One request to one origin: over a connection that waits, or a fresh one, until the head of the
//! response is there. What it means to the client is decided elsewhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::Failure;
use super::core::Core;
use super::upload::{Outgoing, Progress, nothing};
use crate::pool::{Key, Lease};
use crate::reason;

/// How long a client's body is kept back for an origin that never says "100 Continue".
const CONTINUE: Duration = Duration::from_secs(1);

/// How long a response may take to begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// Since the request came.
    Strict(Duration),
    /// Since something of its body was last sent.
    Lenient(Duration),
}

/// Sends a request, and once more over a fresh connection if the one that waited turns out to be dead and
/// the origin cannot have seen the request, or may see it twice.
pub(super) async fn send(
    core: &Core,
    key: Key,
    mut request: Request<Outgoing>,
    progress: &Arc<Progress>,
    patience: Patience,
) -> Result<(Response<Incoming>, Lease), Failure> {
    let began = Instant::now();
    if let Some(mut lease) = core.pool.take(&key) {
        let again = repeatable(&request, progress);
        lease.carries(progress.clone());
        match respond(&mut lease, request, progress, patience, began).await? {
            Ok(response) => return Ok((response, lease)),
            Err(mut error) => {
                let unsent = error.take_message();
                let failure = || broken(&error.into_error(), progress);
                request = unsent.or(again).ok_or_else(failure)?;
            }
        }
    }
    let mut lease = connect(core, key, patience, began).await?;
    lease.carries(progress.clone());
    match respond(&mut lease, request, progress, patience, began).await? {
        Ok(response) => Ok((response, lease)),
        Err(error) => Err(broken(&error.into_error(), progress)),
    }
}

/// The same request again, if it has no body and a method that may be repeated.
fn repeatable(request: &Request<Outgoing>, progress: &Progress) -> Option<Request<Outgoing>> {
    if !progress.finished() || progress.bytes() > 0 || !is_idempotent(request.method()) {
        return None;
    }
    let mut again = Request::new(nothing());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE
    )
}

async fn connect(
    core: &Core,
    key: Key,
    patience: Patience,
    began: Instant,
) -> Result<Lease, Failure> {
    let mut deadline = Instant::now() + core.limits.dial_timeout;
    if let Patience::Strict(limit) = patience {
        deadline = deadline.min(began + limit);
    }
    core.telemetry.dialled();
    let dial = core.dialer.dial(&key.origin, deadline);
    let stream = timeout_at(deadline, dial)
        .await
        .map_err(|_| crate::dial::DialError::TimedOut)??;
    let lease = core.pool.connect(key, stream).await;
    lease.map_err(|error| Failure::new(502, reason::ORIGIN_BROKEN, error.to_string()))
}

type Answer = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>;

/// Waits for the response as long as patience allows.
async fn respond(
    lease: &mut Lease,
    request: Request<Outgoing>,
    progress: &Progress,
    patience: Patience,
    began: Instant,
) -> Result<Answer, Failure> {
    let mut sending = std::pin::pin!(lease.sender().try_send_request(request));
    let (limit, strict) = match patience {
        Patience::Strict(limit) => (limit, true),
        Patience::Lenient(limit) => (limit, false),
    };
    let mut deadline = if strict { began } else { Instant::now() } + limit;
    loop {
        let sent = progress.bytes();
        if let Ok(answer) = timeout_at(deadline, &mut sending).await {
            return Ok(answer);
        }
        if strict || progress.bytes() == sent {
            let detail = format!("no response within {limit:?}");
            return Err(Failure::new(504, reason::ORIGIN_TIMEOUT, detail));
        }
        deadline = Instant::now() + limit;
    }
}

/// Whose fault it is that no response came.
fn broken(error: &hyper::Error, progress: &Progress) -> Failure {
    if progress.stalled() {
        return Failure::new(408, reason::CLIENT_TIMEOUT, error.to_string());
    }
    if progress.broken() {
        return Failure::bad_request(error.to_string());
    }
    Failure::new(502, reason::ORIGIN_BROKEN, error.to_string())
}

/// Ends when the origin says "100 Continue" to this request, or stays silent for so long that it never
/// will.
pub(super) fn continued(request: &mut Request<()>) -> impl Future<Output = ()> + Send + use<> {
    let (send, receive) = oneshot::channel();
    let send = Mutex::new(Some(send));
    hyper::ext::on_informational(request, move |response| {
        let send = send.lock().unwrap_or_else(PoisonError::into_inner).take();
        if response.status() == http::StatusCode::CONTINUE
            && let Some(send) = send
        {
            // The body may not be wanted any more.
            let _ = send.send(());
        }
    });
    async move {
        let _ = timeout(CONTINUE, receive).await;
    }
}
