//! Isolation: between tenants, of the gateway, and of agents.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::{tunnel, with_rules};
use crate::peer;
use crate::stage::Stage;
use crate::{TENANT, Tally, TestRun};

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record(
        "a tenant's bad route does not affect other traffic",
        check_invalid_route(play).await,
    );
    tally.record("a second claim of a hostname is rejected", check_claims(play).await);
    tally.record(
        "a platform hostname cannot be claimed",
        check_reserved_hostname(&play.stage).await,
    );
    tally.record(
        "a backend at loopback or metadata is rejected",
        check_addresses(&play.stage).await,
    );
    tally.record(
        "an unlisted iroh peer gets nothing",
        peer::check_unlisted_peer(&play.stage).await,
    );
}

async fn check_invalid_route(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let hostname = "good.example.com";
    stage.apply(&tunnel(TENANT, "good", hostname, TENANT, &play.endpoint()))?;
    stage.wait_for(TENANT, "hp/good", "condition=Ready")?;
    let prober = stage.start_prober(TENANT, "good", hostname)?;
    stage.create_tenant("bad")?;
    for object in invalid_objects() {
        // The schema may reject some of them, which is as good.
        let _refused = stage.apply(&object);
    }
    let told = async || {
        let all = stage.kubectl(&["get", "gwr", "-A", "-o", "jsonpath={.items[*].spec.quarantined}"]);
        all.is_ok_and(|text| text.contains("\"bad\""))
    };
    stage.wait_until("the bad route is reported", told).await?;
    stage.apply(&tunnel(
        "bad",
        "fine",
        "fine.example.com",
        "missing",
        "http://localhost:9",
    ))?;
    let next = tunnel(TENANT, "next", "next.example.com", TENANT, &play.endpoint());
    stage.apply(&next)?;
    stage.wait_for(TENANT, "hp/next", "condition=Ready")?;
    let verdict = prober.finish()?;
    ensure!(verdict.failures == 0, "{} requests failed", verdict.failures);
    stage.kubectl(&["delete", "namespace", "bad", "--wait=false"])?;
    stage.kubectl(&["delete", "-n", TENANT, "hp/good", "hp/next"])?;
    Ok(())
}

/// Gateway API objects with one error each.
fn invalid_objects() -> Vec<Value> {
    let meta = |name: &str| json!({ "namespace": "bad", "name": name });
    let api = "gateway.networking.k8s.io/v1";
    let gateway = json!({ "apiVersion": api, "kind": "Gateway", "metadata": meta("bad"), "spec": {
        "gatewayClassName": "aplomb",
        "listeners": [
            { "name": "a", "port": 80, "protocol": "HTTP", "hostname": "bad.example.com" },
            { "name": "b", "port": 81, "protocol": "HTTP", "hostname": "good.example.com" },
        ] } });
    let route = |name: &str, rule: Value| {
        json!({ "apiVersion": api, "kind": "HTTPRoute", "metadata": meta(name), "spec": {
            "parentRefs": [{ "name": "bad" }], "hostnames": ["bad.example.com"], "rules": [rule] } })
    };
    let regex = json!([{ "path": { "type": "RegularExpression", "value": "/(((" } }]);
    let backend = json!([{ "kind": "Service", "name": "none", "port": 80 }]);
    vec![
        gateway,
        route("regex", json!({ "matches": regex, "backendRefs": backend })),
        route("backend", json!({ "backendRefs": backend })),
    ]
}

async fn check_claims(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let hostname = "claimed.example.com";
    stage.apply(&tunnel(TENANT, "first", hostname, TENANT, &play.endpoint()))?;
    stage.wait_for(TENANT, "hp/first", "condition=Ready")?;
    stage.create_tenant("second")?;
    let prober = stage.start_prober(TENANT, "first", hostname)?;
    for (namespace, claimant) in [("second", "another namespace"), (TENANT, "home/first")] {
        stage.apply(&tunnel(namespace, "thief", hostname, TENANT, &play.endpoint()))?;
        let path = ".status.conditions[?(@.type==\"HostnamesInUse\")].message";
        let told = async || {
            stage
                .read_field(namespace, "hp/thief", path)
                .is_ok_and(|said| said.contains(claimant))
        };
        stage
            .wait_until(&format!("the hostname is reported as {claimant}'s"), told)
            .await?;
    }
    let verdict = prober.finish()?;
    ensure!(verdict.failures == 0, "{} requests failed", verdict.failures);
    // A deleted claimant frees its hostname for the next one. The first to claim it wins, so
    // only one claimant is left.
    stage.kubectl(&["delete", "-n", "second", "hp/thief"])?;
    stage.kubectl(&["delete", "-n", TENANT, "hp/first"])?;
    let began = Instant::now();
    stage.wait_for(TENANT, "hp/thief", "condition=Ready")?;
    println!("        the next claimant is Ready {:.1?} later", began.elapsed());
    stage.kubectl(&["delete", "-n", TENANT, "hp/thief"])?;
    stage.kubectl(&["delete", "namespace", "second", "--wait=false"])?;
    Ok(())
}

async fn check_reserved_hostname(stage: &Stage) -> Result<()> {
    let theirs = stage.read_field(TENANT, "hp/home", ".status.canonicalHostname")?;
    stage.apply(&tunnel(TENANT, "squatter", &theirs, TENANT, "http://localhost:9"))?;
    let path = ".status.hostnameStatuses[*].reason";
    let told = async || {
        stage
            .read_field(TENANT, "hp/squatter", path)
            .is_ok_and(|said| said.contains("HostnameReserved"))
    };
    stage.wait_until("the hostname is reported as reserved", told).await?;
    stage.kubectl(&["delete", "-n", TENANT, "hp/squatter"])?;
    Ok(())
}

/// Names and addresses that lead into the gateway's own network.
async fn check_addresses(stage: &Stage) -> Result<()> {
    let names = ["inside.example.net", "inside6.example.net", "metadata.example.net"];
    let addresses = ["169.254.169.254", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"];
    if stage.hosts.is_none() {
        println!("        !! no mount namespace: names that resolve to such an address were NOT tried");
    }
    let names = names.into_iter().filter(|_| stage.hosts.is_some());
    for (round, host) in names.chain(addresses).enumerate() {
        check_address(stage, &format!("address-{round}"), host).await?;
    }
    Ok(())
}

async fn check_address(stage: &Stage, name: &str, host: &str) -> Result<()> {
    let port = stage.gateways[0].admin.rsplit(':').next().unwrap_or_default();
    let hostname = format!("{name}.example.com");
    let rules = json!([{ "backends": [{ "endpoint": format!("http://{host}:{port}") }] }]);
    // If the schema rejects it, the gateway never sees it.
    if stage.apply(&with_rules(TENANT, name, &hostname, &rules)).is_err() {
        println!("        {host}: rejected by the schema");
        return Ok(());
    }
    let ask = || Curl::http(stage.listen_address(), &hostname, "/metrics").send();
    let known = async || ask().is_ok_and(|answer| answer.status != 404);
    stage.wait_until("it is served", known).await?;
    let answer = ask()?;
    println!("        {host}: {} {}", answer.status, answer.header("x-aplomb-reason"));
    answer.expect(403, "Unauthorised")?;
    stage.kubectl(&["delete", "-n", TENANT, &format!("hp/{name}")])?;
    Ok(())
}
