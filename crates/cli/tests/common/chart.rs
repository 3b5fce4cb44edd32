//! The operators installed from the chart, as `helm template | kubectl apply` does: whoever installs with it runs with
//! the chart's rights and no others.

use anyhow::Result;
use aplomb_controlplane::ControlPlane;

use crate::helm::{helm, rendered};
use crate::kubectl::kubectl;

/// The parts that are on unless they are turned off.
const PARTS: [&str; 4] = [
    "operators.tunnel.enabled",
    "operators.coder.enabled",
    "operators.egress.enabled",
    "gateway.enabled",
];

/// Installs the kinds and those parts of the chart, and again: a second time changes nothing, or an upgrade would not
/// be safe.
pub(crate) fn install(plane: &ControlPlane, parts: &[&str]) -> Result<()> {
    let on = |part: &str| parts.iter().any(|wanted| part.contains(wanted));
    let values = PARTS.map(|part| format!("{part}={}", on(part)));
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let definitions = helm(plane, &["template", "aplomb-crds", "charts/aplomb-crds"])?;
    kubectl(plane, &["apply", "-f", "-"], &definitions)?;
    let wait = [
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "-f",
        "-",
    ];
    kubectl(plane, &wait, &definitions)?;
    kubectl(
        plane,
        &["apply", "-f", "deploy/tunnel/01-namespace.yaml"],
        "",
    )?;
    let manifests = rendered(plane, &values)?;
    kubectl(plane, &["apply", "-f", "-"], &manifests)?;
    // It ends with 1 for a difference.
    kubectl(plane, &["diff", "-f", "-"], &manifests)?;
    Ok(())
}
