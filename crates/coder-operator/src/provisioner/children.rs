//! The objects of a CoderProvisioner, complete in every field they set. Pure.

use std::collections::BTreeMap;

use aplomb_api::coder::{CoderProvisioner, annotations, labels, truncate_name};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Children;
use crate::pods::{self, PodMounts, ca_env, child_labels, security_contexts, volumes};

/// The longest label and the longest name of most objects.
const MAX_NAME: usize = 63;
/// Where the daemon shows that it lives.
const METRICS_PORT: i32 = 2112;

fn child_meta(object: &CoderProvisioner, name: String) -> ObjectMeta {
    pods::child_meta(object, labels::PROVISIONER, name)
}

/// What the Role, its binding and the Deployment are called.
pub(crate) fn name(object: &CoderProvisioner) -> String {
    truncate_name(&format!("provisioner-{}", object.name_any()), MAX_NAME)
}

fn service_account_name(object: &CoderProvisioner) -> String {
    truncate_name(&format!("{}-provisioner", object.name_any()), MAX_NAME)
}

/// The Secret with the key called `key_name`.
pub(crate) fn secret(object: &CoderProvisioner, children: &Children, plaintext: &[u8]) -> Secret {
    let metadata = child_meta(object, children.secret.name.clone());
    pods::key_secret(
        metadata,
        &children.secret.key,
        children.ca.as_deref(),
        (&children.key_name, plaintext),
    )
}

/// Who the daemons are in the cluster.
pub(crate) fn service_account(object: &CoderProvisioner) -> ServiceAccount {
    ServiceAccount {
        metadata: child_meta(object, service_account_name(object)),
        ..ServiceAccount::default()
    }
}

/// What templates may make: the operator itself may do no less, or it could not hand it out.
pub(crate) fn role(object: &CoderProvisioner) -> Role {
    let words = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    Role {
        metadata: child_meta(object, name(object)),
        rules: Some(vec![PolicyRule {
            api_groups: Some(words(&[""])),
            resources: Some(words(&["pods", "persistentvolumeclaims"])),
            verbs: words(&["get", "list", "watch", "create", "update", "patch", "delete"]),
            ..PolicyRule::default()
        }]),
    }
}

/// Gives the Role to the account.
pub(crate) fn role_binding(object: &CoderProvisioner) -> RoleBinding {
    RoleBinding {
        metadata: child_meta(object, name(object)),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: name(object),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: service_account_name(object),
            namespace: object.namespace(),
            ..Subject::default()
        }]),
    }
}

/// What the daemons are told. What a person sets comes last, and wins.
fn environment(object: &CoderProvisioner, children: &Children) -> Vec<serde_json::Value> {
    let mut env = vec![
        json!({ "name": "CODER_URL", "value": children.url }),
        json!({ "name": "CODER_PROVISIONER_DAEMON_KEY", "valueFrom": { "secretKeyRef": {
            "name": children.secret.name, "key": children.secret.key } } }),
        json!({ "name": "CODER_CACHE_DIRECTORY", "value": "/home/coder/cache" }),
        json!({ "name": "CODER_PROMETHEUS_ENABLE", "value": "true" }),
        json!({ "name": "CODER_PROMETHEUS_ADDRESS", "value": format!("0.0.0.0:{METRICS_PORT}") }),
    ];
    env.extend(ca_env(children.ca.is_some()));
    env.extend(object.spec.extra_env.iter().map(|it| json!(it)));
    env
}

/// The daemons. New ones connect before old ones are stopped, and those may finish their jobs.
pub(crate) fn deployment(
    object: &CoderProvisioner,
    children: &Children,
    checksum: &str,
) -> serde_json::Result<Deployment> {
    let spec = &object.spec;
    let mut template = BTreeMap::from([(annotations::CHECKSUM, checksum)]);
    template.extend(children.restarted.as_deref().map(|at| (annotations::RESTARTED, at)));
    let labels = child_labels(labels::PROVISIONER, &object.name_any());
    serde_json::from_value(json!({
        "metadata": child_meta(object, name(object)),
        "spec": {
            "replicas": spec.replicas,
            "selector": { "matchLabels": labels },
            "strategy": { "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": 0, "maxSurge": "25%" } },
            "template": {
                "metadata": { "labels": labels, "annotations": template },
                "spec": daemon_pod(object, children),
            },
        },
    }))
}

/// The pod of one daemon.
fn daemon_pod(object: &CoderProvisioner, children: &Children) -> Value {
    let spec = &object.spec;
    let args = ["provisioner", "start"].into_iter().map(str::to_owned);
    let args: Vec<_> = args.chain(spec.extra_args.iter().cloned()).collect();
    let (mounts, volumes) = volumes(&PodMounts {
        secret: &children.secret.name,
        ca: children.ca.is_some(),
        writable: &["/home/coder", "/tmp"],
    });
    let probe = json!({ "httpGet": { "path": "/metrics", "port": "metrics" }, "periodSeconds": 10 });
    let (pod, container) = security_contexts();
    json!({
        "serviceAccountName": service_account_name(object),
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds,
        "imagePullSecrets": spec.image_pull_secrets,
        "securityContext": pod,
        "containers": [{
            "name": "provisioner",
            "image": children.image,
            "command": ["coder"],
            "args": args,
            "env": environment(object, children),
            "ports": [{ "name": "metrics", "containerPort": METRICS_PORT }],
            "readinessProbe": probe,
            "livenessProbe": probe,
            "resources": spec.resources.clone().unwrap_or_default(),
            "securityContext": container,
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::checksum;

    fn object() -> CoderProvisioner {
        serde_json::from_value(json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": "team", "namespace": "dev" },
            "spec": { "image": "registry.example.com/coder:1", "extraArgs": ["--verbose"],
                "extraEnv": [{ "name": "CODER_CACHE_DIRECTORY", "value": "/elsewhere" }] },
        }))
        .expect("an object")
    }

    fn children() -> Children {
        Children {
            url: "https://coder.example.com".to_owned(),
            image: "registry.example.com/coder:1".to_owned(),
            secret: crate::provisioner::decide::secret_ref(&object()),
            key_name: "team".to_owned(),
            ca: None,
            restarted: None,
            prune: false,
        }
    }

    #[test]
    fn another_key_makes_another_template_and_nothing_of_it_is_in_it() {
        let make = |key: &[u8]| deployment(&object(), &children(), &checksum(key, None)).expect("a Deployment");
        let (one, other) = (make(b"first-plaintext"), make(b"other-plaintext"));
        assert_ne!(one, other);
        let text = serde_json::to_string(&one).expect("JSON");
        assert!(!text.contains("plaintext"), "{text}");
    }

    #[test]
    fn what_a_person_sets_comes_last_and_wins() {
        let made = deployment(&object(), &children(), "x").expect("a Deployment");
        let pod = made.spec.and_then(|it| it.template.spec).expect("a pod");
        let container = &pod.containers[0];
        let env = container.env.as_ref().expect("an environment");
        assert_eq!(env.last().and_then(|it| it.value.as_deref()), Some("/elsewhere"));
        let args = container.args.as_ref().expect("arguments");
        assert_eq!(args, &["provisioner", "start", "--verbose"]);
    }

    #[test]
    fn a_long_name_gives_names_that_the_server_takes() {
        let mut object = object();
        object.metadata.name = Some(format!("{}-{}", "a".repeat(50), "b".repeat(150)));
        for name in [name(&object), service_account_name(&object)] {
            assert!(name.len() <= MAX_NAME && !name.ends_with('-'), "{name}");
        }
        assert!(crate::provisioner::decide::secret_ref(&object).name.len() <= 253);
    }
}
