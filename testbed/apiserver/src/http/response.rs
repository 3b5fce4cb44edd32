//! Answers: objects, errors and plain text as bytes with their headers.
//!
//! What to answer is decided elsewhere; what the bytes look like is decided only here.

use aplomb_apimachinery::query::Query;
use aplomb_apimachinery::status::ApiError;
use aplomb_builtin_kinds as kinds;
use aplomb_go_compat::html_escape as gojson;
use bytes::Bytes;
use futures::Stream;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde::Serialize;
use serde_json::Value;
use tower::BoxError;

use super::negotiate::{self, Form, Output};
use super::protobuf;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
const PROTOBUF_STREAM: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOSNIFF: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-content-type-options"),
    HeaderValue::from_static("nosniff"),
);

/// Warnings together may be this long before each is cut to `WARNING_ITEM`.
const WARNING_TOTAL: usize = 4096;
const WARNING_ITEM: usize = 256;

/// An answer on its way out.
#[derive(Debug)]
pub(super) struct Reply {
    /// HTTP status code.
    pub code: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// The bytes.
    pub body: Content,
    /// The Status that was sent, for the audit log.
    pub status: Option<Value>,
}

/// Bytes at once or in time.
pub(super) enum Content {
    /// All of them.
    Whole(Bytes),
    /// As they come.
    Stream(Body),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Reply {
    /// Bytes of a content type.
    #[must_use]
    pub(super) fn bytes(code: u16, content_type: HeaderValue, bytes: impl Into<Bytes>) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
        Self {
            code,
            headers,
            body: Content::Whole(bytes.into()),
            status: None,
        }
    }

    /// JSON text.
    #[must_use]
    pub(super) fn json(code: u16, text: impl Into<Bytes>) -> Self {
        Self::bytes(code, JSON, text)
    }

    /// Plain text, which browsers must not take for anything else.
    #[must_use]
    pub(super) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self::bytes(code, TEXT, text).with(NOSNIFF.0, NOSNIFF.1)
    }

    /// An object in the form that was negotiated.
    #[must_use]
    pub(super) fn object(code: u16, object: &Value, output: &Output) -> Self {
        let mut reply = match output.form {
            Form::Yaml => Self::bytes(code, YAML, to_yaml(object)),
            Form::Json => Self::written(code, &kinds::laid_out(object), output),
            Form::Protobuf => match protobuf::encode(object) {
                Some(bytes) => Self::bytes(code, PROTOBUF, bytes),
                None => return Self::raw_error(&protobuf::not_marshalable()),
            },
        };
        if object.get("kind").and_then(Value::as_str) == Some("Status") {
            reply.status = Some(object.clone());
        }
        reply
    }

    /// Something that is written as JSON without being an object in memory first.
    #[must_use]
    pub(super) fn written(code: u16, what: &impl Serialize, output: &Output) -> Self {
        if output.pretty {
            return Self::json(code, gojson::pretty(what));
        }
        let mut line = gojson::compact(what);
        // As Go's encoder ends it.
        line.push(b'\n');
        Self::json(code, line)
    }

    /// An error in the form the client asked for, or raw where it cannot be had.
    #[must_use]
    pub(super) fn error(error: &ApiError, headers: &HeaderMap, query: &Query) -> Self {
        let mut reply = if error.plain_text {
            let line = format!("{}\n", error.message);
            Self::text(error.code, line)
        } else {
            let status = error.to_status();
            match negotiate::for_error(headers, query) {
                Some(output) => Self::object(error.code, &status, &output),
                None => Self {
                    status: Some(status.clone()),
                    ..Self::json(error.code, gojson::pretty(&kinds::laid_out(&status)))
                },
            }
        };
        if let Some(seconds) = error.retry_after {
            reply.headers.insert(RETRY_AFTER, seconds.into());
        }
        reply.warn(&error.warnings)
    }

    /// An error written as raw JSON whatever the client accepts.
    #[must_use]
    pub(super) fn raw_error(error: &ApiError) -> Self {
        let status = error.to_status();
        Self {
            status: Some(status.clone()),
            ..Self::json(error.code, gojson::pretty(&kinds::laid_out(&status)))
        }
    }

    /// A stream of watch events, as lines of JSON or frames of protobuf.
    #[must_use]
    pub(super) fn stream(form: Form, events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        use futures::StreamExt as _;
        let kind = if form == Form::Protobuf { PROTOBUF_STREAM } else { JSON };
        let frames = events.map(|line| Ok::<_, BoxError>(Frame::data(line)));
        let body = Content::Stream(StreamBody::new(frames).boxed_unsync());
        Self {
            body,
            ..Self::bytes(200, kind, Bytes::new())
        }
    }

    /// Adds a header.
    #[must_use]
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Marks the answer as one browsers must not interpret, as refusals of authorization are.
    #[must_use]
    pub(super) fn nosniff(self) -> Self {
        self.with(NOSNIFF.0, NOSNIFF.1)
    }

    /// Adds `Warning` headers.
    #[must_use]
    pub(super) fn warn(mut self, warnings: &[String]) -> Self {
        for value in warning_headers(warnings) {
            self.headers.append(WARNING, value);
        }
        self
    }

    /// The answer as an HTTP response.
    #[must_use]
    pub(super) fn into_response(self) -> Response<Body> {
        let body = match self.body {
            Content::Whole(bytes) => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
            Content::Stream(body) => body,
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.code;
        *response.headers_mut() = self.headers;
        response
    }
}

fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut unique: Vec<&str> = Vec::new();
    for text in warnings {
        if !unique.contains(&text.as_str()) {
            unique.push(text);
        }
    }
    let cut = unique.iter().map(|text| text.chars().count()).sum::<usize>() > WARNING_TOTAL;
    let mut written = 0;
    let mut values = Vec::new();
    for text in unique {
        let text: String = if cut {
            text.chars().take(WARNING_ITEM).collect()
        } else {
            text.to_owned()
        };
        written += text.chars().count();
        if written > WARNING_TOTAL {
            break;
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        values.extend(HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok());
    }
    values
}

fn to_yaml(object: &Value) -> String {
    // Every JSON text is a YAML document, should the writer refuse one.
    serde_saphyr::to_string(object).unwrap_or_else(|_| object.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_once_each_and_bounded() {
        let texts = ["unknown field \"a\"".to_owned(), "unknown field \"a\"".to_owned()];
        assert_eq!(warning_headers(&texts), ["299 - \"unknown field \\\"a\\\"\""]);
        let many: Vec<String> = (0..100).map(|i| format!("{i}{}", "x".repeat(300))).collect();
        assert_eq!(warning_headers(&many).len(), 16);
    }

    #[test]
    fn an_error_the_client_cannot_read_is_indented_json() {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/xml"));
        let error = ApiError::bad_request("no");
        let reply = Reply::error(&error, &headers, &Query::default());
        let Content::Whole(bytes) = reply.body else {
            panic!("whole")
        };
        assert!(bytes.starts_with(b"{\n"));
    }
}
