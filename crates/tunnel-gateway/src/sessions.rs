//! iroh: one session with the agent of each connector that tunnels go through, and streams over it.
//!
//! Whether an agent may be reached is not asked here: only connectors that the routing table names are
//! dialed, by the key that their Connector states.

mod endpoint;
mod manager;
mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb_api::tunnel::LostSession;
use aplomb_tunnel_protocol::{Proof, ProofStatement, StreamRefusal, StreamReply, StreamRequest};
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::control::inputs::SessionTarget;
use crate::origin::{DialError, OriginDialer, OriginStream};
use crate::routing::{AgentTarget, OriginAddress, OriginTarget};
use session::{AgentStream, ExchangeError};

pub use endpoint::{BindError, KeyError, bind_endpoint, secret_key};
pub use manager::SessionManager;

/// How long a request waits for a session that is down.
const SESSION_WAIT: Duration = Duration::from_secs(2);

/// Keeps sessions. A test without sockets puts a stand-in here.
pub trait AgentSessions: Send + Sync + 'static {
    /// Holds sessions with these connectors and no others.
    fn set_targets(&self, wanted: &BTreeMap<ObjectKey, SessionTarget>);

    /// The connectors whose session has been down for over a second, or was ended by its agent.
    fn lost_sessions(&self) -> Vec<LostSession>;

    /// Ends every session.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Dials agents over the sessions of a [`SessionManager`].
#[derive(Clone, Debug)]
pub struct AgentDialer(pub SessionManager);

impl AgentDialer {
    /// Sends one request, made for the session that is held, on a stream of its own. A session that turns
    /// out to be dead is asked for once more: the agent may have come back on another.
    async fn open_stream(
        &self,
        origin: &OriginTarget,
        open: impl Fn(&AgentTarget) -> StreamRequest,
        until: Instant,
    ) -> Result<AgentStream, DialError> {
        let OriginAddress::Connector(target) = &origin.target else {
            return Err(DialError::Unreachable("the backend has no connector".to_owned()));
        };
        let key = ObjectKey::new(Some(&target.namespace), &target.name);
        let patience = until.min(Instant::now() + SESSION_WAIT);
        let mut dead = None;
        loop {
            let connection = self.0.connection(&key, dead, patience).await;
            let (connection, held) = connection.ok_or(DialError::Offline)?;
            match session::request(&connection, &open(&held), until).await {
                Err(ExchangeError::Connection) if dead.is_none() => dead = Some(connection.stable_id()),
                Err(ExchangeError::Connection) => return Err(DialError::Offline),
                Err(ExchangeError::TimedOut) => return Err(DialError::TimedOut),
                Err(ExchangeError::Protocol(error)) => return Err(DialError::Unreachable(error)),
                Ok(exchange) => return Ok(exchange),
            }
        }
    }
}

impl OriginDialer for AgentDialer {
    fn dial<'a>(
        &'a self,
        origin: &'a OriginTarget,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn OriginStream>, DialError>> {
        Box::pin(async move {
            // A request that waited for a new life of the agent means that one, whatever its table said.
            let open = |held: &AgentTarget| StreamRequest::Dial {
                connector: held.connector_id(),
                session: held.session.clone(),
                target: origin.authority.clone(),
                tls: origin.tls.clone(),
            };
            let exchange = self.open_stream(origin, open, deadline).await?;
            match exchange.reply {
                StreamReply::Connected => Ok(exchange.into_stream()),
                reply => Err(unexpected_reply(reply)),
            }
        })
    }

    fn prove<'a>(
        &'a self,
        origin: &'a OriginTarget,
        statement: &'a ProofStatement,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>> {
        Box::pin(async move {
            let open = |_: &AgentTarget| StreamRequest::Prove {
                statement: statement.clone(),
                within: millis_until(deadline),
                target: origin.authority.clone(),
                tls: origin.tls.clone(),
            };
            let exchange = self.open_stream(origin, open, deadline).await?;
            match exchange.reply {
                StreamReply::Proof(proof) => Ok(proof),
                reply => Err(unexpected_reply(reply)),
            }
        })
    }
}

fn millis_until(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
}

/// A reply that is not the one that was hoped for.
fn unexpected_reply(reply: StreamReply) -> DialError {
    match reply {
        StreamReply::Refused {
            refusal: StreamRefusal::OriginUnreachable,
            message,
        } => DialError::Unreachable(message),
        StreamReply::Refused { refusal, message } => DialError::Refused(refusal, message),
        StreamReply::Connected | StreamReply::Proof(_) => {
            DialError::Unreachable("the agent sent an unexpected reply".to_owned())
        }
    }
}

/// Dials agents one way and addresses another.
#[derive(Clone)]
pub struct TargetDialer {
    /// For connectors.
    pub agents: Arc<dyn OriginDialer>,
    pub addresses: Arc<dyn OriginDialer>,
}

impl TargetDialer {
    fn dialer_for(&self, origin: &OriginTarget) -> &dyn OriginDialer {
        match origin.target {
            OriginAddress::Connector(_) => &*self.agents,
            OriginAddress::Addresses(_) => &*self.addresses,
        }
    }
}

impl OriginDialer for TargetDialer {
    fn dial<'a>(
        &'a self,
        origin: &'a OriginTarget,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn OriginStream>, DialError>> {
        self.dialer_for(origin).dial(origin, deadline)
    }

    fn prove<'a>(
        &'a self,
        origin: &'a OriginTarget,
        statement: &'a ProofStatement,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>> {
        self.dialer_for(origin).prove(origin, statement, deadline)
    }
}

impl fmt::Debug for TargetDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EitherWay")
    }
}
