//! `aplomb sim coderd` and the pods that it simulates.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use aplomb_apimachinery::clock::Clock;
use aplomb_fake_services::coderd::{Config, FakeCoderd, OWNER_TOKEN, Pods, User, Work};
use http::StatusCode;

use crate::args::{BypassRefusal, CoderdArgs};

pub(super) fn config(args: &CoderdArgs) -> anyhow::Result<Config> {
    let clock = Clock::system();
    let seed = args.seed.unwrap_or_else(|| clock.below(u64::MAX));
    let mut config = Config::new(clock, seed, OWNER_TOKEN);
    if let Some(file) = &args.token_file {
        let path = file.display();
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("read the token file {path}"))?;
        let users = User::file(&text);
        config.users = users.map_err(|why| anyhow::anyhow!("token file {path}: {why}"))?;
    }
    if !args.organizations.is_empty() {
        config.organizations.clone_from(&args.organizations);
    }
    Ok(Config {
        limit: args.limit,
        offset: args.offset,
        version: args.version,
        licensed: !args.unlicensed,
        agpl: args.agpl,
        ends_sessions: args.ends_sessions,
        bypass_refusal: match args.bypass_refusal {
            BypassRefusal::Required => StatusCode::PRECONDITION_REQUIRED,
            BypassRefusal::Failed => StatusCode::PRECONDITION_FAILED,
        },
        heartbeat: args.heartbeat,
        ..config
    })
}

/// Simulates the pods of a cluster, if a kubeconfig is set.
pub(super) async fn run_pod_simulator(
    coderd: FakeCoderd,
    args: CoderdArgs,
) -> anyhow::Result<Option<impl Future<Output = ()>>> {
    if args.kubeconfig.is_none() {
        return Ok(None);
    }
    let client = aplomb::client(crate::run::load_config(args.kubeconfig).await?)?;
    let mut pods = Pods::of(coderd.clone());
    let pause = Duration::ZERO;
    pods.work = args.job.map(|job| Work { job, pause });
    if !args.urls.is_empty() {
        let known = |url: &str| url.trim_end_matches('/').to_owned();
        let urls: Vec<String> = args.urls.iter().map(|url| known(url)).collect();
        pods.server = Arc::new(move |url| urls.contains(&known(url)).then(|| coderd.clone()));
    }
    Ok(Some(pods.play(client)))
}
