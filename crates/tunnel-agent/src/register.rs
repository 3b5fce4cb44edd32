//! The objects of an agent: created if they do not exist, adopted if they are its own, and refused if they
//! belong to another. Fields that the agent does not set are left unchanged.

use aplomb_api::tunnel::{ConnectionDetails, Connector, HttpProxy, conditions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Map, Value, json};

use crate::FIELD_MANAGER;
use crate::error::{Error, Result};
use crate::target::ExposedTarget;

/// The desired Connector.
#[derive(Clone, Debug)]
pub struct DesiredConnector {
    pub namespace: String,
    pub name: String,
    /// Its class, if set.
    pub class: Option<String>,
    /// Its lease duration in seconds, if set.
    pub lease: Option<u32>,
}

/// The desired HTTPProxy.
#[derive(Clone, Debug)]
pub struct DesiredHttpProxy {
    pub name: String,
    /// Custom hostnames, in addition to the platform hostname.
    pub hostnames: Vec<String>,
    pub target: ExposedTarget,
    pub https: bool,
}

/// Creates or adopts the Connector for the key with this id.
///
/// # Errors
/// It belongs to another agent, or the API server returns an error.
pub async fn register_connector(client: &Client, wish: &DesiredConnector, id: &str) -> Result<Connector> {
    let connectors: Api<Connector> = Api::namespaced(client.clone(), &wish.namespace);
    let refused = |source| Error::api("register the Connector", &wish.namespace, source);
    let found = connectors.get_opt(&wish.name).await.map_err(refused)?;
    if let Some(found) = &found {
        check_adoption(found, id)?;
    }
    let mut spec = Map::new();
    if let Some(class) = &wish.class {
        spec.insert("connectorClassName".to_owned(), json!(class));
    }
    if let Some(lease) = wish.lease {
        spec.insert("leaseDurationSeconds".to_owned(), json!(lease));
    }
    let object = json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "Connector",
        "metadata": { "name": wish.name },
        "spec": spec,
    });
    apply(&connectors, &wish.name, &object).await.map_err(refused)
}

/// Whether the agent with this id may adopt an existing Connector.
fn check_adoption(connector: &Connector, id: &str) -> Result<()> {
    let name = connector.name_any();
    if connector.meta().deletion_timestamp.is_some() {
        return Err(Error::NameTaken(format!(
            "connector {name} is being deleted: try again after the deletion"
        )));
    }
    let status = connector.status.as_ref();
    let Some(details) = status.and_then(|status| status.connection_details.as_ref()) else {
        return Ok(());
    };
    let none = Vec::new();
    let told = status.map_or(&none, |status| &status.conditions);
    if details.public_key.id == id || !is_true(told, conditions::ONLINE) {
        return Ok(());
    }
    Err(Error::NameTaken(format!(
        "connector {name} is in use by another agent{}: stop that one or choose another --name; if \
         it crashed, wait until its lease expires",
        device_suffix(details)
    )))
}

fn device_suffix(details: &ConnectionDetails) -> String {
    let device = details.device.as_ref();
    device.map_or_else(String::new, |device| format!(" on {device}"))
}

fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == kind && condition.status == "True")
}

/// Creates the HTTPProxy, or updates one that an agent created. One that a person created for this connector
/// is used unchanged.
///
/// # Errors
/// It refers to another backend, or the API server returns an error.
pub async fn register_proxy(
    client: &Client,
    connector: &DesiredConnector,
    wish: &DesiredHttpProxy,
) -> Result<HttpProxy> {
    let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), &connector.namespace);
    let refused = |source| Error::api("register the HTTPProxy", &connector.namespace, source);
    if let Some(found) = proxies.get_opt(&wish.name).await.map_err(refused)? {
        if !leads_to_connector(&found, &connector.name) {
            return Err(Error::NameTaken(format!(
                "httpproxy {} exists and has no rule for connector {}: choose another --name \
                 or delete it with `aplomb tunnel delete {0}`",
                wish.name, connector.name
            )));
        }
        if !is_agent_managed(&found) {
            return Ok(found);
        }
    }
    let object = proxy_object(connector, wish);
    apply(&proxies, &wish.name, &object).await.map_err(refused)
}

/// Whether one of its rules refers to this connector.
fn leads_to_connector(proxy: &HttpProxy, connector: &str) -> bool {
    let mut backends = proxy.spec.rules.iter().flat_map(|rule| &rule.backends);
    backends.any(|backend| {
        let named = backend.connector.as_ref();
        named.is_some_and(|named| named.name == connector)
    })
}

fn is_agent_managed(proxy: &HttpProxy) -> bool {
    proxy.managed_fields().iter().any(|fields| {
        fields.manager.as_deref() == Some(FIELD_MANAGER) && fields.subresource.as_deref().unwrap_or("").is_empty()
    })
}

fn proxy_object(connector: &DesiredConnector, wish: &DesiredHttpProxy) -> Value {
    let scheme = if wish.https { "https" } else { "http" };
    let mut backend = json!({
        "endpoint": format!("{scheme}://{}", wish.target),
        "connector": { "name": connector.name },
    });
    if wish.https && wish.target.host().parse::<std::net::IpAddr>().is_ok() && wish.target.is_local() {
        // Certificates of development servers do not contain IP addresses.
        backend["tls"] = json!({ "hostname": "localhost" });
    }
    let mut spec = json!({ "rules": [{ "backends": [backend] }] });
    if !wish.hostnames.is_empty() {
        spec["hostnames"] = json!(wish.hostnames);
    }
    if let Some(class) = &connector.class {
        spec["connectorClassName"] = json!(class);
    }
    json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "HTTPProxy",
        "metadata": { "name": wish.name },
        "spec": spec,
    })
}

async fn apply<K>(api: &Api<K>, name: &str, object: &Value) -> Result<K, kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(name, &params, &Patch::Apply(object)).await
}

/// Deletes the object with this name and UID. An object that is already gone is a success.
///
/// # Errors
/// The API server returns an error.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: Option<&str>) -> Result<(), kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let params = DeleteParams {
        preconditions: uid.map(|uid| Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Ok(_) => Ok(()),
        // 409: the object is gone and another one has its name.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connector(status: &Value) -> Connector {
        let object = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "Connector",
            "metadata": { "name": "laptop" },
            "spec": {}, "status": status,
        });
        serde_json::from_value(object).expect("a Connector")
    }

    fn online(id: &str, online: &str) -> Connector {
        connector(&json!({
            "connectionDetails": {
                "publicKey": { "id": id }, "session": "s", "device": "attic",
            },
            "conditions": [{
                "type": "Online", "status": online, "reason": "LeaseRenewed", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }))
    }

    #[test]
    fn an_unused_connector_or_one_of_the_same_key_is_adopted() {
        assert!(check_adoption(&connector(&json!({})), "aa").is_ok());
        assert!(check_adoption(&online("aa", "True"), "aa").is_ok());
        assert!(check_adoption(&online("bb", "False"), "aa").is_ok());
    }

    #[test]
    fn a_connector_that_another_agent_serves_is_refused() {
        let said = check_adoption(&online("bb", "True"), "aa").expect_err("theirs");
        let said = said.to_string();
        assert!(said.contains("attic") && said.contains("--name"), "{said}");
    }

    fn proxy(backends: &Value) -> HttpProxy {
        let object = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
            "metadata": { "name": "web" },
            "spec": { "rules": [{ "backends": backends }] },
        });
        serde_json::from_value(object).expect("an HTTPProxy")
    }

    #[test]
    fn a_proxy_is_recognized_by_its_backend() {
        let ours = json!([{ "endpoint": "http://localhost:1", "connector": { "name": "laptop" } }]);
        assert!(leads_to_connector(&proxy(&ours), "laptop"));
        for other in [
            json!([{ "endpoint": "http://localhost:1", "connector": { "name": "other" } }]),
            json!([{ "endpoint": "http://192.0.2.1:1" }]),
            json!([]),
        ] {
            assert!(!leads_to_connector(&proxy(&other), "laptop"));
        }
    }

    #[test]
    fn unset_fields_are_left_to_the_schema() {
        let connector = DesiredConnector {
            namespace: "default".to_owned(),
            name: "laptop".to_owned(),
            class: None,
            lease: None,
        };
        let wish = DesiredHttpProxy {
            name: "web".to_owned(),
            hostnames: Vec::new(),
            target: "127.0.0.1:8443".parse().expect("a target"),
            https: true,
        };
        let spec = &proxy_object(&connector, &wish)["spec"];
        let expected = json!({ "rules": [{ "backends": [{
            "endpoint": "https://127.0.0.1:8443",
            "connector": { "name": "laptop" },
            "tls": { "hostname": "localhost" },
        }] }] });
        assert_eq!(*spec, expected);
    }
}
