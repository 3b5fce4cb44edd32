//! The namespace that operators and gateways keep their records in: made where nobody has, if this
//! process may.

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};

/// Makes sure that it is there. One who may not look takes it to be: a pod runs in it.
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
            tracing::info!(namespace = name, "Made the namespace");
            Ok(())
        }
        Err(Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(Error::Api(status)) if status.is_forbidden() => bail!(
            "there is no namespace {name}, and this user may not make it: `kubectl create namespace \
             {name}`, or name another with --namespace"
        ),
        Err(error) => Err(error.into()),
    }
}
