//! The installation by an administrator, and the first agent.

use anyhow::{Result, ensure};

use crate::chart;
use crate::origin::Origin;
use crate::process::Process;
use crate::stage::{AGENT, DOMAIN, GATEWAY, OPERATOR, SYSTEM, Stage};
use crate::{HOME, Tally};

/// Forbidden rights: ServiceAccount and its namespace, verb, resource, namespace.
const NEVER: [(&str, &str, &str, &str, &str); 14] = [
    (OPERATOR, SYSTEM, "get", "secrets", "default"),
    (OPERATOR, SYSTEM, "list", "secrets", SYSTEM),
    (OPERATOR, SYSTEM, "delete", "httpproxies", HOME),
    (OPERATOR, SYSTEM, "create", "pods", SYSTEM),
    (OPERATOR, SYSTEM, "delete", "nodes", ""),
    (GATEWAY, SYSTEM, "create", "secrets", "default"),
    (GATEWAY, SYSTEM, "patch", "httpproxies", HOME),
    (GATEWAY, SYSTEM, "patch", "connectors", HOME),
    (GATEWAY, SYSTEM, "create", "hostnameclaims", ""),
    (AGENT, HOME, "list", "httpproxies", "default"),
    (AGENT, HOME, "list", "connectors", SYSTEM),
    (AGENT, HOME, "get", "secrets", HOME),
    (
        AGENT,
        HOME,
        "create",
        "gateways.gateway.networking.k8s.io",
        HOME,
    ),
    (AGENT, HOME, "list", "httpproxies", ""),
];

pub(crate) async fn act(stage: &mut Stage, tally: &mut Tally) -> Result<(Origin, Process)> {
    tally.note(
        "helm template charts/aplomb | kubectl apply -f -",
        install(stage),
    );
    stage.tenant(HOME)?;
    tally.note("each has the rights it needs, no more", bounds(stage));
    tally.note("the samples are valid", samples(stage));
    stage.operate()?;
    stage.gateway("one")?;
    let ready = async || stage.admin("one", "/readyz").await.is_ok();
    let took = stage.eventually("a gateway is ready", ready).await?;
    println!("        a gateway is ready {took:.1?} after its start");
    let origin = Origin::start(HOME)?;
    let agent = stage.agent(HOME, HOME, &origin.port.to_string(), &[])?;
    stage.wait(HOME, "connector/home", "create")?;
    stage.wait(HOME, "connector/home", "condition=Online")?;
    tally.note("the classes are there", classes(stage));
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

fn bounds(stage: &Stage) -> Result<()> {
    for (account, of, verb, resource, namespace) in NEVER {
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
fn samples(stage: &Stage) -> Result<()> {
    stage.kubectl(&["apply", "--dry-run=server", "-f", "deploy/tunnel/samples/"])?;
    Ok(())
}

fn classes(stage: &Stage) -> Result<()> {
    let class = stage.kubectl(&["get", "gatewayclass,connectorclass", "aplomb", "-o", "name"])?;
    ensure!(class.lines().count() == 2, "{class}");
    let shown = stage.kubectl(&["get", "connectors", "-n", HOME])?;
    ensure!(shown.contains("True"), "{DOMAIN}: {shown}");
    Ok(())
}
