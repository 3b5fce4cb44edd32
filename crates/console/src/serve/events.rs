//! Server-sent events: the rendered `<main>`, after a change and once a second.
//!
//! Each reader renders for itself, and only after it has taken the event before, so that a slow one costs
//! nothing. It rests ten times as long as rendering took, so that rendering uses at most a tenth of a core.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::{ConsoleState, TraceSubject, response_headers};
use crate::page;

/// Minimum time between two events of one page.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time between them: gauges change even if no object does.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// A reader rests this many times as long as it rendered.
const IDLE_FACTOR: u32 = 10;

/// One live page.
struct Reader {
    console: ConsoleState,
    /// The object it shows; `None` for the overview.
    subject: Option<TraceSubject>,
    changed: watch::Receiver<u64>,
    /// Earliest time of the next event.
    next: Instant,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn serve_events(State(console): State<ConsoleState>, uri: Uri) -> Response {
    let asked = uri.query().and_then(|it| it.strip_prefix("of="));
    let Ok(place) = console.0.readers.clone().try_acquire_owned() else {
        let full = "too many live pages; reload to refresh\n";
        return (StatusCode::SERVICE_UNAVAILABLE, response_headers("text/plain"), full).into_response();
    };
    let reader = Reader {
        changed: console.0.sources.subscribe(),
        next: Instant::now(),
        subject: asked.and_then(TraceSubject::parse),
        console,
        _permit: place,
    };
    let mut response = Sse::new(event_stream(reader)).into_response();
    response.headers_mut().extend(response_headers("text/event-stream"));
    response
}

fn event_stream(reader: Reader) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((reader, true), |(mut reader, first)| async move {
        let ends = reader.console.0.shutdown.clone();
        tokio::select! {
            biased;
            () = ends.cancelled() => return None,
            () = reader.wait_change(first) => {}
        }
        let event = reader.render_event()?;
        Some((Ok(event), (reader, false)))
    })
}

impl Reader {
    /// Waits for a change or for a second, but never less than the minimum time.
    async fn wait_change(&mut self, first: bool) {
        if !first {
            // After a change, a second or the end of all changes, the page is rendered.
            let _ = timeout(MAX_INTERVAL, self.changed.changed()).await;
        }
        sleep_until(self.next).await;
        self.changed.mark_unchanged();
    }

    /// The current page. `None` ends the stream; the script in the page then reconnects.
    fn render_event(&mut self) -> Option<Event> {
        let begun = Instant::now();
        let main = match &self.subject {
            None => page::render_overview(&self.console.status()).ok()?,
            Some(subject) => page::render_story(&self.console.story(subject)?).ok()?,
        };
        self.next = Instant::now() + MIN_INTERVAL.max(begun.elapsed() * IDLE_FACTOR);
        Some(Event::default().data(main))
    }
}
