//! Errors of an agent. Each message states what to do; none contains a secret.

use std::path::PathBuf;

/// The result type of most of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an agent cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file cannot be used.
    #[error("key file {}: {problem}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The problem and its fix.
        problem: String,
    },
    /// The requested name is in use.
    #[error("{0}")]
    NameTaken(String),
    /// A setting is invalid.
    #[error("{0}")]
    InvalidSetting(String),
    /// The API server denied a request: the agent lacks a right, or a CRD is not installed.
    #[error("{0}")]
    Forbidden(String),
    /// A request to the API server failed.
    #[error("cannot {what}: {source}")]
    Api {
        /// The operation.
        what: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// No socket could be bound.
    #[error("cannot listen: {0}")]
    Bind(String),
    /// Another agent has published itself under this name.
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

    /// Whether a retry may succeed.
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
