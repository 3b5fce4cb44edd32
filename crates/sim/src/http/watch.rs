//! Watch streams on the wire: one JSON line per event.
//!
//! Which events there are is `rest`'s business.

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};
use serde_json::Value;

use super::convert::Converter;
use crate::call::WatchEvent;
use crate::clock::Clock;

/// The lines of a watch. The stream ends after an error, and where an event has no such shape.
pub(super) fn lines(
    events: BoxStream<'static, WatchEvent>,
    converter: Converter,
    clock: Clock,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let start = (events, converter, clock, true);
    futures::stream::unfold(Some(start), |state| async move {
        let (mut events, converter, clock, first) = state?;
        let event = events.next().await?;
        let ended = matches!(event, WatchEvent::Error(_));
        let line = line(&event, &converter, &clock, first)?;
        Some((line, (!ended).then_some((events, converter, clock, false))))
    })
}

fn line(event: &WatchEvent, converter: &Converter, clock: &Clock, first: bool) -> Option<Bytes> {
    let now = clock.now();
    let convert = |object: &'_ Value| -> Option<Vec<u8>> {
        let object = converter.event(object, first, now)?;
        Some(serde_json::to_vec(&*object).expect("a JSON value is always written"))
    };
    let (kind, object) = match event {
        WatchEvent::Added(object) => ("ADDED", convert(object)?),
        WatchEvent::Modified(object) => ("MODIFIED", convert(object)?),
        WatchEvent::Deleted(object) => ("DELETED", convert(object)?),
        WatchEvent::Bookmark(object) => ("BOOKMARK", convert(object)?),
        WatchEvent::Error(error) => ("ERROR", error.to_status().to_string().into_bytes()),
    };
    // The type first, as the server writes it: clients that read as they go depend on it.
    let frame = (format!("{{\"type\":\"{kind}\",\"object\":"), "}\n");
    let line = [frame.0.as_bytes(), &object, frame.1.as_bytes()];
    Some(line.concat().into())
}
