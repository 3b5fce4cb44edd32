//! The lines of a response body, as they arrive.

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http_body_util::BodyExt;
use kube::client::Body;

/// The lines of a body. Half a line at the end is not one.
pub(super) struct Lines {
    body: std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, kube::Error>> + Send>>,
    rest: BytesMut,
    /// How much of `rest` is known to hold no end of a line.
    searched: usize,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body: Box::pin(body.into_data_stream()),
            rest: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next whole line, without its end; `None` when the server ended the stream after one.
    ///
    /// Cancel-safe: what was received stays.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.rest[self.searched..]) {
                let line = self.rest.split_to(self.searched + at).freeze();
                self.rest.advance(1);
                self.searched = 0;
                if line.is_empty() {
                    continue;
                }
                return Some(Ok(line));
            }
            self.searched = self.rest.len();
            match self.body.next().await {
                Some(Ok(bytes)) => self.rest.extend_from_slice(&bytes),
                Some(Err(error)) => return Some(Err(Broken(error.to_string()))),
                None if self.rest.is_empty() => return None,
                None => return Some(Err(Broken("the stream ends inside a line".to_owned()))),
            }
        }
    }
}

/// Why a stream has no further line.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);
