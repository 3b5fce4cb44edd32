//! Sessions with a peer in the same process: real iroh on loopback, no relays.

mod peer;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use aplomb::{ObjectKey, Tasks};
use aplomb_tunnel_protocol::{self as protocol, ConnectorId, ProofStatement, StreamRefusal};
use iroh::SecretKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{AgentDialer, AgentSessions, SessionManager, bind_endpoint, secret_key};
use crate::control::inputs::SessionTarget;
use crate::origin::{DialError, OriginDialer};
use crate::routing::{AgentTarget, OriginAddress, OriginTarget};
use peer::Peer;

fn loopback() -> Option<SocketAddr> {
    Some((Ipv4Addr::LOCALHOST, 0).into())
}

/// A gateway's side, and how often it reported a session as lost or restored.
struct GatewaySide {
    manager: SessionManager,
    dialer: AgentDialer,
    changes: watch::Receiver<u32>,
}

impl GatewaySide {
    async fn new() -> Self {
        let endpoint = bind_endpoint(SecretKey::generate(), &[], loopback()).await;
        let (told, changes) = watch::channel(0);
        let keeper = SessionManager::new(endpoint.expect("loopback"), Tasks::on_runtime(), move || {
            told.send_modify(|many| *many += 1);
        });
        Self {
            dialer: AgentDialer(keeper.clone()),
            manager: keeper,
            changes,
        }
    }

    fn set_target(&self, target: &AgentTarget) {
        self.set_targets(&[target]);
    }

    fn set_targets(&self, targets: &[&AgentTarget]) {
        let wanted = targets.iter().map(|target| {
            let wanted = SessionTarget {
                target: Arc::new((*target).clone()),
                gateway_listed: true,
            };
            (ObjectKey::new(Some(&target.namespace), &target.name), wanted)
        });
        self.manager.set_targets(&wanted.collect());
    }

    async fn dial(&self, peer: &AgentTarget, to: &str) -> Result<String, DialError> {
        let origin = origin(peer, to);
        let mut stream = self.dialer.dial(&origin, deadline()).await?;
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

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test]
async fn bytes_go_to_the_target_and_back() {
    let (side, peer) = (GatewaySide::new().await, Peer::start(None, "s1").await);
    side.set_target(&peer.target());
    assert_eq!(side.dial(&peer.target(), "echo:1").await.as_deref(), Ok("hello"));
}

#[tokio::test]
async fn a_refusal_and_an_unreachable_origin_are_different_errors() {
    let (side, peer) = (GatewaySide::new().await, Peer::start(None, "s1").await);
    side.set_target(&peer.target());
    let refused = side.dial(&peer.target(), "hidden:1").await;
    assert!(
        matches!(refused, Err(DialError::Refused(StreamRefusal::NotExposed, _))),
        "{refused:?}"
    );
    let down = side.dial(&peer.target(), "down:1").await;
    assert!(matches!(down, Err(DialError::Unreachable(_))), "{down:?}");
}

#[tokio::test]
async fn a_copied_key_without_its_session_gets_nothing() {
    let (side, peer) = (GatewaySide::new().await, Peer::start(None, "s1").await);
    let mut copied = peer.target();
    copied.session = "made-up".to_owned();
    side.set_target(&copied);
    let refused = side.dial(&copied, "echo:1").await;
    assert!(
        matches!(refused, Err(DialError::Refused(StreamRefusal::OtherSession, _))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_copied_connector_gets_nothing_and_a_session_of_its_own() {
    let (side, peer) = (GatewaySide::new().await, Peer::start(None, "s1").await);
    let own = peer.target();
    let copy = |namespace: &str, name: &str, uid: &str| AgentTarget {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..own.clone()
    };
    side.set_target(&own);
    assert!(side.dial(&own, "echo:1").await.is_ok());
    let first = peer.last_connection.borrow().as_ref().map(|it| it.stable_id());
    for other in [copy("b", "laptop", "u2"), copy("a", "desk", "u3")] {
        side.set_targets(&[&own, &other]);
        let refused = side.dial(&other, "echo:1").await;
        assert!(
            matches!(refused, Err(DialError::Refused(StreamRefusal::OtherConnector, _))),
            "{refused:?}"
        );
        assert!(side.dial(&own, "echo:1").await.is_ok());
        let second = peer.last_connection.borrow().as_ref().map(|it| it.stable_id());
        assert_ne!(first, second, "it has its own session");
    }
}

#[tokio::test]
async fn a_recreated_connector_does_not_inherit_the_session_of_its_name() {
    let (side, peer) = (GatewaySide::new().await, Peer::start(None, "s1").await);
    let own = peer.target();
    side.set_target(&own);
    assert!(side.dial(&own, "echo:1").await.is_ok());
    let held = peer.last_connection.borrow().clone().expect("a session");
    let second = AgentTarget {
        uid: "u2".to_owned(),
        ..own.clone()
    };
    side.set_target(&second);
    // Also for a request that still uses the previous table.
    for target in [&second, &own] {
        let refused = side.dial(target, "echo:1").await;
        assert!(
            matches!(refused, Err(DialError::Refused(StreamRefusal::OtherConnector, _))),
            "{refused:?}"
        );
    }
    let closed = timeout(Duration::from_secs(5), held.closed()).await;
    closed.expect("the first session was closed");
}

#[tokio::test]
async fn a_proof_comes_over_the_same_session() {
    let (side, peer) = (GatewaySide::new().await, Peer::start(None, "s1").await);
    side.set_target(&peer.target());
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
        .prove(&origin, &statement, deadline())
        .await
        .expect("a proof");
    assert_eq!(proof.statement, statement);
}

#[tokio::test]
async fn without_a_session_a_request_fails_after_two_seconds() {
    let side = GatewaySide::new().await;
    let mut target = Peer::start(None, "s1").await.target();
    target.addresses = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 9))];
    side.set_target(&target);
    let began = Instant::now();
    assert_eq!(side.dial(&target, "echo:1").await, Err(DialError::Offline));
    assert!(began.elapsed() >= Duration::from_millis(1900));
    assert_eq!(side.manager.lost_sessions()[0].session, "s1");
    target.released = true;
    side.set_target(&target);
    let began = Instant::now();
    assert_eq!(side.dial(&target, "echo:1").await, Err(DialError::Offline));
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "a released session is not awaited"
    );
}

#[tokio::test]
async fn an_agent_with_a_new_address_is_dialed_at_once() {
    let (side, key) = (GatewaySide::new().await, SecretKey::generate());
    let first = Peer::start(Some(key.clone()), "s1").await;
    side.set_target(&first.target());
    assert!(side.dial(&first.target(), "echo:1").await.is_ok());
    drop(first);
    let second = Peer::start(Some(key), "s2").await;
    let began = Instant::now();
    side.set_target(&second.target());
    // Like a request that still uses the table of the first agent session.
    let mut old = second.target();
    old.session = "s1".to_owned();
    assert!(side.dial(&old, "echo:1").await.is_ok());
    println!("the next agent session was reached after {:.1?}", began.elapsed());
}

#[tokio::test]
async fn a_release_is_lost_at_once_and_not_dialled_again() {
    let mut side = GatewaySide::new().await;
    let peer = Peer::start(None, "s1").await;
    side.set_target(&peer.target());
    assert!(side.dial(&peer.target(), "echo:1").await.is_ok());
    assert_eq!(side.manager.lost_sessions(), []);
    peer.close(protocol::CLOSE_RELEASED).await;
    let told = side.changes.wait_for(|many| *many > 0);
    timeout(Duration::from_secs(5), told)
        .await
        .expect("reported")
        .expect("kept");
    assert_eq!(side.manager.lost_sessions()[0].name, "laptop");
    assert_eq!(side.dial(&peer.target(), "echo:1").await, Err(DialError::Offline));
}

#[tokio::test]
async fn a_released_agent_with_new_details_is_dialed_again() {
    let mut side = GatewaySide::new().await;
    let peer = Peer::start(None, "s1").await;
    side.set_target(&peer.target());
    assert!(side.dial(&peer.target(), "echo:1").await.is_ok());
    peer.close(protocol::CLOSE_RELEASED).await;
    let told = side.changes.wait_for(|many| *many > 0);
    timeout(Duration::from_secs(5), told)
        .await
        .expect("reported")
        .expect("kept");
    let mut moved = peer.target();
    let another = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    moved.addresses.push(another);
    side.set_target(&moved);
    let found = side.changes.wait_for(|many| *many > 1);
    timeout(Duration::from_secs(5), found)
        .await
        .expect("reported")
        .expect("kept");
    assert!(side.dial(&moved, "echo:1").await.is_ok());
}

#[tokio::test]
async fn an_agent_that_drops_this_gateway_is_lost_until_it_accepts_again() {
    let mut side = GatewaySide::new().await;
    let peer = Peer::start(None, "s1").await;
    peer.set_drop_code(Some(protocol::CLOSE_NOT_ALLOWED));
    side.set_target(&peer.target());
    let told = side.changes.wait_for(|many| *many == 1);
    timeout(Duration::from_secs(5), told)
        .await
        .expect("reported")
        .expect("kept");
    assert_eq!(side.manager.lost_sessions().len(), 1);
    peer.set_drop_code(None);
    assert!(side.dial(&peer.target(), "echo:1").await.is_ok());
    let told = side.changes.wait_for(|many| *many == 2);
    timeout(Duration::from_secs(5), told)
        .await
        .expect("reported")
        .expect("kept");
    assert_eq!(side.manager.lost_sessions(), []);
}

#[tokio::test]
async fn a_session_that_is_not_wanted_is_not_kept() {
    let (side, peer) = (GatewaySide::new().await, Peer::start(None, "s1").await);
    side.set_target(&peer.target());
    assert!(side.dial(&peer.target(), "echo:1").await.is_ok());
    side.manager.set_targets(&BTreeMap::new());
    assert_eq!(side.dial(&peer.target(), "echo:1").await, Err(DialError::Offline));
    timeout(Duration::from_secs(5), peer.wait_disconnected())
        .await
        .expect("the session was dropped");
}

#[test]
fn a_key_is_made_once_and_private() {
    let name = format!("aplomb-gateway-key-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let made = secret_key(Some(&file)).expect("made");
    let mode = std::fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let read = secret_key(Some(&file)).expect("read");
    assert_eq!(read.public(), made.public());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let error = secret_key(Some(&file)).expect_err("the file is readable by other users");
    assert!(error.to_string().contains("chmod 600"), "{error}");
    std::fs::remove_file(&file).expect("removed");
}
