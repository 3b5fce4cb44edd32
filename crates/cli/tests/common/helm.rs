//! helm with the charts of this checkout, as the administrator of a real control plane. Shared by several tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use aplomb_controlplane::{ControlPlane, Program};

/// The namespace of the operators.
pub(crate) const SYSTEM: &str = "aplomb-system";
/// A placeholder for the image.
const IMAGE: &str = "image.repository=registry.example.com/aplomb";
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The output of helm; an error with its message if it fails.
pub(crate) fn helm(plane: &ControlPlane, args: &[&str]) -> Result<String> {
    let home = plane.audit_log().with_file_name("helm");
    let output = Command::new(plane.binaries().path(Program::Helm))
        .env("KUBECONFIG", plane.kubeconfig_path())
        .env("HELM_CACHE_HOME", &home)
        .env("HELM_CONFIG_HOME", &home)
        .env("HELM_DATA_HOME", &home)
        .args(args)
        .current_dir(root())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {}: {said}", args.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

/// The manifests of charts/aplomb with these values.
pub(crate) fn rendered(plane: &ControlPlane, values: &[&str]) -> Result<String> {
    let mut args = vec!["template", "aplomb", "charts/aplomb", "--namespace", SYSTEM];
    for value in [IMAGE].iter().chain(values) {
        args.extend(["--set", value]);
    }
    helm(plane, &args)
}
