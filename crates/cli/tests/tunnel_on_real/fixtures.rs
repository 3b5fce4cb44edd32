//! The objects that a person would write.

use serde_json::{Value, json};

/// A tunnel: `hostname` leads to `endpoint`, which the Connector dials.
pub(crate) fn tunnel(
    namespace: &str,
    name: &str,
    hostname: &str,
    connector: &str,
    endpoint: &str,
) -> Value {
    let backend = json!({ "endpoint": endpoint, "connector": { "name": connector } });
    with_rules(
        namespace,
        name,
        hostname,
        &json!([{ "backends": [backend] }]),
    )
}

/// A tunnel with rules of one's own. It is proven every four seconds at least.
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
