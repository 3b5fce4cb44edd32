//! State of the children, and in-memory state, as input of decisions. Pure.

use aplomb::View;
use aplomb_api::coder::{SecretKeyRef, annotations, has_owner_suffix, is_owned_key_name};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use crate::pods::digest;

/// State of the Secret with a key or token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretState {
    /// It does not exist.
    Absent,
    /// Another controller owns it.
    Foreign(String),
    /// It is ours, or has no owner.
    Owned {
        /// The name of the key in its annotation.
        key_name: Option<String>,
        /// Whether it has a key at all, and the one that was put there.
        intact: bool,
    },
}

/// State of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeploymentState {
    pub(crate) replicas: i32,
    pub(crate) ready: i32,
    /// Whether all pods of earlier templates are gone or terminating.
    pub(crate) rolled: bool,
}

/// In-memory state of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct RememberedState {
    /// The name of a pending key that was certainly not requested since it was written to the
    /// status.
    pub(crate) unrequested_name: Option<String>,
    /// The name of a key whose plaintext is in memory and not in the Secret yet.
    pub(crate) unsaved_key: Option<String>,
    /// Whether the last response was a 429, even if decisions were made without a call since.
    pub(crate) throttled: bool,
}

/// Reads a Secret that the object with this UID manages. `field` is the spec field that can name
/// another one.
pub(crate) fn secret_state(
    found: Option<&Secret>,
    reference: &SecretKeyRef,
    uid: Option<&str>,
    field: &str,
) -> SecretState {
    let Some(found) = found else {
        return SecretState::Absent;
    };
    let controller = View::meta(found).controller().cloned();
    if let Some(owner) = controller.filter(|it| Some(&*it.uid) != uid) {
        return SecretState::Foreign(format!(
            "Secret {} belongs to {} {}: choose another {field}",
            reference.name, owner.kind, owner.name
        ));
    }
    let held = secret_contents(found, reference);
    let unnamed = matches!(&held, SecretState::Owned { key_name: None, .. });
    let empty = found.data.as_ref().is_none_or(|data| data.is_empty());
    let controlled = View::meta(found).controller().is_some();
    if unnamed && !empty && !controlled {
        return SecretState::Foreign(format!(
            "Secret {} exists and does not belong to this object: choose another {field}, or hand \
             it over by setting its annotation {}",
            reference.name,
            annotations::KEY_NAME
        ));
    }
    match held {
        SecretState::Owned {
            key_name: Some(name),
            intact: whole,
        } if !controlled && belongs_to_other(found, &name, uid) => SecretState::Owned {
            key_name: None,
            intact: whole,
        },
        held => held,
    }
}

/// Whether the operator put a key there for another object, which still uses it: for example one
/// from a backup of another cluster. A person who hands a key over removes the digest.
fn belongs_to_other(found: &Secret, name: &str, uid: Option<&str>) -> bool {
    let written = found.annotations().contains_key(annotations::KEY_DIGEST);
    written && has_owner_suffix(name) && !is_owned_key_name(name, uid.unwrap_or_default())
}

/// Reads a Secret of any owner.
pub(crate) fn secret_contents(found: &Secret, reference: &SecretKeyRef) -> SecretState {
    let value = found.data.as_ref().and_then(|data| data.get(&reference.key));
    let value = value.filter(|it| !it.0.is_empty());
    let noted = found.annotations().get(annotations::KEY_DIGEST);
    let same = |it: &Vec<u8>| noted.is_none_or(|noted| *noted == digest(it));
    SecretState::Owned {
        key_name: found.annotations().get(annotations::KEY_NAME).cloned(),
        intact: value.is_some_and(|it| same(&it.0)),
    }
}

/// Reads a Deployment.
pub(crate) fn deployment_state(found: &Deployment) -> DeploymentState {
    let replicas = found.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1);
    let status = found.status.clone().unwrap_or_default();
    let current = status.observed_generation >= found.metadata.generation;
    let (all, new) = (status.replicas.unwrap_or(0), status.updated_replicas.unwrap_or(0));
    DeploymentState {
        replicas,
        ready: status.ready_replicas.unwrap_or(0),
        rolled: current && all == replicas && new == replicas,
    }
}

#[cfg(test)]
mod tests {
    use aplomb_api::coder::key_name;
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = "aw==";

    fn reads(annotations: &Value, owners: &Value, uid: &str) -> Option<String> {
        let found = json!({ "data": { "key": KEY }, "metadata": { "name": "team-provisioner-key",
            "annotations": annotations, "ownerReferences": owners } });
        let found: Secret = serde_json::from_value(found).expect("a Secret");
        let reference = SecretKeyRef {
            name: "team-provisioner-key".to_owned(),
            key: "key".to_owned(),
        };
        match secret_state(Some(&found), &reference, Some(uid), "spec.key.secretName") {
            SecretState::Owned {
                key_name,
                intact: whole,
            } => {
                assert!(whole);
                key_name
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_secret_restored_from_the_backup_of_another_cluster_hands_nothing_over() {
        let name = key_name("team", "there", 0);
        let restored = json!({ annotations::KEY_NAME: name, annotations::KEY_DIGEST: digest(b"k") });
        assert_eq!(reads(&restored, &json!([]), "here"), None);
        // The same object, with its status lost; and with its owner.
        assert_eq!(reads(&restored, &json!([]), "there"), Some(name.clone()));
        let own = json!([{ "apiVersion": "aplomb.dev/v1alpha1", "kind": "CoderProvisioner",
            "name": "team", "uid": "here", "controller": true }]);
        assert_eq!(reads(&restored, &own, "here"), Some(name.clone()));
        // Set by a person, with the key names of other operators.
        let handed = json!({ annotations::KEY_NAME: name });
        assert_eq!(reads(&handed, &json!([]), "here"), Some(name));
        let plain = json!({ annotations::KEY_NAME: "team", annotations::KEY_DIGEST: digest(b"k") });
        assert_eq!(reads(&plain, &json!([]), "here"), Some("team".to_owned()));
    }
}
