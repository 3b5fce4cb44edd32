//! A peer that answers frames as an agent does: it echoes, refuses or is down by the name of the target.

use std::net::{Ipv4Addr, SocketAddr};

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_tunnel_protocol::{self as protocol, OriginState, Proof, StreamRefusal, StreamReply, StreamRequest};
use iroh::endpoint::{Builder, Connection, RecvStream, SendStream, VarInt, presets};
use iroh::{Endpoint, SecretKey};
use tokio::sync::watch;

use crate::routing::AgentTarget;

pub(super) struct Peer {
    endpoint: Endpoint,
    session: String,
    pub(super) last_connection: watch::Receiver<Option<Connection>>,
    /// The close code for every connecting gateway, if it drops them.
    drop_code: watch::Sender<Option<u32>>,
    _task: TaskHandle<()>,
}

impl Peer {
    pub(super) async fn start(key: Option<SecretKey>, session: &str) -> Self {
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let endpoint = Builder::new(presets::Minimal)
            .secret_key(key.unwrap_or_else(SecretKey::generate))
            .alpns(vec![protocol::ALPN.to_vec()])
            .clear_ip_transports()
            .bind_addr(address)
            .expect("an address")
            .bind()
            .await
            .expect("loopback");
        let (seen, last) = watch::channel(None);
        let drops = watch::Sender::new(None);
        let accepting = accept(endpoint.clone(), session.to_owned(), seen, drops.subscribe());
        Self {
            endpoint,
            session: session.to_owned(),
            last_connection: last,
            drop_code: drops,
            _task: Tasks::on_runtime().spawn(accepting),
        }
    }

    pub(super) fn target(&self) -> AgentTarget {
        AgentTarget {
            namespace: "a".to_owned(),
            name: "laptop".to_owned(),
            uid: "u1".to_owned(),
            id: self.endpoint.id().to_string(),
            session: self.session.clone(),
            relay: None,
            addresses: self.endpoint.bound_sockets(),
            released: false,
        }
    }

    /// Drops every gateway that connects from now on with `code`, or none.
    pub(super) fn set_drop_code(&self, code: Option<u32>) {
        self.drop_code.send_replace(code);
    }

    /// Ends its newest session.
    pub(super) async fn close(&self, code: u32) {
        let last = self.last_connection.borrow().clone();
        last.expect("there is one").close(VarInt::from_u32(code), b"");
    }

    /// Resolves when its newest session has ended.
    pub(super) async fn wait_disconnected(&self) {
        let last = self.last_connection.borrow().clone();
        last.expect("there is one").closed().await;
    }
}

async fn accept(
    endpoint: Endpoint,
    session: String,
    seen: watch::Sender<Option<Connection>>,
    drops: watch::Receiver<Option<u32>>,
) {
    let mut sessions = tokio::task::JoinSet::new();
    while let Some(incoming) = endpoint.accept().await {
        let Ok(connection) = incoming.await else {
            continue;
        };
        let code = *drops.borrow();
        if let Some(code) = code {
            connection.close(VarInt::from_u32(code), b"");
            continue;
        }
        seen.send_replace(Some(connection.clone()));
        sessions.spawn(serve(connection, session.clone()));
    }
}

async fn serve(connection: Connection, session: String) {
    let mut streams = tokio::task::JoinSet::new();
    while let Ok((send, recv)) = connection.accept_bi().await {
        streams.spawn(answer(send, recv, session.clone()));
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream, own: String) {
    let open = protocol::read_message(&mut recv).await.expect("a message");
    protocol::write_message(&mut send, &reply(open, &own))
        .await
        .expect("written");
    // Echoes until the other side closes.
    let mut bytes = [0; 1024];
    while let Ok(Some(many)) = recv.read(&mut bytes).await {
        if send.write_all(&bytes[..many]).await.is_err() {
            return;
        }
    }
}

fn reply(open: StreamRequest, own: &str) -> StreamReply {
    match open {
        StreamRequest::Dial { connector, .. } if (&*connector.namespace, &*connector.uid) != ("a", "u1") => {
            StreamReply::Refused {
                refusal: StreamRefusal::OtherConnector,
                message: connector.uid,
            }
        }
        StreamRequest::Dial { session, .. } if session != own => StreamReply::Refused {
            refusal: StreamRefusal::OtherSession,
            message: session,
        },
        StreamRequest::Dial { target, .. } if target == "echo:1" => StreamReply::Connected,
        StreamRequest::Dial { target, .. } => StreamReply::Refused {
            refusal: match &*target {
                "hidden:1" => StreamRefusal::NotExposed,
                _ => StreamRefusal::OriginUnreachable,
            },
            message: target,
        },
        StreamRequest::Prove { statement, .. } => StreamReply::Proof(Proof {
            statement,
            gateway: String::new(),
            origin: OriginState::Reachable,
            signature: String::new(),
        }),
    }
}
