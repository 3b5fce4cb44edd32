//! The namespace of the operators' and gateways' own objects: created if it does not exist and this
//! process may create it.

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};

/// Creates it if it does not exist. Without the right to read it, it is assumed to exist: a pod runs in it.
pub(crate) async fn ensure_namespace(client: &Client, name: &str) -> Result<()> {
    let all: Api<Namespace> = Api::all(client.clone());
    match all.get_opt(name).await {
        Ok(Some(_)) => return Ok(()),
        Err(Error::Api(status)) if status.is_forbidden() => return Ok(()),
        Ok(None) => {}
        Err(error) => return Err(error.into()),
    }
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match all.create(&PostParams::default(), &namespace).await {
        Ok(_) => {
            tracing::info!(namespace = name, "Created namespace");
            Ok(())
        }
        Err(Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(Error::Api(status)) if status.is_forbidden() => bail!(
            "namespace {name} does not exist and cannot be created; run `kubectl create namespace \
             {name}`, or use another with --namespace"
        ),
        Err(error) => Err(error.into()),
    }
}
