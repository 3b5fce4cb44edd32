//! One agent session: it registers, is accepted, listens, renews its lease, reports events, and shuts down.

use anyhow::{Context, Result, ensure};
use aplomb_tunnel_agent::AgentEvent;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::lab::{Lab, NAME, key, settings};

#[tokio::test]
async fn an_agent_registers_listens_and_releases() -> Result<()> {
    let lab = Lab::start().await?;
    let mut agent = lab.agent(settings(key()));
    let registered = agent
        .next_event(|event| matches!(event, AgentEvent::Registered { .. }))
        .await?;
    let AgentEvent::Registered { session, .. } = registered else {
        unreachable!("requested above");
    };
    lab.accept(&[]).await?;
    agent
        .next_event(|event| matches!(event, AgentEvent::Listening { .. }))
        .await?;
    let status = lab.connectors().get(NAME).await?.status.context("a status")?;
    let details = status.connection_details.context("details")?;
    ensure!(details.session == session);
    let addresses = details.public_key.addresses;
    ensure!(
        addresses.len() == 1 && addresses[0].address == "127.0.0.1",
        "{addresses:?}"
    );
    lab.wait_lease_holder(&session).await?;
    let endpoint = &lab.proxies().get(NAME).await?.spec.rules[0].backends[0].endpoint;
    ensure!(endpoint.as_deref() == Some("http://localhost:3000"));
    ensure!(agent.stop().await?.contains(&AgentEvent::Released));
    lab.wait_lease_holder("").await?;
    lab.proxies().get(NAME).await?;
    Ok(())
}

#[tokio::test]
async fn the_stages_of_its_tunnel_are_reported() -> Result<()> {
    let lab = Lab::start().await?;
    let mut agent = lab.agent(settings(key()));
    agent
        .next_event(|event| matches!(event, AgentEvent::Registered { .. }))
        .await?;
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": kind, "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let patch = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
        "status": {
            "hostname": "web.example.com",
            "conditions": [condition("Programmed"), condition("Ready")],
        },
    });
    let params = PatchParams::apply("aplomb-tunnel").force();
    let patched = lab.proxies();
    patched.patch_status(NAME, &params, &Patch::Apply(&patch)).await?;
    agent.next_event(|event| *event == AgentEvent::Programmed).await?;
    let proven = agent
        .next_event(|event| matches!(event, AgentEvent::Proven { .. }))
        .await?;
    let url = "http://web.example.com".to_owned();
    ensure!(proven == AgentEvent::Proven { url });
    agent.stop().await?;
    Ok(())
}

#[tokio::test]
async fn an_agent_with_delete_on_exit_leaves_nothing() -> Result<()> {
    let lab = Lab::start().await?;
    let mut wanted = settings(key());
    wanted.delete_on_exit = true;
    let mut agent = lab.agent(wanted);
    agent
        .next_event(|event| matches!(event, AgentEvent::Registered { .. }))
        .await?;
    agent.stop().await?;
    ensure!(lab.proxies().get_opt(NAME).await?.is_none());
    ensure!(lab.connectors().get_opt(NAME).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn an_agent_whose_objects_are_deleted_ends() -> Result<()> {
    for proxy in [true, false] {
        let lab = Lab::start().await?;
        let mut agent = lab.agent(settings(key()));
        agent
            .next_event(|event| matches!(event, AgentEvent::Registered { .. }))
            .await?;
        let params = DeleteParams::default();
        match proxy {
            true => drop(lab.proxies().delete(NAME, &params).await?),
            false => drop(lab.connectors().delete(NAME, &params).await?),
        }
        agent
            .next_event(|event| matches!(event, AgentEvent::Deleted { .. }))
            .await?;
        let error = agent.wait_ended().await?.expect_err("its object was deleted");
        ensure!(error.to_string().contains("was deleted"), "{error}");
    }
    Ok(())
}
