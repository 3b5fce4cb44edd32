//! The Gateway API without an HTTPProxy: a Gateway and an HTTPRoute of a user, and what they cannot reach.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::curl::Curl;
use crate::stage::Stage;
use crate::{TENANT, Tally, TestRun};

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record("an HTTPRoute leads to a Connector", check_connector(play).await);
    tally.record(
        "an EndpointSlice cannot lead inside",
        check_service_backend(&play.stage).await,
    );
}

/// A Gateway with one hostname, and a route that leads from it to `backend`.
fn objects(name: &str, hostname: &str, backend: &Value) -> [Value; 2] {
    let meta = json!({ "namespace": TENANT, "name": name });
    let api = "gateway.networking.k8s.io/v1";
    let listener = json!({ "name": "http", "port": 80, "protocol": "HTTP", "hostname": hostname });
    [
        json!({ "apiVersion": api, "kind": "Gateway", "metadata": meta, "spec": {
            "gatewayClassName": "aplomb", "listeners": [listener] } }),
        json!({ "apiVersion": api, "kind": "HTTPRoute", "metadata": meta, "spec": {
            "parentRefs": [{ "name": name }], "hostnames": [hostname],
            "rules": [{ "backendRefs": [backend] }] } }),
    ]
}

async fn check_connector(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let backend = json!({
        "group": "aplomb.dev", "kind": "Connector", "name": TENANT, "port": play.origin.port });
    let hostname = "plain.example.com";
    for object in objects("plain", hostname, &backend) {
        stage.apply(&object)?;
    }
    let ask = || Curl::http(stage.listen_address(), hostname, "/").send();
    let served = async || ask().is_ok_and(|answer| answer.status == 200);
    stage.wait_until("it is served", served).await?;
    ensure!(ask()?.body == "home\n", "{:?}", ask()?);
    stage.kubectl(&["delete", "-n", TENANT, "gateway/plain", "httproute/plain"])?;
    ask()?.expect(404, "UnknownHost")
}

/// The API server rejects a loopback address in a slice, but does not resolve names.
async fn check_service_backend(stage: &Stage) -> Result<()> {
    if stage.hosts.is_none() {
        println!("        !! no mount namespace: NOT tried");
        return Ok(());
    }
    let port: u16 = stage.gateways[0].admin.rsplit(':').next().unwrap_or_default().parse()?;
    stage.apply(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "FQDN",
        "metadata": { "namespace": TENANT, "name": "inside" },
        "endpoints": [{ "addresses": ["inside.example.net"] }],
        "ports": [{ "name": "", "port": port, "protocol": "TCP" }],
    }))?;
    let backend = json!({
        "group": "discovery.k8s.io", "kind": "EndpointSlice", "name": "inside", "port": port });
    let hostname = "slice.example.com";
    for object in objects("inside", hostname, &backend) {
        stage.apply(&object)?;
    }
    let ask = || Curl::http(stage.listen_address(), hostname, "/metrics").send();
    let served = async || ask().is_ok_and(|answer| answer.status != 404);
    stage.wait_until("it is served", served).await?;
    ask()?.expect(403, "Unauthorised")?;
    stage.kubectl(&[
        "delete",
        "-n",
        TENANT,
        "gateway/inside",
        "httproute/inside",
        "endpointslice/inside",
    ])?;
    Ok(())
}
