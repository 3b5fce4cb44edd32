//! A real Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager, and
//! kubectl and helm beside them, of the releases pinned in `versions.yaml`.
//!
//! The programs are built once from the Go module registry into
//! `$XDG_CACHE_HOME/aplomb/controlplane/<hash>/bin`, or taken from `KUBEBUILDER_ASSETS` or `PATH`
//! when those hold the same releases. [`ControlPlane::start`] runs them on loopback with their own
//! certificates; dropping it leaves nothing behind.
//!
//! The command `controlplane` does the same for people and for make:
//!
//! ```text
//! controlplane build   finds or builds the programs; progress on stderr
//! controlplane path    prints the directory of each program, building nothing
//! controlplane up      starts one, prints the path of its kubeconfig, runs until interrupted
//! ```
//!
//! This crate knows nothing of the box or of any operator.
#![forbid(unsafe_code)]

mod binaries;
mod certs;
mod compile;
mod credentials;
mod etcd;
mod options;
mod plane;
mod process;
mod suite;
mod versions;

pub use binaries::{Binaries, Program, cache_dir};
pub use compile::{gateway_api_crds, require_go};
pub use credentials::Tokens;
pub use options::Options;
pub use plane::ControlPlane;
pub use suite::end_to_end_suite;
pub use versions::Versions;
