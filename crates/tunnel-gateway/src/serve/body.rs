//! The response body on its way to the client: an error page, or the origin's body, which is streamed. At its
//! end the origin's connection returns to the pool.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;

use super::idle::IdleTimer;
use super::record::RequestRecord;
use super::upload::BoxError;
use crate::pool::PooledConnection;
use crate::reason;

/// The body of a response.
#[derive(Debug)]
pub struct ResponseBody {
    source: Source,
    record: Option<RequestRecord>,
}

#[derive(Debug)]
enum Source {
    Page(Full<Bytes>),
    Origin(Box<Download>),
}

/// The body from an origin.
#[derive(Debug)]
struct Download {
    body: Incoming,
    idle: IdleTimer,
    /// The connection to the origin, until the end.
    lease: Option<PooledConnection>,
}

impl ResponseBody {
    /// An error page.
    pub(super) fn page(text: impl Into<Bytes>, record: RequestRecord) -> Self {
        let source = Source::Page(Full::new(text.into()));
        let record = Some(record);
        Self { source, record }
    }

    /// An empty body for a request that continues in another form, with its own record.
    pub(super) fn nothing() -> Self {
        let source = Source::Page(Full::default());
        let record = None;
        Self { source, record }
    }

    /// The body that an origin sends over `lease`.
    pub(super) fn origin(
        body: Incoming,
        lease: PooledConnection,
        idle: Duration,
        record: RequestRecord,
    ) -> Self {
        let source = Source::Origin(Box::new(Download {
            body,
            idle: IdleTimer::new(idle),
            lease: Some(lease),
        }));
        let record = Some(record);
        let mut it = Self { source, record };
        if it.is_end_stream() {
            it.ended();
        }
        it
    }

    /// Records that all of it was forwarded.
    fn ended(&mut self) {
        if let Source::Origin(download) = &mut self.source
            && let Some(lease) = download.lease.take()
        {
            lease.give_back();
        }
        self.record = None;
    }

    fn broke(&mut self, reason: &'static str) {
        if let Some(record) = &mut self.record {
            record.broke(reason);
        }
        self.record = None;
    }
}

impl Download {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let Poll::Ready(frame) = frame else {
            ready!(self.idle.poll(cx));
            let error = "the origin stopped sending its body".into();
            return Poll::Ready(Some(Err((reason::ORIGIN_TIMEOUT, error))));
        };
        self.idle.moved();
        Poll::Ready(frame.map(|it| it.map_err(|error| (reason::ORIGIN_BROKEN, error.into()))))
    }
}

type Broken = (&'static str, BoxError);

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match &mut this.source {
            Source::Page(page) => {
                let frame = ready!(Pin::new(page).poll_frame(cx));
                frame.map(|it| it.map_err(|never| match never {}))
            }
            Source::Origin(download) => ready!(download.poll(cx)),
        };
        match frame {
            None => this.ended(),
            Some(Ok(frame)) => {
                let many = frame.data_ref().map_or(0, Bytes::len);
                if let Some(record) = &mut this.record {
                    record.sent(u64::try_from(many).unwrap_or(u64::MAX));
                }
                if this.is_end_stream() {
                    this.ended();
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(Err((reason, error))) => {
                this.broke(reason);
                return Poll::Ready(Some(Err(error)));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Page(page) => page.is_end_stream(),
            Source::Origin(download) => download.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Page(page) => page.size_hint(),
            Source::Origin(download) => download.body.size_hint(),
        }
    }
}

/// A body dropped before its end means that the client disconnected.
impl Drop for ResponseBody {
    fn drop(&mut self) {
        if !self.is_end_stream() {
            self.broke(reason::CLIENT_GONE);
        }
    }
}
