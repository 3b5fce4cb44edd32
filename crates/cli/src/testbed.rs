//! `aplomb box`, `aplomb sim` and `aplomb demo`: the parts of the testbed that this program ships. The servers run until a
//! signal and print one line when they are ready.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use aplomb_apimachinery::clock::Clock;
use aplomb_apiserver::ApiServer;
use aplomb_apiserver::http::Limits;
use aplomb_apiserver::standalone::{Error, StandaloneConfig, start_with};
use aplomb_apiserver::storage::{DataDir, Window};
use aplomb_controllers::Controllers;
use aplomb_demo::{DemoOptions, StoryName};
use aplomb_fake_services::coderd::{self, FakeCoderd, OWNER_TOKEN, Pods, User, Work};
use aplomb_fake_services::hcloud::{self, FakeHcloud, SameServer, Scope, Token};
use aplomb_fake_services::service::{self, FakeService, Service};
use http::StatusCode;
use tracing_subscriber::EnvFilter;

use crate::args::{
    BoxArgs, BypassRefusal, CoderdArgs, DemoArgs, FractionArg, HetznerArgs, SameServerAssign, SimArgs, SimCommand,
};
use crate::output::OutputStream;
use crate::run::{Signals, load_config};

/// Serves the box, and keeps the files that it wrote.
pub(crate) async fn run_box(args: BoxArgs) -> Result<()> {
    let mut signals = Signals::new()?;
    init_logging();
    let window = Window {
        behind: args.watch_buffer,
        ..Window::default()
    };
    let mut builder = ApiServer::builder().rbac(args.rbac).cluster(true).window(window);
    if let Some(path) = &args.data_dir {
        builder = builder.data_dir(DataDir::open(path)?);
    }
    let server = builder.build();
    let _actors = Controllers::cluster().start(&server);
    let config = StandaloneConfig {
        listen: args.listen,
        kubeconfig: Some(args.kubeconfig),
        audit_log: args.audit_log,
        rbac: args.rbac,
        token: None,
        limits: Limits {
            connections: args.max_connections,
            requests: args.max_requests_inflight,
            mutating_requests: args.max_mutating_requests_inflight,
        },
    };
    let running = start_with(server, config).await.map_err(|error| match error {
        Error::Listen { .. } => anyhow!("{error}; use another --listen address, or port 0 for a free one"),
        other => other.into(),
    })?;
    println!("ready {}", running.url());
    signals.recv().await;
    running.stop().await;
    Ok(())
}

/// Only errors and warnings are logged unless RUST_LOG is set.
fn init_logging() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

/// Serves a simulation of an external API.
pub(crate) async fn run_sim(args: SimArgs) -> Result<()> {
    match args.what {
        SimCommand::Coderd(args) => serve_coderd(args).await,
        SimCommand::Hetzner(args) => {
            let listen = args.listen.address;
            let hetzner = FakeHcloud::new(hcloud_config(args)?);
            serve_until_signal(hetzner.service(), listen, std::future::pending()).await
        }
    }
}

async fn serve_coderd(args: CoderdArgs) -> Result<()> {
    let coderd = FakeCoderd::new(coderd_config(&args)?);
    let listen = args.listen.address;
    let service = coderd.service();
    match run_pod_simulator(coderd, args).await? {
        Some(player) => serve_until_signal(service, listen, player).await,
        None => serve_until_signal(service, listen, std::future::pending()).await,
    }
}

/// Serves until a signal, or until the work that runs with it ends.
async fn serve_until_signal<C: FakeService>(
    service: Service<C>,
    listen: SocketAddr,
    beside: impl Future<Output = ()>,
) -> Result<()> {
    let mut signals = Signals::new()?;
    let running = service::serve(service, listen).await.with_context(|| {
        format!("cannot listen on --listen {listen}; use another address, or port 0 for a free one")
    })?;
    println!("ready {}", running.url());
    tokio::select! {
        biased;
        () = signals.recv() => {}
        () = beside => {}
    }
    running.stop().await;
    Ok(())
}

fn coderd_config(args: &CoderdArgs) -> Result<coderd::Config> {
    let clock = Clock::system();
    let seed = args.seed.unwrap_or_else(|| clock.below(u64::MAX));
    let mut config = coderd::Config::new(clock, seed, OWNER_TOKEN);
    if let Some(file) = &args.token_file {
        config.users = parse_tokens(file, User::file)?;
    }
    if !args.organizations.is_empty() {
        config.organizations.clone_from(&args.organizations);
    }
    Ok(coderd::Config {
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
async fn run_pod_simulator(coderd: FakeCoderd, args: CoderdArgs) -> Result<Option<impl Future<Output = ()>>> {
    if args.kubeconfig.is_none() {
        return Ok(None);
    }
    let client = aplomb::client(load_config(args.kubeconfig).await?)?;
    let mut pods = Pods::of(coderd.clone());
    pods.work = args.job.map(|job| Work {
        job,
        pause: Duration::ZERO,
    });
    if !args.urls.is_empty() {
        let known = |url: &str| url.trim_end_matches('/').to_owned();
        let urls: Vec<String> = args.urls.iter().map(|url| known(url)).collect();
        pods.server = Arc::new(move |url| urls.contains(&known(url)).then(|| coderd.clone()));
    }
    Ok(Some(pods.play(client)))
}

fn hcloud_config(args: HetznerArgs) -> Result<hcloud::Config> {
    let clock = Clock::system();
    Ok(hcloud::Config {
        seed: args.seed.unwrap_or_else(|| clock.below(u64::MAX)),
        clock,
        tokens: parse_tokens(&args.token_file, Token::file)?,
        limit: args.limit,
        refill_per_second: args.refill_per_second,
        per: match args.per {
            FractionArg::Project => Scope::Project,
            FractionArg::Token => Scope::Token,
        },
        action_time: args.action_time.0,
        drain_on_refusal: args.drain_on_refusal,
        same_server_assign: match args.same_server_assign {
            SameServerAssign::Accepted => SameServer::Accepted,
            SameServerAssign::Refused => SameServer::Refused,
        },
    })
}

fn parse_tokens<T>(file: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<T> {
    let path = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("read the token file {path}"))?;
    parse(&text).map_err(|why| anyhow!("token file {path}: {why}"))
}

pub(crate) async fn run_demo(args: DemoArgs, out: &OutputStream) -> Result<ExitCode> {
    ensure!(
        args.speed.is_finite() && args.speed > 0.0,
        "invalid --speed {}; use a number above 0, such as 2 for twice as fast",
        args.speed
    );
    // Before anything is created, so that cleanup runs whenever a signal arrives.
    let mut signals = Signals::new()?;
    let scripts = match args.script.is_empty() {
        true => StoryName::ALL.to_vec(),
        false => args.script,
    };
    let options = DemoOptions {
        scripts,
        speed: args.speed,
        json: args.json,
        keep: args.keep,
        page: args.page,
        kubeconfig: args.kubeconfig,
        terminal: !args.json && std::io::stdout().is_terminal(),
        colour: out.has_color(),
    };
    aplomb_demo::run(options, async move { signals.recv().await }).await
}
