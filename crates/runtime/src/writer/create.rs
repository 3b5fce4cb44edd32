//! Creates an object that must not exist yet: a claim, which is not a child of any object.

use kube::Resource;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::managed_fields::ObjectPart;
use crate::nulls;

use super::desired::DesiredObject;
use super::kind::ErasedKind;
use super::known::LiveObjects;
use super::pass::Pass;
use super::send::WriteRequest;

impl Pass {
    /// Creates `object` and returns it as stored by the server. If an object of that name exists, the
    /// error has class `Exists`: an apply would take it over.
    pub async fn create<K>(&self, object: &K, known: Option<&dyn LiveObjects>) -> Result<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let desired = DesiredObject::new(object, &kind, self.owner.id.key.namespace.as_deref())?;
        let id = kind.object_ref(desired.key.clone());
        let parameters = PostParams {
            field_manager: Some(self.writer.manager().to_owned()),
            ..PostParams::default()
        };
        let request = kind
            .request(id.key.namespace.as_deref())
            .create(&parameters, serde_json::to_vec(&desired.body)?)
            .map_err(Error::fault)?;
        let write = WriteRequest {
            verb: "create",
            object: &id,
            part: ObjectPart::Main,
            live: None,
            lock: None,
            known,
        };
        let answer = self.send(&write, request).await?;
        if !answer.is_success() {
            return Err(self.record_refused(&write, &answer));
        }
        Ok(nulls::read(&answer.body)?)
    }
}
