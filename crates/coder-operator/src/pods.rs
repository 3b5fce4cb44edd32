//! Settings shared by the pods of both kinds: they run without privileges, write only to declared
//! directories, and trust the server's own certificate authorities if it has any.

use std::collections::BTreeMap;
use std::sync::Arc;

use aplomb::{Context, Kind, ObjectKey, Result};
use aplomb_api::coder::{annotations, labels, truncate_name};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::access::hex;

/// Maximum length of a label value.
const MAX_LABEL: usize = 63;

/// Key of the certificate authorities in the Secret.
const CA_KEY: &str = "ca.crt";
const CA_DIRECTORY: &str = "/etc/aplomb/server";
/// The user ID in Coder's images.
const RUN_AS_USER: i64 = 1000;

/// Mounts of a pod.
pub(crate) struct PodMounts<'a> {
    /// The Secret with the certificate authorities.
    pub(crate) secret: &'a str,
    /// Whether there are any.
    pub(crate) ca: bool,
    /// Writable directories, initially empty.
    pub(crate) writable: &'a [&'a str],
}

/// The mounts of the container and the volumes of the pod.
pub(crate) fn volumes(parts: &PodMounts<'_>) -> (Vec<Value>, Vec<Value>) {
    let (mut mounts, mut volumes) = (Vec::new(), Vec::new());
    for (number, path) in parts.writable.iter().enumerate() {
        let name = format!("writable-{number}");
        mounts.push(json!({ "name": name, "mountPath": path }));
        volumes.push(json!({ "name": name, "emptyDir": {} }));
    }
    if parts.ca {
        mounts.push(json!({ "name": "server-ca", "mountPath": CA_DIRECTORY, "readOnly": true }));
        volumes.push(json!({ "name": "server-ca", "secret": {
            "secretName": parts.secret, "items": [{ "key": CA_KEY, "path": CA_KEY }] } }));
    }
    (mounts, volumes)
}

/// Environment that makes the program trust the server's certificate authorities.
pub(crate) fn ca_env(ca: bool) -> Option<Value> {
    let path = format!("{CA_DIRECTORY}/{CA_KEY}");
    ca.then(|| json!({ "name": "SSL_CERT_FILE", "value": path }))
}

/// The security contexts of the pod and of the container.
pub(crate) fn security_contexts() -> (Value, Value) {
    let pod = json!({
        "runAsNonRoot": true,
        "runAsUser": RUN_AS_USER,
        "runAsGroup": RUN_AS_USER,
        "fsGroup": RUN_AS_USER,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    let container = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    (pod, container)
}

/// Labels of every child: the object it belongs to.
pub(crate) fn child_labels(app: &str, object: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), app.to_owned()),
        (
            "app.kubernetes.io/instance".to_owned(),
            truncate_name(object, MAX_LABEL),
        ),
        ("app.kubernetes.io/managed-by".to_owned(), labels::MANAGER.to_owned()),
    ])
}

/// The metadata of a child of `object`.
pub(crate) fn child_meta(object: &impl ResourceExt, app: &str, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: object.namespace(),
        labels: Some(child_labels(app, &object.name_any())),
        ..ObjectMeta::default()
    }
}

/// The Secret with the plaintext of the key or proxy called `name`.
pub(crate) fn key_secret(
    mut metadata: ObjectMeta,
    key: &str,
    ca: Option<&str>,
    (name, plaintext): (&str, &[u8]),
) -> Secret {
    let mut data = BTreeMap::from([(key.to_owned(), ByteString(plaintext.to_vec()))]);
    data.extend(ca.map(|ca| (CA_KEY.to_owned(), ByteString(ca.as_bytes().to_vec()))));
    metadata.annotations = Some(BTreeMap::from([
        (annotations::KEY_NAME.to_owned(), name.to_owned()),
        (annotations::KEY_DIGEST.to_owned(), digest(plaintext)),
    ]));
    Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// Digest of a plaintext: identifies it without revealing it.
pub(crate) fn digest(plaintext: &[u8]) -> String {
    hex(&Sha256::digest(plaintext), 16)
}

/// Checksum of what pods read from the Secret, so that they are replaced when it changes.
pub(crate) fn checksum(plaintext: &[u8], ca: Option<&str>) -> String {
    let mut all = Sha256::new();
    all.update(plaintext);
    all.update([0]);
    all.update(ca.unwrap_or_default());
    hex(&all.finalize(), 16)
}

/// The Deployment called `name` if `object` owns it. A foreign one is neither reported nor stopped.
pub(crate) fn owned_deployment<K: Kind>(
    cx: &Context<K>,
    object: &ObjectMeta,
    name: &str,
) -> Result<Option<Arc<Deployment>>> {
    let key = ObjectKey::new(object.namespace.as_deref(), name);
    let found = cx.cache::<Deployment>()?.get(&key);
    let owns = |it: &Deployment| {
        let mut owners = it.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(&owner.uid) == object.uid.as_ref())
    };
    Ok(found.filter(|it| owns(it)))
}

/// Scales a Deployment to zero, so that each pod may finish. No other field is changed: what it was
/// made from may be gone already.
pub(crate) async fn scale_to_zero<K: Kind>(cx: &Context<K>, object: &ObjectMeta, name: &str) -> Result<()> {
    let Some(own) = owned_deployment(cx, object, name)? else {
        return Ok(());
    };
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let _guard = cx.fence().guard()?;
    let all = Api::<Deployment>::namespaced(cx.client(), namespace);
    // With the UID the server refuses the change if another Deployment has the name by now.
    let uid = &own.metadata.uid;
    let patch = Patch::Merge(json!({ "metadata": { "uid": uid }, "spec": { "replicas": 0 } }));
    match all.patch(name, &PatchParams::default(), &patch).await {
        // The server refuses another UID with 422: ours is gone too.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 422) => Ok(()),
        patched => Ok(patched.map(drop)?),
    }
}
