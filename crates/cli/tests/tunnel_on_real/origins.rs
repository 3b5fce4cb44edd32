//! Requests to origins: https, rewritten hosts and paths, and each way to fail.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::authority::Authority;
use crate::curl::Curl;
use crate::fixtures::{tunnel, with_rules};
use crate::origin::Origin;
use crate::stage::Stage;
use crate::{ALONE, HOME, Play, Tally};

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note("an https origin, and its name in the certificate", https(play));
    tally.note(
        "Host and path are rewritten, matches and filters work",
        rewrite(play),
    );
    tally.note("404, 403 and 503 are distinct", refusals(play).await);
    tally.note(
        "an origin that is down is a 502, and Ready falls",
        down(&play.stage).await,
    );
}

fn https(play: &Play) -> Result<()> {
    let authority = Authority::new(play.stage.dir())?;
    let issued = authority.issue("origin.example.com", 1)?;
    let origin = Origin::tls("encrypted", issued.config())?;
    let target = format!("https://127.0.0.1:{}", origin.port);
    let ca = authority.path.to_str().context("a path")?;
    let _agent = play.stage.agent(
        HOME,
        "tls",
        &format!("127.0.0.1:{}", origin.port),
        &[ALONE, "--origin-ca", ca],
    )?;
    let rules = |name: &str| {
        let backend = json!({ "endpoint": target, "connector": { "name": "tls" }, "tls": { "hostname": name } });
        json!([{ "backends": [backend] }])
    };
    let right = with_rules(
        HOME,
        "tls-right",
        "right.example.com",
        &rules("origin.example.com"),
    );
    let wrong = with_rules(
        HOME,
        "tls-wrong",
        "wrong.example.com",
        &rules("other.example.com"),
    );
    play.stage.apply(&right)?;
    play.stage.apply(&wrong)?;
    play.stage.wait(HOME, "hp/tls-right", "condition=Ready")?;
    let body = Curl::http(play.stage.listen(), "right.example.com", "/").body()?;
    ensure!(body == "encrypted\n", "{body}");
    let answer = Curl::http(play.stage.listen(), "wrong.example.com", "/").answer()?;
    answer.is(502, "OriginUnreachable")?;
    play.stage.kubectl(&[
        "delete",
        "-n",
        HOME,
        "hp/tls-right",
        "hp/tls-wrong",
        "connector/tls",
    ])?;
    Ok(())
}

fn rewrite(play: &Play) -> Result<()> {
    let backend = json!({ "endpoint": play.endpoint(), "connector": { "name": HOME } });
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
        .apply(&with_rules(HOME, "rules", "rules.example.com", &rules))?;
    play.stage.wait(HOME, "hp/rules", "condition=Ready")?;
    let ask = |path: &str| Curl::http(play.stage.listen(), "rules.example.com", path);
    let body = ask("/in/side").with(&["-H", "X-Secret: 1"]).body()?;
    ensure!(body.contains("host: inside.example.com"), "{body}");
    ensure!(body.contains("GET /headers/side"), "{body}");
    ensure!(
        body.contains("x-team: blue") && !body.contains("x-secret"),
        "{body}"
    );
    let moved = ask("/moved/on").answer()?;
    let to = moved.header("location");
    ensure!(
        moved.status == 301 && to.starts_with("https://rules.example.com"),
        "{moved:?}"
    );
    ask("/elsewhere").answer()?.is(404, "NoRoute")?;
    play.stage.kubectl(&["delete", "-n", HOME, "hp/rules"])?;
    Ok(())
}

/// Responses of the gateway itself, each with a reason.
async fn refusals(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let ask = |hostname: &str| Curl::http(stage.listen(), hostname, "/").answer();
    ask("unknown.example.com")?.is(404, "UnknownHost")?;
    let missing = "missing.example.com";
    stage.apply(&tunnel(
        HOME,
        "missing",
        missing,
        "missing",
        "http://localhost:9",
    ))?;
    let hidden = "hidden.example.com";
    stage.apply(&tunnel(HOME, "hidden", hidden, HOME, "http://localhost:1"))?;
    for (hostname, status, reason) in [
        (missing, 503, "ConnectorNotFound"),
        (hidden, 403, "OriginNotExposed"),
    ] {
        let known = async || ask(hostname).is_ok_and(|answer| answer.status != 404);
        stage.eventually("it is served", known).await?;
        ask(hostname)?.is(status, reason)?;
    }
    stage.kubectl(&["delete", "-n", HOME, "hp/missing", "hp/hidden"])?;
    Ok(())
}

async fn down(stage: &Stage) -> Result<()> {
    let hostname = "down.example.com";
    let mut origin = Origin::start("down")?;
    let port = origin.port;
    let _agent = stage.agent(HOME, "down", &port.to_string(), &[ALONE])?;
    stage.apply(&tunnel(
        HOME,
        "origin-down",
        hostname,
        "down",
        &format!("http://localhost:{port}"),
    ))?;
    stage.wait(HOME, "hp/origin-down", "condition=Ready")?;
    let prober = stage.probe(HOME, "origin-down", hostname)?;
    prober.works_again(Instant::now()).await?;
    prober.fault();
    let stopped = Instant::now();
    origin.stop();
    let took = prober.became(false, stopped).await?;
    println!("        Ready fell {took:.1?} after the origin");
    Curl::http(stage.listen(), hostname, "/")
        .answer()?
        .is(502, "OriginUnreachable")?;
    let reachable = ".status.conditions[?(@.type==\"OriginReachable\")].status";
    let told = stage.value(HOME, "hp/origin-down", reachable)?;
    ensure!(told == "False", "OriginReachable is {told:?}");
    let back = Instant::now();
    let _origin = Origin::again(port, "down")?;
    let took = prober.became(true, back).await?;
    println!("        Ready came back {took:.1?} after the origin");
    prober.finish()?;
    stage.kubectl(&["delete", "-n", HOME, "hp/origin-down", "connector/down"])?;
    Ok(())
}
