//! Ready objects of every operator, and snapshots of them that show rewrites.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::helm::SYSTEM;
use crate::process::Process;
use crate::stage::{CODER_TOKEN, HETZNER_TOKEN, Stage};
use crate::traffic;

/// The namespace of the tunnel; its name and hostname follow.
pub(crate) const TENANT_NAMESPACE: &str = "home";
pub(crate) const TUNNEL: &str = "laptop";
pub(crate) const HOSTNAME: &str = "app.example.com";
/// The namespace of the provisioner; its name follows.
pub(crate) const CODER: &str = "coder";
pub(crate) const PROVISIONER: &str = "team";
/// All kinds that the operators read or write for these objects.
const KINDS: &str = "httpproxies,connectors,connectorclasses,hostnameclaims,stableegresses,coderprovisioners,\
    gatewayclasses,gateways.gateway.networking.k8s.io,httproutes,endpointslices,nodes,secrets,serviceaccounts,\
    roles,rolebindings,services,deployments";

/// A tunnel with its agent and a service behind it.
pub(crate) fn create_tunnel(stage: &mut Stage) -> Result<()> {
    stage.kubectl(&["create", "namespace", TENANT_NAMESPACE])?;
    let role = include_str!("../../../../deploy/tunnel/samples/agent-rbac.yaml");
    let role = role.replace("namespace: default", &format!("namespace: {TENANT_NAMESPACE}"));
    stage.kubectl_with(&["apply", "-f", "-"], &role)?;
    let (port, kubeconfig) = (traffic::origin()?, stage.kubeconfig(TENANT_NAMESPACE, "aplomb-agent")?);
    let key = stage.dir.path().join("agent.key");
    let args = [
        "connect",
        &port.to_string(),
        "--kubeconfig",
        &kubeconfig,
        "--namespace",
        TENANT_NAMESPACE,
        "--name",
        TUNNEL,
        "--hostname",
        HOSTNAME,
        "--key-file",
        key.to_str().context("a path")?,
    ];
    stage.agent = Some(Process::aplomb(stage.dir.path(), "agent", &args)?);
    stage.wait(TENANT_NAMESPACE, &format!("httpproxy/{TUNNEL}"), "condition=Ready")
}

/// A floating IP, and two candidate nodes.
pub(crate) async fn create_egress(stage: &Stage) -> Result<()> {
    let servers = json!([{ "id": 101, "name": "gateway-a" }, { "id": 102, "name": "gateway-b" }]);
    let address = json!([{ "id": 1, "name": "web-egress", "ip": "192.0.2.10" }]);
    let state = json!({ "servers": servers, "floating_ips": address });
    stage.put(&format!("{}/_sim/state", stage.hetzner), &state).await?;
    stage.kubectl(&["create", "-f", "deploy/egress/samples/nodes.yaml"])?;
    let token = format!("--from-literal=token={HETZNER_TOKEN}");
    stage.kubectl(&["create", "secret", "generic", "hcloud", "-n", SYSTEM, &token])?;
    stage.kubectl(&["apply", "-f", "deploy/egress/samples/minimal.yaml"])?;
    stage.wait("", "stableegress/web", "condition=Ready")
}

/// Two provisioner daemons, simulated by the server.
pub(crate) fn create_coder(stage: &Stage, namespace: &str) -> Result<()> {
    let token = format!("--from-literal=token={CODER_TOKEN}");
    stage.kubectl(&["create", "secret", "generic", "coder-token", "-n", namespace, &token])?;
    let servers = format!("coder.aplomb.dev/servers={}", stage.coderd);
    let annotate = ["annotate", "secret", "coder-token", "-n", namespace];
    stage.kubectl(&[&annotate[..], &[&servers]].concat())?;
    let server = json!({ "url": stage.coderd, "tokenSecretRef": { "name": "coder-token" } });
    let image = "coder.example.com/coder:2.36";
    stage.apply(&json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "CoderProvisioner",
        "metadata": { "name": format!("{namespace}-{PROVISIONER}"), "namespace": namespace },
        "spec": { "server": server, "image": image, "replicas": 2 },
    }))?;
    let object = format!("coderprovisioner/{namespace}-{PROVISIONER}");
    stage.wait(namespace, &object, "condition=Ready")
}

/// One object at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadSnapshot {
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) version: String,
}

/// Every object by kind, namespace and name, except helm's own.
pub(crate) fn snapshot_objects(stage: &Stage) -> Result<BTreeMap<String, WorkloadSnapshot>> {
    let list = stage.kubectl(&["get", KINDS, "-A", "-o", "json"])?;
    let list: Value = serde_json::from_str(&list)?;
    let items = list["items"].as_array().context("no list")?;
    let mut picture = BTreeMap::new();
    for item in items {
        let meta = &item["metadata"];
        let text = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
        let helms = meta["labels"]["app.kubernetes.io/managed-by"] == "Helm";
        if helms || text("namespace") == SYSTEM || text("namespace") == "kube-system" {
            continue;
        }
        let kind = item["kind"].as_str().unwrap_or_default();
        let name = format!("{kind} {}/{}", text("namespace"), text("name"));
        let seen = WorkloadSnapshot {
            uid: text("uid"),
            generation: meta["generation"].as_i64().unwrap_or_default(),
            version: text("resourceVersion"),
        };
        picture.insert(name, seen);
    }
    ensure!(picture.len() > 15, "only {} objects", picture.len());
    Ok(picture)
}
