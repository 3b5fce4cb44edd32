//! Requests to origins: https, rewritten hosts and paths, and each way to fail.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::authority::Authority;
use crate::curl::Curl;
use crate::fixtures::{tunnel, with_rules};
use crate::origin::Origin;
use crate::stage::Stage;
use crate::{CONNECTOR_ONLY, TENANT, Tally, TestRun};

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record("an https origin, and its name in the certificate", check_https(play));
    tally.record(
        "Host and path are rewritten, matches and filters work",
        check_rewrite(play),
    );
    tally.record("404, 403 and 503 are distinct", check_refusals(play).await);
    tally.record(
        "an origin that is down is a 502, and Ready falls",
        check_down(&play.stage).await,
    );
}

fn check_https(play: &TestRun) -> Result<()> {
    let authority = Authority::new(play.stage.dir())?;
    let issued = authority.issue("origin.example.com", 1)?;
    let origin = Origin::start_tls("encrypted", issued.server_config())?;
    let target = format!("https://127.0.0.1:{}", origin.port);
    let ca = authority.path.to_str().context("a path")?;
    let _agent = play.stage.start_agent(
        TENANT,
        "tls",
        &format!("127.0.0.1:{}", origin.port),
        &[CONNECTOR_ONLY, "--origin-ca", ca],
    )?;
    let rules = |name: &str| {
        let backend = json!({ "endpoint": target, "connector": { "name": "tls" }, "tls": { "hostname": name } });
        json!([{ "backends": [backend] }])
    };
    let right = with_rules(TENANT, "tls-right", "right.example.com", &rules("origin.example.com"));
    let wrong = with_rules(TENANT, "tls-wrong", "wrong.example.com", &rules("other.example.com"));
    play.stage.apply(&right)?;
    play.stage.apply(&wrong)?;
    play.stage.wait_for(TENANT, "hp/tls-right", "condition=Ready")?;
    let body = Curl::http(play.stage.listen_address(), "right.example.com", "/").fetch_body()?;
    ensure!(body == "encrypted\n", "{body}");
    let answer = Curl::http(play.stage.listen_address(), "wrong.example.com", "/").send()?;
    answer.expect(502, "OriginUnreachable")?;
    play.stage
        .kubectl(&["delete", "-n", TENANT, "hp/tls-right", "hp/tls-wrong", "connector/tls"])?;
    Ok(())
}

fn check_rewrite(play: &TestRun) -> Result<()> {
    let backend = json!({ "endpoint": play.endpoint(), "connector": { "name": TENANT } });
    let rewritten = json!({ "type": "URLRewrite", "urlRewrite": {
        "hostname": "inside.example.com",
        "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/headers" } } });
    let modified = json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": {
        "set": [{ "name": "x-team", "value": "blue" }], "remove": ["x-secret"] } });
    let redirect = json!({ "type": "RequestRedirect", "requestRedirect": {
        "scheme": "https", "statusCode": 301 } });
    let path = |value: &str| json!([{ "path": { "type": "PathPrefix", "value": value } }]);
    let rules = json!([
        { "matches": path("/in"), "filters": [rewritten, modified], "backends": [backend] },
        { "matches": path("/moved"), "filters": [redirect] },
    ]);
    play.stage
        .apply(&with_rules(TENANT, "rules", "rules.example.com", &rules))?;
    play.stage.wait_for(TENANT, "hp/rules", "condition=Ready")?;
    let ask = |path: &str| Curl::http(play.stage.listen_address(), "rules.example.com", path);
    let body = ask("/in/side").with_args(&["-H", "X-Secret: 1"]).fetch_body()?;
    ensure!(body.contains("host: inside.example.com"), "{body}");
    ensure!(body.contains("GET /headers/side"), "{body}");
    ensure!(body.contains("x-team: blue") && !body.contains("x-secret"), "{body}");
    let moved = ask("/moved/on").send()?;
    let to = moved.header("location");
    ensure!(
        moved.status == 301 && to.starts_with("https://rules.example.com"),
        "{moved:?}"
    );
    ask("/elsewhere").send()?.expect(404, "NoRoute")?;
    play.stage.kubectl(&["delete", "-n", TENANT, "hp/rules"])?;
    Ok(())
}

/// Responses of the gateway itself, each with a reason.
async fn check_refusals(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let ask = |hostname: &str| Curl::http(stage.listen_address(), hostname, "/").send();
    ask("unknown.example.com")?.expect(404, "UnknownHost")?;
    let missing = "missing.example.com";
    stage.apply(&tunnel(TENANT, "missing", missing, "missing", "http://localhost:9"))?;
    let hidden = "hidden.example.com";
    stage.apply(&tunnel(TENANT, "hidden", hidden, TENANT, "http://localhost:1"))?;
    for (hostname, status, reason) in [(missing, 503, "ConnectorNotFound"), (hidden, 403, "OriginNotExposed")] {
        let known = async || ask(hostname).is_ok_and(|answer| answer.status != 404);
        stage.wait_until("it is served", known).await?;
        ask(hostname)?.expect(status, reason)?;
    }
    stage.kubectl(&["delete", "-n", TENANT, "hp/missing", "hp/hidden"])?;
    Ok(())
}

async fn check_down(stage: &Stage) -> Result<()> {
    let hostname = "down.example.com";
    let mut origin = Origin::start("down")?;
    let port = origin.port;
    let _agent = stage.start_agent(TENANT, "down", &port.to_string(), &[CONNECTOR_ONLY])?;
    stage.apply(&tunnel(
        TENANT,
        "origin-down",
        hostname,
        "down",
        &format!("http://localhost:{port}"),
    ))?;
    stage.wait_for(TENANT, "hp/origin-down", "condition=Ready")?;
    let prober = stage.start_prober(TENANT, "origin-down", hostname)?;
    prober.recovery_time(Instant::now()).await?;
    prober.record_fault();
    let stopped = Instant::now();
    origin.stop();
    let took = prober.wait_ready(false, stopped).await?;
    println!("        Ready fell {took:.1?} after the origin");
    Curl::http(stage.listen_address(), hostname, "/")
        .send()?
        .expect(502, "OriginUnreachable")?;
    let reachable = ".status.conditions[?(@.type==\"OriginReachable\")].status";
    let told = stage.read_field(TENANT, "hp/origin-down", reachable)?;
    ensure!(told == "False", "OriginReachable is {told:?}");
    let back = Instant::now();
    let _origin = Origin::restart(port, "down")?;
    let took = prober.wait_ready(true, back).await?;
    println!("        Ready came back {took:.1?} after the origin");
    prober.finish()?;
    stage.kubectl(&["delete", "-n", TENANT, "hp/origin-down", "connector/down"])?;
    Ok(())
}
