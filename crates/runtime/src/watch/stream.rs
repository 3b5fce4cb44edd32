//! The lines of a response body, as they arrive.

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};

/// A line, without its end.
#[derive(Debug, PartialEq)]
pub(super) enum WatchLine {
    Whole(Bytes),
    /// The stream ended before the line did, so it may be incomplete.
    Unterminated(Bytes),
}

impl WatchLine {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) | Self::Unterminated(bytes) => bytes,
        }
    }
}

/// The lines of a body.
pub(super) struct LineReader {
    body: std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, kube::Error>> + Send>>,
    /// Received and unread bytes: lines are split off without being copied.
    piece: Bytes,
    /// The beginning of an incomplete line.
    partial: BytesMut,
}

impl LineReader {
    pub(super) fn new(body: impl Stream<Item = Result<Bytes, kube::Error>> + Send + 'static) -> Self {
        Self {
            body: Box::pin(body),
            piece: Bytes::new(),
            partial: BytesMut::new(),
        }
    }

    /// The next line; `None` when the server ended the stream.
    ///
    /// Cancel-safe: received bytes are kept.
    pub(super) async fn next(&mut self) -> Option<Result<WatchLine, StreamError>> {
        loop {
            if let Some(line) = self.split_line() {
                if line.is_empty() {
                    continue;
                }
                return Some(Ok(WatchLine::Whole(line)));
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.piece = bytes,
                Some(Err(error)) => return Some(Err(StreamError(error.to_string()))),
                None if self.partial.is_empty() => return None,
                None => return Some(Ok(WatchLine::Unterminated(self.partial.split().freeze()))),
            }
        }
    }

    /// Splits a line off the received bytes, or moves them to the incomplete line.
    fn split_line(&mut self) -> Option<Bytes> {
        let Some(at) = memchr::memchr(b'\n', &self.piece) else {
            self.partial.extend_from_slice(&self.piece);
            self.piece.clear();
            return None;
        };
        let end = self.piece.split_to(at);
        self.piece.advance(1);
        if self.partial.is_empty() {
            return Some(end);
        }
        self.partial.extend_from_slice(&end);
        Some(self.partial.split().freeze())
    }
}

/// Why a stream has no further line.
#[derive(Debug)]
pub(super) struct StreamError(pub(super) String);

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    async fn lines(pieces: &[&'static str]) -> Vec<WatchLine> {
        let pieces: Vec<Bytes> = pieces.iter().map(|piece| (*piece).into()).collect();
        let mut lines = LineReader::new(stream::iter(pieces).map(Ok));
        let mut read = Vec::new();
        while let Some(Ok(line)) = lines.next().await {
            read.push(line);
        }
        read
    }

    #[tokio::test]
    async fn lines_are_found_wherever_the_pieces_end() {
        let whole = ["one", "two"].map(|line| WatchLine::Whole(line.into()));
        assert_eq!(lines(&["one\ntwo\n"]).await, whole);
        assert_eq!(lines(&["o", "ne", "\n", "\ntw", "o\n"]).await, whole);
        assert_eq!(lines(&["one\ntw", "o\n", ""]).await, whole);
    }

    #[tokio::test]
    async fn unterminated_line_is_distinguished_from_a_whole_one() {
        let read = [WatchLine::Whole("one".into()), WatchLine::Unterminated("tw".into())];
        assert_eq!(lines(&["one\nt", "w"]).await, read);
    }
}
