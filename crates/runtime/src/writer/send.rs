//! One write to the API server: the lease is checked right before and right after.
//!
//! Nothing here retries or waits: the gate in the client enforces the deadline.

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;
use tokio::time::Instant;

use crate::cache::WriteReceipt;
use crate::error::{Error, ErrorClass, Result, classify_status, status_message};
use crate::journal::JournalEntry;
use crate::key::{ObjectRef, ResourceVersion};
use crate::leadership::fence::FenceGuard;
use crate::managed_fields::{ObjectPart, is_foreign_change_excluding};
use crate::telemetry::{StaleEffect, WriteEnded, WriteResult};
use crate::writer::pass::Pass;
use crate::writer::{InFlightWrite, LiveObjects};

/// The target's name in metrics.
const TARGET: &str = "apiserver";

/// A write to be sent.
pub(super) struct WriteRequest<'a> {
    /// `apply`, `create`, `relabel`, `report`, `status`, `delete` or `finalizer`.
    pub(super) verb: &'static str,
    pub(super) object: &'a ObjectRef,
    /// The part it can change.
    pub(super) part: ObjectPart,
    /// The object as it was read; `None` if it did not exist.
    pub(super) live: Option<&'a Value>,
    /// The version it contains, so that the server rejects it if another writer was first.
    pub(super) lock: Option<&'a str>,
    pub(super) known: Option<&'a dyn LiveObjects>,
}

impl WriteRequest<'_> {
    fn base_version(&self) -> Option<ResourceVersion> {
        let version = self.live?["metadata"]["resourceVersion"].as_str();
        version.map(ResourceVersion::parse)
    }

    /// The version for an error: the one that turned out to be too old.
    fn read_version(&self) -> Option<ResourceVersion> {
        self.lock.map(ResourceVersion::parse).or_else(|| self.base_version())
    }

    fn uid(&self) -> Option<&str> {
        self.live?["metadata"]["uid"].as_str()
    }

    /// Whether no foreign change lies between the read and the response. The response's
    /// version alone proves nothing: a write that changes nothing is answered with the version
    /// of another writer.
    fn is_unshared(&self, answer: &ApiResponse, manager: &str) -> bool {
        let version = answer.body["metadata"]["resourceVersion"].as_str();
        match self.live {
            None => answer.code == StatusCode::CREATED,
            // Nothing was written, so even for a locked write the version is another writer's.
            Some(_) if version.map(ResourceVersion::parse) == self.base_version() => false,
            Some(_) if self.lock.is_some() && self.read_version() == self.base_version() => true,
            Some(live) => !is_foreign_change_excluding(live, &answer.body, manager, self.part),
        }
    }
}

impl Pass {
    /// Sends a write, passes the response to the cache and counts it. The caller handles a refusal.
    pub(super) async fn send(&self, write: &WriteRequest<'_>, request: Request<Vec<u8>>) -> Result<ApiResponse> {
        let guard = self.writer.0.fence.guard()?;
        let under_way = write.known.map(|known| known.begin_write(&write.object.key));
        let mut effect = SentWrite {
            pass: self,
            write,
            guard,
            is_answered: false,
        };
        let answer = ApiResponse::fetch(&self.writer.0.client, request);
        let answer = match abort_if_lost(&effect.guard, answer).await {
            Ok(answer) => answer,
            Err(error) => {
                self.record_result(write.verb, write.object, WriteResult::Failed);
                let doing = format!("{} of {}", write.verb, write.object);
                return Err(error.with_context(&doing));
            }
        };
        // A refusal is certain: nothing has been written, with or without the lease.
        effect.is_answered = answer.code.is_client_error() || effect.guard.is_held();
        if answer.is_success() {
            self.record_accepted(write, &answer, under_way);
            if !effect.is_answered {
                let doing = format!("{} of {}", write.verb, write.object);
                return Err(lease_lost().with_context(&doing));
            }
        }
        Ok(answer)
    }

    fn record_accepted(
        &self,
        write: &WriteRequest<'_>,
        answer: &ApiResponse,
        under_way: Option<Box<dyn InFlightWrite>>,
    ) {
        let gone = answer.is_deleted(write.verb == "delete");
        match (under_way, write.uid().filter(|_| gone)) {
            (Some(under_way), Some(uid)) => under_way.record_delete(uid),
            (Some(under_way), None) => {
                let made = WriteReceipt {
                    base: write.base_version(),
                    locked: write.is_unshared(answer, self.writer.manager()),
                    manager: self.writer.0.manager.clone(),
                };
                under_way.record_write(&answer.body, made);
            }
            (None, _) => {}
        }
        if gone {
            self.writer.on_deleted(write.object);
        }
        self.state().first_write_at.get_or_insert_with(Instant::now);
        self.record_result(write.verb, write.object, WriteResult::Written);
        let version = answer.body["metadata"]["resourceVersion"].as_str();
        self.record(JournalEntry::Wrote {
            verb: write.verb,
            object: write.object.clone(),
            version: version.map(ResourceVersion::parse),
        });
    }

    /// Records that nothing had to be written.
    pub(super) fn record_suppressed(&self, verb: &'static str, object: &ObjectRef) {
        self.record_result(verb, object, WriteResult::Suppressed);
        self.record(JournalEntry::Wrote {
            verb,
            object: object.clone(),
            version: None,
        });
    }

    /// Counts a rejected write and returns its error.
    pub(super) fn record_refused(&self, write: &WriteRequest<'_>, answer: &ApiResponse) -> Error {
        let error = answer.to_error(write.verb, write.object);
        let result = match error.class() {
            ErrorClass::Conflict => WriteResult::Conflict,
            _ => WriteResult::Failed,
        };
        self.record_result(write.verb, write.object, result);
        error.with_object(write.object.clone(), write.read_version())
    }

    /// Counts a write that lost to another writer, if the response does not call it a conflict.
    pub(super) fn record_conflict(&self, write: &WriteRequest<'_>, why: &str) -> Error {
        self.record_result(write.verb, write.object, WriteResult::Conflict);
        let what = format!("{} of {}: {why}", write.verb, write.object);
        Error::new(ErrorClass::Conflict, what).with_object(write.object.clone(), write.read_version())
    }

    /// Counts a write.
    pub(super) fn record_result(&self, verb: &'static str, object: &ObjectRef, result: WriteResult) {
        self.writer.0.telemetry.emit(WriteEnded { object, verb, result });
    }
}

/// Waits for `answer` while the lease is held. A write that still waits for the rate limiter is
/// dropped with the lease, however late this process notices.
async fn abort_if_lost<T>(guard: &FenceGuard, answer: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! { biased;
        () = guard.until_lost() => Err(lease_lost()),
        answer = answer => answer,
    }
}

fn lease_lost() -> Error {
    Error::new(ErrorClass::Unavailable, "the leader lease was lost during the call")
}

/// A write in flight. One that is dropped may still be carried out.
struct SentWrite<'a> {
    pass: &'a Pass,
    write: &'a WriteRequest<'a>,
    guard: FenceGuard,
    is_answered: bool,
}

impl Drop for SentWrite<'_> {
    fn drop(&mut self) {
        if self.is_answered || self.guard.is_held() {
            return;
        }
        let WriteRequest { verb, object, .. } = self.write;
        self.pass.writer.0.telemetry.emit(StaleEffect {
            target: TARGET,
            what: &format!("{verb} of {object}"),
        });
        self.pass.record(JournalEntry::Stale {
            verb,
            object: (*object).clone(),
        });
    }
}

/// A response of the API server, with any status code.
#[derive(Debug)]
pub(super) struct ApiResponse {
    /// The HTTP status.
    pub(super) code: StatusCode,
    /// The object, or a `Status`.
    pub(super) body: Value,
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
        Error::new(class, what)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::sleep;

    use super::*;
    use crate::key::ObjectKey;
    use crate::leadership::fence::Fence;

    fn held() -> (Fence, FenceGuard) {
        let fence = Fence::closed();
        fence.extend_until(Instant::now() + Duration::from_secs(10));
        let guard = fence.guard().expect("the lease is held");
        (fence, guard)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_on_its_way_is_given_up_when_the_lease_is_closed_early() {
        let (fence, guard) = held();
        let begin = Instant::now();
        let close = async {
            sleep(Duration::from_secs(1)).await;
            fence.revoke();
        };
        let (answer, ()) = tokio::join!(abort_if_lost(&guard, pending::<Result<()>>()), close);
        assert!(answer.is_err());
        assert_eq!(begin.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_once_the_lease_is_closed() {
        let (fence, guard) = held();
        fence.revoke();
        let answer = abort_if_lost(&guard, async { panic!("the write must not be sent") }).await;
        assert!(answer.map(|never: ()| never).is_err());
        let guard = Fence::always_open().guard().expect("the fence is open");
        assert!(abort_if_lost(&guard, ready(Ok(()))).await.is_ok());
    }

    fn answer(code: u16, body: Value) -> ApiResponse {
        ApiResponse {
            code: StatusCode::from_u16(code).expect("a code"),
            body,
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
