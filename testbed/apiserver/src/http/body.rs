//! Request bodies: the size limit, the syntax of JSON, YAML and protobuf, and what the server says about
//! bodies it cannot read.
//!
//! Whether a body is a good object of its kind is `registry`'s business.

use aplomb_apimachinery::json;
use aplomb_apimachinery::status::ApiError;
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::BoxError;

use super::negotiate::Input;
use super::protobuf::{self, Unreadable};
use super::yaml;
use crate::call::FieldValidation;

/// The largest body the server reads.
pub(super) const LIMIT: usize = 3 * 1024 * 1024;
/// How much of a larger body is read and thrown away, so that its sender gets to the answer.
const DRAIN: usize = 16 * LIMIT;
/// How much of a body the server reads on after an answer before it gives the connection up.
const CLOSE_AFTER: usize = 256 * 1024;
/// How much of a body an error message quotes.
const SUMMARY: usize = 30;

/// A request body of any kind.
pub(super) type BoxedBody<'a> = std::pin::Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send + 'a>>;

/// Hides the kind of a request body.
pub(super) fn boxed<'a, B>(body: B) -> BoxedBody<'a>
where
    B: http_body::Body<Data = Bytes> + Send + 'a,
    B::Error: Into<BoxError>,
{
    Box::pin(body.map_err(Into::into))
}

/// Whether a declared length is so far over the limit that the server closes the connection
/// instead of reading on.
#[must_use]
pub(super) fn far_over(content_length: Option<&http::HeaderValue>) -> bool {
    let length = content_length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    length.is_some_and(|length| length > LIMIT + CLOSE_AFTER)
}

/// Reads a body up to the limit.
///
/// # Errors
/// 413 for more than the limit, 500 for a body that breaks off.
pub(super) async fn read(mut body: BoxedBody<'_>) -> Result<Bytes, ApiError> {
    let mut all = BytesMut::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(error.as_ref()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        seen += data.len();
        if seen <= LIMIT {
            all.extend_from_slice(&data);
        } else if seen > DRAIN {
            break;
        }
    }
    if seen > LIMIT {
        Err(too_large())
    } else {
        Ok(all.freeze())
    }
}

/// Reads on while a refusal is already on its way, so that the connection can be used again.
pub(super) fn read_on(mut body: BoxedBody<'static>) {
    if body.is_end_stream() {
        return;
    }
    let mut rest = Box::pin(async move {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > CLOSE_AFTER {
                break;
            }
        }
    });
    if (&mut rest).now_or_never().is_none() {
        // It ends with the connection at the latest.
        tokio::spawn(rest);
    }
}

/// The error of a body that could not be read, in the words of Go's HTTP library.
fn broken(error: &(dyn std::error::Error + Send + Sync + 'static)) -> ApiError {
    let message = match error.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_incomplete_message() => "unexpected EOF".to_owned(),
        Some(_) => "invalid byte in chunk length".to_owned(),
        None => error.to_string(),
    };
    ApiError::new(500, "", message)
}

fn too_large() -> ApiError {
    let message = format!("Request entity too large: limit is {LIMIT}");
    ApiError::new(413, "RequestEntityTooLarge", message)
}

/// An object's body as JSON text; JSON is handed on as it came, for `registry` to judge. `expected` is
/// the apiVersion and the kind a body has that does not say so.
///
/// # Errors
/// 400 in the server's words for YAML and protobuf it cannot read.
pub(super) fn object(raw: &Bytes, input: Input, expected: (&str, &str)) -> Result<Bytes, ApiError> {
    let kind = expected.1;
    let unrecognized = |why: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(raw)
        ))
    };
    let json = match input {
        Input::Json => raw.clone(),
        Input::Protobuf => match protobuf::decode(raw, expected) {
            Ok(object) => return Ok(object.to_string().into()),
            Err(Unreadable::Frame(why)) => return Err(unrecognized(why)),
            Err(Unreadable::Content(content)) => return Err(content.unhandled(kind)),
        },
        Input::Yaml => yaml::to_json(raw).map_err(unrecognized)?,
    };
    check_group_version(&json).map_err(unrecognized)?;
    Ok(json)
}

/// An apiVersion has at most one slash; anything else about it is `registry`'s to judge.
fn check_group_version(json: &[u8]) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct TypeMeta {
        #[serde(rename = "apiVersion")]
        api_version: String,
    }
    // Most bodies need not be read for this.
    if !json.contains(&b'\\') && json.iter().filter(|byte| **byte == b'/').nth(1).is_none() {
        return Ok(());
    }
    match serde_json::from_slice::<TypeMeta>(json) {
        Ok(TypeMeta { api_version }) if api_version.matches('/').count() > 1 => {
            Err(format!("unexpected GroupVersion string: {api_version}"))
        }
        _ => Ok(()),
    }
}

/// The options in the body of a DELETE; `None` for an empty body.
///
/// # Errors
/// 400 in the server's words.
pub(super) fn delete_options(raw: &Bytes, input: Input) -> Result<Option<Value>, ApiError> {
    if raw.is_empty() {
        return Ok(None);
    }
    let text = match input {
        Input::Json => raw.clone(),
        Input::Protobuf => match protobuf::decode(raw, ("v1", "DeleteOptions")) {
            Ok(options) => options.to_string().into(),
            Err(Unreadable::Content(content)) if content.kind != "DeleteOptions" => {
                return Err(unregistered(&content.kind, &content.api_version));
            }
            Err(error) => return Err(ApiError::bad_request(error.why())),
        },
        Input::Yaml => yaml::to_json(raw).map_err(ApiError::bad_request)?,
    };
    let value = type_meta(&text).map_err(ApiError::bad_request)?;
    let text = |member: &str| value.get(member).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind");
    if !kind.is_empty() && kind != "DeleteOptions" {
        return Err(unregistered(kind, text("apiVersion")));
    }
    Ok(Some(value))
}

/// 400 for what is not the options of a deletion.
fn unregistered(kind: &str, api_version: &str) -> ApiError {
    ApiError::bad_request(format!(
        "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \
         \"pkg/runtime/scheme.go:111\""
    ))
}

/// The body of an apply patch as JSON, and what its sender is warned about.
///
/// # Errors
/// 400 in the server's words.
pub(super) fn apply(raw: &Bytes, validation: FieldValidation) -> Result<(Bytes, Option<String>), ApiError> {
    let failed =
        |why: String| ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}"));
    let json = yaml::to_json(raw).map_err(failed)?;
    // JSON that was sent as such keeps its duplicates; what was YAML has lost them.
    let judged = json != *raw && validation != FieldValidation::Ignore;
    let twice = judged.then(|| yaml::duplicate_key(raw)).flatten();
    if let Some(why) = &twice
        && validation == FieldValidation::Strict
    {
        return Err(ApiError::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {why}"
        )));
    }
    let json = if json.as_ref() == b"null" {
        Bytes::from_static(b"{}")
    } else {
        json
    };
    Ok((json, twice))
}

/// Reads a text as an object whose kind is text.
fn type_meta(text: &[u8]) -> Result<Value, String> {
    let prefix = "couldn't get version/kind; json parse error: ";
    let value = json::parse(text).map_err(|why| format!("{prefix}{why}"))?.value;
    let go_type = match &value {
        Value::Object(_) | Value::Null => return Ok(value),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Err(format!(
        "{prefix}json: cannot unmarshal {go_type} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    ))
}

/// The start of a body as the server quotes it.
fn summary(raw: &[u8]) -> String {
    let cut = &raw[..raw.len().min(SUMMARY)];
    let dots = if raw.len() > SUMMARY { " ..." } else { "" };
    match raw.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(cut)),
        Some(_) => {
            let hex: String = cut.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{dots}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_yaml_is_quoted_as_the_server_quotes_it() {
        let raw = Bytes::from_static(b"a: b: c");
        assert_eq!(
            object(&raw, Input::Yaml, ("v1", "ConfigMap")).map_err(|error| error.message),
            Err(
                "the object provided is unrecognized (must be of type ConfigMap): yaml: mapping \
                 values are not allowed in this context (613a20623a2063)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn an_api_version_with_two_slashes_is_not_one() {
        let raw = Bytes::from_static(br#"{"apiVersion":"a/b/c","kind":"ConfigMap"}"#);
        assert_eq!(
            object(&raw, Input::Json, ("v1", "ConfigMap")).map_err(|error| error.message),
            Err(
                "the object provided is unrecognized (must be of type ConfigMap): unexpected \
                 GroupVersion string: a/b/c ({\"apiVersion\":\"a/b/c\",\"kind\":\" ...)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_delete_body_of_another_kind_is_refused() {
        let refused = |raw: &'static [u8]| {
            delete_options(&Bytes::from_static(raw), Input::Json)
                .expect_err("refused")
                .message
        };
        assert!(refused(br#"{"apiVersion":"v1","kind":"ConfigMap"}"#).starts_with("no kind \"ConfigMap\""));
        assert_eq!(
            refused(b"{bad"),
            "couldn't get version/kind; json parse error: invalid character 'b' looking for \
             beginning of object key string"
        );
    }

    #[test]
    fn yaml_is_handed_on_as_json() {
        let raw = Bytes::from_static(b"kind: ConfigMap\ndata: {a: \"1\", b: yes}\n");
        let json = object(&raw, Input::Yaml, ("v1", "ConfigMap")).expect("read");
        let value: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(
            value,
            serde_json::json!({"kind": "ConfigMap", "data": {"a": "1", "b": true}})
        );
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_413() {
        let body = http_body_util::Full::new(Bytes::from(vec![b'x'; LIMIT + 1]));
        assert_eq!(read(boxed(body)).await.map_err(|error| error.code), Err(413));
        let fits = http_body_util::Full::new(Bytes::from(vec![b'x'; LIMIT]));
        assert_eq!(read(boxed(fits)).await.map(|bytes| bytes.len()), Ok(LIMIT));
    }
}
