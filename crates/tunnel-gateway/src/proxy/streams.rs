//! Streams of clients: HTTP version detection with a write timeout, byte counting of upgraded connections, and the idle
//! timer of bodies. Timeouts of requests are those of hyper and of the bodies.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The start of HTTP/2 with prior knowledge. No HTTP/1 method begins with it.
const PREFACE: &[u8; 3] = b"PRI";

/// A stream with bytes that were read ahead, and a timeout for writes.
#[derive(Debug)]
pub(super) struct PrefixedStream<S> {
    stream: S,
    prefix: [u8; PREFACE.len()],
    /// The part of the buffer that is still unread.
    unread: std::ops::Range<usize>,
    write_timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> PrefixedStream<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            prefix: [0; PREFACE.len()],
            unread: 0..0,
            write_timeout: patience,
            stalled: None,
        }
    }

    /// Whether the client starts HTTP/2. The bytes are read again later.
    pub(super) async fn speaks_http2(&mut self) -> io::Result<bool> {
        let mut have = 0;
        while have < PREFACE.len() && self.prefix[..have] == PREFACE[..have] {
            match self.stream.read(&mut self.prefix[have..]).await? {
                0 => break,
                more => have += more,
            }
        }
        self.unread = 0..have;
        Ok(self.prefix[..have] == PREFACE[..])
    }

    /// Tracks how long writes have been pending.
    fn check_stall<T>(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stalled = None;
            return wrote;
        }
        let until = Instant::now() + self.write_timeout;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for PrefixedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.unread.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        }
        let many = this.unread.len().min(buffer.remaining());
        let next = this.unread.start + many;
        buffer.put_slice(&this.prefix[this.unread.start..next]);
        this.unread.start = next;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PrefixedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.check_stall(cx, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(cx, bytes);
        this.check_stall(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.check_stall(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.check_stall(cx, shut)
    }
}

/// How many bytes were received.
#[derive(Clone, Debug, Default)]
pub(super) struct ByteCounter(Arc<AtomicU64>);

impl ByteCounter {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that counts the bytes read from it.
#[derive(Debug)]
pub(super) struct CountingStream<S> {
    stream: S,
    counter: ByteCounter,
}

impl<S> CountingStream<S> {
    pub(super) fn new(stream: S, meter: &ByteCounter) -> Self {
        let meter = meter.clone();
        Self { stream, counter: meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountingStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let many = buffer.filled().len() - before;
        let many = u64::try_from(many).unwrap_or(u64::MAX);
        this.counter.0.fetch_add(many, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountingStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Expires after a time without progress. The timer is created and reset only when it is polled, because most
/// bodies never wait.
#[derive(Debug)]
pub(super) struct IdleTimer {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    active: bool,
}

impl IdleTimer {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            timeout: longest,
            timer: None,
            active: true,
        }
    }

    /// Records progress: the timeout restarts with the next poll.
    pub(super) fn record_activity(&mut self) {
        self.active = true;
    }

    /// Ready when nothing has moved for too long.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = Instant::now() + self.timeout;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if std::mem::take(&mut self.active) {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn the_first_bytes_select_the_protocol_and_are_kept() {
        let table: [(&[&[u8]], bool); 6] = [
            (&[b"PRI * HTTP/2.0"], true),
            (&[b"P", b"R", b"I * "], true),
            (&[b"POST / HTTP/1.1"], false),
            (&[b"P", b"UT / "], false),
            (&[b"GET / "], false),
            (&[b"P"], false),
        ];
        for (pieces, wanted) in table {
            let (mut client, server) = tokio::io::duplex(64);
            let mut socket = PrefixedStream::new(server, Duration::from_secs(1));
            let all = pieces.concat();
            let writes = async {
                for piece in pieces {
                    client.write_all(piece).await.expect("taken");
                    tokio::task::yield_now().await;
                }
                drop(client);
            };
            let (http2, ()) = tokio::join!(socket.speaks_http2(), writes);
            assert_eq!(http2.expect("read"), wanted, "{all:?}");
            let mut read = Vec::new();
            socket.read_to_end(&mut read).await.expect("read");
            assert_eq!(read, all);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let (_client, server) = tokio::io::duplex(8);
        let mut socket = PrefixedStream::new(server, Duration::from_secs(5));
        let began = Instant::now();
        let error = socket.write_all(&[0; 64]).await.expect_err("the write timed out");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_out_only_after_standing_still() {
        let mut idle = IdleTimer::new(Duration::from_secs(10));
        let began = Instant::now();
        for _ in 0..5 {
            let wait = poll_fn(|cx| idle.poll_expired(cx));
            tokio::time::timeout(Duration::from_secs(9), wait)
                .await
                .expect_err("it moves in time");
            idle.record_activity();
        }
        poll_fn(|cx| idle.poll_expired(cx)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(9 * 5 + 10));
    }
}
