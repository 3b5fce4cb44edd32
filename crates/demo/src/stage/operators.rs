//! The three operators, as `aplomb run tunnel coder egress` has them, and the two simulated services
//! that they call in this process, without a socket between.

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
use super::office::Office;
use super::{NAMESPACE, SYSTEM, Start};
use crate::rival::Rival;

/// The floating IP at the provider.
pub(crate) const FLOATING_IP: u64 = 4711;
/// The other clients of the same account there.
pub(crate) const OTHERS: &str = "others";
/// A token of the length that the provider's have; it opens nothing.
const HETZNER_TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000007";
const IDENTITY: &str = "aplomb-demo";

/// coderd, and the Hetzner API with two servers and a floating IP.
pub(super) fn clouds(clock: &Clock) -> Result<(FakeCoderd, FakeHcloud)> {
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

/// The tokens, where operators look for them.
pub(super) async fn secrets(client: &Client) -> Result<()> {
    let all = [
        (SYSTEM, "hcloud", HETZNER_TOKEN),
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

/// Starts the tunnel operator, with the rival between it and the API server.
pub(super) fn tunnels(start: &Start<'_>, client: &Client, office: &Office, rival: &Rival) {
    let (client, stopped) = (rival.before(client), start.stopped());
    let settings = tunnel::Settings {
        identity: IDENTITY.to_owned(),
        admin: Some(office.url()),
        ..tunnel::Settings::default()
    };
    let parts = tunnel::Parts {
        telemetry: office.telemetry.clone(),
        board: office.board.clone(),
        server: Some(office.server.clone()),
        ..tunnel::Parts::real(u64::from(std::process::id()))
    };
    start.part("the tunnel operator", async move {
        Ok(tunnel::run(client, &settings, parts, stopped).await?)
    });
}

/// Starts the Coder operator, and the pods that it orders.
pub(super) fn coder(start: &Start<'_>, client: &Client, office: &Office, coderd: &FakeCoderd) {
    let (of_operator, stopped, service) = (client.clone(), start.stopped(), coderd.service());
    let settings = coder::Settings {
        identity: IDENTITY.to_owned(),
        admin: Some(office.url()),
        ..coder::Settings::default()
    };
    let parts = coder::Parts {
        connect: Arc::new(move |_| Ok(Transport::new(service.clone()))),
        telemetry: office.telemetry.clone(),
        board: office.board.clone(),
        server: Some(office.server.clone()),
        ..coder::Parts::real()
    };
    start.part("the Coder operator", async move {
        Ok(coder::run(of_operator, &settings, parts, stopped).await?)
    });
    let (pods, client, stopped) = (Pods::of(coderd.clone()), client.clone(), start.stopped());
    start.part("the pods of Coder", async move {
        tokio::select! { biased;
            () = stopped => Ok(()),
            () = pods.play(client) => Err(anyhow!("they ended")),
        }
    });
}

/// Starts the egress operator.
pub(super) fn egress(start: &Start<'_>, client: &Client, office: &Office, hetzner: &FakeHcloud) {
    let (client, stopped, service) = (client.clone(), start.stopped(), hetzner.service());
    let settings = egress::Settings {
        identity: IDENTITY.to_owned(),
        admin: Some(office.url()),
        ..egress::Settings::default()
    };
    let parts = egress::Parts {
        connect: Arc::new(move || Transport::new(service.clone())),
        probe: Arc::new(egress::probe::Tcp),
        clock: aplomb::Clock::system(),
        tasks: None,
        telemetry: office.telemetry.clone(),
        board: office.board.clone(),
        server: Some(office.server.clone()),
        egress: egress::telemetry::Egress::default(),
    };
    start.part("the egress operator", async move {
        Ok(egress::run(client, &settings, parts, stopped).await?)
    });
}
