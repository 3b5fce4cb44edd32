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
use crate::stage::{Stage, TIMEOUT};
use crate::{TENANT, Tally, TestRun};

const COUNT: usize = 100;
/// How many exist at a time when they are created in turn, so that the lifetime of each does not depend on
/// how long it takes to create them all.
const CONCURRENCY: usize = 10;
/// Maximum writes of one tunnel, from create to delete.
const MAX_WRITES: usize = 10;

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record("100 tunnels one after another", create_in_turn(play).await);
    tally.record("100 tunnels at once", create_at_once(play).await);
}

/// With the default interval of proofs.
fn proxy(kind: &str, number: usize, endpoint: &str) -> Value {
    let name = format!("{kind}-{number}");
    let mut object = tunnel(TENANT, &name, &hostname(kind, number), TENANT, endpoint);
    object["spec"]["proofInterval"] = "10s".into();
    object
}

fn hostname(kind: &str, number: usize) -> String {
    format!("{kind}-{number}.many.example.com")
}

/// Sends requests until one returns 200; returns its time.
async fn wait_first_200(stage: &Stage, hostname: &str, every: Duration) -> Result<Instant> {
    let began = Instant::now();
    let url = format!("http://{}/", stage.listen_address());
    loop {
        let answer = stage.http.get(&url).header("host", hostname).send().await;
        if answer.is_ok_and(|answer| answer.status() == 200) {
            return Ok(Instant::now());
        }
        ensure!(
            began.elapsed() < TIMEOUT,
            "{hostname} does not respond within {TIMEOUT:?}"
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
    let waited = timeout(TIMEOUT, await_condition(api.clone(), &name, ready)).await;
    waited.with_context(|| format!("{name} is not Ready within {TIMEOUT:?}"))??;
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

async fn create_in_turn(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let api: Api<HttpProxy> = Api::namespaced(stage.client().await?, TENANT);
    let (mut times, mut own) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for number in 0..COUNT {
        let name = hostname("turn", number);
        let object = proxy("turn", number, &play.endpoint());
        let path = stage.dir().join("turn.json");
        std::fs::write(&path, object.to_string())?;
        let began = Instant::now();
        let kubectl = async {
            let program = stage.plane.binaries().path(Program::Kubectl);
            let config = stage.plane.kubeconfig_path();
            let mut command = Command::new(program);
            command.arg("--kubeconfig").arg(config).args(["apply", "-f"]).arg(&path);
            let output = command.output().await?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Ok(began.elapsed())
        };
        let (kubectl, answered) = tokio::try_join!(kubectl, wait_first_200(stage, &name, Duration::from_millis(5)))?;
        own.push(kubectl);
        times.push(answered - began);
        if number >= CONCURRENCY {
            delete(&api, "turn", number - CONCURRENCY).await?;
        }
    }
    for number in COUNT - CONCURRENCY..COUNT {
        delete(&api, "turn", number).await?;
    }
    let (p50, p99, most) = percentiles(times);
    let (kubectl, ..) = percentiles(own);
    println!(
        "        kubectl apply to the first 200: p50 {p50:.0?}, p99 {p99:.0?}, most {most:.0?} (kubectl's own p50 {kubectl:.0?})"
    );
    check_all_deleted(play, "turn").await?;
    check_write_count(stage, "turn", began.elapsed())
}

async fn create_at_once(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let api: Api<HttpProxy> = Api::namespaced(stage.client().await?, TENANT);
    let endpoint = play.endpoint();
    let began = Instant::now();
    let all = (0..COUNT).map(|number| {
        let (api, endpoint) = (&api, &endpoint);
        async move {
            let name = hostname("once", number);
            let object = proxy("once", number, endpoint);
            let began = Instant::now();
            api.create(&PostParams::default(), &serde_json::from_value(object)?)
                .await?;
            let answered = wait_first_200(stage, &name, Duration::from_millis(50)).await?;
            Ok::<_, anyhow::Error>(answered - began)
        }
    });
    let times: Vec<_> = all.collect::<FuturesUnordered<_>>().try_collect().await?;
    let (p50, p99, most) = percentiles(times);
    println!("        create to the first 200: p50 {p50:.0?}, p99 {p99:.0?}, most {most:.0?}");
    stage.wait_for(TENANT, "hp/once-99", "condition=Ready")?;
    delete_all(play, "once").await?;
    check_write_count(stage, "once", began.elapsed())
}

/// Deletes all of them, and waits until nothing is left.
async fn delete_all(play: &TestRun, kind: &str) -> Result<()> {
    let names: Vec<_> = (0..COUNT).map(|number| format!("hp/{kind}-{number}")).collect();
    let mut args = vec!["delete", "-n", TENANT];
    args.extend(names.iter().map(String::as_str));
    // The last one is Ready, so all statuses are complete.
    play.stage.wait_for(TENANT, &names[COUNT - 1], "condition=Ready")?;
    play.stage.kubectl(&args)?;
    check_all_deleted(play, kind).await
}

/// Waits until the claims of the deleted tunnels are deleted too.
async fn check_all_deleted(play: &TestRun, kind: &str) -> Result<()> {
    let kind = format!("{kind}-");
    let gone = async || {
        let left = play.stage.kubectl(&["get", "hostnameclaims", "-o", "name"]);
        left.is_ok_and(|left| !left.contains(&kind))
    };
    play.stage.wait_until("claims are gone", gone).await?;
    Ok(())
}

/// No conflicts, and few writes per tunnel. Acknowledgments of gateways are shared by all of them.
fn check_write_count(stage: &Stage, kind: &str, over: Duration) -> Result<()> {
    let all = audit::read_entries(stage)?;
    let of = |entry: &&Entry| entry.name.starts_with(&format!("{kind}-"));
    let conflicts: Vec<_> = all.iter().filter(of).filter(|entry| entry.is_conflict()).collect();
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
    for (what, count) in audit::count_entries(worst.iter().copied()) {
        println!("          {count} {what}");
    }
    println!("        {replicas} writes of GatewayReplicas so far, heartbeats included; these {COUNT} took {over:.0?}");
    let told = worst.iter();
    let told = told.map(|it| format!("\n          {} {}", it.at, it.describe()));
    ensure!(most <= MAX_WRITES, "{most} writes:{}", told.collect::<String>());
    all.iter().find(of).context("the audit log has them")?;
    Ok(())
}
