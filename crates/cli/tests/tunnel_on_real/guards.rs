//! Isolation: between tenants, of the gateway, and of agents.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::{tunnel, with_rules};
use crate::peer;
use crate::stage::Stage;
use crate::{HOME, Play, Tally};

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note(
        "a tenant's bad route does not affect other traffic",
        bad_route(play).await,
    );
    tally.note(
        "a second claim of a hostname is rejected",
        claims(play).await,
    );
    tally.note(
        "a platform hostname cannot be claimed",
        reserved(&play.stage).await,
    );
    tally.note(
        "a backend at loopback or metadata is rejected",
        addresses(&play.stage).await,
    );
    tally.note(
        "an unlisted iroh peer gets nothing",
        peer::unlisted(&play.stage).await,
    );
}

async fn bad_route(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let hostname = "good.example.com";
    stage.apply(&tunnel(HOME, "good", hostname, HOME, &play.endpoint()))?;
    stage.wait(HOME, "hp/good", "condition=Ready")?;
    let prober = stage.probe(HOME, "good", hostname)?;
    stage.tenant("bad")?;
    for object in bad_objects() {
        // The schema may reject some of them, which is as good.
        let _refused = stage.apply(&object);
    }
    let told = async || {
        let all = stage.kubectl(&[
            "get",
            "gwr",
            "-A",
            "-o",
            "jsonpath={.items[*].spec.quarantined}",
        ]);
        all.is_ok_and(|text| text.contains("\"bad\""))
    };
    stage.eventually("the bad route is reported", told).await?;
    stage.apply(&tunnel(
        "bad",
        "fine",
        "fine.example.com",
        "missing",
        "http://localhost:9",
    ))?;
    let next = tunnel(HOME, "next", "next.example.com", HOME, &play.endpoint());
    stage.apply(&next)?;
    stage.wait(HOME, "hp/next", "condition=Ready")?;
    let verdict = prober.finish()?;
    ensure!(
        verdict.failures == 0,
        "{} requests failed",
        verdict.failures
    );
    stage.kubectl(&["delete", "namespace", "bad", "--wait=false"])?;
    stage.kubectl(&["delete", "-n", HOME, "hp/good", "hp/next"])?;
    Ok(())
}

/// Gateway API objects with one error each.
fn bad_objects() -> Vec<Value> {
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

async fn claims(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let hostname = "claimed.example.com";
    stage.apply(&tunnel(HOME, "first", hostname, HOME, &play.endpoint()))?;
    stage.wait(HOME, "hp/first", "condition=Ready")?;
    stage.tenant("second")?;
    let prober = stage.probe(HOME, "first", hostname)?;
    for (namespace, claimant) in [("second", "another namespace"), (HOME, "home/first")] {
        stage.apply(&tunnel(
            namespace,
            "thief",
            hostname,
            HOME,
            &play.endpoint(),
        ))?;
        let path = ".status.conditions[?(@.type==\"HostnamesInUse\")].message";
        let told = async || {
            stage
                .value(namespace, "hp/thief", path)
                .is_ok_and(|said| said.contains(claimant))
        };
        stage
            .eventually(&format!("the hostname is reported as {claimant}'s"), told)
            .await?;
    }
    let verdict = prober.finish()?;
    ensure!(
        verdict.failures == 0,
        "{} requests failed",
        verdict.failures
    );
    // A deleted claimant frees its hostname for the next one. The first to claim it wins, so
    // only one claimant is left.
    stage.kubectl(&["delete", "-n", "second", "hp/thief"])?;
    stage.kubectl(&["delete", "-n", HOME, "hp/first"])?;
    let began = Instant::now();
    stage.wait(HOME, "hp/thief", "condition=Ready")?;
    println!(
        "        the next claimant is Ready {:.1?} later",
        began.elapsed()
    );
    stage.kubectl(&["delete", "-n", HOME, "hp/thief"])?;
    stage.kubectl(&["delete", "namespace", "second", "--wait=false"])?;
    Ok(())
}

async fn reserved(stage: &Stage) -> Result<()> {
    let theirs = stage.value(HOME, "hp/home", ".status.canonicalHostname")?;
    stage.apply(&tunnel(
        HOME,
        "squatter",
        &theirs,
        HOME,
        "http://localhost:9",
    ))?;
    let path = ".status.hostnameStatuses[*].reason";
    let told = async || {
        stage
            .value(HOME, "hp/squatter", path)
            .is_ok_and(|said| said.contains("HostnameReserved"))
    };
    stage
        .eventually("the hostname is reported as reserved", told)
        .await?;
    stage.kubectl(&["delete", "-n", HOME, "hp/squatter"])?;
    Ok(())
}

/// Names and addresses that lead into the gateway's own network.
async fn addresses(stage: &Stage) -> Result<()> {
    let names = [
        "inside.example.net",
        "inside6.example.net",
        "metadata.example.net",
    ];
    let addresses = [
        "169.254.169.254",
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
    ];
    if stage.hosts.is_none() {
        println!(
            "        !! no mount namespace: names that resolve to such an address were NOT tried"
        );
    }
    let names = names.into_iter().filter(|_| stage.hosts.is_some());
    for (round, host) in names.chain(addresses).enumerate() {
        address(stage, &format!("address-{round}"), host).await?;
    }
    Ok(())
}

async fn address(stage: &Stage, name: &str, host: &str) -> Result<()> {
    let port = stage.gateways[0]
        .admin
        .rsplit(':')
        .next()
        .unwrap_or_default();
    let hostname = format!("{name}.example.com");
    let rules = json!([{ "backends": [{ "endpoint": format!("http://{host}:{port}") }] }]);
    // If the schema rejects it, the gateway never sees it.
    if stage
        .apply(&with_rules(HOME, name, &hostname, &rules))
        .is_err()
    {
        println!("        {host}: rejected by the schema");
        return Ok(());
    }
    let ask = || Curl::http(stage.listen(), &hostname, "/metrics").answer();
    let known = async || ask().is_ok_and(|answer| answer.status != 404);
    stage.eventually("it is served", known).await?;
    let answer = ask()?;
    println!(
        "        {host}: {} {}",
        answer.status,
        answer.header("x-aplomb-reason")
    );
    answer.is(403, "Unauthorised")?;
    stage.kubectl(&["delete", "-n", HOME, &format!("hp/{name}")])?;
    Ok(())
}
