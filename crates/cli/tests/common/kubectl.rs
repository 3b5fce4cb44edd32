//! kubectl as the administrator of a real control plane, in the checkout. Shared by several tests.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use aplomb_controlplane::{ControlPlane, Program};

/// The output of kubectl with `input` on standard input; an error with its message if it fails.
pub(crate) fn kubectl(plane: &ControlPlane, args: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new(plane.binaries().path(Program::Kubectl))
        .arg("--kubeconfig")
        .arg(plane.kubeconfig_path())
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("kubectl has no input")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {}: {said}", args.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}
