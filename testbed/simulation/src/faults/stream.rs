//! The streams of watches, and what goes wrong with them.
//!
//! A stream is handled line by line, one event each, so that a fault falls between two events
//! unless it is meant to fall inside one.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::{Instant, sleep_until};
use tower::BoxError;

use super::answer::Body;
use super::fault::WatchFault;
use super::outage::Outages;

/// Pieces of a body as they arrive.
pub(crate) type Pieces = BoxStream<'static, Result<Bytes, BoxError>>;

/// Turns pieces back into a body.
pub(super) fn body(pieces: Pieces) -> Body {
    StreamBody::new(pieces.map_ok(Frame::data)).boxed_unsync()
}

/// Takes a body apart.
pub(super) fn pieces(body: Body) -> Pieces {
    body.into_data_stream().boxed()
}

/// The lines of a body, each as one piece with its end.
pub(crate) fn body_lines(body: Body) -> Pieces {
    lines(pieces(body))
}

/// Regroups pieces so that each is one line with its end; a last line without one stays as it is.
pub(super) fn lines(pieces: Pieces) -> Pieces {
    let state = (pieces, BytesMut::new(), false);
    stream::unfold(state, |(mut pieces, mut buffer, mut ended)| async move {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1).freeze();
                return Some((Ok(line), (pieces, buffer, ended)));
            }
            if ended {
                let rest = buffer.split().freeze();
                return (!rest.is_empty()).then(|| (Ok(rest), (pieces, buffer, ended)));
            }
            match pieces.next().await {
                Some(Ok(piece)) => buffer.extend_from_slice(&piece),
                Some(Err(error)) => return Some((Err(error), (pieces, buffer, true))),
                None => ended = true,
            }
        }
    })
    .boxed()
}

/// Carries out `fault` on the lines of a watch opened now. `Expired` is not about a stream and
/// never gets here.
pub(super) fn disturb(lines: Pieces, fault: &WatchFault) -> Pieces {
    let opened = Instant::now();
    match *fault {
        WatchFault::Held(time) => held_until(lines, opened + time),
        WatchFault::Lagged(time) => lagged(lines, time),
        WatchFault::Dropped(time) => lines.take_until(sleep_until(opened + time)).boxed(),
        WatchFault::BlackHoled(time) => lines
            .take_until(sleep_until(opened + time))
            .chain(stream::pending())
            .boxed(),
        WatchFault::CutMidLine(events) => cut_mid_line(lines, events),
        WatchFault::Expired => lines,
    }
}

fn held_until(lines: Pieces, release: Instant) -> Pieces {
    stream::once(sleep_until(release))
        .filter_map(|()| async { None })
        .chain(lines)
        .boxed()
}

/// Every line `lag` after it arrived; the end of the stream too.
fn lagged(lines: Pieces, lag: Duration) -> Pieces {
    let state = (lines.fuse(), VecDeque::new());
    stream::unfold(state, move |(mut lines, mut waiting)| async move {
        loop {
            let due = waiting.front().map(|(due, _)| *due);
            tokio::select! {
                biased;
                () = due_at(due) => {
                    let (_, line) = waiting.pop_front()?;
                    return line.map(|line| (line, (lines, waiting)));
                }
                line = lines.next(), if !matches!(waiting.back(), Some((_, None))) => {
                    waiting.push_back((Instant::now() + lag, line));
                }
            }
        }
    })
    .boxed()
}

async fn due_at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// After `events` lines, the first half of the next one, and the end.
fn cut_mid_line(lines: Pieces, events: usize) -> Pieces {
    let half = |line: Bytes| line.slice(..line.len() / 2);
    let cut = lines
        .enumerate()
        .map(move |(at, line)| if at == events { line.map(half) } else { line });
    cut.take(events + 1).boxed()
}

/// Ends the stream with an error when the server restarts.
pub(super) fn cut_on_restart(pieces: Pieces, outages: &Outages) -> Pieces {
    let open = Some((pieces, Box::pin(outages.cut())));
    stream::unfold(open, |open| async move {
        let (mut pieces, mut cut) = open?;
        tokio::select! {
            biased;
            () = &mut cut => Some((Err(reset()), None)),
            piece = pieces.next() => piece.map(|piece| (piece, Some((pieces, cut)))),
        }
    })
    .boxed()
}

/// What a client sees of a connection that broke.
pub(super) fn reset() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer").into()
}

/// What a client sees of a server that is not there.
pub(super) fn refused() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused").into()
}
