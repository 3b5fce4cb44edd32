//! Names that are in use, and an agent that is replaced.

use anyhow::{Context, Result, ensure};
use aplomb_api::tunnel::HttpProxy;
use aplomb_tunnel_agent::AgentEvent;
use kube::api::PostParams;
use serde_json::json;

use crate::lab::{Lab, NAME, key, settings};

async fn start_listening(lab: &Lab, wanted: aplomb_tunnel_agent::AgentSettings) -> Result<crate::lab::Agent> {
    let mut agent = lab.agent(wanted);
    agent
        .next_event(|event| matches!(event, AgentEvent::Registered { .. }))
        .await?;
    lab.accept(&[]).await?;
    agent
        .next_event(|event| matches!(event, AgentEvent::Listening { .. }))
        .await?;
    Ok(agent)
}

fn condition(kind: &str, status: &str) -> serde_json::Value {
    json!({
        "type": kind, "status": status, "reason": "Seen", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

#[tokio::test]
async fn a_name_in_use_by_another_key_is_refused() -> Result<()> {
    let lab = Lab::start().await?;
    let first = start_listening(&lab, settings(key())).await?;
    let online = json!({
        "gateways": [], "relays": [], "conditions": [condition("Online", "True")],
    });
    lab.patch_status(online).await?;
    let before = lab.connectors().get(NAME).await?;
    let refused = lab
        .agent(settings(key()))
        .wait_ended()
        .await?
        .expect_err("the name is in use");
    ensure!(
        refused.to_string().contains("in use by another agent on attic"),
        "{refused}"
    );
    ensure!(lab.connectors().get(NAME).await?.status == before.status);
    first.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_replaced_agent_stops_and_keeps_the_lease() -> Result<()> {
    let lab = Lab::start().await?;
    let first = start_listening(&lab, settings(key())).await?;
    let second = start_listening(&lab, settings(key())).await?;
    let replaced = first.wait_ended().await?.expect_err("it was replaced");
    ensure!(replaced.to_string().contains("taken over"), "{replaced}");
    let status = lab.connectors().get(NAME).await?.status.context("a status")?;
    let session = status.connection_details.context("details")?.session;
    lab.wait_lease_holder(&session).await?;
    second.stop().await?;
    Ok(())
}

async fn user_proxy(lab: &Lab, connector: &str) -> Result<HttpProxy> {
    let object = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
        "metadata": { "name": NAME },
        "spec": { "rules": [{ "backends": [{
            "endpoint": "http://localhost:8080", "connector": { "name": connector },
        }] }] },
    });
    let object: HttpProxy = serde_json::from_value(object)?;
    Ok(lab.proxies().create(&PostParams::default(), &object).await?)
}

#[tokio::test]
async fn a_tunnel_that_a_person_made_is_used_as_it_is() -> Result<()> {
    let lab = Lab::start().await?;
    let made = user_proxy(&lab, NAME).await?;
    let agent = start_listening(&lab, settings(key())).await?;
    ensure!(lab.proxies().get(NAME).await? == made);
    agent.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_tunnel_that_leads_elsewhere_is_refused() -> Result<()> {
    let lab = Lab::start().await?;
    let made = user_proxy(&lab, "other").await?;
    let refused = lab
        .agent(settings(key()))
        .wait_ended()
        .await?
        .expect_err("the name is in use");
    ensure!(refused.to_string().contains("has no rule for connector"), "{refused}");
    ensure!(lab.proxies().get(NAME).await? == made);
    Ok(())
}
