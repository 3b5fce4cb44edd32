//! The part of an object that a cache holds: all of it, or the few fields a controller reads.
//!
//! A view is an ordinary struct that derives `Deserialize` and has those fields. Other fields
//! are skipped while the bytes are parsed, so they cost neither memory nor much time, and a
//! controller cannot depend on a field its lens does not compare.

use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::key::{ObjectKey, ResourceVersion};

/// A type that a watch can decode and a cache can hold.
///
/// Every `kube::Resource` is one. A smaller view implements it by hand:
///
/// ```
/// use aplomb::{MetaRef, View, ViewMeta};
/// use k8s_openapi::api::core::v1::Node;
///
/// #[derive(Clone, PartialEq, serde::Deserialize)]
/// struct NodeView {
///     metadata: ViewMeta,
///     #[serde(default)]
///     spec: Cordon,
/// }
///
/// #[derive(Clone, Default, PartialEq, serde::Deserialize)]
/// struct Cordon {
///     #[serde(default)]
///     unschedulable: bool,
/// }
///
/// impl View for NodeView {
///     type Kind = Node;
///     fn meta(&self) -> MetaRef<'_> {
///         self.metadata.as_ref()
///     }
/// }
/// ```
pub trait View: DeserializeOwned + Send + Sync + 'static {
    /// The kind that is watched.
    type Kind: Resource<DynamicType = (), Scope: 'static>;

    /// The part of the metadata that the runtime itself needs.
    fn meta(&self) -> MetaRef<'_>;

    /// Whether only metadata is requested from the server, because the view reads nothing else. Other
    /// fields are then never sent.
    #[must_use]
    fn metadata_only() -> bool {
        false
    }
}

impl<K> View for K
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
{
    type Kind = K;

    fn meta(&self) -> MetaRef<'_> {
        let meta = Resource::meta(self);
        MetaRef {
            namespace: meta.namespace.as_deref(),
            name: meta.name.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            version: meta.resource_version.as_deref().unwrap_or_default(),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.as_deref().unwrap_or_default(),
            owners: meta.owner_references.as_deref().unwrap_or_default(),
        }
    }
}

/// The metadata that the runtime reads of every object, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetaRef<'a> {
    /// The namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
    /// The UID, which distinguishes it from other objects that had this name.
    pub uid: &'a str,
    /// The resource version.
    pub version: &'a str,
    /// The generation, for kinds that have one.
    pub generation: Option<i64>,
    /// Whether its deletion was requested.
    pub deleting: bool,
    /// The finalizers that must be removed before it is deleted.
    pub finalizers: &'a [String],
    /// Its owners.
    pub owners: &'a [OwnerReference],
}

impl MetaRef<'_> {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace, self.name)
    }

    /// The resource version, parsed.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::parse(self.version)
    }

    /// The owner that controls this object.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller == Some(true))
    }
}

/// The metadata of a view: the fields the runtime needs, and the labels if `L` reads them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewMeta<L = IgnoredField> {
    name: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<Box<str>>,
    #[serde(default)]
    uid: Box<str>,
    #[serde(default)]
    resource_version: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deletion_timestamp: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<OwnerReference>,
    /// The labels that `L` names.
    #[serde(default)]
    pub labels: L,
}

/// Skips a field of any value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IgnoredField;

impl<'de> Deserialize<'de> for IgnoredField {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl<L> ViewMeta<L> {
    /// The fields that the runtime reads.
    #[must_use]
    pub fn as_ref(&self) -> MetaRef<'_> {
        MetaRef {
            namespace: self.namespace.as_deref(),
            name: &self.name,
            uid: &self.uid,
            version: &self.resource_version,
            generation: self.generation,
            deleting: self.deletion_timestamp.is_some(),
            finalizers: &self.finalizers,
            owners: &self.owner_references,
        }
    }
}

/// The metadata of an object of kind `K` and nothing else; `L` determines which labels are kept.
///
/// The runtime requests `PartialObjectMetadata`, so other fields are not even sent.
#[derive(Serialize, Deserialize)]
#[serde(bound(serialize = "L: Serialize", deserialize = "L: Default + Deserialize<'de>"))]
pub struct MetadataOnly<K, L = IgnoredField> {
    /// The kept metadata.
    pub metadata: ViewMeta<L>,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

impl<K, L> View for MetadataOnly<K, L>
where
    K: Resource<DynamicType = ()> + 'static,
    L: Default + DeserializeOwned + Send + Sync + 'static,
{
    type Kind = K;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }

    fn metadata_only() -> bool {
        true
    }
}

// A derive would require the same traits of the kind, which is only a name here.
impl<K, L: Clone> Clone for MetadataOnly<K, L> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            kind: PhantomData,
        }
    }
}

impl<K, L: PartialEq> PartialEq for MetadataOnly<K, L> {
    fn eq(&self, other: &Self) -> bool {
        self.metadata == other.metadata
    }
}

impl<K, L: fmt::Debug> fmt::Debug for MetadataOnly<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetaOnly").field(&self.metadata).finish()
    }
}
