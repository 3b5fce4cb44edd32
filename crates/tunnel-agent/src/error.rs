//! Why an agent cannot start or go on. Each text says what to do; none has a secret in it.

use std::path::PathBuf;

/// The result of most of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an agent cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of the key cannot be used.
    #[error("key file {}: {problem}", file.display())]
    Key {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// Something else has the name that was asked for.
    #[error("{0}")]
    NameTaken(String),
    /// A setting cannot work.
    #[error("{0}")]
    InvalidSetting(String),
    /// The API server refuses: the agent lacks a right, or a kind is not installed.
    #[error("{0}")]
    Forbidden(String),
    /// The API server refuses, or cannot be reached.
    #[error("cannot {what}: {source}")]
    Api {
        /// What was tried.
        what: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// No socket could be bound.
    #[error("cannot listen: {0}")]
    Bind(String),
    /// Another agent has published itself under this name.
    #[error(
        "connector {0} was taken over by another agent; give each agent a --name and a key of its own"
    )]
    Replaced(String),
    /// The Connector or the HTTPProxy was deleted while the agent ran.
    #[error("{0} was deleted")]
    Deleted(String),
}

impl Error {
    /// An answer of the API server, with what it takes to mend the usual ones.
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
                    "cannot {what}: this cluster does not know the kind; install it with \
                     `aplomb crds --apply`"
                ))
            }
            _ => Self::Api {
                what: what.to_owned(),
                source: Box::new(source),
            },
        }
    }

    /// Whether the same may work in a moment.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) => {
                    status.code == 409 || status.code == 429 || status.code >= 500
                }
                _ => true,
            },
            _ => false,
        }
    }
}
