//! The objects of the test: a token, a server and objects that use it.

use serde_json::{Value, json};

/// A token in coderd's format, which must not appear anywhere.
pub(crate) const TOKEN: &str = "kV3tZ9wQ1n-Rb7yXc5LdJ0hPf8sGm2AuE";
/// Another token of the same user.
pub(crate) const NEXT_TOKEN: &str = "Zm8QeR2tYu-6Iw0PaS4dFg1HjK7lXc3VbN";
/// The namespace of the objects.
pub(crate) const NAMESPACE: &str = "coder";
/// The Secret with the token.
pub(crate) const SECRET: &str = "coder-token";

/// The reference to the server in a spec.
pub(crate) fn server(url: &str) -> Value {
    json!({ "url": url, "tokenSecretRef": { "name": SECRET } })
}

/// A CoderProvisioner with two daemons.
pub(crate) fn provisioner(name: &str, url: &str) -> Value {
    json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "CoderProvisioner",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "server": server(url),
            "image": "coder.example.com/coder:2.36",
            "replicas": 2,
            "terminationGracePeriodSeconds": 5,
        },
    })
}

/// A CoderWorkspaceProxy that registers itself.
pub(crate) fn proxy(name: &str, url: &str) -> Value {
    json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "CoderWorkspaceProxy",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "image": "coder.example.com/coder:2.36",
            "bootstrap": { "server": server(url), "displayName": "Near you" },
        },
    })
}

/// The kind of the CoderControlPlane objects of another project, as far as needed to watch it.
pub(crate) fn control_plane_crd() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "codercontrolplanes.coder.com" },
        "spec": {
            "group": "coder.com",
            "scope": "Namespaced",
            "names": {
                "kind": "CoderControlPlane",
                "listKind": "CoderControlPlaneList",
                "plural": "codercontrolplanes",
                "singular": "codercontrolplane",
            },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}
