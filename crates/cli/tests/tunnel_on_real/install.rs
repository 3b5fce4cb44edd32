//! The installation by an administrator, and the first agent.

use anyhow::{Result, ensure};

use crate::chart;
use crate::origin::Origin;
use crate::process::Process;
use crate::stage::{AGENT, DOMAIN, GATEWAY, OPERATOR, SYSTEM, Stage};
use crate::{TENANT, Tally};

/// Forbidden rights: ServiceAccount and its namespace, verb, resource, namespace.
const FORBIDDEN_RIGHTS: [(&str, &str, &str, &str, &str); 14] = [
    (OPERATOR, SYSTEM, "get", "secrets", "default"),
    (OPERATOR, SYSTEM, "list", "secrets", SYSTEM),
    (OPERATOR, SYSTEM, "delete", "httpproxies", TENANT),
    (OPERATOR, SYSTEM, "create", "pods", SYSTEM),
    (OPERATOR, SYSTEM, "delete", "nodes", ""),
    (GATEWAY, SYSTEM, "create", "secrets", "default"),
    (GATEWAY, SYSTEM, "patch", "httpproxies", TENANT),
    (GATEWAY, SYSTEM, "patch", "connectors", TENANT),
    (GATEWAY, SYSTEM, "create", "hostnameclaims", ""),
    (AGENT, TENANT, "list", "httpproxies", "default"),
    (AGENT, TENANT, "list", "connectors", SYSTEM),
    (AGENT, TENANT, "get", "secrets", TENANT),
    (AGENT, TENANT, "create", "gateways.gateway.networking.k8s.io", TENANT),
    (AGENT, TENANT, "list", "httpproxies", ""),
];

pub(crate) async fn run(stage: &mut Stage, tally: &mut Tally) -> Result<(Origin, Process)> {
    tally.record("helm template charts/aplomb | kubectl apply -f -", install(stage));
    stage.create_tenant(TENANT)?;
    tally.record("each has the rights it needs, no more", check_bounds(stage));
    tally.record("the samples are valid", apply_samples(stage));
    stage.start_operator()?;
    stage.start_gateway("one")?;
    let ready = async || stage.get_admin("one", "/readyz").await.is_ok();
    let took = stage.wait_until("a gateway is ready", ready).await?;
    println!("        a gateway is ready {took:.1?} after its start");
    let origin = Origin::start(TENANT)?;
    let agent = stage.start_agent(TENANT, TENANT, &origin.port.to_string(), &[])?;
    stage.wait_for(TENANT, "connector/home", "create")?;
    stage.wait_for(TENANT, "connector/home", "condition=Online")?;
    tally.record("the classes are there", check_classes(stage));
    Ok((origin, agent))
}

fn install(stage: &Stage) -> Result<()> {
    // The CRDs of the Gateway API are missing: the operator installs them.
    chart::install(&stage.plane, &["tunnel", "gateway"])?;
    for thing in [OPERATOR, GATEWAY] {
        stage.kubectl(&["get", "deployment,serviceaccount", thing, "-n", SYSTEM])?;
    }
    Ok(())
}

fn check_bounds(stage: &Stage) -> Result<()> {
    for (account, of, verb, resource, namespace) in FORBIDDEN_RIGHTS {
        let subject = format!("--as=system:serviceaccount:{of}:{account}");
        let mut args = vec!["auth", "can-i", verb, resource, &subject];
        match namespace {
            "" => args.push("--all-namespaces"),
            _ => args.extend(["-n", namespace]),
        }
        // kubectl exits with 1 for no.
        ensure!(
            stage.kubectl(&args).is_err(),
            "{account} may {verb} {resource} in {namespace:?}"
        );
    }
    Ok(())
}

/// The samples pass schemas and rules.
fn apply_samples(stage: &Stage) -> Result<()> {
    stage.kubectl(&["apply", "--dry-run=server", "-f", "deploy/tunnel/samples/"])?;
    Ok(())
}

fn check_classes(stage: &Stage) -> Result<()> {
    let class = stage.kubectl(&["get", "gatewayclass,connectorclass", "aplomb", "-o", "name"])?;
    ensure!(class.lines().count() == 2, "{class}");
    let shown = stage.kubectl(&["get", "connectors", "-n", TENANT])?;
    ensure!(shown.contains("True"), "{DOMAIN}: {shown}");
    Ok(())
}
