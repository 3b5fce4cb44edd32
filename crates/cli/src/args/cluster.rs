//! The flags that select the cluster and the namespace. Contains no logic.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig of the cluster [default: kubectl's, or the pod's ServiceAccount]
    #[arg(long, env = "APLOMB_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, env = "APLOMB_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace [default: that of the kubeconfig's context]
    #[arg(long, short, env = "APLOMB_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}
