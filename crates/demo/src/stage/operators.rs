//! The three operators of `aplomb run tunnel coder egress`, and the two simulated services that they
//! call, in this process and without a socket.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use aplomb_apimachinery::clock::Clock;
use aplomb_coder_operator as coder;
use aplomb_egress_operator as egress;
use aplomb_fake_services::coderd::{self, FakeCoderd, OWNER_TOKEN, Pods};
use aplomb_fake_services::hcloud::{self, FakeHcloud};
use aplomb_http_client::Transport;
use aplomb_tunnel_operator as tunnel;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use super::nodes::{IP_NAME, NODES};
use super::{AdminPage, NAMESPACE, SYSTEM_NAMESPACE, Start};
use crate::rival_writer::RivalWriter;

/// The ID of the floating IP at the provider.
pub(crate) const FLOATING_IP: u64 = 4711;
/// The other clients of the same provider account.
pub(crate) const OTHER_CLIENTS: &str = "others";
/// A placeholder with the length of a real token.
const HETZNER_TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000007";
const IDENTITY: &str = "aplomb-demo";

/// coderd, and the Hetzner API with two servers and a floating IP.
pub(super) fn start_simulators(clock: &Clock) -> Result<(FakeCoderd, FakeHcloud)> {
    let seed = clock.below(u64::MAX);
    let coderd = FakeCoderd::new(coderd::Config::new(clock.clone(), seed, OWNER_TOKEN));
    let hetzner = FakeHcloud::new(hcloud::Config::new(clock.clone(), seed, HETZNER_TOKEN));
    let servers = NODES.map(|(name, id)| json!({ "id": id, "name": name }));
    let state = json!({
        "servers": servers,
        "floating_ips": [
            { "id": FLOATING_IP, "name": IP_NAME, "ip": "192.0.2.10", "server": null },
        ],
    });
    let change = serde_json::from_value(state)?;
    hetzner.change(change).map_err(|why| anyhow!(why))?;
    Ok((coderd, hetzner))
}

/// The token Secrets that the operators read.
pub(super) async fn create_secrets(client: &Client) -> Result<()> {
    let all = [
        (SYSTEM_NAMESPACE, "hcloud", HETZNER_TOKEN),
        (NAMESPACE, "coder-token", OWNER_TOKEN),
    ];
    for (namespace, name, token) in all {
        let servers = json!({ "coder.aplomb.dev/servers": "https://coder.example.com" });
        let metadata = json!({ "name": name, "annotations": servers });
        let secret = json!({ "metadata": metadata, "stringData": { "token": token } });
        let secret: Secret = serde_json::from_value(secret)?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        secrets.create(&PostParams::default(), &secret).await?;
    }
    Ok(())
}

/// Starts the tunnel operator, with the other writer between it and the API server.
pub(super) fn start_tunnel_operator(start: &Start<'_>, client: &Client, admin: &AdminPage, rival: &RivalWriter) {
    let (client, stopped) = (rival.wrap_client(client), start.until_stopped());
    let settings = tunnel::TunnelSettings {
        identity: IDENTITY.to_owned(),
        admin: Some(admin.url()),
        ..tunnel::TunnelSettings::default()
    };
    let parts = tunnel::TunnelDeps {
        telemetry: admin.telemetry.clone(),
        admin: admin.board.clone(),
        server: Some(admin.server.clone()),
        ..tunnel::TunnelDeps::production(u64::from(std::process::id()))
    };
    start.spawn_part("the tunnel operator", async move {
        Ok(tunnel::run(client, &settings, parts, stopped).await?)
    });
}

/// Starts the Coder operator, and simulates its pods.
pub(super) fn start_coder_operator(start: &Start<'_>, client: &Client, admin: &AdminPage, coderd: &FakeCoderd) {
    let (of_operator, stopped, service) = (client.clone(), start.until_stopped(), coderd.service());
    let settings = coder::CoderSettings {
        identity: IDENTITY.to_owned(),
        admin: Some(admin.url()),
        ..coder::CoderSettings::default()
    };
    let parts = coder::CoderDeps {
        connect: Arc::new(move |_| Ok(Transport::new(service.clone()))),
        telemetry: admin.telemetry.clone(),
        admin_registry: admin.board.clone(),
        api_limits: Some(admin.server.clone()),
        ..coder::CoderDeps::production()
    };
    start.spawn_part("the Coder operator", async move {
        Ok(coder::run(of_operator, &settings, parts, stopped).await?)
    });
    let (pods, client, stopped) = (Pods::of(coderd.clone()), client.clone(), start.until_stopped());
    start.spawn_part("the pods of Coder", async move {
        tokio::select! { biased;
            () = stopped => Ok(()),
            () = pods.play(client) => Err(anyhow!("the pod simulator stopped")),
        }
    });
}

pub(super) fn start_egress_operator(start: &Start<'_>, client: &Client, admin: &AdminPage, hetzner: &FakeHcloud) {
    let (client, stopped, service) = (client.clone(), start.until_stopped(), hetzner.service());
    let settings = egress::EgressSettings {
        identity: IDENTITY.to_owned(),
        admin: Some(admin.url()),
        ..egress::EgressSettings::default()
    };
    let parts = egress::EgressDeps {
        connect: Arc::new(move || Transport::new(service.clone())),
        probe: Arc::new(egress::probe::TcpProbe),
        clock: aplomb::Clock::system(),
        tasks: None,
        telemetry: admin.telemetry.clone(),
        admin_registry: admin.board.clone(),
        api_limits: Some(admin.server.clone()),
        egress: egress::telemetry::EgressMetrics::default(),
    };
    start.spawn_part("the egress operator", async move {
        Ok(egress::run(client, &settings, parts, stopped).await?)
    });
}
