//! Kubernetes' own end-to-end suite, built like the programs it is run against.
//!
//! It is large and few runs need it, so it has a module and a place in the cache of its own and is
//! no part of what [`crate::Binaries`] finds.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::binaries::cache_root;
use crate::compile::{go, kubernetes_variables, linker_flags, note, require_go};
use crate::versions::{SUITE, Versions, fingerprint_of, module_dir};

const PACKAGE: &str = "k8s.io/kubernetes/test/e2e";

/// The suite's program, built into the cache when it is not there.
///
/// # Errors
/// When it is not there and Go is missing or the build fails.
pub fn end_to_end_suite() -> Result<PathBuf> {
    let dir = cache_root()?.join(format!("{SUITE}-{}", fingerprint_of(&[SUITE])?));
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let lock = File::create(dir.join("lock")).context("creating the build lock")?;
    lock.lock().context("waiting for the build lock")?;
    let program = dir.join("e2e.test");
    if program.is_file() {
        return Ok(program);
    }
    require_go()?;
    note("building the end-to-end suite; from an empty Go cache this takes about 14 minutes");
    // Built beside its place: half a program must never be taken for a whole one.
    let partial = dir.join("e2e.test.partial");
    let versions = Versions::pinned()?;
    let flags = linker_flags(&kubernetes_variables(&versions));
    let status = go()
        .current_dir(module_dir(SUITE))
        .args(["test", "-c", "-mod=readonly", "-trimpath", "-ldflags", &flags, "-o"])
        .arg(&partial)
        .arg(PACKAGE)
        .status()
        .context("starting go test -c")?;
    ensure!(status.success(), "go test -c {PACKAGE} failed");
    fs::rename(&partial, &program).context("moving the suite into place")?;
    Ok(program)
}
