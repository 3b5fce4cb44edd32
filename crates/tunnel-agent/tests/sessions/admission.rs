//! Which gateways are served: listed ones, and for a limited time those removed from the list.

use anyhow::Result;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_protocol::{CLOSE_NOT_ALLOWED, CLOSE_RELEASED, StreamReply};
use tokio::time::Instant;

use crate::lab::{Agent, Gateway, UNLISTED_GRACE, close_code, dial, echo, open, prove};

#[tokio::test]
async fn a_peer_that_is_not_listed_gets_nothing() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let (listed, stranger) = (Gateway::start().await?, Gateway::start().await?);
    agent.allow(&[&listed]);
    for asked in [dial(&origin), prove(crate::lab::SESSION, &origin)] {
        let connection = stranger.connect(&agent).await?;
        assert!(open(&connection, &asked).await.is_err());
        assert_eq!(close_code(&connection).await?, u64::from(CLOSE_NOT_ALLOWED));
    }
    let connection = listed.connect(&agent).await?;
    let (_, _, reply) = open(&connection, &dial(&origin)).await?;
    assert_eq!(reply, StreamReply::Connected);
    Ok(())
}

#[tokio::test]
async fn a_gateway_that_is_listed_just_after_it_came_is_served() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    let connection = gateway.connect(&agent).await?;
    agent.allow(&[&gateway]);
    let (_, _, reply) = open(&connection, &dial(&origin)).await?;
    assert_eq!(reply, StreamReply::Connected);
    Ok(())
}

#[tokio::test]
async fn an_unlisted_gateway_finishes_its_streams_and_is_disconnected() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let (stays, goes) = (Gateway::start().await?, Gateway::start().await?);
    agent.allow(&[&stays, &goes]);
    let (kept, dropped) = (stays.connect(&agent).await?, goes.connect(&agent).await?);
    let streams = (
        open(&kept, &dial(&origin)).await?,
        open(&dropped, &dial(&origin)).await?,
    );
    agent.allow(&[&stays]);
    let delisted = Instant::now();
    let (_, _, reply) = open(&dropped, &dial(&origin)).await?;
    assert_eq!(reply, StreamReply::Connected, "requests in flight can finish");
    assert_eq!(close_code(&dropped).await?, u64::from(CLOSE_NOT_ALLOWED));
    assert!(
        delisted.elapsed() >= UNLISTED_GRACE,
        "the connection was kept for the grace period"
    );
    assert!(kept.close_reason().is_none());
    let (_, _, reply) = open(&kept, &dial(&origin)).await?;
    assert_eq!(reply, StreamReply::Connected);
    drop(streams);
    Ok(())
}

#[tokio::test]
async fn a_stopping_agent_closes_with_its_code() -> Result<()> {
    let agent = Agent::start(&[], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let connection = gateway.connect(&agent).await?;
    let (_, _, reply) = open(&connection, &prove("x", "localhost:1")).await?;
    assert!(matches!(reply, StreamReply::Refused { .. }));
    agent.released.cancel();
    assert_eq!(close_code(&connection).await?, u64::from(CLOSE_RELEASED));
    agent.serving.join().await;
    assert!(agent.endpoint.is_closed());
    Ok(())
}
