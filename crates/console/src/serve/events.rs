//! Server-sent events: the re-rendered `<main>`, when something changed and once a second.
//!
//! Each reader renders for itself and only when it has taken what it was sent, so that a slow one costs nothing;
//! and it rests ten times as long as rendering took, so that many objects cost a tenth of a core at most.

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

use super::trace::TraceSubject;
use super::{ConsoleState, response_headers};
use crate::page;

/// How far apart two events of one page are at least.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// How far apart they are at most: gauges move while no object changes.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// How many times as long as it took to render one a reader rests.
const IDLE_FACTOR: u32 = 10;

/// One page that is kept up to date.
struct Reader {
    console: ConsoleState,
    /// The object it is about; without one it is about everything.
    subject: Option<TraceSubject>,
    changed: watch::Receiver<u64>,
    /// Not before this is the next one sent.
    next: Instant,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn serve_events(State(console): State<ConsoleState>, uri: Uri) -> Response {
    let asked = uri.query().and_then(|it| it.strip_prefix("of="));
    let Ok(place) = console.0.readers.clone().try_acquire_owned() else {
        let full = "too many pages are live; reload to look\n";
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
    /// Until something changed or a second has passed, and not before it is time again.
    async fn wait_change(&mut self, first: bool) {
        if !first {
            // Whether it changed, the second is over, or nothing can change any more: it is looked at.
            let _ = timeout(MAX_INTERVAL, self.changed.changed()).await;
        }
        sleep_until(self.next).await;
        self.changed.mark_unchanged();
    }

    /// What there is to see now. `None` ends the stream: the page says so and tries again.
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
