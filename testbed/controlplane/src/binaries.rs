//! Finds the control plane's programs: given, installed, cached, or built.
//!
//! Order: `KUBEBUILDER_ASSETS`, `PATH`, our cache, a build. The first two count only when they
//! are of the pinned releases; a test that passes on another version proves nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::compile;
use crate::versions::{Versions, fingerprint};

/// One program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// Garbage collector, namespace controller and the rest.
    KubeControllerManager,
    /// The command line client.
    Kubectl,
    /// The package manager.
    Helm,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
        Self::Helm,
    ];

    /// File name of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Helm => "helm",
        }
    }

    /// Arguments that make it print its version.
    fn version_args(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            Self::Helm => &["version", "--short"],
            _ => &["--version"],
        }
    }

    fn pinned(self, versions: &Versions) -> &str {
        match self {
            Self::Etcd => versions.etcd.trim_start_matches('v'),
            Self::Helm => &versions.helm,
            _ => &versions.kubernetes,
        }
    }
}

/// Where each program is.
#[derive(Clone, Debug)]
pub struct Binaries {
    paths: Vec<PathBuf>,
    /// The release `versions.yaml` asks for.
    pub versions: Versions,
}

impl Binaries {
    /// Finds all programs without building any.
    ///
    /// # Errors
    /// When one is neither given, installed nor cached.
    pub fn find() -> Result<Self> {
        let versions = Versions::pinned()?;
        let mut places: Vec<PathBuf> = Vec::new();
        places.extend(std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from));
        if let Some(path) = std::env::var_os("PATH") {
            places.extend(std::env::split_paths(&path));
        }
        let cached = cache_dir()?.join("bin");
        let locate = |program: Program| {
            places
                .iter()
                .map(|place| place.join(program.name()))
                .filter(|path| path.is_file())
                .find(|path| has_version(path, program, &versions))
                .or_else(|| Some(cached.join(program.name())).filter(|path| path.is_file()))
                .with_context(|| format!("{} {}", program.name(), program.pinned(&versions)))
        };
        let paths = Program::ALL.into_iter().map(locate).collect::<Result<_>>().context(
            "the control plane is not there: run `make controlplane`, or point KUBEBUILDER_ASSETS \
             at a directory with the programs of the pinned releases",
        )?;
        Ok(Self { paths, versions })
    }

    /// Finds all programs, building into the cache what is missing.
    ///
    /// # Errors
    /// When something is missing and Go is too, or the build fails.
    pub fn find_or_build() -> Result<Self> {
        if let Ok(found) = Self::find() {
            return Ok(found);
        }
        compile::build(&cache_dir()?)?;
        Self::find()
    }

    /// Whether tests can have a control plane here. On a machine without Go and without the
    /// programs the answer is no, said loudly; in CI that is an error, so that nothing is skipped
    /// unseen.
    ///
    /// # Errors
    /// When they cannot and `CI` is `true`.
    #[allow(clippy::print_stderr)]
    pub fn available() -> Result<bool> {
        if Self::find().is_ok() {
            return Ok(true);
        }
        match compile::require_go() {
            Ok(()) => Ok(true),
            Err(error) if std::env::var("CI").is_ok_and(|ci| ci == "true") => Err(error),
            Err(error) => {
                eprintln!("WARNING: nothing is compared with the real kube-apiserver: {error:#}");
                Ok(false)
            }
        }
    }

    /// Path of one program.
    #[must_use]
    pub fn path(&self, program: Program) -> &Path {
        let at = Program::ALL.iter().position(|other| *other == program);
        &self.paths[at.expect("every program is in ALL")]
    }
}

/// The cache directory of exactly these versions, `.../aplomb/controlplane/<hash>`.
///
/// # Errors
/// When neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache_dir() -> Result<PathBuf> {
    Ok(cache_root()?.join(fingerprint()?))
}

/// Where everything this crate builds is kept, `.../aplomb/controlplane`.
pub(crate) fn cache_root() -> Result<PathBuf> {
    let base = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) => PathBuf::from(home).join(".cache"),
        _ => bail!("neither XDG_CACHE_HOME nor HOME is set"),
    };
    Ok(base.join("aplomb").join("controlplane"))
}

fn has_version(path: &Path, program: Program, versions: &Versions) -> bool {
    let Ok(output) = Command::new(path).args(program.version_args()).output() else {
        return false;
    };
    let wanted = program.pinned(versions);
    String::from_utf8_lossy(&output.stdout)
        .split(|c: char| c.is_whitespace() || c == '+')
        .any(|word| word == wanted)
}
