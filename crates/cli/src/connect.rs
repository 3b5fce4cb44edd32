//! `aplomb connect`: gives a local service a public URL. Reads flags, runs the agent and prints its events;
//! the agent is a crate of its own.

mod screen;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aplomb_tunnel_agent::key::default_file;
use aplomb_tunnel_agent::register::{DesiredConnector, DesiredHttpProxy};
use aplomb_tunnel_agent::serve::NetworkConfig;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_agent::{AgentEvent, AgentKey, AgentSettings, Error, ExposedTarget};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing_subscriber::EnvFilter;

use self::screen::ConnectScreen;
use crate::args::ConnectArgs;
use crate::preflight;
use crate::run::config;

/// The tunnel was deleted or taken over elsewhere.
const ENDED: u8 = 1;
/// The exit code of `timeout` and similar tools.
const TIMED_OUT: u8 = 124;
/// The exit code of shells for a process that SIGINT ended.
const INTERRUPTED: u8 = 130;
/// After this long without an event, the screen prints a hint.
const SILENCE: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: ConnectArgs) -> Result<ExitCode> {
    log();
    // Before anything is created, so that the lease is released whenever a signal arrives.
    let mut signals = Signals::new()?;
    let config = config(args.kubeconfig.clone()).await?;
    let namespace = args.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let settings = settings(&args, namespace)?;
    let client = aplomb::client(config)?;
    preflight::kinds(&client, &aplomb_api::tunnel_definitions()).await?;
    let (events, told) = mpsc::unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        // Nothing is sent: dropping it means stop.
        drop(stopped.await);
    };
    let agent = aplomb_tunnel_agent::run(client, settings, events, shutdown);
    let deadline = args
        .wait
        .map(|wait| Instant::now() + Duration::from_secs(wait.into()));
    let mut watch = Watch {
        screen: ConnectScreen::new(args.json),
        told,
        connector_only: args.connector_only,
        there: false,
        deadline,
    };
    let mut agent = std::pin::pin!(agent);
    let end = watch.until_end(&mut agent, &mut signals).await;
    let end = match end {
        End::Agent(outcome) => return watch.over(outcome),
        other => other,
    };
    // The agent receives it and is waited for.
    drop(stop);
    let outcome = watch.until_end(&mut agent, &mut signals).await;
    match (end, outcome) {
        (_, End::Signal) => Ok(ExitCode::from(INTERRUPTED)),
        (End::TimedOut, _) => Ok(watch.timed_out()),
        (_, End::Agent(outcome)) => watch.over(outcome),
        (_, End::TimedOut) => Ok(ExitCode::from(TIMED_OUT)),
    }
}

/// Why watching ended.
enum End {
    Agent(aplomb_tunnel_agent::Result<()>),
    Signal,
    TimedOut,
}

/// The output for a person.
struct Watch {
    screen: ConnectScreen,
    told: mpsc::UnboundedReceiver<AgentEvent>,
    connector_only: bool,
    /// The awaited state was reached once.
    there: bool,
    deadline: Option<Instant>,
}

impl Watch {
    async fn until_end(
        &mut self,
        agent: &mut (impl Future<Output = aplomb_tunnel_agent::Result<()>> + Unpin),
        signals: &mut Signals,
    ) -> End {
        let hint = Instant::now() + SILENCE;
        loop {
            let deadline = self.deadline.filter(|_| !self.there);
            tokio::select! {
                biased;
                () = signals.next() => return End::Signal,
                Some(event) = self.told.recv() => self.show(&event),
                outcome = &mut *agent => return End::Agent(outcome),
                () = until(deadline) => {
                    self.deadline = None;
                    return End::TimedOut;
                }
                () = self.screen.tick(hint) => {}
            }
        }
    }

    fn show(&mut self, event: &AgentEvent) {
        self.there |= match event {
            AgentEvent::Proven { .. } => true,
            AgentEvent::Listening { .. } => self.connector_only,
            _ => false,
        };
        self.screen.show(event);
    }

    /// Events before the end are printed before it.
    fn over(mut self, outcome: aplomb_tunnel_agent::Result<()>) -> Result<ExitCode> {
        while let Ok(event) = self.told.try_recv() {
            self.show(&event);
        }
        self.screen.end();
        match outcome {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // Another person did this on purpose, so it is not a tool error.
            Err(error @ (Error::Deleted(_) | Error::Replaced(_))) => {
                eprintln!("aplomb: {error}");
                Ok(ExitCode::from(ENDED))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn timed_out(mut self) -> ExitCode {
        self.screen.end();
        let why = self.screen.trouble();
        eprintln!("aplomb: timed out before the tunnel was proven{why}");
        ExitCode::from(TIMED_OUT)
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

struct Signals(Signal, Signal);

impl Signals {
    fn new() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        Ok(Self(interrupt, terminate))
    }

    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

fn settings(args: &ConnectArgs, namespace: String) -> Result<AgentSettings> {
    let (service, machine) = (&args.service, machine());
    let name = name(args, &machine)?;
    let file = match &args.key_file {
        Some(file) => file.clone(),
        None => default_file(&name)?,
    };
    let mut expose = args.expose.clone();
    expose.push(service.target.clone());
    Ok(AgentSettings {
        key: AgentKey::open(&file)?,
        proxy: (!args.connector_only).then(|| DesiredHttpProxy {
            name: name.clone(),
            hostnames: args.hostname.clone(),
            target: service.target.clone(),
            https: service.https,
        }),
        connector: DesiredConnector {
            namespace,
            name,
            class: args.class.clone(),
            lease: args.lease,
        },
        expose,
        network: NetworkConfig {
            bind: args.bind.clone(),
            advertise: args.advertise.clone(),
            relay_only: args.relay_only,
        },
        origin: OriginTlsSettings {
            ca: args.origin_ca.clone(),
            insecure: args.origin_insecure,
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: Some(machine).filter(|machine| !machine.is_empty()),
        delete_on_exit: args.delete_on_exit,
        clock: aplomb::Clock::system(),
    })
}

fn name(args: &ConnectArgs, machine: &str) -> Result<String> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => label(machine, &args.service.target),
    };
    ensure!(
        is_label(&name),
        "invalid --name {name:?}; use at most 63 lower-case letters, digits and dashes"
    );
    Ok(name)
}

fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"));
    name.unwrap_or_default().trim().to_owned()
}

/// The default name of the tunnel to `target`: stable over restarts, different on each machine.
fn label(machine: &str, target: &ExposedTarget) -> String {
    let host = if target.is_local() {
        machine
    } else {
        target.host()
    };
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let host: String = host.chars().map(plain).take(50).collect();
    match host.trim_matches('-') {
        "" => format!("tunnel-{}", target.port()),
        host => format!("{host}-{}", target.port()),
    }
}

fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = !name.starts_with('-') && !name.ends_with('-');
    (1..=63).contains(&name.len()) && name.chars().all(inner) && edges
}

/// Events use the screen, so only errors are logged unless RUST_LOG is set.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_label_whatever_the_machine_is_called() {
        for (machine, target, name) in [
            (
                "Anna's Laptop.local",
                "localhost:3000",
                "anna-s-laptop-local-3000",
            ),
            ("", "127.0.0.1:80", "tunnel-80"),
            ("laptop", "[2001:db8::1]:443", "2001-db8--1-443"),
            ("laptop", "db.example.com:5432", "db-example-com-5432"),
        ] {
            let made = label(machine, &target.parse().expect("a target"));
            assert_eq!(made, name);
            assert!(is_label(&made));
        }
        let long = label(
            &"x".repeat(200),
            &"localhost:65535".parse().expect("a target"),
        );
        assert!(is_label(&long), "{long}");
    }
}
