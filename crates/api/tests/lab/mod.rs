//! An API server with our kinds, and a check of a table of specs that it must reject.

use std::future::Future;

use aplomb_controlplane::{ControlPlane, Options};
use aplomb_simulation::Simulation;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// `(change of a valid spec, rejected field, part of the message)`.
pub(crate) type Refusal = (Value, &'static str, &'static str);

/// An API server that has our kinds.
#[derive(Clone)]
pub(crate) struct Lab {
    client: Client,
}

pub(crate) fn on_box<F: Future<Output = ()>>(scenario: impl FnOnce(Lab) -> F + Send + 'static) {
    Simulation::new(1).run(|cluster| async move {
        let client = cluster.client("admin");
        install(&client).await;
        scenario(Lab { client }).await;
    });
}

pub(crate) fn on_real<F: Future<Output = ()>>(scenario: impl FnOnce(Lab) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let plane = ControlPlane::start(Options::default()).await;
        let plane = plane.expect("the control plane starts");
        let client = plane.client().await.expect("it has a client");
        install(&client).await;
        scenario(Lab { client }).await;
    });
}

async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in aplomb_api::definitions() {
        let created = crds.create(&PostParams::default(), &definition).await;
        let created = created.unwrap_or_else(|error| panic!("{}: {error}", definition.name_any()));
        let established = conditions::is_crd_established();
        let established = await_condition(crds.clone(), &created.name_any(), established).await;
        established.expect("it is established");
    }
}

impl Lab {
    /// Objects of a kind of ours.
    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let definition = aplomb_api::definitions()
            .into_iter()
            .find(|definition| definition.spec.names.kind == kind)
            .unwrap_or_else(|| panic!("{kind} is not one of our kinds"));
        let resource = ApiResource {
            group: "aplomb.dev".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "aplomb.dev/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            plural: definition.spec.names.plural,
        };
        if definition.spec.scope == "Cluster" {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), "default", &resource)
        }
    }

    /// The object as it would be stored, or the server's message if it is rejected.
    pub(crate) async fn create(&self, kind: &str, name: &str, spec: &Value) -> Result<Value, String> {
        let object = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": kind,
            "metadata": { "name": name }, "spec": spec,
        });
        let object = serde_json::from_value(object).expect("an object");
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let created = self.api(kind).create(&dry, &object).await;
        Ok(created.map_err(words)?.data["spec"].clone())
    }

    /// Checks that the server rejects every spec of a table.
    pub(crate) async fn refuses(&self, kind: &str, good: Value, table: Vec<Refusal>) {
        let accepted = self.create(kind, "web", &good).await;
        assert!(accepted.is_ok(), "{good} is valid: {accepted:?}");
        let mut wrong = Vec::new();
        for (change, field, words) in table {
            let mut spec = good.clone();
            for (name, value) in change.as_object().expect("fields") {
                spec[name] = value.clone();
            }
            match self.create(kind, "web", &spec).await {
                Ok(_) => wrong.push(format!("{change} is accepted")),
                Err(said) if said.contains(&format!("{field}: ")) && said.contains(words) => {}
                Err(said) => wrong.push(format!("{change} is rejected with {said}")),
            }
        }
        assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
    }
}

/// The server's message.
pub(crate) fn words(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => panic!("not a response of the server: {other}"),
    }
}
