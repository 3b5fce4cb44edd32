//! The flags of `aplomb crds`. Nothing here does anything.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct CrdsArgs {
    /// Which kinds [default: all]
    #[arg(value_name = "KINDS")]
    pub(crate) kinds: Vec<CrdKinds>,
    /// Leave out the Gateway API's kinds
    #[arg(long)]
    pub(crate) without_gateway_api: bool,
    /// Install them in the cluster, and wait until it serves them. Ours are applied; the Gateway API's
    /// are installed where they are missing or older, and left alone where they are not
    #[arg(long)]
    pub(crate) apply: bool,
    /// Kubeconfig of the cluster; in a pod, its ServiceAccount is used without it
    #[arg(
        long,
        env = "APLOMB_KUBECONFIG",
        value_name = "FILE",
        requires = "apply"
    )]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdKinds {
    /// CoderProvisioner and CoderWorkspaceProxy
    Coder,
    /// StableEgress
    Egress,
    /// HTTPProxy, Connector and what belongs to them
    Tunnel,
    /// Gateway, GatewayClass and HTTPRoute
    GatewayApi,
}

impl CrdsArgs {
    /// The kinds asked for, in the order in which they are written.
    pub(crate) fn selected(&self) -> Vec<CrdKinds> {
        let all = [
            CrdKinds::Coder,
            CrdKinds::Egress,
            CrdKinds::Tunnel,
            CrdKinds::GatewayApi,
        ];
        let asked = |kinds: &CrdKinds| self.kinds.is_empty() || self.kinds.contains(kinds);
        let wanted = |kinds: &CrdKinds| *kinds != CrdKinds::GatewayApi || !self.without_gateway_api;
        let chosen = all.into_iter().filter(asked);
        chosen.filter(wanted).collect()
    }
}
