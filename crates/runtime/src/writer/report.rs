//! Writes the status of a child whose kind expects its creator to write it.

use kube::Resource;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::key::ObjectKey;
use crate::managed_fields::ObjectPart;

use super::desired::drop_nulls;
use super::kind::ErasedKind;
use super::known::LiveObjects;
use super::pass::Pass;
use super::send::WriteRequest;

const STATUS: Option<&str> = Some("status");

impl Pass {
    /// Applies `status` to the status of the child `key`. Nothing is sent
    /// if its fields are equal already, or if the child does not exist.
    pub async fn apply_child_status<K>(
        &self,
        key: &ObjectKey,
        status: impl Serialize,
        known: Option<&dyn LiveObjects>,
    ) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let object = kind.object_ref(key.clone());
        let Some(live) = self.read_live(&kind, &object, known).await? else {
            return Ok(());
        };
        self.check_single_controller(&object, &live)?;
        let desired = body(&kind, key, serde_json::to_value(status)?);
        if self.is_noop(&object, STATUS, &desired, &live) {
            self.record_suppressed("report", &object);
            return Ok(());
        }
        let mut pinned = desired.clone();
        pinned["metadata"]["uid"] = live["metadata"]["uid"].clone();
        let parameters = PatchParams::apply(self.writer.manager()).force();
        let request = kind
            .request(key.namespace.as_deref())
            .patch_subresource("status", &key.name, &parameters, &Patch::Apply(&pinned))
            .map_err(Error::fault)?;
        let write = WriteRequest {
            verb: "report",
            object: &object,
            part: ObjectPart::Status,
            live: Some(&live),
            lock: None,
            known,
        };
        let answer = self.send(&write, request).await?;
        if !answer.is_success() {
            return Err(self.record_refused(&write, &answer));
        }
        self.memoize(&object, STATUS, &desired, (Some(&live), &answer.body));
        Ok(())
    }
}

fn body(kind: &ErasedKind, key: &ObjectKey, mut status: Value) -> Value {
    drop_nulls(&mut status);
    let mut body = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {"name": &*key.name},
        "status": status,
    });
    if let Some(namespace) = &key.namespace {
        body["metadata"]["namespace"] = json!(&**namespace);
    }
    body
}
