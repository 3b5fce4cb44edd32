//! Operations of users on objects: create, change, annotate and delete.

use aplomb_api::coder::{CoderProvisioner, CoderWorkspaceProxy};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::lab::{Lab, NAMESPACE, OTHER_SECRET, SECRET};
use crate::site::{self, Site};

impl Lab {
    fn provisioners(&self) -> Api<CoderProvisioner> {
        Api::namespaced(self.user(), NAMESPACE)
    }

    fn proxies(&self) -> Api<CoderWorkspaceProxy> {
        Api::namespaced(self.user(), NAMESPACE)
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.user(), NAMESPACE)
    }

    /// Writes a token to a Secret that lists its server.
    pub async fn token(&self, name: &str, token: &str) {
        let url = match name {
            OTHER_SECRET => site::OTHER_URL,
            _ => site::URL,
        };
        let servers = json!({ "coder.aplomb.dev/servers": url });
        self.put_secret(name, token, &servers).await;
    }

    /// Writes a value to a Secret with these annotations.
    pub async fn put_secret(&self, name: &str, token: &str, annotations: &Value) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "annotations": annotations },
            "stringData": { "token": token },
        });
        let params = PatchParams::apply("user").force();
        let applied = self.secrets().patch(name, &params, &Patch::Apply(secret)).await;
        applied.unwrap();
    }

    /// Creates a CoderProvisioner; `spec` overrides the default fields.
    pub async fn provisioner(&self, name: &str, spec: &Value) {
        let made = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": name }, "spec": merged(default_spec(), spec),
        });
        let made = serde_json::from_value(made).expect("a CoderProvisioner");
        let created = self.provisioners().create(&PostParams::default(), &made).await;
        created.unwrap();
    }

    /// Creates a CoderWorkspaceProxy that registers itself.
    pub async fn proxy(&self, name: &str, bootstrap: &Value) {
        let spec = json!({
            "image": "coder.example.com/coder:2.36",
            "bootstrap": merged(json!({ "server": server(&self.coderd) }), bootstrap),
        });
        let made = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "CoderWorkspaceProxy",
            "metadata": { "name": name }, "spec": spec,
        });
        let made = serde_json::from_value(made).expect("a CoderWorkspaceProxy");
        let created = self.proxies().create(&PostParams::default(), &made).await;
        created.unwrap();
    }

    /// Changes a CoderProvisioner.
    pub async fn edit(&self, name: &str, patch: &Value) {
        let (api, params) = (self.provisioners(), PatchParams::default());
        let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
        patched.unwrap();
    }

    /// Changes a CoderWorkspaceProxy.
    pub async fn edit_proxy(&self, name: &str, patch: &Value) {
        let (api, params) = (self.proxies(), PatchParams::default());
        let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
        patched.unwrap();
    }

    /// Puts an annotation on a CoderProvisioner.
    pub async fn annotate(&self, name: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.edit(name, &patch).await;
    }

    pub async fn delete(&self, name: &str) {
        let deleted = self.provisioners().delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }

    pub async fn delete_proxy(&self, name: &str) {
        let deleted = self.proxies().delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }
}

/// The default spec of a CoderProvisioner.
fn default_spec() -> Value {
    json!({
        "server": { "url": site::URL, "tokenSecretRef": { "name": SECRET, "key": "token" } },
        "image": "coder.example.com/coder:2.36",
        "replicas": 2,
        "terminationGracePeriodSeconds": 60,
    })
}

/// The server field of a spec.
pub fn server(site: &Site) -> Value {
    let secret = match site.url {
        site::URL => SECRET,
        _ => OTHER_SECRET,
    };
    json!({ "url": site.url, "tokenSecretRef": { "name": secret, "key": "token" } })
}

/// Merges the members of `with` into `value`.
pub fn merged(mut value: Value, with: &Value) -> Value {
    merge(&mut value, with);
    value
}

fn merge(value: &mut Value, with: &Value) {
    match (value, with) {
        (Value::Object(value), Value::Object(with)) => {
            for (key, with) in with {
                merge(value.entry(key).or_insert(Value::Null), with);
            }
        }
        (value, with) => *value = with.clone(),
    }
}
