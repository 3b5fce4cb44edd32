//! The objects of a CoderWorkspaceProxy, complete in every field they set. Pure.

use aplomb_api::coder::{CoderWorkspaceProxy, annotations, labels, truncate_name};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Children;
use crate::pods::{self, PodMounts, ca_env, child_labels, security_contexts, volumes};

/// The longest name of a Service.
const MAX_NAME: usize = 63;
/// Where the proxy listens.
const PROXY_PORT: i32 = 3001;

fn child_meta(object: &CoderWorkspaceProxy, name: String) -> ObjectMeta {
    pods::child_meta(object, labels::PROXY, name)
}

/// What the Deployment and the Service are called.
pub(crate) fn name(object: &CoderWorkspaceProxy) -> String {
    truncate_name(&format!("wsproxy-{}", object.name_any()), MAX_NAME)
}

/// The Secret with the token of the proxy whose id is `id`.
pub(crate) fn secret(object: &CoderWorkspaceProxy, children: &Children, id: &str, token: &[u8]) -> Secret {
    let metadata = child_meta(object, children.secret.name.clone());
    pods::key_secret(metadata, &children.secret.key, children.ca.as_deref(), (id, token))
}

/// Environment of the proxy. User values come last and take precedence.
fn environment(object: &CoderWorkspaceProxy, children: &Children) -> Vec<Value> {
    let mut env = vec![
        json!({ "name": "CODER_PRIMARY_ACCESS_URL", "value": children.url }),
        json!({ "name": "CODER_PROXY_SESSION_TOKEN", "valueFrom": { "secretKeyRef": {
            "name": children.secret.name, "key": children.secret.key } } }),
    ];
    env.extend(ca_env(children.ca.is_some()));
    env.extend(object.spec.extra_env.iter().map(|it| json!(it)));
    env
}

fn arguments(object: &CoderWorkspaceProxy) -> Vec<String> {
    let mut args = vec![
        "wsproxy".to_owned(),
        "server".to_owned(),
        format!("--http-address=0.0.0.0:{PROXY_PORT}"),
    ];
    args.extend(object.spec.derp_only.then(|| "--derp-only".to_owned()));
    args.extend(object.spec.extra_args.iter().cloned());
    args
}

/// The pods. New ones serve before old ones are stopped.
pub(crate) fn deployment(
    object: &CoderWorkspaceProxy,
    children: &Children,
    checksum: &str,
) -> serde_json::Result<Deployment> {
    let spec = &object.spec;
    let labels = child_labels(labels::PROXY, &object.name_any());
    let (mounts, volumes) = volumes(&PodMounts {
        secret: &children.secret.name,
        ca: children.ca.is_some(),
        writable: &["/home/coder", "/tmp"],
    });
    let probe = json!({ "httpGet": { "path": "/healthz", "port": "http" }, "periodSeconds": 10 });
    let (pod, container) = security_contexts();
    serde_json::from_value(json!({
        "metadata": child_meta(object, name(object)),
        "spec": {
            "replicas": spec.replicas,
            "selector": { "matchLabels": labels },
            "strategy": { "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": 0, "maxSurge": "25%" } },
            "template": {
                "metadata": { "labels": labels,
                    "annotations": { annotations::CHECKSUM: checksum } },
                "spec": {
                    "imagePullSecrets": spec.image_pull_secrets,
                    "securityContext": pod,
                    "automountServiceAccountToken": false,
                    "containers": [{
                        "name": "workspace-proxy",
                        "image": children.image,
                        "command": ["coder"],
                        "args": arguments(object),
                        "env": environment(object, children),
                        "ports": [{ "name": "http", "containerPort": PROXY_PORT }],
                        "readinessProbe": probe,
                        "livenessProbe": probe,
                        "resources": spec.resources.clone().unwrap_or_default(),
                        "securityContext": container,
                        "volumeMounts": mounts,
                    }],
                    "volumes": volumes,
                },
            },
        },
    }))
}

/// The Service before the pods.
pub(crate) fn service(object: &CoderWorkspaceProxy) -> serde_json::Result<Service> {
    let spec = &object.spec.service;
    let mut metadata = child_meta(object, name(object));
    metadata.annotations = Some(spec.annotations.clone()).filter(|it| !it.is_empty());
    serde_json::from_value(json!({
        "metadata": metadata,
        "spec": {
            "type": spec.type_,
            "selector": child_labels(labels::PROXY, &object.name_any()),
            "ports": [{ "name": "http", "protocol": "TCP",
                "port": spec.port, "targetPort": "http" }],
        },
    }))
}

#[cfg(test)]
mod tests {
    use aplomb_api::coder::SecretKeyRef;

    use super::*;

    fn object(name: &str) -> CoderWorkspaceProxy {
        serde_json::from_value(json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "CoderWorkspaceProxy",
            "metadata": { "name": name, "namespace": "dev" },
            "spec": { "image": "registry.example.com/coder:1", "derpOnly": true,
                "extraArgs": ["--verbose"],
                "service": { "type": "LoadBalancer", "port": 443, "annotations": { "a": "b" } } },
        }))
        .expect("an object")
    }

    fn children(ca: Option<&str>) -> Children {
        Children {
            url: "https://coder.example.com".to_owned(),
            image: "registry.example.com/coder:1".to_owned(),
            secret: SecretKeyRef {
                name: "europe-proxy-token".to_owned(),
                key: "token".to_owned(),
            },
            id: Some("7".to_owned()),
            ca: ca.map(str::to_owned),
            prune: false,
        }
    }

    #[test]
    fn the_pods_get_the_server_url_and_run_unprivileged() {
        let made = deployment(&object("europe"), &children(Some("PEM")), "x").expect("a Deployment");
        assert_eq!(made.metadata.name.as_deref(), Some("wsproxy-europe"));
        let pod = made.spec.and_then(|it| it.template.spec).expect("a pod");
        let container = &pod.containers[0];
        assert_eq!(container.name, "workspace-proxy");
        let args = container.args.clone().unwrap_or_default().join(" ");
        let expected = "wsproxy server --http-address=0.0.0.0:3001 --derp-only --verbose";
        assert_eq!(args, expected);
        let env = container.env.clone().unwrap_or_default();
        let names: Vec<_> = env.iter().map(|it| it.name.as_str()).collect();
        let expected = ["CODER_PRIMARY_ACCESS_URL", "CODER_PROXY_SESSION_TOKEN", "SSL_CERT_FILE"];
        assert_eq!(names, expected);
        let security = pod.security_context.expect("a context");
        assert_eq!(security.run_as_non_root, Some(true));
    }

    #[test]
    fn the_service_follows_the_spec() {
        let made = service(&object("europe")).expect("a Service");
        let spec = made.spec.expect("a spec");
        assert_eq!(spec.type_.as_deref(), Some("LoadBalancer"));
        assert_eq!(spec.ports.expect("ports")[0].port, 443);
        let annotations = made.metadata.annotations.expect("annotations");
        assert_eq!(annotations["a"], "b");
    }

    #[test]
    fn a_long_name_gives_a_name_that_the_server_takes() {
        let name = name(&object(&format!("{}-{}", "a".repeat(46), "b".repeat(150))));
        assert!(name.len() <= MAX_NAME && !name.ends_with('-'), "{name}");
    }
}
