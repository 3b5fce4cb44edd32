//! A gateway that is killed, restarted or stopped, with and without a second one.

use anyhow::{Result, ensure};
use tokio::time::Instant;

use crate::curl::Curl;
use crate::fixtures::tunnel;
use crate::stage::SYSTEM;
use crate::{TENANT, Tally, TestRun};

const HOST: &str = "gateways.example.com";

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    let endpoint = play.endpoint();
    let object = tunnel(TENANT, "gateways", HOST, TENANT, &endpoint);
    let set = play
        .stage
        .apply(&object)
        .and_then(|()| play.stage.wait_for(TENANT, "hp/gateways", "condition=Ready"));
    tally.record("a tunnel for the gateways", set);
    tally.record("a gateway killed and restarted", check_kill(play).await);
    tally.record("a second gateway serves the same", start_second(play).await);
    tally.record(
        "one of two gateways killed: Ready falls, then recovers",
        check_kill_one_of_two(play).await,
    );
    tally.record("a gateway that stops drops no request", check_drain(play).await);
    let _gone = play.stage.kubectl(&["delete", "hp", "-n", TENANT, "gateways"]);
}

async fn check_kill(play: &mut TestRun) -> Result<()> {
    let prober = play.stage.start_prober(TENANT, "gateways", HOST)?;
    prober.recovery_time(Instant::now()).await?;
    prober.record_fault();
    play.stage.find_gateway("one")?.process.kill()?;
    let began = Instant::now();
    play.stage.start_gateway("one")?;
    let took = prober.recovery_time(began).await?;
    println!("        traffic {took:.2?} after the start of the new process");
    play.stage.wait_for(TENANT, "hp/gateways", "condition=Ready")?;
    prober.finish()?;
    Ok(())
}

async fn start_second(play: &mut TestRun) -> Result<()> {
    let began = Instant::now();
    play.stage.start_gateway("two")?;
    let stage = &play.stage;
    let listen = &stage
        .gateways
        .iter()
        .find(|g| g.process.name == "two")
        .map(|g| g.listen.clone());
    let listen = listen.clone().unwrap_or_default();
    let serves = async || {
        Curl::http(&listen, HOST, "/")
            .fetch_body()
            .is_ok_and(|body| body == "home\n")
    };
    stage.wait_until("the second one serves", serves).await?;
    println!("        traffic {:.2?} after the start of its process", began.elapsed());
    let count = || stage.kubectl(&["get", "gwr", "-n", SYSTEM, "-o", "name"]);
    let two = async || count().is_ok_and(|names| names.lines().count() == 2);
    stage.wait_until("two are registered", two).await?;
    stage.apply(&tunnel(TENANT, "both", "both.example.com", TENANT, &play.endpoint()))?;
    stage.wait_for(TENANT, "hp/both", "condition=Ready")?;
    for gateway in &stage.gateways {
        let body = Curl::http(&gateway.listen, "both.example.com", "/").fetch_body()?;
        ensure!(body == "home\n", "{body}");
    }
    stage.kubectl(&["delete", "-n", TENANT, "hp/both"])?;
    Ok(())
}

/// Ready cannot be True while one of two listeners is dead; once its lease expires, only the other one counts.
async fn check_kill_one_of_two(play: &mut TestRun) -> Result<()> {
    let prober = play.stage.start_prober(TENANT, "gateways", HOST)?;
    prober.recovery_time(Instant::now()).await?;
    prober.record_fault();
    let began = Instant::now();
    play.stage.find_gateway("two")?.process.kill()?;
    let fell = prober.wait_ready(false, began).await?;
    prober.finish()?;
    println!("        Ready fell {fell:.1?} after the second gateway");
    play.stage.gateways.retain(|gateway| gateway.process.name != "two");
    play.stage.wait_for(TENANT, "hp/gateways", "condition=Ready")?;
    println!(
        "        Ready again after {:.1?}: the dead one no longer counts",
        began.elapsed()
    );
    Ok(())
}

/// Requests are in progress when SIGTERM arrives; new connections go to the other one, as with a load balancer.
async fn check_drain(play: &mut TestRun) -> Result<()> {
    let listen = play.stage.listen_address().to_owned();
    let mut slow: Vec<_> = Vec::new();
    for (flag, path) in [
        ("--http1.1", "/held"),
        ("--http2-prior-knowledge", "/held"),
        ("--http1.1", "/held/104857600"),
    ] {
        let curl = Curl::http(&listen, HOST, path).with_args(&[flag, "-f", "-o", "/dev/null"]);
        slow.push(curl.command().spawn()?);
    }
    let under_way = async || play.origin.waiting_requests() == slow.len();
    play.stage.wait_until("the requests are in progress", under_way).await?;
    let began = Instant::now();
    play.stage.find_gateway("one")?.process.signal("-TERM")?;
    let draining = async || play.stage.get_admin("one", "/readyz").await.is_err();
    play.stage.wait_until("it accepts no more", draining).await?;
    play.origin.release(slow.len());
    play.stage.find_gateway("one")?.process.wait_exit()?;
    let took = began.elapsed();
    let left = play.stage.kubectl(&["get", "gwr", "-n", SYSTEM, "-o", "name"])?;
    // The next test needs a gateway, also after a failure.
    play.stage.start_gateway("one")?;
    for mut request in slow {
        let status = request.wait()?;
        ensure!(status.success(), "a request in progress was dropped: {status}");
    }
    println!("        it exited {took:.1?} after SIGTERM, 3 requests in progress were completed");
    ensure!(!left.contains("/one"), "its GatewayReplica is left: {left}");
    play.stage.wait_for(TENANT, "hp/gateways", "condition=Ready")?;
    Ok(())
}
