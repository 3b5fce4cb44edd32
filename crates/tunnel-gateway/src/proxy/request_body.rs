//! The request body on its way to the origin: counted, subject to the idle timeout, and held back while a
//! client waits for "100 Continue". Nothing is buffered.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};

use super::streams::IdleTimer;

/// The error of a body.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body type of connections to origins.
pub(crate) type UpstreamSender = UnsyncBoxBody<Bytes, BoxError>;

/// The progress of a request body, for the task that waits for the response.
#[derive(Debug, Default)]
pub(crate) struct UploadProgress {
    bytes: AtomicU64,
    finished: AtomicBool,
    stalled: AtomicBool,
    broken: AtomicBool,
}

impl UploadProgress {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Acquire)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}

/// The body of a request.
pub(crate) struct UploadBody<B> {
    body: B,
    idle: IdleTimer,
    /// The body is not read before this resolves, because reading makes hyper send "100 Continue".
    delay: Option<BoxFuture<'static, ()>>,
    progress: Arc<UploadProgress>,
}

impl<B> UploadBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    pub(crate) fn new(body: B, idle: Duration) -> (Self, Arc<UploadProgress>) {
        let progress = Arc::new(UploadProgress::default());
        if body.is_end_stream() {
            progress.finished.store(true, Ordering::Release);
        }
        let upload = Self {
            body,
            idle: IdleTimer::new(idle),
            delay: None,
            progress: progress.clone(),
        };
        (upload, progress)
    }

    /// Holds the body back until `wait` resolves.
    pub(crate) fn delayed_until(mut self, wait: impl Future<Output = ()> + Send + 'static) -> Self {
        self.delay = Some(Box::pin(wait));
        self
    }

    pub(crate) fn boxed(self) -> UpstreamSender {
        self.boxed_unsync()
    }
}

pub(crate) fn empty_body() -> UpstreamSender {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

impl<B> Body for UploadBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Some(wait) = &mut this.delay {
            ready!(wait.as_mut().poll(cx));
            this.delay = None;
        }
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        let Poll::Ready(frame) = frame else {
            ready!(this.idle.poll_expired(cx));
            this.progress.stalled.store(true, Ordering::Release);
            return Poll::Ready(Some(Err("the client stopped sending its body".into())));
        };
        this.idle.record_activity();
        match &frame {
            Some(Ok(frame)) => {
                let many = frame.data_ref().map_or(0, Bytes::len);
                let many = u64::try_from(many).unwrap_or(u64::MAX);
                this.progress.bytes.fetch_add(many, Ordering::Relaxed);
            }
            Some(Err(_)) => this.progress.broken.store(true, Ordering::Release),
            None => {}
        }
        if frame.is_none() || this.body.is_end_stream() {
            this.progress.finished.store(true, Ordering::Release);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
