//! The `gatewayclasses` of the Gateway API, generated from `gateway-api/gatewayclasses.yaml`; do not edit.
//! Source: sha256 d32070cb6930273a07c5ca183135712b1918cc140c6d9b6cef441cdf0e562345
//! Generated: sha256 111a307255857f13bd65f9d4f451cc606242f25ac3b4ee1c3f8b14c793938d50

#[allow(unused_imports)]
mod prelude {
    pub use kube::CustomResource;
    pub use serde::{Serialize, Deserialize};
    pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
}

use self::prelude::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(group = "gateway.networking.k8s.io", version = "v1", kind = "GatewayClass", plural = "gatewayclasses")]
#[kube(status = "GatewayClassStatus")]
#[kube(schema = "disabled")]
#[kube(derive="PartialEq")]
pub struct GatewayClassSpec {
    #[serde(rename = "controllerName")]
    pub controller_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "parametersRef")]
    pub parameters_ref: Option<GatewayClassParametersRef>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct GatewayClassParametersRef {
    pub group: String,
    pub kind: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct GatewayClassStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "supportedFeatures")]
    pub supported_features: Option<Vec<GatewayClassStatusSupportedFeatures>>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct GatewayClassStatusSupportedFeatures {
    pub name: String,
}

