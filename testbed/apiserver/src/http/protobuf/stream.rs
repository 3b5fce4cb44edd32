//! Watch events as frames: a length of four bytes, then the event with an object in it.

use serde_json::{Map, Value};

use super::read::Reader;
use super::wire::{put_bytes, put_nested};
use super::{encode, table};

/// An event of a watch with its length before it; `None` where the object has no protobuf form.
#[must_use]
pub fn frame(kind: &str, object: &Value) -> Option<Vec<u8>> {
    let object = encode(object)?;
    let mut out = vec![0; 4];
    put_bytes(&mut out, 1, kind.as_bytes());
    put_nested(&mut out, 2, |out| put_bytes(out, 1, &object));
    let length = u32::try_from(out.len() - 4).ok()?;
    out[..4].copy_from_slice(&length.to_be_bytes());
    Some(out)
}

/// The events of a watch that has ended, each as its JSON line says it.
///
/// # Errors
/// Go's words for bytes that are no event, and for a frame that is cut off.
pub fn events(mut stream: &[u8]) -> Result<Vec<Value>, String> {
    let event = table::find("v1", "WatchEvent").expect("events are in the vendored table");
    let mut events = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let (content, rest) = rest.split_at_checked(length).ok_or("unexpected EOF")?;
        let mut object = Map::new();
        Reader::default().message(event, content, &mut object)?;
        events.push(Value::Object(object));
        stream = rest;
    }
    if stream.is_empty() {
        Ok(events)
    } else {
        Err("unexpected EOF".to_owned())
    }
}
