//! An object that only the first may make: a claim, and no child of anybody.

use kube::Resource;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::managed::Part;
use crate::nulls;

use super::desired::Desired;
use super::kind::Kind;
use super::known::Known;
use super::pass::Pass;
use super::send::Write;

impl Pass {
    /// Creates `object` and returns it as the server has it. One of that name that is there already
    /// is an error of class `Exists`, whoever made it: an apply would take it over.
    pub async fn create<K>(&self, object: &K, known: Option<&dyn Known>) -> Result<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let kind = Kind::of::<K>();
        let desired = Desired::new(object, &kind, self.owner.id.key.namespace.as_deref())?;
        let id = kind.object(desired.key.clone());
        let parameters = PostParams {
            field_manager: Some(self.writer.manager().to_owned()),
            ..PostParams::default()
        };
        let request = kind
            .request(id.key.namespace.as_deref())
            .create(&parameters, serde_json::to_vec(&desired.body)?)
            .map_err(Error::fault)?;
        let write = Write {
            verb: "create",
            object: &id,
            part: Part::Main,
            live: None,
            lock: None,
            known,
        };
        let answer = self.send(&write, request).await?;
        if !answer.accepted() {
            return Err(self.refused(&write, &answer));
        }
        Ok(nulls::read(&answer.body)?)
    }
}
