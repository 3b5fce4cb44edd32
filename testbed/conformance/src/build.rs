//! The binary under test, built beside the program that asks for it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Builds `aplomb` in the profile of this program and says where it is.
///
/// # Errors
/// When it does not build.
pub fn aplomb() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--quiet", "-p", "aplomb-cli"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "aplomb does not build");
    Ok(std::env::current_exe()?.with_file_name("aplomb"))
}
