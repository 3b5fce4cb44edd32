//! What a peer gets whose bytes are not HTTP: the words of Go's server instead of hyper's.
//!
//! hyper answers what it cannot parse by itself, before any service sees it, with an empty body.
//! The only place to put the server's words is the stream it writes to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Every answer of the service carries one of these; hyper's own do not.
const OURS: [&[u8]; 2] = [b"audit-id:", b"text/plain"];

/// A stream that rewrites hyper's refusals.
#[derive(Debug)]
pub(super) struct Refusing<S> {
    inner: S,
    /// What still has to go out in place of a refusal, and how much of it has.
    pending: Option<(Vec<u8>, usize)>,
}

impl<S> Refusing<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, pending: None }
    }
}

/// The server's refusal in place of hyper's, if that is what the bytes are.
fn rewrite(written: &[u8]) -> Option<Vec<u8>> {
    if !written.starts_with(b"HTTP/1.1 4") || !written.ends_with(b"\r\n\r\n") {
        return None;
    }
    let lower = written.to_ascii_lowercase();
    if OURS
        .iter()
        .any(|mark| lower.windows(mark.len()).any(|window| window == *mark))
    {
        return None;
    }
    let line = written.split(|byte| *byte == b'\r').next()?;
    let status = std::str::from_utf8(line.get(b"HTTP/1.1 ".len()..)?).ok()?;
    let head = "Content-Type: text/plain; charset=utf-8\r\nConnection: close";
    Some(format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n{status}").into_bytes())
}

impl<S: AsyncWrite + Unpin> Refusing<S> {
    fn flush_pending(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((bytes, sent)) = &mut self.pending {
            let count = ready!(Pin::new(&mut self.inner).poll_write(cx, &bytes[*sent..]))?;
            *sent += count;
            if count == 0 || *sent == bytes.len() {
                self.pending = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Refusing<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.flush_pending(cx))?;
        if let Some(refusal) = rewrite(buf) {
            self.pending = Some((refusal, 0));
            // What cannot go out now goes out with the next flush.
            if let Poll::Ready(Err(error)) = self.flush_pending(cx) {
                return Poll::Ready(Err(error));
            }
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.flush_pending(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.flush_pending(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Refusing<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_of_the_library_are_rewritten() {
        let library = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(
            rewrite(library).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            Some(
                "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Connection: close\r\n\r\n400 Bad Request"
                    .to_owned()
            )
        );
        let ours = b"HTTP/1.1 404 Not Found\r\nAudit-Id: x\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(rewrite(ours), None);
        assert_eq!(rewrite(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
