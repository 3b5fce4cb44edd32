//! The few fields of foreign kinds that the operator reads, so that no decision can depend on
//! others.

use std::borrow::Cow;

use aplomb::{MetaRef, View, ViewMeta};
use aplomb_api::coder::SecretKeyRef;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

/// The kind `CoderControlPlane` of `coder.com/v1alpha1`. Read-only.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoderControlPlane(ObjectMeta);

impl Resource for CoderControlPlane {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "CoderControlPlane".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "coder.com".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "codercontrolplanes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

/// The URL of a control plane, with its token Secret and image.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ControlPlaneView {
    pub(crate) metadata: ViewMeta,
    #[serde(default)]
    pub(crate) spec: ControlPlaneSpec,
    #[serde(default)]
    pub(crate) status: ControlPlaneStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ControlPlaneSpec {
    pub(crate) image: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ControlPlaneStatus {
    pub(crate) url: Option<String>,
    pub(crate) operator_access_ready: bool,
    pub(crate) operator_token_secret_ref: Option<TokenRef>,
}

/// A [`SecretKeyRef`] whose blank key means the default key.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct TokenRef {
    name: String,
    key: String,
}

impl TokenRef {
    /// The reference, unless it is empty.
    pub(crate) fn secret_ref(&self) -> Option<SecretKeyRef> {
        let filled = |text: &str, default: &str| match text.trim() {
            "" => default.to_owned(),
            text => text.to_owned(),
        };
        (!self.name.trim().is_empty()).then(|| SecretKeyRef {
            name: filled(&self.name, ""),
            key: filled(&self.key, "token"),
        })
    }
}

impl View for ControlPlaneView {
    type Kind = CoderControlPlane;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

impl ControlPlaneView {
    /// The fields that decisions use. Its own bookkeeping, such as the time of its last license
    /// check, is left out.
    pub(crate) fn decision_fields(&self) -> impl PartialEq + use<> {
        (self.spec.clone(), self.status.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_or_map_that_is_null_is_empty_in_every_view() {
        let plane = json!({
            "metadata": { "name": "x", "finalizers": ["f"], "labels": { "a": "b" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "o", "uid": "u" }] },
            "spec": { "image": "i" },
            "status": { "url": "u", "operatorAccessReady": true,
                "operatorTokenSecretRef": { "name": "n", "key": "k" } },
        });
        for (path, object) in aplomb::nulls::null_variants(&plane) {
            let read = aplomb::nulls::read::<ControlPlaneView>(&object);
            assert!(read.is_ok_and(|it| it.meta().name == "x"), "{path}");
        }
    }
}
