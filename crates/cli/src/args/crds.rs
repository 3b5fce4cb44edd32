//! The flags of `aplomb crds`. Contains no logic.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct CrdsArgs {
    /// Kinds to print or install [default: all]
    #[arg(value_name = "KINDS")]
    pub(crate) kinds: Vec<CrdKinds>,
    /// Leave out the kinds of the Gateway API
    #[arg(long)]
    pub(crate) without_gateway_api: bool,
    /// Install them in the cluster, and wait until they are served. The Gateway API is only installed
    /// where it is missing or older
    #[arg(long)]
    pub(crate) apply: bool,
    /// Kubeconfig of the cluster; not needed in a pod with a ServiceAccount
    #[arg(long, env = "APLOMB_KUBECONFIG", value_name = "FILE", requires = "apply")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdKinds {
    /// CoderProvisioner and CoderWorkspaceProxy
    Coder,
    /// StableEgress
    Egress,
    /// HTTPProxy, Connector and related kinds
    Tunnel,
    /// Gateway, GatewayClass and HTTPRoute
    GatewayApi,
}

impl CrdsArgs {
    /// The chosen kinds, in the order in which they are written.
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
