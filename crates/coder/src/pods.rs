//! What the pods of both kinds have in common: they run as nobody, write nowhere but where they must, and
//! trust the server's own authorities where it has any.

use serde_json::{Value, json};

/// The key in the Secret that holds the server's authorities.
pub(crate) const CA: &str = "ca.crt";
const CA_DIRECTORY: &str = "/etc/aplomb/server";
/// The user of Coder's images.
const USER: i64 = 1000;

/// What a pod mounts.
pub(crate) struct Parts<'a> {
    /// The Secret with the authorities.
    pub(crate) secret: &'a str,
    /// Whether it has any.
    pub(crate) ca: bool,
    /// Directories that can be written, empty at first.
    pub(crate) writable: &'a [&'a str],
}

/// The mounts of the container and the volumes of the pod.
pub(crate) fn volumes(parts: &Parts<'_>) -> (Vec<Value>, Vec<Value>) {
    let (mut mounts, mut volumes) = (Vec::new(), Vec::new());
    for (number, path) in parts.writable.iter().enumerate() {
        let name = format!("writable-{number}");
        mounts.push(json!({ "name": name, "mountPath": path }));
        volumes.push(json!({ "name": name, "emptyDir": {} }));
    }
    if parts.ca {
        mounts.push(json!({ "name": "server-ca", "mountPath": CA_DIRECTORY, "readOnly": true }));
        volumes.push(json!({ "name": "server-ca", "secret": {
            "secretName": parts.secret, "items": [{ "key": CA, "path": CA }] } }));
    }
    (mounts, volumes)
}

/// Makes the program trust the server's authorities.
pub(crate) fn ca_env(ca: bool) -> Option<Value> {
    let path = format!("{CA_DIRECTORY}/{CA}");
    ca.then(|| json!({ "name": "SSL_CERT_FILE", "value": path }))
}

/// The security contexts of the pod and of the container.
pub(crate) fn security() -> (Value, Value) {
    let pod = json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    let container = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    (pod, container)
}
