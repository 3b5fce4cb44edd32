//! Finalizers of the owner: added before anything external is created, removed when that is deleted.
//!
//! A write here fails if another writer has changed the finalizers in the meantime. A pass
//! continues with the response: the finalizer needs no second pass.

use http::StatusCode;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::error::{Error, ErrorClass, Result};
use crate::managed_fields::ObjectPart;
use crate::version::ResourceVersion;

use super::answer::ApiResponse;
use super::pass::Pass;
use super::send::WriteRequest;

impl Pass {
    /// Makes sure that the owner has the finalizer `name`, such as `example.com/cleanup`.
    pub async fn add_finalizer(&self, name: &str) -> Result<()> {
        let live = self.live();
        let mut finalizers = finalizers(&live);
        if finalizers.iter().any(|other| other == name) {
            return Ok(());
        }
        if live["metadata"]["deletionTimestamp"].is_string() {
            let what = format!("{} is being deleted; cannot add a finalizer", self.owner.id);
            return Err(Error::new(ErrorClass::Invalid, what));
        }
        finalizers.push(name.to_owned());
        self.set_finalizers(&live, &finalizers).await?;
        if self.state().owner_deleted {
            // Otherwise the pass would create something external that would never be cleaned up.
            let what = format!("{} was deleted in the meantime", self.owner.id);
            let read = live["metadata"]["resourceVersion"].as_str();
            let error = Error::new(ErrorClass::Conflict, what);
            return Err(error.with_object(self.owner.id.clone(), read.map(ResourceVersion::parse)));
        }
        Ok(())
    }

    /// Removes the finalizer `name` from the owner.
    pub async fn remove_finalizer(&self, name: &str) -> Result<()> {
        let live = self.live();
        let mut finalizers = finalizers(&live);
        let before = finalizers.len();
        finalizers.retain(|other| other != name);
        if finalizers.len() == before {
            return Ok(());
        }
        self.set_finalizers(&live, &finalizers).await
    }

    async fn set_finalizers(&self, live: &Value, finalizers: &[String]) -> Result<()> {
        let owner = &self.owner;
        let meta = &live["metadata"];
        let write = WriteRequest {
            verb: "finalizer",
            object: &owner.id,
            part: ObjectPart::Finalizers,
            live: Some(live),
            lock: None,
            known: owner.known.as_deref(),
        };
        // JSON Patch tests instead of a resource version: changes of other fields are not a conflict.
        let patch = Patch::Json::<()>(serde_json::from_value(json!([
            {"op": "test", "path": "/metadata/uid", "value": owner.uid},
            {"op": "test", "path": "/metadata/finalizers", "value": meta["finalizers"]},
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]))?);
        let parameters = PatchParams {
            field_manager: Some(self.writer.manager().to_owned()),
            ..PatchParams::default()
        };
        let request = owner
            .kind
            .request(owner.id.key.namespace.as_deref())
            .patch(&owner.id.key.name, &parameters, &patch)
            .map_err(Error::fault)?;
        let answer = self.send(&write, request).await?;
        self.check_finalizer_answer(&write, answer)
    }

    fn check_finalizer_answer(&self, write: &WriteRequest<'_>, answer: ApiResponse) -> Result<()> {
        if answer.is_object_not_found() {
            self.state().owner_deleted = true;
            return Ok(());
        }
        if is_failed_test(&answer) {
            return Err(self.record_conflict(write, "another writer changed its finalizers"));
        }
        if !answer.is_success() {
            return Err(self.record_refused(write, &answer));
        }
        let mut state = self.state();
        state.owner_deleted = answer.is_deleted(false);
        state.last_answer = Some(answer.body);
        Ok(())
    }
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// A patch with a failed test gets the response of an invalid one, but without a single cause.
fn is_failed_test(answer: &ApiResponse) -> bool {
    answer.code == StatusCode::UNPROCESSABLE_ENTITY
        && answer.body["details"]["causes"].as_array().is_none_or(Vec::is_empty)
}
