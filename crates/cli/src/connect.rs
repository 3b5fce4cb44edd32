//! `aplomb connect`: gives a local service a public URL. Reads flags, runs the agent and prints its events;
//! the agent is a crate of its own.

mod screen;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use aplomb_tunnel_agent::key::default_file;
use aplomb_tunnel_agent::register::{DesiredConnector, DesiredHttpProxy};
use aplomb_tunnel_agent::serve::NetworkConfig;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_agent::{AgentEvent, AgentKey, AgentSettings, Error, ExposedTarget};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing_subscriber::EnvFilter;

use self::screen::ConnectScreen;
use crate::args::ConnectArgs;
use crate::prerequisites;
use crate::run::{Signals, is_dns_label, load_config};
use crate::{EXIT_FINDING, EXIT_TIMED_OUT};

/// The exit code of shells for a process that SIGINT ended.
const EXIT_INTERRUPTED: u8 = 130;
/// After this long without an event, the screen prints a hint.
const QUIET_PERIOD: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: ConnectArgs) -> Result<ExitCode> {
    init_logging();
    // Before anything is created, so that the lease is released whenever a signal arrives.
    let mut signals = Signals::new()?;
    let config = load_config(args.kubeconfig.clone()).await?;
    let namespace = args.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let settings = settings(&args, namespace)?;
    let client = aplomb::client(config)?;
    prerequisites::check_kinds(&client, &aplomb_api::tunnel_definitions()).await?;
    let (events, told) = mpsc::unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        // Nothing is sent: dropping it means stop.
        drop(stopped.await);
    };
    let agent = aplomb_tunnel_agent::run(client, settings, events, shutdown);
    let deadline = args.wait.map(|wait| Instant::now() + Duration::from_secs(wait.into()));
    let mut watch = Watch {
        screen: ConnectScreen::new(args.json),
        events: told,
        connector_only: args.connector_only,
        proven: false,
        deadline,
    };
    let mut agent = std::pin::pin!(agent);
    let end = watch.run_until_end(&mut agent, &mut signals).await;
    let end = match end {
        End::Agent(outcome) => return watch.finish(outcome),
        other => other,
    };
    // The agent receives it and is waited for.
    drop(stop);
    let outcome = watch.run_until_end(&mut agent, &mut signals).await;
    match (end, outcome) {
        (_, End::Signal) => Ok(ExitCode::from(EXIT_INTERRUPTED)),
        (End::TimedOut, _) => Ok(watch.report_timeout()),
        (_, End::Agent(outcome)) => watch.finish(outcome),
        (_, End::TimedOut) => Ok(ExitCode::from(EXIT_TIMED_OUT)),
    }
}

enum End {
    Agent(aplomb_tunnel_agent::Result<()>),
    Signal,
    TimedOut,
}

struct Watch {
    screen: ConnectScreen,
    events: mpsc::UnboundedReceiver<AgentEvent>,
    connector_only: bool,
    /// The awaited state was reached once.
    proven: bool,
    deadline: Option<Instant>,
}

impl Watch {
    async fn run_until_end(
        &mut self,
        agent: &mut (impl Future<Output = aplomb_tunnel_agent::Result<()>> + Unpin),
        signals: &mut Signals,
    ) -> End {
        let hint = Instant::now() + QUIET_PERIOD;
        loop {
            let deadline = self.deadline.filter(|_| !self.proven);
            tokio::select! {
                biased;
                () = signals.recv() => return End::Signal,
                Some(event) = self.events.recv() => self.show(&event),
                outcome = &mut *agent => return End::Agent(outcome),
                () = wait_deadline(deadline) => {
                    self.deadline = None;
                    return End::TimedOut;
                }
                () = self.screen.tick(hint) => {}
            }
        }
    }

    fn show(&mut self, event: &AgentEvent) {
        self.proven |= match event {
            AgentEvent::Proven { .. } => true,
            AgentEvent::Listening { .. } => self.connector_only,
            _ => false,
        };
        self.screen.show(event);
    }

    /// Events before the end are printed before it.
    fn finish(mut self, outcome: aplomb_tunnel_agent::Result<()>) -> Result<ExitCode> {
        while let Ok(event) = self.events.try_recv() {
            self.show(&event);
        }
        self.screen.finish();
        match outcome {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // Another person did this on purpose, so it is not a tool error.
            Err(error @ (Error::Deleted(_) | Error::Replaced(_))) => {
                eprintln!("aplomb: {error}");
                Ok(ExitCode::from(EXIT_FINDING))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn report_timeout(mut self) -> ExitCode {
        self.screen.finish();
        let why = self.screen.last_problem();
        eprintln!("aplomb: timed out before the tunnel was proven{why}");
        ExitCode::from(EXIT_TIMED_OUT)
    }
}

async fn wait_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn settings(args: &ConnectArgs, namespace: String) -> Result<AgentSettings> {
    let (service, machine) = (&args.service, machine_name());
    let name = tunnel_name(args, &machine)?;
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
        origin_tls: OriginTlsSettings {
            ca: args.origin_ca.clone(),
            insecure: args.origin_insecure,
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: Some(machine).filter(|machine| !machine.is_empty()),
        delete_on_exit: args.delete_on_exit,
        clock: aplomb::Clock::system(),
    })
}

fn tunnel_name(args: &ConnectArgs, machine: &str) -> Result<String> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => default_name(machine, &args.service.target),
    };
    ensure!(
        is_dns_label(&name),
        "invalid --name {name:?}; use at most 63 lower-case letters, digits and dashes"
    );
    Ok(name)
}

fn machine_name() -> String {
    let name =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    name.unwrap_or_default().trim().to_owned()
}

/// The default name of the tunnel to `target`: stable over restarts, different on each machine.
fn default_name(machine: &str, target: &ExposedTarget) -> String {
    let host = if target.is_local() { machine } else { target.host() };
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

/// Events use the screen, so only errors are logged unless RUST_LOG is set.
fn init_logging() {
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
    fn the_default_name_is_a_dns_label() {
        for (machine, target, name) in [
            ("Anna's Laptop.local", "localhost:3000", "anna-s-laptop-local-3000"),
            ("", "127.0.0.1:80", "tunnel-80"),
            ("laptop", "[2001:db8::1]:443", "2001-db8--1-443"),
            ("laptop", "db.example.com:5432", "db-example-com-5432"),
        ] {
            let made = default_name(machine, &target.parse().expect("a target"));
            assert_eq!(made, name);
            assert!(is_dns_label(&made));
        }
        let long = default_name(&"x".repeat(200), &"localhost:65535".parse().expect("a target"));
        assert!(is_dns_label(&long), "{long}");
    }
}
