//! Sends one request to one origin, over an idle or a new connection, and waits for the head of the response.
//! The caller decides what a failure means to the client.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::error_response::ErrorResponse;
use super::request_body::{UploadProgress, UpstreamSender, empty_body};
use super::shared::ProxyShared;
use crate::origin::pool::{PoolKey, PooledConnection};
use crate::reason;

/// How long a client's body is held back for an origin that never sends "100 Continue".
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// Timeout for the start of the response.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResponseTimeout {
    /// Measured from the request.
    SinceRequest(Duration),
    /// Measured from the last progress of the request body.
    SinceLastByte(Duration),
}

/// Sends a request. It is retried once over a new connection if the idle one turns out to be closed and the
/// origin has not seen the request or may receive it twice.
pub(super) async fn send_request(
    core: &ProxyShared,
    key: PoolKey,
    mut request: Request<UpstreamSender>,
    progress: &Arc<UploadProgress>,
    patience: ResponseTimeout,
) -> Result<(Response<Incoming>, PooledConnection), ErrorResponse> {
    let began = Instant::now();
    if let Some(mut lease) = core.pool.take_idle(&key) {
        let again = repeatable_request(&request, progress);
        lease.set_upload(progress.clone());
        match wait_response(&mut lease, request, progress, patience, began).await? {
            Ok(response) => return Ok((response, lease)),
            Err(mut error) => {
                let unsent = error.take_message();
                let failure = || response_failure(&error.into_error(), progress);
                request = unsent.or(again).ok_or_else(failure)?;
            }
        }
    }
    let mut lease = connect_origin(core, key, patience, began).await?;
    lease.set_upload(progress.clone());
    match wait_response(&mut lease, request, progress, patience, began).await? {
        Ok(response) => Ok((response, lease)),
        Err(error) => Err(response_failure(&error.into_error(), progress)),
    }
}

/// A copy of the request, if it has no body and an idempotent method.
fn repeatable_request(request: &Request<UpstreamSender>, progress: &UploadProgress) -> Option<Request<UpstreamSender>> {
    if !progress.is_finished() || progress.bytes() > 0 || !is_idempotent(request.method()) {
        return None;
    }
    let mut again = Request::new(empty_body());
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

async fn connect_origin(
    core: &ProxyShared,
    key: PoolKey,
    patience: ResponseTimeout,
    began: Instant,
) -> Result<PooledConnection, ErrorResponse> {
    let mut deadline = Instant::now() + core.limits.dial_timeout;
    if let ResponseTimeout::SinceRequest(limit) = patience {
        deadline = deadline.min(began + limit);
    }
    core.telemetry.record_dial();
    let dial = core.dialer.dial(&key.origin, deadline);
    let stream = timeout_at(deadline, dial)
        .await
        .map_err(|_| crate::origin::DialError::TimedOut)??;
    let lease = core.pool.connect(key, stream).await;
    lease.map_err(|error| ErrorResponse::new(502, reason::ORIGIN_BROKEN, error.to_string()))
}

type SendResult = Result<Response<Incoming>, TrySendError<Request<UpstreamSender>>>;

/// Waits for the response until the timeout.
async fn wait_response(
    lease: &mut PooledConnection,
    request: Request<UpstreamSender>,
    progress: &UploadProgress,
    patience: ResponseTimeout,
    began: Instant,
) -> Result<SendResult, ErrorResponse> {
    let mut sending = std::pin::pin!(lease.sender().try_send_request(request));
    let (limit, strict) = match patience {
        ResponseTimeout::SinceRequest(limit) => (limit, true),
        ResponseTimeout::SinceLastByte(limit) => (limit, false),
    };
    let mut deadline = if strict { began } else { Instant::now() } + limit;
    loop {
        let sent = progress.bytes();
        if let Ok(answer) = timeout_at(deadline, &mut sending).await {
            return Ok(answer);
        }
        if strict || progress.bytes() == sent {
            let detail = format!("no response within {limit:?}");
            return Err(ErrorResponse::new(504, reason::ORIGIN_TIMEOUT, detail));
        }
        deadline = Instant::now() + limit;
    }
}

/// Whether the client or the origin caused the failure.
fn response_failure(error: &hyper::Error, progress: &UploadProgress) -> ErrorResponse {
    if progress.is_stalled() {
        return ErrorResponse::new(408, reason::CLIENT_TIMEOUT, error.to_string());
    }
    if progress.is_broken() {
        return ErrorResponse::bad_request(error.to_string());
    }
    ErrorResponse::new(502, reason::ORIGIN_BROKEN, error.to_string())
}

/// Resolves when the origin sends "100 Continue" for this request, or has not done so for a while.
pub(super) fn wait_continue(request: &mut Request<()>) -> impl Future<Output = ()> + Send + use<> {
    let (send, receive) = oneshot::channel();
    let send = Mutex::new(Some(send));
    hyper::ext::on_informational(request, move |response| {
        let send = send.lock().unwrap_or_else(PoisonError::into_inner).take();
        if response.status() == http::StatusCode::CONTINUE
            && let Some(send) = send
        {
            // The body may have been dropped.
            let _ = send.send(());
        }
    });
    async move {
        let _ = timeout(CONTINUE_TIMEOUT, receive).await;
    }
}
