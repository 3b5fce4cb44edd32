//! Figures of this machine: the same requests to the box and to a real kube-apiserver, in one run.
//!
//! Both are reached over TLS on loopback, one connection, one request after another; a round of one
//! server alternates with a round of the other, so that a busy machine slows both. What is printed
//! is a rate each and their ratio; nothing here passes or fails.
#![forbid(unsafe_code)]

use std::time::Duration;

use anyhow::{Context, Result};
use aplomb_controlplane::{ControlPlane, Options};
use aplomb_sim::http::{BoxConfig, start};
use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Requests per second, the box beside a real kube-apiserver.
#[derive(Debug, Parser)]
struct Args {
    /// Objects per round
    #[arg(long, default_value_t = 200)]
    objects: usize,
    /// Rounds on each server
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

const VERBS: [&str; 6] = ["create", "get", "update", "apply", "list", "delete"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let running = start(BoxConfig::default())
        .await
        .context("the box does not start")?;
    let plane = ControlPlane::start(Options::default()).await?;
    let servers = [connect(running.kubeconfig()).await?, plane.client().await?];
    let mut spent = [[Duration::ZERO; VERBS.len()]; 2];
    for round in 0..args.rounds {
        for (server, client) in servers.iter().enumerate() {
            let took = measure(client, round, args.objects).await?;
            for (total, took) in spent[server].iter_mut().zip(took) {
                *total += took;
            }
        }
    }
    print(&spent, args.objects * args.rounds);
    running.stop().await;
    Ok(())
}

async fn connect(kubeconfig: &str) -> Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn measure(client: &Client, round: usize, objects: usize) -> Result<[Duration; 6]> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let names: Vec<String> = (0..objects).map(|n| format!("bench-{round}-{n}")).collect();
    let mut took = [Duration::ZERO; VERBS.len()];
    for (verb, took) in VERBS.iter().zip(&mut took) {
        let began = Instant::now();
        for name in &names {
            one(&api, verb, name)
                .await
                .with_context(|| format!("{verb} {name}"))?;
        }
        *took = began.elapsed();
    }
    Ok(took)
}

async fn one(api: &Api<ConfigMap>, verb: &str, name: &str) -> Result<()> {
    match verb {
        "create" => drop(
            api.create(&PostParams::default(), &body(name, "a")?)
                .await?,
        ),
        "get" => drop(api.get(name).await?),
        "update" => drop(
            api.replace(name, &PostParams::default(), &body(name, "b")?)
                .await?,
        ),
        "apply" => {
            let params = PatchParams::apply("bench").force();
            drop(
                api.patch(name, &params, &Patch::Apply(manifest(name, "c")))
                    .await?,
            );
        }
        "list" => drop(api.list(&ListParams::default().limit(20)).await?),
        _ => drop(api.delete(name, &DeleteParams::default()).await?),
    }
    Ok(())
}

fn manifest(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "key": value } })
}

fn body(name: &str, value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(manifest(name, value))?)
}

#[allow(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a report for people"
)]
fn print(spent: &[[Duration; 6]; 2], requests: usize) {
    println!(
        "{:<8} {:>10} {:>10} {:>7}",
        "VERB", "BOX/s", "REAL/s", "RATIO"
    );
    for (n, verb) in VERBS.iter().enumerate() {
        let [ours, theirs] = [0, 1].map(|server| requests as f64 / spent[server][n].as_secs_f64());
        println!(
            "{verb:<8} {ours:>10.0} {theirs:>10.0} {:>6.1}x",
            ours / theirs
        );
    }
}
