//! The wire format: requests of a list and a watch, and one parsing pass over the responses.
//!
//! An object is parsed straight from the bytes into its view. One that does not fit is named and
//! reported; it never ends the watch. No value of an object may get into an error text.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use kube::Resource;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cache::{DecodedObject, UndecodableObject};
use crate::error::Error;
use crate::informer::reflector::ListPage;
use crate::informer::{ReflectorTiming, Scope};
use crate::key::{ObjectKey, ResourceVersion};
use crate::nulls;
use crate::view::View;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

pub(super) fn list_request<T: View>(
    scope: &Scope,
    timing: &ReflectorTiming,
    page: &ListPage,
) -> Result<http::Request<Vec<u8>>, Error> {
    let mut params = ListParams {
        label_selector: scope.labels.clone(),
        field_selector: scope.fields.clone(),
        ..ListParams::default()
    };
    if *page != ListPage::Whole {
        params = params.limit(timing.page_size);
    }
    if let ListPage::Next(token) = page {
        params = params.continue_token(token);
    }
    let request = resource_path::<T>(scope).list(&params).map_err(Error::fault)?;
    Ok(with_accept::<T>(request, METADATA_LIST))
}

pub(super) fn watch_request<T: View>(
    scope: &Scope,
    from: &str,
    lifetime_seconds: u32,
) -> Result<http::Request<Vec<u8>>, Error> {
    let params = WatchParams {
        label_selector: scope.labels.clone(),
        field_selector: scope.fields.clone(),
        timeout: Some(lifetime_seconds),
        ..WatchParams::default()
    };
    let request = resource_path::<T>(scope).watch(&params, from).map_err(Error::fault)?;
    let mut request = with_accept::<T>(request, METADATA);
    // A compressor holds back events until its buffer is full.
    let plain = HeaderValue::from_static("identity");
    request.headers_mut().insert(ACCEPT_ENCODING, plain);
    Ok(request)
}

fn resource_path<T: View>(scope: &Scope) -> Request {
    Request::new(T::Kind::url_path(&(), scope.namespace.as_deref()))
}

fn with_accept<T: View>(mut request: http::Request<Vec<u8>>, metadata: &'static str) -> http::Request<Vec<u8>> {
    if T::metadata_only() {
        let metadata = HeaderValue::from_static(metadata);
        request.headers_mut().insert(ACCEPT, metadata);
    }
    request
}

/// A line of a watch.
///
/// The server writes `type` before `object`, and then serde parses the object in place; the other
/// order works too but needs a buffer.
#[derive(Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
enum RawWatchLine<T> {
    Added(T),
    Modified(T),
    Deleted(T),
    Bookmark(Named),
    Error(Box<Status>),
}

/// The content of a line.
pub(super) enum WireObject<T> {
    Put(DecodedObject<T>),
    Deleted(DecodedObject<T>),
    Bookmark(String),
    Error(Box<Status>),
}

/// Parses a line. An error means that it is not a line of a watch at all.
pub(super) fn parse_line<T: View>(bytes: &[u8]) -> Result<WireObject<T>, serde_json::Error> {
    let line = serde_json::from_slice::<RawWatchLine<T>>(bytes);
    match line.or_else(|_| nulls::read_without_nulls(bytes)) {
        Ok(line) => Ok(match line {
            RawWatchLine::Added(object) | RawWatchLine::Modified(object) => WireObject::Put(decoded_object(object)),
            RawWatchLine::Deleted(object) => WireObject::Deleted(decoded_object(object)),
            RawWatchLine::Bookmark(named) => WireObject::Bookmark(named.metadata.resource_version.into_owned()),
            RawWatchLine::Error(status) => WireObject::Error(status),
        }),
        Err(error) => undecodable_line(bytes, &error),
    }
}

fn decoded_object<T: View>(object: T) -> DecodedObject<T> {
    DecodedObject::Object(std::sync::Arc::new(object))
}

fn undecodable_line<T>(bytes: &[u8], error: &serde_json::Error) -> Result<WireObject<T>, serde_json::Error> {
    Ok(match serde_json::from_slice::<RawWatchLine<Named>>(bytes)? {
        RawWatchLine::Added(named) | RawWatchLine::Modified(named) => WireObject::Put(named.to_undecodable(error)),
        RawWatchLine::Deleted(named) => WireObject::Deleted(named.to_undecodable(error)),
        RawWatchLine::Bookmark(named) => WireObject::Bookmark(named.metadata.resource_version.into_owned()),
        RawWatchLine::Error(status) => WireObject::Error(status),
    })
}

/// The minimum that identifies an object.
#[derive(Deserialize)]
struct Named {
    metadata: NamedMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedMeta {
    #[serde(default)]
    namespace: Option<Cow<'static, str>>,
    #[serde(default)]
    name: Cow<'static, str>,
    #[serde(default)]
    resource_version: Cow<'static, str>,
}

impl Named {
    fn to_undecodable<T>(&self, error: &serde_json::Error) -> DecodedObject<T> {
        let meta = &self.metadata;
        DecodedObject::Unreadable(UndecodableObject {
            key: ObjectKey::new(meta.namespace.as_deref(), &meta.name),
            version: ResourceVersion::parse(&meta.resource_version),
            error: redacted_error(error),
        })
    }
}

/// A page of a list.
pub(super) struct ListResponse<T> {
    pub(super) items: Vec<DecodedObject<T>>,
    pub(super) continue_token: Option<String>,
    pub(super) version: String,
}

#[derive(Deserialize)]
struct Items<I> {
    metadata: ListMeta,
    // An empty list may be null.
    items: Option<Vec<I>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
}

/// Parses a page. An error means that it is not a list at all.
pub(super) fn parse_page<T: View>(bytes: &[u8]) -> Result<ListResponse<T>, serde_json::Error> {
    if let Ok(list) = serde_json::from_slice::<Items<T>>(bytes) {
        let items = list.items.into_iter().flatten().map(decoded_object).collect();
        return Ok(list_response(items, list.metadata));
    }
    let list = serde_json::from_slice::<Items<&RawValue>>(bytes)?;
    let items: Result<_, _> = list.items.into_iter().flatten().map(parse_item).collect();
    Ok(list_response(items?, list.metadata))
}

fn parse_item<T: View>(raw: &RawValue) -> Result<DecodedObject<T>, serde_json::Error> {
    let object = serde_json::from_str(raw.get());
    let object = object.or_else(|_| nulls::read_without_nulls(raw.get().as_bytes()));
    object.map(decoded_object).or_else(|error| {
        let named: Named = serde_json::from_str(raw.get())?;
        Ok(named.to_undecodable(&error))
    })
}

fn list_response<T>(items: Vec<DecodedObject<T>>, metadata: ListMeta) -> ListResponse<T> {
    ListResponse {
        items,
        continue_token: metadata.continue_token.filter(|token| !token.is_empty()),
        version: metadata.resource_version,
    }
}

/// Describes the mismatch by the view and never by the object: serde's own text
/// quotes the value, which may be secret.
fn redacted_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!("at line {} column {}", error.line(), error.column());
    if text.starts_with("missing field") {
        return text;
    }
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => format!("a value does not fit {place}"),
    }
}

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
