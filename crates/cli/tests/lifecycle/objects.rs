//! The test objects: one tunnel, one provisioner, one egress. How each is changed, and how to see that the operators
//! are done.

use anyhow::{Context, Result};
use aplomb_api::coder::key_name;
use serde_json::{Value, json};
use std::time::Duration;

use crate::stage::Stage;

const TUNNEL: &str = "/apis/aplomb.dev/v1alpha1/namespaces/default/httpproxies/web";
const PROVISIONER: &str = "/apis/aplomb.dev/v1alpha1/namespaces/default/coderprovisioners/on-prem";
const EGRESS: &str = "/apis/aplomb.dev/v1alpha1/stableegresses/web";
const NODES: [&str; 2] = ["gateway-a", "gateway-b"];
const CANDIDATE: &str = "egress.aplomb.dev/candidate";

/// The last requested change. Each change affects every operator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Number of changes to each: key rotations, address moves, hostnames.
    pub(crate) changes: usize,
}

impl Wanted {
    /// The node that should be the gateway.
    fn node(self) -> &'static str {
        NODES[self.changes % 2]
    }

    fn key(self, uid: &str) -> String {
        let changes = u32::try_from(self.changes).unwrap_or(u32::MAX);
        key_name("on-prem", uid, changes)
    }

    fn hostname(self) -> String {
        format!("v{}.example.com", self.changes)
    }
}

/// Installs CRDs, a project with two servers and their nodes, tokens, and one object for each operator.
pub(crate) async fn install(stage: &mut Stage) -> Result<()> {
    for file in [
        "deploy/coder/00-crds.yaml",
        "deploy/egress/00-crd.yaml",
        "deploy/tunnel/00-crds.yaml",
        "deploy/tunnel/gateway-api/crds.yaml",
        "deploy/egress/01-namespace.yaml",
        "deploy/egress/samples/nodes.yaml",
    ] {
        stage.kubectl(&["create", "-f", file])?;
    }
    stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all"])?;
    let project = include_str!("../../../../deploy/egress/samples/hetzner.json");
    stage.post_simulator(&stage.hetzner, "/_sim/state", project).await?;
    let token = format!("--from-literal=token={:064}", 7);
    let secret = ["create", "secret", "generic"];
    let hcloud = ["hcloud", "-n", "aplomb-system", &token];
    let coder = ["coder-token", "--from-literal=token=sim-owner-token"];
    stage.kubectl(&[&secret[..], &hcloud].concat())?;
    stage.kubectl(&[&secret[..], &coder].concat())?;
    let servers = format!("coder.aplomb.dev/servers={}", stage.coderd);
    stage.kubectl(&["annotate", "secret", "coder-token", &servers])?;
    stage.start_agent()?;
    for object in object_paths(stage)? {
        stage.server.kubectl(&["create", "-f", "-"], &object)?;
    }
    Ok(())
}

fn object_paths(stage: &Stage) -> Result<[String; 3]> {
    let provisioner = include_str!("../../../../deploy/coder/samples/provisioner.yaml");
    let egress = include_str!("../../../../deploy/egress/samples/minimal.yaml");
    Ok([
        provisioner.replace("https://coder.example.com", &stage.coderd),
        egress.to_owned(),
        tunnel(stage, "web", &Wanted::default().hostname()).to_string(),
    ])
}

/// A tunnel to the local service.
pub(crate) fn tunnel(stage: &Stage, name: &str, hostname: &str) -> Value {
    let endpoint = format!("http://localhost:{}", stage.port);
    let backend = json!({ "endpoint": endpoint, "connector": { "name": "laptop" } });
    json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "HTTPProxy",
        "metadata": { "name": name },
        "spec": { "hostnames": [hostname], "rules": [{ "backends": [backend] }] },
    })
}

/// Changes every object: another hostname, another key, another node.
pub(crate) fn change_objects(stage: &Stage, wanted: &mut Wanted) -> Result<()> {
    let old = wanted.node();
    wanted.changes += 1;
    let hostnames = json!({ "spec": { "hostnames": [wanted.hostname()] } }).to_string();
    stage.kubectl(&["patch", "hp", "web", "--type=merge", "-p", &hostnames])?;
    let rotate = format!("coder.aplomb.dev/rotate={}", wanted.changes);
    stage.kubectl(&["annotate", "cprov", "on-prem", "--overwrite", &rotate])?;
    let (now, never) = (format!("{CANDIDATE}=web"), format!("{CANDIDATE}-"));
    stage.kubectl(&["label", "node", wanted.node(), "--overwrite", &now])?;
    stage.kubectl(&["label", "node", old, &never])?;
    Ok(())
}

/// Waits until every operator is done; returns how long each took.
pub(crate) async fn wait_converged(stage: &Stage, wanted: Wanted) -> Result<Vec<(&'static str, Duration)>> {
    let tunnel = stage.wait_until("the tunnel is proven", async || {
        let it = stage.server.get(TUNNEL).await?;
        let named = it["spec"]["hostnames"][0] == json!(wanted.hostname());
        Ok(named && is_ready(&it))
    });
    let coder = stage.wait_until("the key is replaced", async || {
        let it = stage.server.get(PROVISIONER).await?;
        let uid = it["metadata"]["uid"].as_str().unwrap_or_default();
        let named = it["status"]["provisionerKeyName"] == json!(wanted.key(uid));
        Ok(named && is_ready(&it))
    });
    let egress = stage.wait_until("the address has moved", async || {
        let it = stage.server.get(EGRESS).await?;
        let there = it["status"]["activeNode"] == json!(wanted.node());
        Ok(there && is_ready(&it))
    });
    let (tunnel, coder, egress) = futures::join!(tunnel, coder, egress);
    Ok(vec![("tunnel", tunnel?), ("coder", coder?), ("egress", egress?)])
}

/// Whether Ready is True for the current spec.
pub(crate) fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|it| it["type"] == json!("Ready"));
    ready
        .is_some_and(|it| it["status"] == json!("True") && it["observedGeneration"] == object["metadata"]["generation"])
}

/// The floating IP's server must be that of the active node.
pub(crate) async fn assigned_server(stage: &Stage) -> Result<u64> {
    let state = stage.get_simulator(&stage.hetzner, "/_sim/state").await?;
    state["floating_ips"][0]["server"]
        .as_u64()
        .context("the floating IP is on no server")
}
