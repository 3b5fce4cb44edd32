//! The rendered charts, and how the API server accepts them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use aplomb_controlplane::{Binaries, Program};
use serde_json::json;

use crate::helm::{SYSTEM, helm, rendered};
use crate::rights::{Account, LOOK, Right};
use crate::stage::Stage;

/// Typical values, by purpose.
const VARIANTS: [(&str, &[&str]); 6] = [
    ("the defaults", &[]),
    (
        "everything",
        &[
            "egressHost.enabled=true",
            "egressHost.stableEgresses={web,api}",
            "monitoring.serviceMonitor.enabled=true",
            "monitoring.prometheusRule.enabled=true",
            "monitoring.dashboard.enabled=true",
            "networkPolicy.adminFrom[0].podSelector.matchLabels.app=prometheus",
            "imagePullSecrets={pull}",
            "gateway.trustedProxies={192.0.2.0/24}",
            "gateway.denyNetworks={198.51.100.0/24,2001:db8::/32}",
            "gateway.service.type=NodePort",
            "operators.egress.hetznerEndpoint=https://cloud.example.com/v1",
            "operators.tunnel.env[0].name=RUST_LOG",
            "operators.tunnel.env[0].value=debug",
        ],
    ),
    (
        "tunnels alone",
        &[
            "operators.coder.enabled=false",
            "operators.egress.enabled=false",
            "operators.tunnel.installGatewayApi=false",
        ],
    ),
    (
        "Coder alone",
        &[
            "operators.tunnel.enabled=false",
            "operators.egress.enabled=false",
            "gateway.enabled=false",
        ],
    ),
    (
        "egress alone",
        &[
            "operators.tunnel.enabled=false",
            "operators.coder.enabled=false",
            "gateway.enabled=false",
            "viewRole.enabled=false",
            "podDisruptionBudget.enabled=false",
            "networkPolicy.enabled=false",
        ],
    ),
    (
        "Coder in one namespace",
        &[
            "operators.tunnel.enabled=false",
            "operators.egress.enabled=false",
            "gateway.enabled=false",
            "operators.coder.watchNamespace=default",
        ],
    ),
];

/// Wrong values, and a word of the message that names the mistake.
const INVALID_VALUES: [(&str, &str); 9] = [
    ("operators.tunel.enabled=true", "tunel"),
    ("operators.tunnel.replicas=0", "replicas"),
    ("operators.tunnel.replicas=two", "replicas"),
    ("operators.coder.watchNamespace=Not_A_Name", "watchNamespace"),
    ("gateway.service.type=Loadbalancer", "type"),
    ("gateway.denyNetworks={example.com}", "denyNetworks"),
    ("image.digest=latest", "digest"),
    ("image.name=aplomb", "name"),
    ("egressHost.enabled=true", "egressHost.stableEgresses"),
];

/// Metrics that are not served before the first failure.
const UNRENDERED_VALUES: [&str; 4] = [
    "aplomb_budget_throttled_total",
    "aplomb_conflicts_total",
    "aplomb_gateway_connections_refused_total",
    "aplomb_gateway_failures_total",
];

pub(crate) fn check_lint(stage: &Stage) -> Result<()> {
    for chart in ["charts/aplomb-crds", "charts/aplomb"] {
        let image = "image.repository=registry.example.com/aplomb";
        let mut args = vec!["lint", "--strict", chart];
        if chart == "charts/aplomb" {
            args.extend(["--set", image]);
        }
        helm(&stage.plane, &args)?;
    }
    Ok(())
}

/// The plain manifests and the CRDs match the chart and `aplomb crds`.
pub(crate) fn check_plain() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = Binaries::find_or_build()?;
    let output = Command::new(root.join("tools/make/charts"))
        .arg("--check")
        .env("HELM", programs.path(Program::Helm))
        .env("APLOMB", env!("CARGO_BIN_EXE_aplomb"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "run `make charts`:\n{said}");
    Ok(())
}

pub(crate) fn check_missing_image(stage: &Stage) -> Result<()> {
    let Err(error) = helm(&stage.plane, &["template", "aplomb", "charts/aplomb"]) else {
        bail!("the chart was rendered without an image");
    };
    let said = error.to_string();
    ensure!(said.contains("--set image.repository="), "{said}");
    Ok(())
}

pub(crate) fn check_refused_values(stage: &Stage) -> Result<()> {
    for (value, word) in INVALID_VALUES {
        let Err(error) = rendered(&stage.plane, &[value]) else {
            bail!("{value} was accepted");
        };
        // The error message repeats the whole command.
        let said = error.to_string();
        let (_, complaint) = said.split_once("Error: ").unwrap_or_default();
        ensure!(complaint.contains(word), "{value}: {complaint}");
    }
    println!("        {} values", INVALID_VALUES.len());
    Ok(())
}

/// An unused right and a forbidden call are both found.
pub(crate) fn check_values_documented() -> Result<()> {
    let used = Right::in_all("", "nodes", "patch");
    let idle = Right::in_all("", "nodes", "delete");
    let mut account = Account::default();
    account.granted.extend([used.clone(), idle.clone()]);
    account.told(&json!({
        "verb": "patch",
        "objectRef": { "resource": "nodes", "name": "a" },
        "annotations": { "authorization.k8s.io/decision": "allow" },
    }));
    ensure!(account.unused().into_iter().eq([&idle]), "{account:?}");
    ensure!(account.missing().is_empty(), "{account:?}");
    ensure!(account.settle("a test", &[]).is_err(), "the right is unused");
    let why = LOOK;
    account.settle("a test", &[("delete nodes", why)])?;
    let void = [("delete nodes", why), ("update nodes", LOOK)];
    ensure!(account.settle("a test", &void).is_err(), "the right is not granted");
    account.told(&json!({
        "verb": "create",
        "objectRef": { "resource": "nodes" },
        "annotations": { "authorization.k8s.io/decision": "forbid" },
    }));
    ensure!(account.missing().len() == 1, "{account:?}");
    Ok(())
}

/// Each variant is accepted in full: no field is unknown to the server, and a second apply changes nothing.
pub(crate) fn check_variants(stage: &Stage) -> Result<()> {
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        stage.apply(&prometheus_crd(kind))?;
    }
    stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all"])?;
    let definitions = ["template", "aplomb-crds", "charts/aplomb-crds"];
    let with_gateways = [&definitions[..], &["--set", "gatewayApi.install=true"]].concat();
    for args in [&definitions[..], &with_gateways] {
        let text = helm(&stage.plane, args)?;
        let strict = ["apply", "--server-side", "--dry-run=server", "--validate=strict"];
        stage.kubectl_with(&[&strict[..], &["-f", "-"]].concat(), &text)?;
    }
    stage.kubectl(&["create", "namespace", SYSTEM])?;
    for (name, values) in VARIANTS {
        let text = rendered(&stage.plane, values).context(name)?;
        let apply = ["apply", "--validate=strict", "-f", "-"];
        let said = stage.kubectl_with(&apply, &text).context(name)?;
        stage.kubectl_with(&["diff", "-f", "-"], &text).context(name)?;
        stage.kubectl_with(&["delete", "-f", "-"], &text).context(name)?;
        println!("        {name}: {} objects", said.lines().count());
    }
    stage.kubectl(&["delete", "namespace", SYSTEM, "--timeout=60s"])?;
    Ok(())
}

/// A CRD with the name of a Prometheus operator kind, so that its objects are accepted.
fn prometheus_crd(kind: &str) -> serde_json::Value {
    let one = kind.to_lowercase();
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{one}s.monitoring.coreos.com") },
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": { "kind": kind, "plural": format!("{one}s"), "singular": one },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// The release's ClusterRole, which is aggregated to `view`.
pub(crate) fn check_view_role(stage: &Stage) -> Result<()> {
    let label = "rbac.authorization.k8s.io/aggregate-to-view=true";
    let found = stage.kubectl(&["get", "clusterrole", "-o", "name", "-l", label])?;
    ensure!(found.contains("aplomb-view"), "{found}");
    let bind = ["create", "clusterrolebinding", "looker"];
    let to = ["--clusterrole=aplomb-view", "--user=looker"];
    stage.kubectl(&[&bind[..], &to].concat())?;
    for definition in aplomb_api::definitions() {
        let name = definition.metadata.name.context("a name")?;
        let may = |verb: &str| stage.kubectl(&["auth", "can-i", verb, &name, "--as=looker", "-A"]);
        for verb in ["get", "list", "watch"] {
            may(verb).with_context(|| format!("{verb} {name}"))?;
        }
        ensure!(may("patch").is_err(), "a viewer may patch {name}");
    }
    let secrets = ["auth", "can-i", "get", "secrets", "--as=looker", "-A"];
    ensure!(stage.kubectl(&secrets).is_err(), "a viewer may read Secrets");
    stage.kubectl(&["delete", "clusterrolebinding", "looker"])?;
    Ok(())
}

/// Every metric in a query of the dashboard is served by a process.
pub(crate) async fn check_dashboard(stage: &Stage) -> Result<()> {
    let served = stage.get_admin("/metrics").await?;
    let types = served.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let served: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    let dashboard = include_str!("../../../../dashboards/aplomb.json");
    let queries = dashboard.lines().filter(|line| line.contains("\"expr\": "));
    let words = queries.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let prefixes = ["aplomb_", "controller_runtime_", "workqueue_", "leader_election_"];
    let named = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
    let mut missing = BTreeSet::new();
    for name in named {
        let ends = ["", "_total", "_bucket"];
        let bare = ends.iter().filter_map(|end| name.strip_suffix(end));
        if !bare.into_iter().any(|name| served.contains(name)) {
            missing.insert(name);
        }
    }
    missing.retain(|name| !UNRENDERED_VALUES.contains(name));
    ensure!(missing.is_empty(), "not served: {missing:?}, served: {served:?}");
    println!("        {} metrics are served", served.len());
    Ok(())
}
