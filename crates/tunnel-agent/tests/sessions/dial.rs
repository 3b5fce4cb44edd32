//! Bytes to an origin and back, and requests that are refused.

use anyhow::{Context, Result, bail};
use aplomb_tunnel_agent::AgentEvent;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_protocol as protocol;
use aplomb_tunnel_protocol::{ALPN, ConnectorId, MAX_FRAME_SIZE, OLD_ALPN, StreamRefusal, StreamReply, StreamRequest};
use tokio::net::TcpListener;

use crate::lab::{Agent, Gateway, SESSION, connector, dial, echo, open, read_to_end};

async fn refusal(agent: &Agent, gateway: &Gateway, asked: &StreamRequest) -> Result<StreamRefusal> {
    let connection = gateway.connect(agent).await?;
    match open(&connection, asked).await?.2 {
        StreamReply::Refused { refusal, .. } => Ok(refusal),
        other => bail!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn bytes_go_both_ways_and_each_way_ends_by_itself() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let connection = gateway.connect(&agent).await?;
    let port = origin.rsplit_once(':').context("a port")?.1;
    let (mut send, mut recv, reply) = open(&connection, &dial(&format!("localhost:{port}"))).await?;
    assert_eq!(reply, StreamReply::Connected);
    send.write_all(&[b'a'; 1 << 20]).await?;
    // The origin sends its last bytes only after the end of ours.
    send.finish()?;
    let got = read_to_end(&mut recv).await?;
    assert_eq!(got.len(), (1 << 20) + b" goodbye".len());
    assert!(got.ends_with(b"a goodbye"));
    Ok(())
}

#[tokio::test]
async fn an_origin_that_breaks_off_does_not_look_like_an_end() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let origin = listener.local_addr()?.to_string();
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let connection = gateway.connect(&agent).await?;
    let (mut send, mut recv, reply) = open(&connection, &dial(&origin)).await?;
    assert_eq!(reply, StreamReply::Connected);
    let (stream, _) = listener.accept().await?;
    // Unread bytes make the close a reset.
    send.write_all(b"unread").await?;
    while stream.peek(&mut [0; 6]).await? == 0 {}
    drop(stream);
    assert!(read_to_end(&mut recv).await.is_err());
    Ok(())
}

#[tokio::test]
async fn another_session_gets_nothing() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    for other in ["", "another-life"] {
        let asked = StreamRequest::Dial {
            connector: connector(),
            session: other.to_owned(),
            target: origin.clone(),
            tls: None,
        };
        let refused = refusal(&agent, &gateway, &asked).await?;
        assert_eq!(refused, StreamRefusal::OtherSession);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_not_exposed_is_not_dialled() -> Result<()> {
    let (exposed, _serving) = echo().await?;
    let (hidden, _hiding) = echo().await?;
    let agent = Agent::start(&[&exposed], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    for target in [hidden.as_str(), "169.254.169.254:80", "nonsense", ""] {
        let said = refusal(&agent, &gateway, &dial(target)).await?;
        assert_eq!(said, StreamRefusal::NotExposed, "{target}");
    }
    Ok(())
}

#[tokio::test]
async fn an_unreachable_origin_is_reported() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let origin = listener.local_addr()?.to_string();
    drop(listener);
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let said = refusal(&agent, &gateway, &dial(&origin)).await?;
    assert_eq!(said, StreamRefusal::OriginUnreachable);
    Ok(())
}

#[tokio::test]
async fn an_invalid_frame_is_refused() -> Result<()> {
    let agent = Agent::start(&[], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let connection = gateway.connect(&agent).await?;
    let too_long = u32::try_from(MAX_FRAME_SIZE + 1)?.to_be_bytes().to_vec();
    for bytes in [too_long, b"\0\0\0\x02{}".to_vec(), b"\0\0\0\x01x".to_vec()] {
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(&bytes).await?;
        let reply = protocol::read_message::<StreamReply>(&mut recv).await?;
        let StreamReply::Refused { refusal, .. } = reply else {
            bail!("not refused: {reply:?}");
        };
        assert_eq!(refusal, StreamRefusal::Malformed);
    }
    Ok(())
}

/// A request that names this Connector.
fn for_connector(namespace: &str, uid: &str, target: &str) -> StreamRequest {
    StreamRequest::Dial {
        connector: ConnectorId {
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
        },
        session: SESSION.to_owned(),
        target: target.to_owned(),
        tls: None,
    }
}

#[tokio::test]
async fn another_connector_gets_nothing_even_with_the_session() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let mut agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let own = connector();
    let another = "5e8d1f6a-3a43-4f0c-8f52-0d1f0c2b9a11";
    let connection = gateway.connect(&agent).await?;
    for (namespace, uid) in [
        ("mallory", own.uid.as_str()),
        (&own.namespace, another),
        ("mallory", another),
        ("", ""),
        (&own.namespace, &own.uid.to_uppercase()),
    ] {
        let asked = for_connector(namespace, uid, &origin);
        let refused = refusal(&agent, &gateway, &asked).await?;
        assert_eq!(refused, StreamRefusal::OtherConnector, "{namespace}/{uid}");
        let (_, _, reply) = open(&connection, &dial(&origin)).await?;
        assert_eq!(reply, StreamReply::Connected, "its own Connector is still served");
    }
    let Some(AgentEvent::Refused { message }) = agent.events.recv().await else {
        bail!("no event was reported");
    };
    assert!(message.contains("\"mallory\""), "{message}");
    assert!(agent.events.try_recv().is_err(), "one event for all of them");
    Ok(())
}

#[tokio::test]
async fn a_gateway_that_names_no_connector_is_refused_with_the_remedy() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let mut agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let statement = r#"{"nonce":"00","tunnel":"t","generation":1,"session":"this-life"}"#;
    let asked = [
        format!(r#"{{"kind":"dial","session":"this-life","target":"{origin}"}}"#),
        format!(r#"{{"kind":"prove","statement":{statement},"target":"{origin}"}}"#),
    ];
    for (alpn, body) in [(ALPN, &asked[0]), (OLD_ALPN, &asked[0]), (OLD_ALPN, &asked[1])] {
        let connection = gateway.0.connect(agent.address(), alpn).await?;
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(&u32::try_from(body.len())?.to_be_bytes()).await?;
        send.write_all(body.as_bytes()).await?;
        match protocol::read_message::<StreamReply>(&mut recv).await? {
            StreamReply::Refused { refusal, message } => {
                assert_eq!(refusal, StreamRefusal::Malformed);
                assert!(message.contains("upgrade the older one"), "{message}");
            }
            other => bail!("not refused: {other:?}"),
        }
    }
    let event = agent.events.recv().await;
    assert!(matches!(event, Some(AgentEvent::Refused { .. })), "{event:?}");
    Ok(())
}
