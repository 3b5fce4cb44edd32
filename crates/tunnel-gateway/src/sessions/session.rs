//! The session with one agent: dialed at once, watched, and redialed. It reports when it has been down for
//! over a second, and retries for as long as it is needed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aplomb_tunnel_protocol as protocol;
use aplomb_tunnel_protocol::{FrameError, StreamReply, StreamRequest, read_message, write_message};
use iroh::endpoint::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use iroh::{Endpoint, EndpointAddr, EndpointId, RelayUrl};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::control::inputs::SessionTarget;
use crate::origin::OriginStream;
use crate::routing::AgentTarget;

/// The pauses between dials that fail.
const DIAL_DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How long one dial may take: a dead address must not keep a new one waiting.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a session may be down before it counts as lost, and how long one must have lasted for its
/// end to be a new beginning: an agent that does not know this gateway yet takes it up and drops it.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// How long a session that was lost must be up before it counts as found.
const RECOVERED_AFTER: Duration = Duration::from_millis(100);

/// How a session stands.
#[derive(Clone, Debug)]
pub(super) enum SessionState {
    /// There is none.
    Down {
        /// Since when.
        since: Instant,
        /// Its agent ended it on purpose.
        released: bool,
    },
    /// It is there, with this life of the agent, for this Connector and no other.
    Up(Connection, Arc<AgentTarget>),
}

/// What the task of a session and its users share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) target: watch::Sender<SessionTarget>,
    pub(super) state: watch::Sender<SessionState>,
    /// A request waits for the session.
    pub(super) wake: Notify,
    /// It has been down for too long.
    pub(super) lost: AtomicBool,
}

impl Shared {
    pub(super) fn new(wanted: SessionTarget) -> Self {
        let down = SessionState::Down {
            since: Instant::now(),
            released: wanted.target.released,
        };
        Self {
            target: watch::Sender::new(wanted),
            state: watch::Sender::new(down),
            wake: Notify::new(),
            lost: AtomicBool::new(false),
        }
    }

    /// Since when the session is down.
    fn down_since(&self) -> Instant {
        match *self.state.borrow() {
            SessionState::Down { since, .. } => since,
            SessionState::Up(..) => Instant::now(),
        }
    }

    /// Says whether a session that is down was released, since its agent may have come back.
    fn set_released(&self, released: bool) {
        self.state.send_if_modified(|state| match state {
            SessionState::Down { released: said, .. } if *said != released => {
                *state = SessionState::Down {
                    since: Instant::now(),
                    released,
                };
                true
            }
            _ => false,
        });
    }
}

/// Keeps one session until it is dropped. `changed` is called when it is lost or found.
pub(super) async fn run_session(endpoint: Endpoint, shared: Arc<Shared>, changed: Arc<dyn Fn() + Send + Sync>) {
    tokio::select! { biased;
        () = dial_and_hold(&endpoint, &shared) => {}
        () = watch_loss(&shared, &*changed) => {}
    }
}

/// Dials and holds the session.
async fn dial_and_hold(endpoint: &Endpoint, shared: &Shared) {
    let mut wanted = shared.target.subscribe();
    let mut pauses = DialBackoff::new(&wanted.borrow().target.id);
    // The agent session that ended with a release, and its addresses: one that has moved is dialed again.
    let mut gone = None;
    loop {
        let target = wanted.borrow_and_update().target.clone();
        let released = target.released || gone.as_ref() == Some(&session_address(&target));
        shared.set_released(released);
        if released {
            if wanted.changed().await.is_err() {
                return;
            }
            pauses.reset();
            continue;
        }
        let dialled = tokio::select! { biased;
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                pauses.reset();
                continue;
            }
            dialled = dial(endpoint, &target) => dialled,
        };
        match dialled {
            Ok(connection) => match hold_connection(shared, &mut wanted, &target, connection).await {
                SessionEnd::Released => {
                    gone = Some(session_address(&wanted.borrow().target));
                    continue;
                }
                SessionEnd::Broken { at_once: true } => {}
                SessionEnd::Broken { at_once: false } | SessionEnd::TargetChanged => {
                    pauses.reset();
                    continue;
                }
            },
            Err(error) => {
                tracing::debug!(connector = %target_name(&target), %error, "Failed to connect to the agent");
            }
        }
        if !pauses.wait(shared, &mut wanted).await {
            return;
        }
    }
}

/// A life of an agent, and where it is reached.
fn session_address(target: &AgentTarget) -> (String, Vec<SocketAddr>, Option<String>) {
    let (addresses, relay) = (target.addresses.clone(), target.relay.clone());
    (target.session.clone(), addresses, relay)
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionEnd {
    /// Its agent went on purpose.
    Released,
    Broken {
        /// Before it had lasted.
        at_once: bool,
    },
    /// Another life of the agent is wanted.
    TargetChanged,
}

/// Holds a session until it ends or another life of the agent is wanted.
async fn hold_connection(
    shared: &Shared,
    wanted: &mut watch::Receiver<SessionTarget>,
    target: &Arc<AgentTarget>,
    connection: Connection,
) -> SessionEnd {
    tracing::debug!(connector = %target_name(target), "Session established");
    let (before, began) = (shared.down_since(), Instant::now());
    let up = SessionState::Up(connection.clone(), target.clone());
    shared.state.send_replace(up);
    let life = |it: &AgentTarget| (it.connector_id(), it.id.clone(), it.session.clone());
    let end = loop {
        tokio::select! { biased;
            ended = connection.closed() => break match is_release(&ended) {
                true => SessionEnd::Released,
                false => SessionEnd::Broken { at_once: began.elapsed() < LOST_AFTER },
            },
            changed = wanted.changed() => {
                let other = life(&wanted.borrow_and_update().target) != life(target);
                if changed.is_err() || other {
                    connection.close(VarInt::from_u32(0), b"replaced by another session of the agent");
                    connection.closed().await;
                    break SessionEnd::TargetChanged;
                }
            }
        }
    };
    tracing::debug!(connector = %target_name(target), ?end, "Session lost");
    let lasted = end != SessionEnd::Broken { at_once: true };
    shared.state.send_replace(SessionState::Down {
        since: if lasted { Instant::now() } else { before },
        released: end == SessionEnd::Released,
    });
    end
}

fn is_release(ended: &ConnectionError) -> bool {
    matches!(ended, ConnectionError::ApplicationClosed(close)
        if close.error_code == VarInt::from_u32(protocol::CLOSE_RELEASED))
}

async fn dial(endpoint: &Endpoint, target: &AgentTarget) -> Result<Connection, String> {
    let id: EndpointId = target
        .id
        .parse()
        .map_err(|_| "the Connector has no valid key".to_owned())?;
    let mut address = EndpointAddr::new(id);
    for direct in &target.addresses {
        address = address.with_ip_addr(*direct);
    }
    if let Some(relay) = target.relay.as_ref().and_then(|it| it.parse::<RelayUrl>().ok()) {
        address = address.with_relay_url(relay);
    }
    match timeout(DIAL_TIMEOUT, endpoint.connect(address, protocol::ALPN)).await {
        Ok(connected) => connected.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no response within {DIAL_TIMEOUT:?}")),
    }
}

/// Says when the session has been down for too long, and when it is back.
async fn watch_loss(shared: &Shared, changed: &(dyn Fn() + Send + Sync)) {
    let mut state = shared.state.subscribe();
    loop {
        let was = shared.lost.load(Ordering::Acquire);
        let now = Instant::now();
        // What it will be, and when.
        let (lost, due) = match *state.borrow_and_update() {
            SessionState::Up(..) => (false, now + if was { RECOVERED_AFTER } else { Duration::ZERO }),
            SessionState::Down { released: true, .. } => (true, now),
            SessionState::Down { since, .. } => (true, since + LOST_AFTER),
        };
        tokio::select! { biased;
            moved = state.changed() => {
                if moved.is_err() {
                    return;
                }
                continue;
            }
            () = sleep_until(due), if lost != was => {}
        }
        shared.lost.store(lost, Ordering::Release);
        changed();
    }
}

fn target_name(target: &AgentTarget) -> String {
    format!("{}/{}", target.namespace, target.name)
}

/// Growing pauses, each drawn so that many sessions do not dial together.
struct DialBackoff {
    next: Duration,
    draw: fastrand::Rng,
}

impl DialBackoff {
    fn new(seed: &str) -> Self {
        let seed = seed
            .bytes()
            .fold(0_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Self {
            next: DIAL_DELAYS.0,
            draw: fastrand::Rng::with_seed(seed),
        }
    }

    fn reset(&mut self) {
        self.next = DIAL_DELAYS.0;
    }

    /// Waits before the next dial: less if a request waits for the session, not at all if the target changes.
    /// False when the session should end.
    async fn wait(&mut self, shared: &Shared, wanted: &mut watch::Receiver<SessionTarget>) -> bool {
        let pause = self.next.mul_f64(0.5 + 0.5 * self.draw.f64());
        self.next = (self.next * 2).min(DIAL_DELAYS.1);
        sleep(pause.min(DIAL_DELAYS.0)).await;
        tokio::select! { biased;
            changed = wanted.changed() => {
                self.reset();
                changed.is_ok()
            }
            () = shared.wake.notified() => true,
            () = sleep(pause.saturating_sub(DIAL_DELAYS.0)) => true,
        }
    }
}

/// A stream whose agent has answered.
pub(super) struct AgentStream {
    pub(super) reply: StreamReply,
    send: SendStream,
    recv: RecvStream,
}

impl AgentStream {
    /// The rest of the stream: the bytes of the origin.
    pub(super) fn into_stream(self) -> Box<dyn OriginStream> {
        Box::new(tokio::io::join(self.recv, self.send))
    }
}

#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The session is dead.
    Connection,
    TimedOut,
    /// The agent's reply violates the protocol.
    Protocol(String),
}

/// Asks an agent something.
pub(super) async fn request(
    connection: &Connection,
    open: &StreamRequest,
    until: Instant,
) -> Result<AgentStream, ExchangeError> {
    match timeout_at(until, send_and_receive(connection, open)).await {
        Ok(Ok(exchange)) => Ok(exchange),
        Ok(Err(ExchangeError::Protocol(error))) if connection.close_reason().is_none() => {
            Err(ExchangeError::Protocol(error))
        }
        Ok(Err(_)) => Err(ExchangeError::Connection),
        Err(_) => Err(ExchangeError::TimedOut),
    }
}

async fn send_and_receive(connection: &Connection, open: &StreamRequest) -> Result<AgentStream, ExchangeError> {
    let protocol = |error: FrameError| ExchangeError::Protocol(error.to_string());
    let (mut send, mut recv) = connection.open_bi().await.map_err(|_| ExchangeError::Connection)?;
    write_message(&mut send, open).await.map_err(protocol)?;
    send.flush().await.map_err(|error| protocol(error.into()))?;
    let reply = read_message(&mut recv).await.map_err(protocol)?;
    Ok(AgentStream { reply, send, recv })
}
