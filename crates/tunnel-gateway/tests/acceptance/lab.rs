//! A cluster in virtual time, a user who creates tunnels, and the operator's writes of their children.

use std::time::Duration;

use aplomb_api::gateway_api::{DEFINITIONS, Gateway, HttpRoute};
use aplomb_api::tunnel::{
    AppliedVersions, Connector, GatewayReplica, GatewayReplicaSpec, HostnameClaim, HttpProxy, canonical_hostname,
};
use aplomb_simulation::{Cluster, Simulation};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// The namespace of the gateways.
pub const NAMESPACE: &str = "aplomb-system";
/// The namespace of the users.
pub const TENANT: &str = "default";
const DOMAIN: &str = "tunnels.example.com";

/// A cluster.
#[derive(Clone)]
pub struct Lab {
    pub cluster: Cluster,
}

/// A tunnel that a user created.
#[derive(Clone, Debug)]
pub struct Tunnel {
    pub name: String,
    pub uid: String,
    /// The versions of its objects.
    pub written: AppliedVersions,
}

impl Tunnel {
    pub fn hostname(&self) -> String {
        canonical_hostname(&self.uid, DOMAIN)
    }
}

/// Runs a scenario.
pub fn on_box<T, F, S>(seed: u64, scenario: S) -> (T, Vec<String>)
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let world = Simulation::new(seed).interpose(aplomb_virtual_time::install);
    let run = world.run(|cluster| async move {
        let lab = Lab { cluster };
        lab.install().await;
        scenario(lab).await
    });
    (run.value, run.trace)
}

impl Lab {
    pub fn user(&self) -> Client {
        self.cluster.plain_client("user")
    }

    async fn install(&self) {
        let namespaces: Api<Namespace> = Api::all(self.user());
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let crds: Api<CustomResourceDefinition> = Api::all(self.user());
        let borrowed = DEFINITIONS
            .iter()
            .map(|(_, text)| serde_saphyr::from_str::<CustomResourceDefinition>(text).expect("a definition"));
        for crd in aplomb_api::tunnel_definitions().into_iter().chain(borrowed) {
            crds.create(&PostParams::default(), &crd).await.unwrap();
        }
        let routes: Api<HttpRoute> = Api::all(self.user());
        while routes.list(&Default::default()).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Applies an object as `manager`, and returns its version.
    async fn apply<K>(&self, manager: &str, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let mut object = object;
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        let api: Api<K> = Api::namespaced(self.user(), TENANT);
        let params = PatchParams::apply(manager).force();
        api.patch(&name, &params, &Patch::Apply(object)).await.unwrap()
    }

    /// Creates a Connector whose agent has registered.
    pub async fn create_connector(&self, name: &str, session: &str) -> String {
        let connector = json!({ "metadata": { "name": name }, "spec": {} });
        self.apply::<Connector>("aplomb-agent", connector).await;
        let details = json!({
            "publicKey": { "id": "ab".repeat(32), "addresses": [{ "address": "192.0.2.9", "port": 4433 }] },
            "session": session,
        });
        let status = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "Connector",
            "status": { "connectionDetails": details },
        });
        let api: Api<Connector> = Api::namespaced(self.user(), TENANT);
        let params = PatchParams::apply("aplomb-agent").force();
        let written = api.patch_status(name, &params, &Patch::Apply(status)).await.unwrap();
        written.resource_version().unwrap()
    }

    /// Creates an HTTPProxy, and its children one after another as the operator does.
    pub async fn create_tunnel(&self, name: &str) -> Tunnel {
        let proxy = json!({ "metadata": { "name": name }, "spec": { "rules": [{
            "backends": [{ "endpoint": "http://localhost:3000", "connector": { "name": "laptop" } }],
        }] } });
        let proxy = self.apply::<HttpProxy>("user", proxy).await;
        let mut tunnel = Tunnel {
            name: name.to_owned(),
            uid: proxy.uid().unwrap(),
            written: AppliedVersions::default(),
        };
        self.create_children(&mut tunnel, &format!("{name}.example.com")).await;
        tunnel
    }

    async fn create_children(&self, tunnel: &mut Tunnel, claimed: &str) {
        let (name, uid) = (&tunnel.name, &tunnel.uid);
        let claim = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "HostnameClaim", "metadata": { "name": claimed },
            "spec": { "claimant": { "namespace": TENANT, "name": name, "uid": uid } },
        });
        let claims: Api<HostnameClaim> = Api::all(self.user());
        let claim = serde_json::from_value(claim).unwrap();
        let claim = claims.create(&PostParams::default(), &claim).await;
        tunnel.written.claims = claim.unwrap().resource_version().unwrap();
        let meta = |marks: Value| {
            json!({ "name": name, "annotations": marks, "ownerReferences": [{
                "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy", "controller": true,
                "name": name, "uid": uid,
            }] })
        };
        let hostnames = [tunnel.hostname(), claimed.to_owned()];
        let slice = json!({
            "metadata": meta(json!({
                "tunnel.aplomb.dev/connector": "laptop",
                "tunnel.aplomb.dev/endpoint": "http://localhost:3000",
            })),
            "addressType": "FQDN", "endpoints": [{ "addresses": ["laptop.connector.internal"] }],
            "ports": [{ "port": 3000 }],
        });
        let slice = self.apply::<EndpointSlice>("aplomb-tunnel", slice).await;
        let listeners: Vec<_> = hostnames.iter().enumerate().map(|(number, it)| {
            json!({ "name": format!("http-{number}"), "hostname": it, "port": 80, "protocol": "HTTP" })
        }).collect();
        let gateway = json!({
            "metadata": meta(json!({})),
            "spec": { "gatewayClassName": "aplomb", "listeners": listeners },
        });
        let gateway = self.apply::<Gateway>("aplomb-tunnel", gateway).await;
        let route = json!({
            "metadata": meta(json!({ "tunnel.aplomb.dev/generation": "1" })),
            "spec": { "parentRefs": [{ "name": name }], "hostnames": hostnames, "rules": [{
                "backendRefs": [{ "group": "discovery.k8s.io", "kind": "EndpointSlice", "name": name,
                    "port": 3000 }],
            }] },
        });
        let route = self.apply::<HttpRoute>("aplomb-tunnel", route).await;
        tunnel.written.endpoint_slices = slice.resource_version().unwrap();
        tunnel.written.gateways = gateway.resource_version().unwrap();
        tunnel.written.http_routes = route.resource_version().unwrap();
    }

    /// Deletes an HTTPProxy; its children are garbage collected.
    pub async fn delete(&self, tunnel: &Tunnel) {
        let api: Api<HttpProxy> = Api::namespaced(self.user(), TENANT);
        api.delete(&tunnel.name, &DeleteParams::default()).await.unwrap();
    }

    /// Makes an HTTPRoute invalid.
    pub async fn break_route(&self, tunnel: &Tunnel) {
        let api: Api<HttpRoute> = Api::namespaced(self.user(), TENANT);
        let matches = json!([{ "path": { "type": "RegularExpression", "value": "(" } }]);
        let patch = json!([{ "op": "add", "path": "/spec/rules/0/matches", "value": matches }]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        api.patch(&tunnel.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes the record of a replica.
    pub async fn delete_record(&self, replica: &str) {
        let api: Api<GatewayReplica> = Api::namespaced(self.user(), NAMESPACE);
        api.delete(replica, &DeleteParams::default()).await.unwrap();
    }

    /// The spec in a replica's record.
    pub fn replica_spec(&self, replica: &str) -> Option<GatewayReplicaSpec> {
        let stored = self.cluster.server();
        let stored = stored.get("aplomb.dev", "gatewayreplicas", NAMESPACE, replica)?;
        Some(serde_json::from_value(stored["spec"].clone()).expect("a spec"))
    }

    /// How often a replica's record was written.
    pub fn write_count(&self, replica: &str) -> u64 {
        let counts = self.cluster.writes().counts();
        let name = format!("gatewayreplicas.aplomb.dev/{NAMESPACE}/{replica}");
        counts.get(&name).map_or(0, |it| it.creates + it.updates)
    }

    /// Whether a replica has acknowledged everything that was written for a tunnel.
    pub fn is_acknowledged(&self, replica: &str, tunnel: &Tunnel) -> bool {
        let Some(said) = self.replica_spec(replica) else {
            return false;
        };
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        let (has, needs) = (&said.applied, &tunnel.written);
        [
            (&has.gateways, &needs.gateways),
            (&has.http_routes, &needs.http_routes),
            (&has.endpoint_slices, &needs.endpoint_slices),
            (&has.claims, &needs.claims),
        ]
        .iter()
        .all(|(has, needs)| number(has) >= number(needs))
    }
}

/// Polls until `holds`; returns how long it took.
pub async fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
