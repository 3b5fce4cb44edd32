//! Builds the control plane's programs from the Go module registry into the cache.
//!
//! Safe to run from several processes at once (a lock file) and never leaves half a result: the
//! programs are built beside their place and renamed into it. The lock files of the Go modules are
//! never rewritten (`-mod=readonly`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::binaries::Program;
use crate::versions::{Versions, module_dir};

/// Builds everything into `cache/bin`, unless another process did so while we waited.
pub(crate) fn build(cache: &Path) -> Result<()> {
    fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;
    let lock = File::create(cache.join("lock")).context("creating the build lock")?;
    lock.lock().context("waiting for the build lock")?;
    let target = cache.join("bin");
    if Program::ALL.iter().all(|program| target.join(program.name()).is_file()) {
        return Ok(());
    }
    require_go()?;
    let versions = Versions::pinned()?;
    note("building the control plane; from an empty Go cache this takes about 8 minutes");
    let staging = tempfile::Builder::new().prefix("build-").tempdir_in(cache)?;
    for target in targets(&versions) {
        target.build(staging.path())?;
    }
    if target.exists() {
        fs::remove_dir_all(&target).context("removing an incomplete build")?;
    }
    fs::rename(staging.path(), &target).context("moving the programs into place")?;
    note(&format!("built {}", target.display()));
    Ok(())
}

/// One `go build`.
struct Target {
    module: &'static str,
    package: &'static str,
    program: Program,
    variables: Vec<String>,
}

impl Target {
    fn build(&self, into: &Path) -> Result<()> {
        note(&format!("go build {}", self.package));
        let flags = linker_flags(&self.variables);
        let status = go()
            .current_dir(module_dir(self.module))
            .args([
                "build",
                "-mod=readonly",
                "-trimpath",
                "-buildvcs=false",
                "-ldflags",
                &flags,
                "-o",
            ])
            .arg(into.join(self.program.name()))
            .arg(self.package)
            .status()
            .context("starting go build")?;
        ensure!(status.success(), "go build {} failed", self.package);
        Ok(())
    }
}

/// What tells a program of Kubernetes its own release.
pub(crate) fn kubernetes_variables(versions: &Versions) -> Vec<String> {
    let (major, minor) = versions.kubernetes_minor();
    let base = "k8s.io/component-base/version";
    vec![
        format!("{base}.gitVersion={}", versions.kubernetes),
        format!("{base}.gitMajor={major}"),
        format!("{base}.gitMinor={minor}"),
        format!("{base}.gitTreeState=clean"),
    ]
}

fn targets(versions: &Versions) -> Vec<Target> {
    let kubernetes = kubernetes_variables(versions);
    let helm = vec![format!("helm.sh/helm/v3/internal/version.version={}", versions.helm)];
    let commands = [
        ("k8s.io/kubernetes/cmd/kube-apiserver", Program::KubeApiserver),
        (
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            Program::KubeControllerManager,
        ),
        ("k8s.io/kubernetes/cmd/kubectl", Program::Kubectl),
    ];
    let mut all: Vec<Target> = commands
        .into_iter()
        .map(|(package, program)| Target {
            module: "kubernetes",
            package,
            program,
            variables: kubernetes.clone(),
        })
        .collect();
    all.push(Target {
        module: "kubernetes",
        package: "go.etcd.io/etcd/server/v3",
        program: Program::Etcd,
        variables: Vec::new(),
    });
    all.push(Target {
        module: "helm",
        package: "helm.sh/helm/v3/cmd/helm",
        program: Program::Helm,
        variables: helm,
    });
    all
}

/// The directory of the upstream Gateway API definitions, standard channel, as released.
///
/// # Errors
/// When Go is missing or the module cannot be fetched.
pub fn gateway_api_crds() -> Result<PathBuf> {
    require_go()?;
    let output = go()
        .current_dir(module_dir("gateway-api"))
        .args(["mod", "download", "-json", "sigs.k8s.io/gateway-api"])
        .output()
        .context("starting go mod download")?;
    ensure!(
        output.status.success(),
        "go mod download failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let module: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let dir = module["Dir"].as_str().context("go mod download names no directory")?;
    Ok(Path::new(dir).join("config/crd/standard"))
}

/// Whether the Go toolchain is there, with a message that says what to do when it is not.
///
/// # Errors
/// When it is not.
pub fn require_go() -> Result<()> {
    match go().arg("version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => bail!("`go version` failed: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "Go is not installed: the real kube-apiserver is built from source. Install Go 1.26 or \
             newer, or point KUBEBUILDER_ASSETS at a directory with the programs"
        ),
        Err(error) => Err(error).context("starting go"),
    }
}

/// No symbols, and variables set to values.
pub(crate) fn linker_flags(variables: &[String]) -> String {
    let mut flags = "-s -w".to_owned();
    for variable in variables {
        flags.push_str(" -X ");
        flags.push_str(variable);
    }
    flags
}

pub(crate) fn go() -> Command {
    let mut command = Command::new("go");
    let local = [("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0"), ("GOWORK", "off")];
    command.envs(local.map(|(name, value)| (name, OsString::from(value))));
    command
}

#[allow(clippy::print_stderr)]
pub(crate) fn note(text: &str) {
    eprintln!("controlplane: {text}");
}
