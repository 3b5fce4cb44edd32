//! The operators installed from the chart with `helm template | kubectl apply`, so that they run with the rights of
//! the chart and no others.

use anyhow::Result;
use aplomb_controlplane::ControlPlane;

use crate::helm::{helm, rendered};
use crate::kubectl::kubectl;

/// The parts that are enabled by default.
const PARTS: [&str; 4] = [
    "operators.tunnel.enabled",
    "operators.coder.enabled",
    "operators.egress.enabled",
    "gateway.enabled",
];

/// Installs the kinds and those parts of the chart, twice: the second time must change nothing, or upgrades would not
/// be safe.
pub(crate) fn install(plane: &ControlPlane, parts: &[&str]) -> Result<()> {
    let on = |part: &str| parts.iter().any(|wanted| part.contains(wanted));
    let values = PARTS.map(|part| format!("{part}={}", on(part)));
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let definitions = helm(plane, &["template", "aplomb-crds", "charts/aplomb-crds"])?;
    kubectl(plane, &["apply", "-f", "-"], &definitions)?;
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "-f", "-"];
    kubectl(plane, &wait, &definitions)?;
    kubectl(plane, &["apply", "-f", "deploy/tunnel/01-namespace.yaml"], "")?;
    let manifests = rendered(plane, &values)?;
    kubectl(plane, &["apply", "-f", "-"], &manifests)?;
    // kubectl diff exits with 1 for a difference.
    kubectl(plane, &["diff", "-f", "-"], &manifests)?;
    Ok(())
}
