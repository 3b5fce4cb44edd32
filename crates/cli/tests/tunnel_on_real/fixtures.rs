//! Objects as users write them.

use serde_json::{Value, json};

/// A tunnel from `hostname` to `endpoint`, which the Connector dials.
pub(crate) fn tunnel(namespace: &str, name: &str, hostname: &str, connector: &str, endpoint: &str) -> Value {
    let backend = json!({ "endpoint": endpoint, "connector": { "name": connector } });
    with_rules(namespace, name, hostname, &json!([{ "backends": [backend] }]))
}

/// A tunnel with these rules. It is proven at least every four seconds.
pub(crate) fn with_rules(namespace: &str, name: &str, hostname: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "HTTPProxy",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "hostnames": [hostname], "proofInterval": "4s", "rules": rules },
    })
}

/// A TLS Secret.
pub(crate) fn secret(namespace: &str, name: &str, certificate: &str, key: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": { "namespace": namespace, "name": name },
        "stringData": { "tls.crt": certificate, "tls.key": key },
    })
}
