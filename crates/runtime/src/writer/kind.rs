//! A kind as used in requests, with its type erased.

use std::any::TypeId;
use std::sync::Arc;

use k8s_openapi::ClusterResourceScope;
use kube::Resource;
use kube::core::{ApiResource, DynamicObject, Request};

use crate::key::{ObjectKey, ObjectRef};

/// A kind with its API path.
#[derive(Clone, Debug)]
pub(crate) struct ErasedKind {
    resource: ApiResource,
    name: Arc<str>,
    cluster: bool,
}

impl ErasedKind {
    /// The kind of `K`.
    pub(crate) fn for_resource<K>() -> Self
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        let resource = ApiResource::erase::<K>(&());
        Self {
            name: Arc::from(resource.kind.as_str()),
            resource,
            cluster: TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>(),
        }
    }

    /// Its name, such as `ConfigMap`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Group and version.
    pub(crate) fn api_version(&self) -> &str {
        &self.resource.api_version
    }

    /// Whether its objects have no namespace.
    pub(crate) fn is_cluster_scoped(&self) -> bool {
        self.cluster
    }

    /// An object of this kind.
    pub(crate) fn object_ref(&self, key: ObjectKey) -> ObjectRef {
        ObjectRef {
            kind: self.name.clone(),
            key,
        }
    }

    /// Requests for objects of this kind in `namespace`.
    pub(crate) fn request(&self, namespace: Option<&str>) -> Request {
        Request::new(DynamicObject::url_path(&self.resource, namespace))
    }
}
