//! Sessions with a peer in the same process: real iroh on loopback, no relays.

mod peer;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use aplomb::{ObjectKey, Tasks};
use aplomb_api::wire::{self, ConnectorId, ProofStatement, StreamRefusal};
use iroh::SecretKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{AgentDialer, AgentSessions, SessionManager, bind, secret_key};
use crate::dial::{DialError, OriginDialer};
use crate::table::{AgentTarget, OriginAddress, OriginTarget};
use crate::world::SessionTarget;
use peer::Peer;

fn loopback() -> Option<SocketAddr> {
    Some((Ipv4Addr::LOCALHOST, 0).into())
}

/// A gateway's side, and how often it reported a session as lost or restored.
struct Side {
    keeper: SessionManager,
    dialer: AgentDialer,
    changes: watch::Receiver<u32>,
}

impl Side {
    async fn new() -> Self {
        let endpoint = bind(SecretKey::generate(), &[], loopback()).await;
        let (told, changes) = watch::channel(0);
        let keeper = SessionManager::new(
            endpoint.expect("loopback"),
            Tasks::on_runtime(),
            move || {
                told.send_modify(|many| *many += 1);
            },
        );
        Self {
            dialer: AgentDialer(keeper.clone()),
            keeper,
            changes,
        }
    }

    fn keep(&self, target: &AgentTarget) {
        self.keep_all(&[target]);
    }

    fn keep_all(&self, targets: &[&AgentTarget]) {
        let wanted = targets.iter().map(|target| {
            let wanted = SessionTarget {
                target: Arc::new((*target).clone()),
                listed: true,
            };
            (
                ObjectKey::new(Some(&target.namespace), &target.name),
                wanted,
            )
        });
        self.keeper.keep(&wanted.collect());
    }

    async fn dial(&self, peer: &AgentTarget, to: &str) -> Result<String, DialError> {
        let origin = origin(peer, to);
        let mut stream = self.dialer.dial(&origin, soon()).await?;
        stream.write_all(b"hello").await.expect("written");
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.expect("echoed");
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn origin(target: &AgentTarget, to: &str) -> OriginTarget {
    OriginTarget {
        target: OriginAddress::Connector(Arc::new(target.clone())),
        authority: to.to_owned(),
        tls: None,
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test]
async fn bytes_go_to_the_target_and_back() {
    let (side, peer) = (Side::new().await, Peer::start(None, "s1").await);
    side.keep(&peer.target());
    assert_eq!(
        side.dial(&peer.target(), "echo:1").await.as_deref(),
        Ok("hello")
    );
}

#[tokio::test]
async fn a_refusal_is_passed_on_and_an_origin_that_is_down_told_apart() {
    let (side, peer) = (Side::new().await, Peer::start(None, "s1").await);
    side.keep(&peer.target());
    let refused = side.dial(&peer.target(), "hidden:1").await;
    assert!(
        matches!(
            refused,
            Err(DialError::Refused(StreamRefusal::NotExposed, _))
        ),
        "{refused:?}"
    );
    let down = side.dial(&peer.target(), "down:1").await;
    assert!(matches!(down, Err(DialError::Unreachable(_))), "{down:?}");
}

#[tokio::test]
async fn who_copies_a_key_and_not_its_session_gets_nothing() {
    let (side, peer) = (Side::new().await, Peer::start(None, "s1").await);
    let mut copied = peer.target();
    copied.session = "made-up".to_owned();
    side.keep(&copied);
    let refused = side.dial(&copied, "echo:1").await;
    assert!(
        matches!(
            refused,
            Err(DialError::Refused(StreamRefusal::OtherSession, _))
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_copied_connector_gets_nothing_and_a_session_of_its_own() {
    let (side, peer) = (Side::new().await, Peer::start(None, "s1").await);
    let own = peer.target();
    let copy = |namespace: &str, name: &str, uid: &str| AgentTarget {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..own.clone()
    };
    side.keep(&own);
    assert!(side.dial(&own, "echo:1").await.is_ok());
    let first = peer.last.borrow().as_ref().map(|it| it.stable_id());
    for other in [copy("b", "laptop", "u2"), copy("a", "desk", "u3")] {
        side.keep_all(&[&own, &other]);
        let refused = side.dial(&other, "echo:1").await;
        assert!(
            matches!(
                refused,
                Err(DialError::Refused(StreamRefusal::OtherConnector, _))
            ),
            "{refused:?}"
        );
        assert!(side.dial(&own, "echo:1").await.is_ok());
        let second = peer.last.borrow().as_ref().map(|it| it.stable_id());
        assert_ne!(first, second, "it has its own session");
    }
}

#[tokio::test]
async fn a_recreated_connector_does_not_inherit_the_session_of_its_name() {
    let (side, peer) = (Side::new().await, Peer::start(None, "s1").await);
    let own = peer.target();
    side.keep(&own);
    assert!(side.dial(&own, "echo:1").await.is_ok());
    let held = peer.last.borrow().clone().expect("a session");
    let second = AgentTarget {
        uid: "u2".to_owned(),
        ..own.clone()
    };
    side.keep(&second);
    // Also for a request that still uses the previous table.
    for target in [&second, &own] {
        let refused = side.dial(target, "echo:1").await;
        assert!(
            matches!(
                refused,
                Err(DialError::Refused(StreamRefusal::OtherConnector, _))
            ),
            "{refused:?}"
        );
    }
    let closed = timeout(Duration::from_secs(5), held.closed()).await;
    closed.expect("the first session was closed");
}

#[tokio::test]
async fn a_proof_comes_over_the_same_session() {
    let (side, peer) = (Side::new().await, Peer::start(None, "s1").await);
    side.keep(&peer.target());
    let statement = ProofStatement {
        nonce: "00".repeat(32),
        tunnel: "uid".to_owned(),
        generation: 1,
        connector: ConnectorId::default(),
        session: "s1".to_owned(),
    };
    let origin = origin(&peer.target(), "echo:1");
    let proof = side
        .dialer
        .prove(&origin, &statement, soon())
        .await
        .expect("a proof");
    assert_eq!(proof.statement, statement);
}

#[tokio::test]
async fn without_a_session_a_request_waits_two_seconds_and_is_told_so() {
    let side = Side::new().await;
    let mut target = Peer::start(None, "s1").await.target();
    target.addresses = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 9))];
    side.keep(&target);
    let began = Instant::now();
    assert_eq!(side.dial(&target, "echo:1").await, Err(DialError::Offline));
    assert!(began.elapsed() >= Duration::from_millis(1900));
    assert_eq!(side.keeper.lost()[0].session, "s1");
    target.released = true;
    side.keep(&target);
    let began = Instant::now();
    assert_eq!(side.dial(&target, "echo:1").await, Err(DialError::Offline));
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "a released session is not awaited"
    );
}

#[tokio::test]
async fn an_agent_that_comes_back_elsewhere_is_found_at_once() {
    let (side, key) = (Side::new().await, SecretKey::generate());
    let first = Peer::start(Some(key.clone()), "s1").await;
    side.keep(&first.target());
    assert!(side.dial(&first.target(), "echo:1").await.is_ok());
    drop(first);
    let second = Peer::start(Some(key), "s2").await;
    let began = Instant::now();
    side.keep(&second.target());
    // Like a request that still uses the table of the first agent session.
    let mut old = second.target();
    old.session = "s1".to_owned();
    assert!(side.dial(&old, "echo:1").await.is_ok());
    println!(
        "the next agent session was reached after {:.1?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_release_is_lost_at_once_and_not_dialled_again() {
    let mut side = Side::new().await;
    let peer = Peer::start(None, "s1").await;
    side.keep(&peer.target());
    assert!(side.dial(&peer.target(), "echo:1").await.is_ok());
    assert_eq!(side.keeper.lost(), []);
    peer.close(wire::RELEASED).await;
    let told = side.changes.wait_for(|many| *many > 0);
    timeout(Duration::from_secs(5), told)
        .await
        .expect("reported")
        .expect("kept");
    assert_eq!(side.keeper.lost()[0].name, "laptop");
    assert_eq!(
        side.dial(&peer.target(), "echo:1").await,
        Err(DialError::Offline)
    );
}

#[tokio::test]
async fn a_released_agent_that_says_where_it_is_now_is_dialled_again() {
    let mut side = Side::new().await;
    let peer = Peer::start(None, "s1").await;
    side.keep(&peer.target());
    assert!(side.dial(&peer.target(), "echo:1").await.is_ok());
    peer.close(wire::RELEASED).await;
    let told = side.changes.wait_for(|many| *many > 0);
    timeout(Duration::from_secs(5), told)
        .await
        .expect("reported")
        .expect("kept");
    let mut moved = peer.target();
    let another = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    moved.addresses.push(another);
    side.keep(&moved);
    let found = side.changes.wait_for(|many| *many > 1);
    timeout(Duration::from_secs(5), found)
        .await
        .expect("reported")
        .expect("kept");
    assert!(side.dial(&moved, "echo:1").await.is_ok());
}

#[tokio::test]
async fn an_agent_that_drops_this_gateway_is_lost_until_it_takes_it_up() {
    let mut side = Side::new().await;
    let peer = Peer::start(None, "s1").await;
    peer.drop_all(Some(wire::UNLISTED));
    side.keep(&peer.target());
    let told = side.changes.wait_for(|many| *many == 1);
    timeout(Duration::from_secs(5), told)
        .await
        .expect("reported")
        .expect("kept");
    assert_eq!(side.keeper.lost().len(), 1);
    peer.drop_all(None);
    assert!(side.dial(&peer.target(), "echo:1").await.is_ok());
    let told = side.changes.wait_for(|many| *many == 2);
    timeout(Duration::from_secs(5), told)
        .await
        .expect("reported")
        .expect("kept");
    assert_eq!(side.keeper.lost(), []);
}

#[tokio::test]
async fn a_session_that_is_not_wanted_is_not_kept() {
    let (side, peer) = (Side::new().await, Peer::start(None, "s1").await);
    side.keep(&peer.target());
    assert!(side.dial(&peer.target(), "echo:1").await.is_ok());
    side.keeper.keep(&BTreeMap::new());
    assert_eq!(
        side.dial(&peer.target(), "echo:1").await,
        Err(DialError::Offline)
    );
    timeout(Duration::from_secs(5), peer.deserted())
        .await
        .expect("the session was dropped");
}

#[test]
fn a_key_is_made_once_and_private() {
    let name = format!("aplomb-gateway-key-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let made = secret_key(Some(&file)).expect("made");
    let mode = std::fs::metadata(&file)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let read = secret_key(Some(&file)).expect("read");
    assert_eq!(read.public(), made.public());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let error = secret_key(Some(&file)).expect_err("the file is readable by other users");
    assert!(error.to_string().contains("chmod 600"), "{error}");
    std::fs::remove_file(&file).expect("removed");
}
