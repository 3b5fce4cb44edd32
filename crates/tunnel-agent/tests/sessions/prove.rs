//! Proofs: signed for this session and this gateway, and not valid for others.

use anyhow::{Result, bail};
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_protocol::{OriginState, Proof, StreamRefusal, StreamReply, StreamRequest};
use iroh::{PublicKey, Signature};
use tokio::net::TcpListener;

use crate::lab::{Agent, Gateway, SESSION, echo, open, prove, statement};

async fn answer(agent: &Agent, gateway: &Gateway, asked: &StreamRequest) -> Result<StreamReply> {
    let connection = gateway.connect(agent).await?;
    Ok(open(&connection, asked).await?.2)
}

async fn proof(agent: &Agent, gateway: &Gateway, target: &str) -> Result<Proof> {
    match answer(agent, gateway, &prove(SESSION, target)).await? {
        StreamReply::Proof(proof) => Ok(proof),
        other => bail!("no proof: {other:?}"),
    }
}

fn verifies(key: PublicKey, proof: &Proof) -> Result<bool> {
    let digits = proof.signature.as_bytes().chunks(2);
    let bytes = digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    let bytes: Vec<u8> = bytes.collect::<Result<_>>()?;
    let signature = Signature::from_bytes(bytes.as_slice().try_into()?);
    let bytes = Proof::signed_bytes(&proof.statement, &proof.gateway, proof.origin);
    Ok(key.verify(&bytes, &signature).is_ok())
}

#[tokio::test]
async fn a_proof_verifies_and_a_changed_one_does_not() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let proof = proof(&agent, &gateway, &origin).await?;
    assert_eq!(proof.statement, statement(SESSION));
    assert_eq!(proof.gateway, gateway.id());
    assert_eq!(proof.origin, OriginState::Reachable);
    let key = agent.endpoint.id();
    assert!(verifies(key, &proof)?);
    let mut forged = vec![proof.clone(); 8];
    forged[0].statement.nonce = "1f".repeat(32);
    forged[1].statement.tunnel = "another".to_owned();
    forged[2].statement.generation += 1;
    forged[3].statement.session = "another".to_owned();
    forged[4].gateway = key.to_string();
    forged[5].origin = OriginState::Unreachable;
    forged[6].statement.connector.namespace = "mallory".to_owned();
    forged[7].statement.connector.uid = "another".to_owned();
    for forged in &forged {
        assert!(!verifies(key, forged)?, "{forged:?}");
    }
    assert!(!verifies(gateway.0.id(), &proof)?);
    Ok(())
}

#[tokio::test]
async fn a_proof_reports_an_unreachable_origin() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let origin = listener.local_addr()?.to_string();
    drop(listener);
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let proof = proof(&agent, &gateway, &origin).await?;
    assert_eq!(proof.origin, OriginState::Unreachable);
    assert!(verifies(agent.endpoint.id(), &proof)?);
    Ok(())
}

#[tokio::test]
async fn a_statement_about_another_agent_is_not_signed() -> Result<()> {
    let (origin, _serving) = echo().await?;
    let agent = Agent::start(&[&origin], &OriginTlsSettings::default()).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let mut short = prove(SESSION, &origin);
    if let StreamRequest::Prove { statement, .. } = &mut short {
        statement.nonce = "0f".to_owned();
    }
    let mut copied = prove(SESSION, &origin);
    if let StreamRequest::Prove { statement, .. } = &mut copied {
        statement.connector.namespace = "mallory".to_owned();
    }
    for (asked, expected) in [
        (prove("another-life", &origin), StreamRefusal::OtherSession),
        (prove(SESSION, "192.0.2.1:80"), StreamRefusal::NotExposed),
        (short, StreamRefusal::Malformed),
        (copied, StreamRefusal::OtherConnector),
    ] {
        let StreamReply::Refused { refusal, .. } = answer(&agent, &gateway, &asked).await? else {
            bail!("signed");
        };
        assert_eq!(refusal, expected);
    }
    Ok(())
}
