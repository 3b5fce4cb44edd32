//! iroh: one session with the agent of each connector that tunnels go through, and streams over it.
//!
//! Whether an agent may be reached is not asked here: only connectors that the routing table names are
//! dialled, by the key that their Connector states.

mod bind;
mod exchange;
mod keeper;
mod key;
mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aplomb::Key;
use aplomb_api::tunnel::LostSession;
use aplomb_api::wire::{Open, Proof, Refusal, Reply, Statement};
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::dial::{DialError, Dialer, Stream};
use crate::table::{ConnectorTarget, Origin, Target};
use crate::world::Wanted;
use exchange::{Broken, Exchange};

pub use bind::{BindError, bind};
pub use keeper::Keeper;
pub use key::{KeyError, secret_key};

/// How long a request waits for a session that is down.
const PATIENCE: Duration = Duration::from_secs(2);

/// Keeps sessions. A test without sockets puts a stand-in here.
pub trait Sessions: Send + Sync + 'static {
    /// Holds sessions with these connectors and no others.
    fn keep(&self, wanted: &BTreeMap<Key, Wanted>);

    /// The connectors whose session has been down for over a second, or was ended by its agent.
    fn lost(&self) -> Vec<LostSession>;

    /// Ends every session.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Dials agents over the sessions of a [`Keeper`].
#[derive(Clone, Debug)]
pub struct AgentDialer(pub Keeper);

impl AgentDialer {
    /// Sends one request, made for the session that is held, on a stream of its own. A session that turns
    /// out to be dead is asked for once more: the agent may have come back on another.
    async fn ask(
        &self,
        origin: &Origin,
        open: impl Fn(&ConnectorTarget) -> Open,
        until: Instant,
    ) -> Result<Exchange, DialError> {
        let Target::Connector(target) = &origin.target else {
            return Err(DialError::Unreachable("it has no connector".to_owned()));
        };
        let key = Key::new(Some(&target.namespace), &target.name);
        let patience = until.min(Instant::now() + PATIENCE);
        let mut dead = None;
        loop {
            let connection = self.0.connection(&key, dead, patience).await;
            let (connection, held) = connection.ok_or(DialError::Offline)?;
            match exchange::ask(&connection, &open(&held), until).await {
                Err(Broken::Connection) if dead.is_none() => dead = Some(connection.stable_id()),
                Err(Broken::Connection) => return Err(DialError::Offline),
                Err(Broken::TimedOut) => return Err(DialError::TimedOut),
                Err(Broken::Protocol(error)) => return Err(DialError::Unreachable(error)),
                Ok(exchange) => return Ok(exchange),
            }
        }
    }
}

impl Dialer for AgentDialer {
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn Stream>, DialError>> {
        Box::pin(async move {
            // A request that waited for a new life of the agent means that one, whatever its table said.
            let open = |held: &ConnectorTarget| Open::Dial {
                connector: held.connector(),
                session: held.session.clone(),
                target: origin.authority.clone(),
                tls: origin.tls.clone(),
            };
            let exchange = self.ask(origin, open, deadline).await?;
            match exchange.reply {
                Reply::Connected => Ok(exchange.into_stream()),
                reply => Err(unexpected(reply)),
            }
        })
    }

    fn prove<'a>(
        &'a self,
        origin: &'a Origin,
        statement: &'a Statement,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>> {
        Box::pin(async move {
            let open = |_: &ConnectorTarget| Open::Prove {
                statement: statement.clone(),
                within: millis_until(deadline),
                target: origin.authority.clone(),
                tls: origin.tls.clone(),
            };
            let exchange = self.ask(origin, open, deadline).await?;
            match exchange.reply {
                Reply::Proof(proof) => Ok(proof),
                reply => Err(unexpected(reply)),
            }
        })
    }
}

fn millis_until(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
}

/// A reply that is not the one that was hoped for.
fn unexpected(reply: Reply) -> DialError {
    match reply {
        Reply::Refused {
            refusal: Refusal::OriginUnreachable,
            message,
        } => DialError::Unreachable(message),
        Reply::Refused { refusal, message } => DialError::Refused(refusal, message),
        Reply::Connected | Reply::Proof(_) => {
            DialError::Unreachable("the agent answered another question".to_owned())
        }
    }
}

/// Dials agents one way and addresses another.
#[derive(Clone)]
pub struct EitherWay {
    /// For connectors.
    pub agents: Arc<dyn Dialer>,
    /// For addresses.
    pub addresses: Arc<dyn Dialer>,
}

impl EitherWay {
    fn of(&self, origin: &Origin) -> &dyn Dialer {
        match origin.target {
            Target::Connector(_) => &*self.agents,
            Target::Addresses(_) => &*self.addresses,
        }
    }
}

impl Dialer for EitherWay {
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn Stream>, DialError>> {
        self.of(origin).dial(origin, deadline)
    }

    fn prove<'a>(
        &'a self,
        origin: &'a Origin,
        statement: &'a Statement,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>> {
        self.of(origin).prove(origin, statement, deadline)
    }
}

impl fmt::Debug for EitherWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EitherWay")
    }
}
