//! The response body on its way to the client: an error page, or the origin's body, which is streamed. At its
//! end the origin's connection returns to the pool.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;

use super::request_body::BoxError;
use super::request_record::RequestRecord;
use super::streams::IdleTimer;
use crate::origin::pool::PooledConnection;
use crate::reason;

#[derive(Debug)]
pub struct ResponseBody {
    source: BodySource,
    record: Option<RequestRecord>,
}

#[derive(Debug)]
enum BodySource {
    Page(Full<Bytes>),
    Origin(Box<OriginBody>),
}

#[derive(Debug)]
struct OriginBody {
    body: Incoming,
    idle: IdleTimer,
    /// The connection to the origin, until the end.
    lease: Option<PooledConnection>,
}

impl ResponseBody {
    /// An error page.
    pub(super) fn from_text(text: impl Into<Bytes>, record: RequestRecord) -> Self {
        let source = BodySource::Page(Full::new(text.into()));
        let record = Some(record);
        Self { source, record }
    }

    /// An empty body for a request that continues in another form, with its own record.
    pub(super) fn empty() -> Self {
        let source = BodySource::Page(Full::default());
        let record = None;
        Self { source, record }
    }

    /// The body that an origin sends over `lease`.
    pub(super) fn from_origin(body: Incoming, lease: PooledConnection, idle: Duration, record: RequestRecord) -> Self {
        let source = BodySource::Origin(Box::new(OriginBody {
            body,
            idle: IdleTimer::new(idle),
            lease: Some(lease),
        }));
        let record = Some(record);
        let mut it = Self { source, record };
        if it.is_end_stream() {
            it.finish();
        }
        it
    }

    /// Records that all of it was forwarded.
    fn finish(&mut self) {
        if let BodySource::Origin(download) = &mut self.source
            && let Some(lease) = download.lease.take()
        {
            lease.release();
        }
        self.record = None;
    }

    fn record_broken(&mut self, reason: &'static str) {
        if let Some(record) = &mut self.record {
            record.record_broken(reason);
        }
        self.record = None;
    }
}

impl OriginBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let Poll::Ready(frame) = frame else {
            ready!(self.idle.poll_expired(cx));
            let error = "the origin stopped sending its body".into();
            return Poll::Ready(Some(Err((reason::ORIGIN_TIMEOUT, error))));
        };
        self.idle.record_activity();
        Poll::Ready(frame.map(|it| it.map_err(|error| (reason::ORIGIN_BROKEN, error.into()))))
    }
}

type Broken = (&'static str, BoxError);

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match &mut this.source {
            BodySource::Page(page) => {
                let frame = ready!(Pin::new(page).poll_frame(cx));
                frame.map(|it| it.map_err(|never| match never {}))
            }
            BodySource::Origin(download) => ready!(download.poll(cx)),
        };
        match frame {
            None => this.finish(),
            Some(Ok(frame)) => {
                let many = frame.data_ref().map_or(0, Bytes::len);
                if let Some(record) = &mut this.record {
                    record.add_sent(u64::try_from(many).unwrap_or(u64::MAX));
                }
                if this.is_end_stream() {
                    this.finish();
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(Err((reason, error))) => {
                this.record_broken(reason);
                return Poll::Ready(Some(Err(error)));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Page(page) => page.is_end_stream(),
            BodySource::Origin(download) => download.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Page(page) => page.size_hint(),
            BodySource::Origin(download) => download.body.size_hint(),
        }
    }
}

/// A body dropped before its end means that the client disconnected.
impl Drop for ResponseBody {
    fn drop(&mut self) {
        if !self.is_end_stream() {
            self.record_broken(reason::CLIENT_GONE);
        }
    }
}
