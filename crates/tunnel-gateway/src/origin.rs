//! Connects a request to its origin, over any transport. Tests replace it.

pub mod address;
pub mod policy;
pub(crate) mod pool;

use std::fmt;

use aplomb_tunnel_protocol::{Proof, ProofStatement, StreamRefusal};
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::routing::OriginTarget;

/// The byte stream of a connection to an origin.
pub trait OriginStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> OriginStream for T {}

pub trait OriginDialer: Send + Sync + 'static {
    /// Opens a connection to one origin. TLS to the origin, if configured, is already handled: the bytes are HTTP.
    fn dial<'a>(
        &'a self,
        origin: &'a OriginTarget,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn OriginStream>, DialError>>;

    /// Requests a proof from the agent of an origin, over the same path.
    fn prove<'a>(
        &'a self,
        origin: &'a OriginTarget,
        statement: &'a ProofStatement,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialError {
    /// The session with the agent is down and did not come back in time.
    Offline,
    Refused(StreamRefusal, String),
    Unreachable(String),
    /// Tenants may not reach the origin's address from this gateway.
    Forbidden(String),
    TimedOut,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline => f.write_str("the connector is offline"),
            Self::Refused(refusal, message) => {
                write!(f, "the agent refused the request ({refusal:?}): {message}")
            }
            Self::Unreachable(message) => write!(f, "cannot connect to the origin: {message}"),
            Self::Forbidden(message) => write!(f, "the origin's address is not allowed: {message}"),
            Self::TimedOut => f.write_str("timed out connecting to the origin"),
        }
    }
}

impl std::error::Error for DialError {}
