//! Creates the default classes if they do not exist. Existing classes are never changed: they belong to the
//! administrator.

use aplomb::{Error, ErrorClass, Result};
use aplomb_api::gateway_api::GatewayClass;
use aplomb_api::tunnel::{CLASS, CONTROLLER, ConnectorClass};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Creates the GatewayClass and the ConnectorClass named `aplomb` if they do not exist.
pub(crate) async fn ensure_classes(client: &kube::Client) -> Result<()> {
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
    let classes = Api::<GatewayClass>::all(client.clone());
    create_class(&classes, gateway).await?;
    create_class(&Api::<ConnectorClass>::all(client.clone()), connector).await?;
    accept_class(&classes).await
}

/// Sets `Accepted` on our GatewayClass, as the Gateway API requires of a class's controller.
async fn accept_class(classes: &Api<GatewayClass>) -> Result<()> {
    let Some(class) = classes.get_opt(CLASS).await? else {
        return Ok(());
    };
    let said = class.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let mut accepted = said.filter(|it| it.type_ == "Accepted" && it.status == "True");
    let current = accepted.any(|it| it.observed_generation == class.metadata.generation);
    if current || class.spec.controller_name != CONTROLLER {
        return Ok(());
    }
    let status = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "status": {"conditions": [{
            "type": "Accepted",
            "status": "True",
            "reason": "Accepted",
            "message": "accepted by the aplomb operator",
            "observedGeneration": class.metadata.generation,
            "lastTransitionTime": class.metadata.creation_timestamp,
        }]},
    });
    let parameters = PatchParams::apply(crate::httpproxy::NAME).force();
    let patch = Patch::Apply(status);
    classes.patch_status(CLASS, &parameters, &patch).await?;
    Ok(())
}

async fn create_class<K>(all: &Api<K>, class: serde_json::Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    if all.get_opt(CLASS).await.map_err(explain_error)?.is_some() {
        return Ok(());
    }
    let parameters = PostParams {
        field_manager: Some(crate::httpproxy::NAME.to_owned()),
        ..PostParams::default()
    };
    match all.create(&parameters, &serde_json::from_value(class)?).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(explain_error),
    }
}

/// The API server responds to an unknown kind with a 404 without a reason.
fn explain_error(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            let what = "the tunnel CRDs are not installed: run `aplomb crds --apply`";
            Error::new(ErrorClass::Missing, what)
        }
        other => other.into(),
    }
}
