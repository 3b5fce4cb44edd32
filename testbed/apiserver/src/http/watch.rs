//! Watch streams on the wire: one JSON line or one protobuf frame per event.
//!
//! Which events there are is `registry`'s business.

use aplomb_apimachinery::clock::Clock;
use aplomb_builtin_kinds as kinds;
use aplomb_go_compat::html_escape as gojson;
use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};
use serde_json::Value;

use super::convert::Converter;
use super::negotiate::Form;
use super::protobuf;
use crate::call::WatchEvent;

/// The events of a watch as bytes. The stream ends after an error, and where an event has no such
/// shape.
pub(super) fn events(
    events: BoxStream<'static, WatchEvent>,
    converter: Converter,
    clock: Clock,
    form: Form,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let start = (events, converter, clock, true);
    futures::stream::unfold(Some(start), move |state| async move {
        let (mut events, converter, clock, first) = state?;
        let event = events.next().await?;
        let ended = matches!(event, WatchEvent::Error(_));
        let bytes = write(&event, &converter, &clock, first, form)?;
        Some((bytes, (!ended).then_some((events, converter, clock, false))))
    })
}

fn write(event: &WatchEvent, converter: &Converter, clock: &Clock, first: bool, form: Form) -> Option<Bytes> {
    let write = |kind, object| framed(kind, &*converter.event(object, first, clock.now())?, form);
    let (kind, object) = match event {
        WatchEvent::Added(object) => ("ADDED", object),
        WatchEvent::Modified(object) => ("MODIFIED", object),
        WatchEvent::Deleted(object) => ("DELETED", object),
        WatchEvent::Bookmark(object) => return write("BOOKMARK", object),
        WatchEvent::Error(error) => return framed("ERROR", &error.to_status(), form),
    };
    match converter.shared_form(form) {
        Some(form) => object.written((kind, form), || write(kind, object)),
        None => write(kind, object),
    }
}

fn framed(kind: &str, object: &Value, form: Form) -> Option<Bytes> {
    if form == Form::Protobuf {
        return protobuf::frame(kind, object).map(Bytes::from);
    }
    // The type first, as the server writes it: clients that read as they go depend on it.
    let mut line = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
    gojson::append(&mut line, &kinds::laid_out(object));
    line.extend_from_slice(b"}\n");
    Some(line.into())
}
