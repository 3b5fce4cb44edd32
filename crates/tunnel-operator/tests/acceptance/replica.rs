//! A fake gateway that only maintains its record: it renews it and writes what a test sets.

use std::time::Duration;

use aplomb_api::tunnel::GatewayReplica;
use aplomb_simulation::{Component, Process};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::lab::{Lab, NAMESPACE};
use crate::net::hex;

const LEASE: u64 = 15;

/// A fake gateway that is alive.
pub struct Replica {
    pub component: Component,
    fields: watch::Sender<Value>,
}

impl Replica {
    pub fn start(lab: &Lab, name: &str) -> Self {
        let (words, told) = watch::channel(json!({}));
        let component = lab.cluster.start(name, move |process| run(process, told.clone()));
        Self {
            component,
            fields: words,
        }
    }

    /// Reports no session to this connector from now on.
    pub fn lose_session(&self, lab: &Lab, connector: &str) {
        let details = lab.connector(connector).connection_details;
        let session = details.expect("the agent is registered").session;
        let lost = json!([{ "namespace": "default", "name": connector, "session": session }]);
        self.set_fields(json!({ "lost": lost }));
    }

    /// Reports sessions to all connectors.
    pub fn restore_sessions(&self) {
        self.set_fields(json!({}));
    }

    /// Sets these fields in its record from now on.
    pub fn set_fields(&self, words: Value) {
        self.fields.send_replace(words);
    }
}

async fn run(process: Process, mut words: watch::Receiver<Value>) {
    let replicas: Api<GatewayReplica> = Api::namespaced(process.plain_client(), NAMESPACE);
    let params = PatchParams::apply("aplomb-gateway").force();
    let name = process.name().to_owned();
    loop {
        let now = process.clock().now();
        let mut record = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "GatewayReplica",
            "metadata": { "name": name },
            "spec": {
                "listen": "192.0.2.10:80",
                "endpointID": format!("{:0>64}", hex(name.as_bytes())),
                "leaseDurationSeconds": LEASE,
                "renewTime": format!("{now:.6}"),
            },
        });
        let told = words.borrow_and_update().clone();
        let spec = record["spec"].as_object_mut().expect("an object");
        spec.extend(told.as_object().expect("fields").clone());
        let written = replicas.patch(&name, &params, &Patch::Apply(record)).await;
        written.expect("the record is written");
        let pause = Duration::from_secs(LEASE / 3);
        drop(timeout(pause, words.changed()).await);
    }
}
