//! How a request gets a connection to its origin, whatever carries it. A test puts a stand-in here.

use std::fmt;

use aplomb_api::wire::{Proof, ProofStatement, StreamRefusal};
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::table::OriginTarget;

/// The bytes of a connection to an origin.
pub trait OriginStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> OriginStream for T {}

/// Connects to origins.
pub trait OriginDialer: Send + Sync + 'static {
    /// A connection that is used for one origin only. TLS to the origin, where it is asked for, is
    /// inside: the bytes are HTTP.
    fn dial<'a>(
        &'a self,
        origin: &'a OriginTarget,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn OriginStream>, DialError>>;

    /// A proof from the agent of an origin, over the same way.
    fn prove<'a>(
        &'a self,
        origin: &'a OriginTarget,
        statement: &'a ProofStatement,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>>;
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialError {
    /// There is no session with the agent, and none could be had in time.
    Offline,
    /// The agent refuses.
    Refused(StreamRefusal, String),
    /// The origin did not answer.
    Unreachable(String),
    /// The origin's address is one that no tenant may reach from here.
    Forbidden(String),
    /// The deadline passed.
    TimedOut,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline => f.write_str("the connector is offline"),
            Self::Refused(refusal, message) => {
                write!(f, "the agent refuses ({refusal:?}): {message}")
            }
            Self::Unreachable(message) => write!(f, "the origin cannot be reached: {message}"),
            Self::Forbidden(message) => write!(f, "the origin's address is not allowed: {message}"),
            Self::TimedOut => f.write_str("the origin took too long"),
        }
    }
}

impl std::error::Error for DialError {}
