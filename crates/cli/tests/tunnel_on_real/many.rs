//! A hundred tunnels one after another and a hundred at once, and their cost for the API server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aplomb_api::tunnel::HttpProxy;
use aplomb_controlplane::Program;
use futures::stream::{FuturesUnordered, TryStreamExt};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::audit::{self, Entry};
use crate::fixtures::tunnel;
use crate::prober::is_ready;
use crate::stage::{PATIENCE, Stage};
use crate::{HOME, Play, Tally};

const COUNT: usize = 100;
/// How many exist at a time when they are created in turn, so that the lifetime of each does not depend on
/// how long it takes to create them all.
const BESIDE: usize = 10;
/// Maximum writes of one tunnel, from create to delete.
const WRITES: usize = 10;

pub(crate) async fn act(play: &mut Play, tally: &mut Tally) {
    tally.note("100 tunnels one after another", in_turn(play).await);
    tally.note("100 tunnels at once", at_once(play).await);
}

/// With the default interval of proofs.
fn usual(kind: &str, number: usize, endpoint: &str) -> Value {
    let name = format!("{kind}-{number}");
    let mut object = tunnel(HOME, &name, &hostname(kind, number), HOME, endpoint);
    object["spec"]["proofInterval"] = "10s".into();
    object
}

fn hostname(kind: &str, number: usize) -> String {
    format!("{kind}-{number}.many.example.com")
}

/// Sends requests until one returns 200; returns its time.
async fn first_200(stage: &Stage, hostname: &str, every: Duration) -> Result<Instant> {
    let began = Instant::now();
    let url = format!("http://{}/", stage.listen());
    loop {
        let answer = stage.http.get(&url).header("host", hostname).send().await;
        if answer.is_ok_and(|answer| answer.status() == 200) {
            return Ok(Instant::now());
        }
        ensure!(
            began.elapsed() < PATIENCE,
            "{hostname} does not respond within {PATIENCE:?}"
        );
        sleep(every).await;
    }
}

/// The 50th and the 99th percentile, and the maximum.
fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration, Duration) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share).div_ceil(100).max(1) - 1];
    (at(50), at(99), at(100))
}

/// Deletes a tunnel once it is Ready, when its status is complete.
async fn delete(api: &Api<HttpProxy>, kind: &str, number: usize) -> Result<()> {
    let name = format!("{kind}-{number}");
    let ready = |object: Option<&HttpProxy>| object.is_some_and(is_ready);
    let waited = timeout(PATIENCE, await_condition(api.clone(), &name, ready)).await;
    waited.with_context(|| format!("{name} is not Ready within {PATIENCE:?}"))??;
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

async fn in_turn(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let api: Api<HttpProxy> = Api::namespaced(stage.client().await?, HOME);
    let (mut times, mut own) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for number in 0..COUNT {
        let name = hostname("turn", number);
        let object = usual("turn", number, &play.endpoint());
        let path = stage.dir().join("turn.json");
        std::fs::write(&path, object.to_string())?;
        let began = Instant::now();
        let kubectl = async {
            let program = stage.plane.binaries().path(Program::Kubectl);
            let config = stage.plane.kubeconfig_path();
            let mut command = Command::new(program);
            command
                .arg("--kubeconfig")
                .arg(config)
                .args(["apply", "-f"])
                .arg(&path);
            let output = command.output().await?;
            ensure!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            Ok(began.elapsed())
        };
        let (kubectl, answered) =
            tokio::try_join!(kubectl, first_200(stage, &name, Duration::from_millis(5)))?;
        own.push(kubectl);
        times.push(answered - began);
        if number >= BESIDE {
            delete(&api, "turn", number - BESIDE).await?;
        }
    }
    for number in COUNT - BESIDE..COUNT {
        delete(&api, "turn", number).await?;
    }
    let (p50, p99, most) = percentiles(times);
    let (kubectl, ..) = percentiles(own);
    println!(
        "        kubectl apply to the first 200: p50 {p50:.0?}, p99 {p99:.0?}, most {most:.0?} (kubectl's own p50 {kubectl:.0?})"
    );
    forgotten(play, "turn").await?;
    writes(stage, "turn", began.elapsed())
}

async fn at_once(play: &Play) -> Result<()> {
    let stage = &play.stage;
    let api: Api<HttpProxy> = Api::namespaced(stage.client().await?, HOME);
    let endpoint = play.endpoint();
    let began = Instant::now();
    let all = (0..COUNT).map(|number| {
        let (api, endpoint) = (&api, &endpoint);
        async move {
            let name = hostname("once", number);
            let object = usual("once", number, endpoint);
            let began = Instant::now();
            api.create(&PostParams::default(), &serde_json::from_value(object)?)
                .await?;
            let answered = first_200(stage, &name, Duration::from_millis(50)).await?;
            Ok::<_, anyhow::Error>(answered - began)
        }
    });
    let times: Vec<_> = all.collect::<FuturesUnordered<_>>().try_collect().await?;
    let (p50, p99, most) = percentiles(times);
    println!("        create to the first 200: p50 {p50:.0?}, p99 {p99:.0?}, most {most:.0?}");
    stage.wait(HOME, "hp/once-99", "condition=Ready")?;
    remove(play, "once").await?;
    writes(stage, "once", began.elapsed())
}

/// Deletes all of them, and waits until nothing is left.
async fn remove(play: &Play, kind: &str) -> Result<()> {
    let names: Vec<_> = (0..COUNT)
        .map(|number| format!("hp/{kind}-{number}"))
        .collect();
    let mut args = vec!["delete", "-n", HOME];
    args.extend(names.iter().map(String::as_str));
    // The last one is Ready, so all statuses are complete.
    play.stage
        .wait(HOME, &names[COUNT - 1], "condition=Ready")?;
    play.stage.kubectl(&args)?;
    forgotten(play, kind).await
}

/// Waits until the claims of the deleted tunnels are deleted too.
async fn forgotten(play: &Play, kind: &str) -> Result<()> {
    let kind = format!("{kind}-");
    let gone = async || {
        let left = play.stage.kubectl(&["get", "hostnameclaims", "-o", "name"]);
        left.is_ok_and(|left| !left.contains(&kind))
    };
    play.stage.eventually("claims are gone", gone).await?;
    Ok(())
}

/// No conflicts, and few writes per tunnel. Acknowledgments of gateways are shared by all of them.
fn writes(stage: &Stage, kind: &str, over: Duration) -> Result<()> {
    let all = audit::entries(stage)?;
    let of = |entry: &&Entry| entry.name.starts_with(&format!("{kind}-"));
    let conflicts: Vec<_> = all
        .iter()
        .filter(of)
        .filter(|entry| entry.is_conflict())
        .collect();
    ensure!(conflicts.is_empty(), "{conflicts:?}");
    let writes = |number| {
        let (name, host) = (format!("{kind}-{number}"), hostname(kind, number));
        let mine = move |entry: &&Entry| {
            let child = entry.name.starts_with(&format!("{name}."));
            entry.is_write() && (child || entry.name == name || entry.name == host)
        };
        all.iter().filter(mine).collect::<Vec<_>>()
    };
    let worst = (0..COUNT).map(writes).max_by_key(Vec::len);
    let worst = worst.context("there are tunnels")?;
    let most = worst.len();
    let replicas = all
        .iter()
        .filter(|entry| entry.is_write() && entry.resource == "gatewayreplicas")
        .count();
    println!("        0 conflicts; at most {most} writes for one tunnel:");
    for (what, count) in audit::counted(worst.iter().copied()) {
        println!("          {count} {what}");
    }
    println!(
        "        {replicas} writes of GatewayReplicas so far, heartbeats included; these {COUNT} took {over:.0?}"
    );
    let told = worst.iter();
    let told = told.map(|it| format!("\n          {} {}", it.at, it.told()));
    ensure!(most <= WRITES, "{most} writes:{}", told.collect::<String>());
    all.iter().find(of).context("the audit log has them")?;
    Ok(())
}
