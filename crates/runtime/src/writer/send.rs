//! One write to the API server: the lease is checked right before and right after.
//!
//! Nothing here retries or waits: the gate in the client enforces the deadline.

use http::{Request, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use crate::cache::WriteReceipt;
use crate::error::{Error, ErrorClass, Result};
use crate::fence::FenceGuard;
use crate::journal::JournalEntry;
use crate::key::ObjectRef;
use crate::managed::{ObjectPart, foreign_change_beside};
use crate::telemetry::{StaleEffect, WriteEnded, WriteResult};
use crate::version::ResourceVersion;

use super::answer::ApiResponse;
use super::known::{InFlightWrite, LiveObjects};
use super::pass::Pass;

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
    fn base(&self) -> Option<ResourceVersion> {
        let version = self.live?["metadata"]["resourceVersion"].as_str();
        version.map(ResourceVersion::parse)
    }

    /// The version for an error: the one that turned out to be too old.
    fn read(&self) -> Option<ResourceVersion> {
        self.lock
            .map(ResourceVersion::parse)
            .or_else(|| self.base())
    }

    fn uid(&self) -> Option<&str> {
        self.live?["metadata"]["uid"].as_str()
    }

    /// Whether no foreign change lies between the read and the response. The response's
    /// version alone proves nothing: a write that changes nothing is answered with the version
    /// of another writer.
    fn alone(&self, answer: &ApiResponse, manager: &str) -> bool {
        let version = answer.body["metadata"]["resourceVersion"].as_str();
        match self.live {
            None => answer.code == StatusCode::CREATED,
            // Nothing was written, so even for a locked write the version is another writer's.
            Some(_) if version.map(ResourceVersion::parse) == self.base() => false,
            Some(_) if self.lock.is_some() && self.read() == self.base() => true,
            Some(live) => !foreign_change_beside(live, &answer.body, manager, self.part),
        }
    }
}

impl Pass {
    /// Sends a write, passes the response to the cache and counts it. The caller handles a refusal.
    pub(super) async fn send(
        &self,
        write: &WriteRequest<'_>,
        request: Request<Vec<u8>>,
    ) -> Result<ApiResponse> {
        let guard = self.writer.0.fence.guard()?;
        let under_way = write.known.map(|known| known.writing(&write.object.key));
        let mut effect = Effect {
            pass: self,
            write,
            guard,
            certain: false,
        };
        let answer = ApiResponse::to(&self.writer.0.client, request);
        let answer = match while_held(&effect.guard, answer).await {
            Ok(answer) => answer,
            Err(error) => {
                self.ended(write.verb, write.object, WriteResult::Failed);
                let doing = format!("{} of {}", write.verb, write.object);
                return Err(error.while_doing(&doing));
            }
        };
        // A refusal is certain: nothing has been written, with or without the lease.
        effect.certain = answer.code.is_client_error() || effect.guard.still_holds();
        if answer.accepted() {
            self.accepted(write, &answer, under_way);
            if !effect.certain {
                let doing = format!("{} of {}", write.verb, write.object);
                return Err(lease_lost().while_doing(&doing));
            }
        }
        Ok(answer)
    }

    fn accepted(
        &self,
        write: &WriteRequest<'_>,
        answer: &ApiResponse,
        under_way: Option<Box<dyn InFlightWrite>>,
    ) {
        let gone = answer.gone(write.verb == "delete");
        match (under_way, write.uid().filter(|_| gone)) {
            (Some(under_way), Some(uid)) => under_way.deleted(uid),
            (Some(under_way), None) => {
                let made = WriteReceipt {
                    base: write.base(),
                    locked: write.alone(answer, self.writer.manager()),
                    manager: self.writer.0.manager.clone(),
                };
                under_way.wrote(&answer.body, made);
            }
            (None, _) => {}
        }
        if gone {
            self.writer.forget(write.object);
        }
        self.state().wrote.get_or_insert_with(Instant::now);
        self.ended(write.verb, write.object, WriteResult::Written);
        let version = answer.body["metadata"]["resourceVersion"].as_str();
        self.record(JournalEntry::Wrote {
            verb: write.verb,
            object: write.object.clone(),
            version: version.map(ResourceVersion::parse),
        });
    }

    /// Records that nothing had to be written.
    pub(super) fn suppressed(&self, verb: &'static str, object: &ObjectRef) {
        self.ended(verb, object, WriteResult::Suppressed);
        self.record(JournalEntry::Wrote {
            verb,
            object: object.clone(),
            version: None,
        });
    }

    /// Counts a rejected write and returns its error.
    pub(super) fn refused(&self, write: &WriteRequest<'_>, answer: &ApiResponse) -> Error {
        let error = answer.refusal(write.verb, write.object);
        let result = match error.class() {
            ErrorClass::Conflict => WriteResult::Conflict,
            _ => WriteResult::Failed,
        };
        self.ended(write.verb, write.object, result);
        error.on(write.object.clone(), write.read())
    }

    /// Counts a write that lost to another writer, if the response does not call it a conflict.
    pub(super) fn lost(&self, write: &WriteRequest<'_>, why: &str) -> Error {
        self.ended(write.verb, write.object, WriteResult::Conflict);
        let what = format!("{} of {}: {why}", write.verb, write.object);
        Error::new(ErrorClass::Conflict, what).on(write.object.clone(), write.read())
    }

    /// Counts a write.
    pub(super) fn ended(&self, verb: &'static str, object: &ObjectRef, result: WriteResult) {
        self.writer.0.telemetry.emit(WriteEnded {
            object,
            verb,
            result,
        });
    }
}

/// Waits for `answer` while the lease is held. A write that still waits for the rate limiter is
/// dropped with the lease, however late this process notices.
async fn while_held<T>(guard: &FenceGuard, answer: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! { biased;
        () = guard.lost() => Err(lease_lost()),
        answer = answer => answer,
    }
}

fn lease_lost() -> Error {
    Error::new(ErrorClass::Unavailable, "the leader lease was lost during the call")
}

/// A write in flight. One that is dropped may still be carried out.
struct Effect<'a> {
    pass: &'a Pass,
    write: &'a WriteRequest<'a>,
    guard: FenceGuard,
    certain: bool,
}

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        if self.certain || self.guard.still_holds() {
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;
    use crate::fence::Fence;

    fn held() -> (Fence, FenceGuard) {
        let fence = Fence::shut();
        fence.hold_until(Instant::now() + Duration::from_secs(10));
        let guard = fence.guard().expect("the lease is held");
        (fence, guard)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_on_its_way_is_given_up_when_the_lease_is_closed_early() {
        let (fence, guard) = held();
        let begin = Instant::now();
        let close = async {
            sleep(Duration::from_secs(1)).await;
            fence.close();
        };
        let (answer, ()) = tokio::join!(while_held(&guard, pending::<Result<()>>()), close);
        assert!(answer.is_err());
        assert_eq!(begin.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_once_the_lease_is_closed() {
        let (fence, guard) = held();
        fence.close();
        let answer = while_held(&guard, async { panic!("the write must not be sent") }).await;
        assert!(answer.map(|never: ()| never).is_err());
        let guard = Fence::open().guard().expect("the fence is open");
        assert!(while_held(&guard, ready(Ok(()))).await.is_ok());
    }
}
