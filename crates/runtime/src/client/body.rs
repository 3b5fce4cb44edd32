//! A response body with its call's deadline. It keeps the call's slot until it is read or dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{BoxError, service_fn};

use crate::client::unwrap_error;
use crate::ratelimit::Permit;

/// A body with its call's deadline.
pub(super) struct DeadlineBody {
    inner: Option<Body>,
    limit: Option<Limit>,
}

struct Limit {
    timer: Pin<Box<Sleep>>,
    on_exceeded: Box<dyn FnOnce() -> BoxError + Send>,
    /// Held to keep the slot.
    _permit: Permit,
}

impl DeadlineBody {
    /// A body of unknown length, such as a watch: it holds no slot and has no deadline.
    pub(super) fn without_deadline(inner: Body) -> Self {
        Self {
            inner: Some(inner),
            limit: None,
        }
    }

    /// A body that must be complete by `deadline`; `exceeded` counts and names the timeout.
    pub(super) fn with_deadline(
        inner: Body,
        deadline: Instant,
        permit: Permit,
        exceeded: impl FnOnce() -> BoxError + Send + 'static,
    ) -> Self {
        Self {
            inner: Some(inner),
            limit: Some(Limit {
                timer: Box::pin(sleep_until(deadline)),
                on_exceeded: Box::new(exceeded),
                _permit: permit,
            }),
        }
    }
}

impl http_body::Body for DeadlineBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        // First, so that an endless body cannot exceed its deadline either.
        if let Some(mut limit) = this.limit.take() {
            if limit.timer.as_mut().poll(context).is_ready() {
                // The connection is closed too: nothing remains that could keep a call open.
                this.inner = None;
                return Poll::Ready(Some(Err((limit.on_exceeded)())));
            }
            this.limit = Some(limit);
        }
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(inner).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            this.inner = None;
            this.limit = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(unwrap_error)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Some(inner) => inner.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

#[derive(Clone)]
pub(super) struct SingleUseBody(Client);

impl SingleUseBody {
    pub(super) fn new() -> Self {
        let echo =
            service_fn(|request: Request<Body>| async move { Ok::<_, BoxError>(Response::new(request.into_body())) });
        Self(Client::new(echo, "default"))
    }

    /// The same request, which lower layers cannot repeat.
    pub(super) async fn seal(&self, request: Request<Body>) -> Result<Request<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let sealed = self.0.send(Request::new(body)).await?.into_body();
        Ok(Request::from_parts(head, sealed))
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    #[tokio::test]
    async fn a_sealed_body_is_the_same_but_cannot_be_cloned() {
        let once = SingleUseBody::new();
        for bytes in [Vec::new(), b"{}".to_vec()] {
            let length = bytes.len() as u64;
            let sealed = once.seal(Request::new(Body::from(bytes.clone()))).await.unwrap();
            assert!(sealed.body().try_clone().is_none());
            assert_eq!(sealed.body().size_hint().exact(), Some(length));
            assert_eq!(sealed.body().is_end_stream(), bytes.is_empty());
            assert_eq!(sealed.into_body().collect_bytes().await.unwrap(), bytes);
        }
    }
}
