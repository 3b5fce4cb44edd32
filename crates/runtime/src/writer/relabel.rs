//! Sets and removes labels and annotations of an object that belongs to others, regardless of who wrote them.
//!
//! Server-side apply can only remove fields of the same manager. Only the named values are
//! sent, without a version: a node's heartbeat between the read and the write causes no conflict.

use std::collections::BTreeMap;

use kube::Resource;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::key::ObjectKey;
use crate::managed_fields::ObjectPart;

use super::kind::ErasedKind;
use super::known::LiveObjects;
use super::pass::Pass;
use super::send::WriteRequest;

/// Which labels and annotations to set, and which to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataPatch {
    /// The labels by key; `None` removes one.
    pub labels: BTreeMap<String, Option<String>>,
    /// The annotations by key; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
}

impl Pass {
    /// Sets and removes labels and annotations of an object that is not a child of the owner.
    pub async fn patch_metadata<K>(
        &self,
        key: &ObjectKey,
        change: &MetadataPatch,
        known: Option<&dyn LiveObjects>,
    ) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let object = kind.object_ref(key.clone());
        let live = known.and_then(|known| known.live(key));
        let parameters = PatchParams {
            field_manager: Some(self.writer.manager().to_owned()),
            ..PatchParams::default()
        };
        let request = kind
            .request(key.namespace.as_deref())
            .patch(&key.name, &parameters, &Patch::Merge(body(change, live.as_ref())))
            .map_err(Error::fault)?;
        let write = WriteRequest {
            verb: "relabel",
            object: &object,
            part: ObjectPart::Main,
            live: live.as_ref(),
            lock: None,
            known,
        };
        let answer = self.send(&write, request).await?;
        if answer.is_success() {
            return Ok(());
        }
        Err(self.record_refused(&write, &answer))
    }
}

/// The patch, bound to the UID that was seen: a later object of that name is another.
fn body(change: &MetadataPatch, live: Option<&Value>) -> Value {
    let mut metadata = json!({});
    for (field, values) in [("labels", &change.labels), ("annotations", &change.annotations)] {
        if !values.is_empty() {
            metadata[field] = json!(values);
        }
    }
    if let Some(uid) = live.and_then(|live| live["metadata"]["uid"].as_str()) {
        metadata["uid"] = json!(uid);
    }
    json!({ "metadata": metadata })
}
