//! Responses of the API server, and their meaning for a write.

use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use crate::error::{Error, ErrorClass, Result, classify_status, status_message};
use crate::key::ObjectRef;

/// A response of the API server, with any status code.
#[derive(Debug)]
pub(super) struct ApiResponse {
    /// The HTTP status.
    pub(super) code: StatusCode,
    /// The object, or a `Status`.
    pub(super) body: Value,
    until: Option<Instant>,
}

impl ApiResponse {
    /// Sends `request` and reads the whole response.
    pub(super) async fn fetch(client: &kube::Client, request: Request<Vec<u8>>) -> Result<Self> {
        let response = client.send(request.map(Body::from)).await?;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            // A proxy rejects in plain text; the status code is enough.
            Err(_) if !head.status.is_success() => Value::Null,
            Err(error) => {
                let what = format!("response is not JSON: {error}");
                return Err(Error::new(ErrorClass::Unavailable, what));
            }
        };
        Ok(Self {
            code: head.status,
            body,
            until: retry_after(&head.headers),
        })
    }

    /// Whether the server accepted the request.
    pub(super) fn is_success(&self) -> bool {
        self.code.is_success()
    }

    /// Whether the object itself does not exist, as opposed to its kind or subresource.
    pub(super) fn is_object_not_found(&self) -> bool {
        self.code == StatusCode::NOT_FOUND && self.body["details"]["name"].is_string()
    }

    /// Whether the object is deleted after this response, by a `deletion` or by removing its last finalizer.
    pub(super) fn is_deleted(&self, deletion: bool) -> bool {
        let meta = &self.body["metadata"];
        let held = meta["finalizers"].as_array().is_some_and(|it| !it.is_empty())
            || meta["deletionGracePeriodSeconds"].as_i64().is_some_and(|it| it > 0);
        let marked = meta["deletionTimestamp"].is_string();
        self.is_success() && if deletion { !marked || !held } else { marked && !held }
    }

    /// The response as an error about `object`.
    pub(super) fn to_error(&self, verb: &str, object: &ObjectRef) -> Error {
        let mut status: Status = serde_json::from_value(self.body.clone()).unwrap_or_default();
        status.code = self.code.as_u16();
        let class = classify_status(&status);
        let words = status_message(&status, &*object.kind == "Secret");
        let what = format!("{verb} of {object}: {words}");
        match self.until.filter(|_| class == ErrorClass::Throttled) {
            Some(until) => Error::throttled(what, until),
            None => Error::new(class, what),
        }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Instant> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Instant::now().checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::key::ObjectKey;

    fn answer(code: u16, body: Value) -> ApiResponse {
        ApiResponse {
            code: StatusCode::from_u16(code).expect("a code"),
            body,
            until: None,
        }
    }

    #[test]
    fn terminating_object_is_not_deleted() {
        let gone = |deletion: bool, metadata: Value| answer(200, json!({"metadata": metadata})).is_deleted(deletion);
        let at = "2026-01-01T00:00:00Z";
        assert!(answer(200, json!({"kind": "Status"})).is_deleted(true));
        assert!(!gone(true, json!({"deletionTimestamp": at, "finalizers": ["a/b"]})));
        assert!(!gone(
            true,
            json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": 30})
        ));
        assert!(gone(
            false,
            json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": 0})
        ));
        assert!(!gone(false, json!({"name": "a"})));
    }

    #[test]
    fn a_refused_secret_is_not_repeated() {
        let secret = ObjectRef {
            kind: "Secret".into(),
            key: ObjectKey::new(Some("team"), "token"),
        };
        let body = json!({"code": 422, "reason": "Invalid", "message": "bad value hunter2"});
        let error = answer(422, body).to_error("apply", &secret);
        assert_eq!(error.class(), ErrorClass::Invalid);
        assert_eq!(
            error.to_string(),
            "apply of Secret team/token: server responded with 422 Invalid"
        );
    }

    #[test]
    fn missing_kind_is_not_a_missing_object() {
        let body = json!({"code": 404, "reason": "NotFound", "details": {}});
        assert!(!answer(404, body).is_object_not_found());
    }
}
