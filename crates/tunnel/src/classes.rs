//! The classes that are used where nothing else is said, made once where nobody has made them. What is
//! there is never changed: it is the administrator's.

use aplomb::{Error, Result};
use aplomb_api::gateway_api::GatewayClass;
use aplomb_api::tunnel::{CLASS, CONTROLLER, ConnectorClass};
use kube::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Makes the GatewayClass and the ConnectorClass of the name `aplomb` if they are not there.
pub(crate) async fn ensure(client: &kube::Client) -> Result<()> {
    let metadata = json!({"name": CLASS});
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": metadata,
        "spec": {"controllerName": CONTROLLER},
    });
    let connector = json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "ConnectorClass",
        "metadata": metadata,
        "spec": {"controllerName": CONTROLLER},
    });
    make(&Api::<GatewayClass>::all(client.clone()), gateway).await?;
    make(&Api::<ConnectorClass>::all(client.clone()), connector).await
}

async fn make<K>(all: &Api<K>, class: serde_json::Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    if all.get_opt(CLASS).await?.is_some() {
        return Ok(());
    }
    let parameters = PostParams {
        field_manager: Some(crate::controller::NAME.to_owned()),
        ..PostParams::default()
    };
    match all
        .create(&parameters, &serde_json::from_value(class)?)
        .await
    {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(Error::from),
    }
}
