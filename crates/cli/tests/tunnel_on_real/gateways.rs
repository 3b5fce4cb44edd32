//! A gateway that is killed, restarted or stopped, with and without a second one.

use anyhow::{Result, ensure};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::stage::SYSTEM;
use crate::{HOME, Play, Tally};

const HOST: &str = "gateways.example.com";

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    let endpoint = play.endpoint();
    let object = tunnel(HOME, "gateways", HOST, HOME, &endpoint);
    let set = play
        .stage
        .apply(&object)
        .and_then(|()| play.stage.wait(HOME, "hp/gateways", "condition=Ready"));
    tally.note("a tunnel for the gateways", set);
    tally.note("a gateway killed and restarted", killed(play).await);
    tally.note(
        "a second gateway serves the same",
        second(play).await,
    );
    tally.note(
        "one of two gateways killed: Ready falls, then recovers",
        one_of_two(play).await,
    );
    tally.note(
        "a gateway that stops drops no request",
        drained(play).await,
    );
    let _gone = play
        .stage
        .kubectl(&["delete", "hp", "-n", HOME, "gateways"]);
}

async fn killed(play: &mut Play) -> Result<()> {
    let prober = play.stage.probe(HOME, "gateways", HOST)?;
    prober.works_again(Instant::now()).await?;
    prober.fault();
    play.stage.gateway_named("one")?.process.kill()?;
    let began = Instant::now();
    play.stage.gateway("one")?;
    let took = prober.works_again(began).await?;
    println!("        traffic {took:.2?} after the start of the new process");
    play.stage.wait(HOME, "hp/gateways", "condition=Ready")?;
    prober.finish()?;
    Ok(())
}

async fn second(play: &mut Play) -> Result<()> {
    let began = Instant::now();
    play.stage.gateway("two")?;
    let stage = &play.stage;
    let listen = &stage
        .gateways
        .iter()
        .find(|g| g.process.name == "two")
        .map(|g| g.listen.clone());
    let listen = listen.clone().unwrap_or_default();
    let serves = async || {
        Curl::http(&listen, HOST, "/")
            .body()
            .is_ok_and(|body| body == "home\n")
    };
    stage.eventually("the second one serves", serves).await?;
    println!(
        "        traffic {:.2?} after the start of its process",
        began.elapsed()
    );
    let count = || stage.kubectl(&["get", "gwr", "-n", SYSTEM, "-o", "name"]);
    let two = async || count().is_ok_and(|names| names.lines().count() == 2);
    stage.eventually("two are registered", two).await?;
    stage.apply(&tunnel(
        HOME,
        "both",
        "both.example.com",
        HOME,
        &play.endpoint(),
    ))?;
    stage.wait(HOME, "hp/both", "condition=Ready")?;
    for gateway in &stage.gateways {
        let body = Curl::http(&gateway.listen, "both.example.com", "/").body()?;
        ensure!(body == "home\n", "{body}");
    }
    stage.kubectl(&["delete", "-n", HOME, "hp/both"])?;
    Ok(())
}

/// Ready cannot be True while one of two listeners is dead; once its lease expires, only the other one counts.
async fn one_of_two(play: &mut Play) -> Result<()> {
    let prober = play.stage.probe(HOME, "gateways", HOST)?;
    prober.works_again(Instant::now()).await?;
    prober.fault();
    let began = Instant::now();
    play.stage.gateway_named("two")?.process.kill()?;
    let fell = prober.became(false, began).await?;
    prober.finish()?;
    println!("        Ready fell {fell:.1?} after the second gateway");
    play.stage
        .gateways
        .retain(|gateway| gateway.process.name != "two");
    play.stage.wait(HOME, "hp/gateways", "condition=Ready")?;
    println!(
        "        Ready again after {:.1?}: the dead one no longer counts",
        began.elapsed()
    );
    Ok(())
}

/// Requests are in progress when SIGTERM arrives; new connections go to the other one, as with a load balancer.
async fn drained(play: &mut Play) -> Result<()> {
    let listen = play.stage.listen().to_owned();
    let mut slow: Vec<_> = Vec::new();
    for (flag, path) in [
        ("--http1.1", "/held"),
        ("--http2-prior-knowledge", "/held"),
        ("--http1.1", "/held/104857600"),
    ] {
        let curl = Curl::http(&listen, HOST, path).with(&[flag, "-f", "-o", "/dev/null"]);
        slow.push(curl.command().spawn()?);
    }
    let under_way = async || play.origin.held() == slow.len();
    play.stage
        .eventually("the requests are in progress", under_way)
        .await?;
    let began = Instant::now();
    play.stage.gateway_named("one")?.process.signal("-TERM")?;
    let draining = async || play.stage.admin("one", "/readyz").await.is_err();
    play.stage.eventually("it accepts no more", draining).await?;
    play.origin.release(slow.len());
    play.stage.gateway_named("one")?.process.ended()?;
    let took = began.elapsed();
    let left = play
        .stage
        .kubectl(&["get", "gwr", "-n", SYSTEM, "-o", "name"])?;
    // The next test needs a gateway, also after a failure.
    play.stage.gateway("one")?;
    for mut request in slow {
        let status = request.wait()?;
        ensure!(
            status.success(),
            "a request in progress was dropped: {status}"
        );
    }
    println!(
        "        it exited {took:.1?} after SIGTERM, 3 requests in progress were completed"
    );
    ensure!(!left.contains("/one"), "its GatewayReplica is left: {left}");
    play.stage.wait(HOME, "hp/gateways", "condition=Ready")?;
    Ok(())
}
