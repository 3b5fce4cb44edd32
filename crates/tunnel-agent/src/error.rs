//! Errors of an agent. Each message states what to do; none contains a secret.

use std::path::PathBuf;

/// The result type of most of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("key file {}: {problem}", file.display())]
    Key { file: PathBuf, problem: String },
    #[error("{0}")]
    NameTaken(String),
    #[error("{0}")]
    InvalidSetting(String),
    /// The API server denied a request: the agent lacks a right, or a CRD is not installed.
    #[error("{0}")]
    Forbidden(String),
    #[error("cannot {what}: {source}")]
    Api {
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot listen: {0}")]
    Bind(String),
    #[error("connector {0} was taken over by another agent; give each agent its own --name and key")]
    Replaced(String),
    /// The Connector or the HTTPProxy was deleted while the agent ran.
    #[error("{0} was deleted")]
    Deleted(String),
}

impl Error {
    /// An error of the API server, with instructions for the common ones.
    #[must_use]
    pub fn api(what: &str, namespace: &str, source: kube::Error) -> Self {
        match &source {
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden(format!(
                "cannot {what}: {}; an agent needs the Role aplomb-agent in namespace {namespace}: \
                 bind it to this identity (see deploy/tunnel/samples/agent-rbac.yaml)",
                status.message
            )),
            kube::Error::Api(status) if status.code == 404 && !status.message.contains('"') => {
                Self::Forbidden(format!(
                    "cannot {what}: the tunnel CRDs are not installed; install them with \
                     `aplomb crds --apply`"
                ))
            }
            _ => Self::Api {
                what: what.to_owned(),
                source: Box::new(source),
            },
        }
    }

    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) => status.code == 409 || status.code == 429 || status.code >= 500,
                _ => true,
            },
            _ => false,
        }
    }
}
