//! `aplomb gateway`: the data plane of tunnels. Reads flags, connects, and serves until a signal.
//!
//! An invalid value ends the process at once, with the name of its flag and how to fix it.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use aplomb_api::operators::TUNNEL;
use aplomb_tunnel_gateway::{GatewayError, GatewaySettings};
use serde_json::json;

use crate::args::GatewayArgs;
use crate::prerequisites;
use crate::run::{Signals, check_label, init_logging, load_config, own_namespace};

pub(crate) async fn run(args: GatewayArgs) -> Result<()> {
    let settings = settings(&args, std::env::var("POD_IP").ok())?;
    if args.print_config {
        println!("{:#}", settings_json(&args, &settings));
        return Ok(());
    }
    init_logging(args.log_format);
    let mut signals = Signals::new()?;
    let client = aplomb::client(load_config(args.kubeconfig).await?)?;
    prerequisites::check_kinds(&client, &(TUNNEL.definitions)()).await?;
    prerequisites::check_list_permission(&client, TUNNEL.main_plural, None).await?;
    prerequisites::wait_gateway_api(&client).await?;
    prerequisites::ensure_namespace(&client, &settings.namespace).await?;
    let served = aplomb_tunnel_gateway::run(client, settings, async move { signals.recv().await }).await;
    served.map_err(|error| match error {
        GatewayError::NoAddress(_) => anyhow!("{error}, or POD_IP in the environment of a pod"),
        GatewayError::Listen(..) => anyhow!("{error}; use free addresses for --listen and --listen-tls"),
        GatewayError::Control(cause) if cause.to_string().contains("admin address") => {
            anyhow!("{cause}; use a free address for --admin, or port 0")
        }
        other => other.into(),
    })
}

fn settings(args: &GatewayArgs, pod_ip: Option<String>) -> Result<GatewaySettings> {
    let namespace = args.namespace.clone().unwrap_or_else(own_namespace);
    check_label("--namespace", &namespace)?;
    let identity = args.identity.clone().unwrap_or_else(|| own_identity(args));
    ensure!(
        is_valid_name(&identity),
        "invalid --identity {identity:?}; use lower-case letters, digits, dashes and dots, such as gateway-1"
    );
    let origin_ca = match &args.origin_ca {
        Some(file) => Some(std::fs::read(file).with_context(|| {
            format!(
                "cannot read --origin-ca {}; it must be a file of PEM certificates",
                file.display()
            )
        })?),
        None => None,
    };
    let mut settings = GatewaySettings::new(&identity, args.listen);
    settings.namespace = namespace;
    settings.listen_tls = args.listen_tls;
    settings.advertise = advertised_ip(args, pod_ip)?;
    settings.admin = args.admin;
    settings.key_file.clone_from(&args.key_file);
    settings.quic_bind = args.quic;
    settings.relays.clone_from(&args.relay);
    settings.headers = args.headers;
    settings.access_log = args.access_log;
    settings.trusted_proxies.clone_from(&args.trusted_proxy);
    settings.default_host = default_host(args)?;
    settings.allow_networks.clone_from(&args.allow_network);
    settings.deny_networks.clone_from(&args.deny_network);
    settings.origin_ca = origin_ca;
    settings.lease_seconds = args.lease_seconds;
    settings.drain = Duration::from_secs(args.drain_seconds);
    Ok(settings)
}

/// The address that others use, if it is not the one the listeners are bound to.
fn advertised_ip(args: &GatewayArgs, pod_ip: Option<String>) -> Result<Option<IpAddr>> {
    if args.advertise.is_some() {
        return Ok(args.advertise);
    }
    let mut bound = std::iter::once(args.listen).chain(args.listen_tls);
    if !bound.any(|address| address.ip().is_unspecified()) {
        return Ok(None);
    }
    let pod_ip = pod_ip.filter(|ip| !ip.is_empty()).with_context(|| {
        format!(
            "--listen {} is every address of this machine; set --advertise to the ADDRESS that the \
             operator uses to reach it, or set POD_IP",
            args.listen
        )
    })?;
    let ip = pod_ip
        .parse()
        .with_context(|| format!("invalid POD_IP {pod_ip:?}; it must be an IP address"))?;
    Ok(Some(ip))
}

/// In lower case, for lookups.
fn default_host(args: &GatewayArgs) -> Result<Option<String>> {
    let Some(host) = &args.default_host else {
        return Ok(None);
    };
    let host = host.to_ascii_lowercase();
    ensure!(
        is_valid_name(&host) && host.parse::<IpAddr>().is_err(),
        "invalid --default-host {host:?}; use the hostname of a tunnel, such as app.example.com"
    );
    Ok(Some(host))
}

/// Stable over restarts: the host name, and the port that no other process of the host can have.
fn own_identity(args: &GatewayArgs) -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() => c,
        _ => '-',
    };
    let host: String = host.trim().chars().map(plain).collect();
    let port = match args.listen.port() {
        0 => std::process::id(),
        port => u32::from(port),
    };
    format!("{}-{port}", host.trim_matches('-'))
        .trim_start_matches('-')
        .to_owned()
}

fn is_valid_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=253).contains(&name.len())
        && name.chars().all(|c| inner(c) || c == '-' || c == '.')
        && name.starts_with(inner)
        && name.ends_with(inner)
}

/// The effective settings, by flag name.
fn settings_json(args: &GatewayArgs, settings: &GatewaySettings) -> serde_json::Value {
    let texts = |all: &[ipnet::IpNet]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "kubeconfig": args.kubeconfig,
        "listen": settings.listen,
        "listen-tls": settings.listen_tls,
        "advertise": settings.advertise,
        "admin": settings.admin,
        "namespace": settings.namespace,
        "identity": settings.identity,
        "key-file": settings.key_file,
        "quic": settings.quic_bind,
        "relay": settings.relays,
        "headers": settings.headers,
        "access-log": settings.access_log,
        "default-host": settings.default_host,
        "trusted-proxy": texts(&settings.trusted_proxies),
        "allow-network": texts(&settings.allow_networks),
        "deny-network": texts(&settings.deny_networks),
        "origin-ca": args.origin_ca,
        "lease-seconds": settings.lease_seconds,
        "drain-seconds": settings.drain.as_secs(),
        "log-format": args.log_format.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, CliCommand};

    fn parse_args(flags: &[&str]) -> GatewayArgs {
        let words = ["aplomb", "gateway"].iter().chain(flags);
        match Cli::try_parse_from(words).expect("flags").command {
            CliCommand::Gateway(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_defaults_work_on_loopback() {
        let args = parse_args(&[]);
        let settings = settings(&args, None).expect("settings");
        assert_eq!(settings.advertise, None);
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
        assert!(settings.identity.ends_with("-8080"), "{}", settings.identity);
        assert_eq!(settings_json(&args, &settings)["lease-seconds"], 15);
    }

    #[test]
    fn every_address_needs_a_reachable_one() {
        let args = parse_args(&["--listen", "0.0.0.0:8080"]);
        let error = settings(&args, None).expect_err("no address").to_string();
        assert!(error.contains("--advertise") && error.contains("POD_IP"), "{error}");
        let pod = settings(&args, Some("192.0.2.7".to_owned())).expect("a pod");
        assert_eq!(pod.advertise.map(|ip| ip.to_string()).as_deref(), Some("192.0.2.7"));
        let args = parse_args(&["--listen", "0.0.0.0:8080", "--advertise", "192.0.2.8"]);
        let said = settings(&args, Some("192.0.2.7".to_owned())).expect("said");
        assert_eq!(said.advertise.map(|ip| ip.to_string()).as_deref(), Some("192.0.2.8"));
    }

    #[test]
    fn an_invalid_value_is_answered_with_its_flag_and_an_example() {
        for (flags, fix) in [
            (["--namespace", "Aplomb_System"], "aplomb-system"),
            (["--identity", "Host_1"], "gateway-1"),
            (["--default-host", "192.0.2.7"], "app.example.com"),
            (["--default-host", "app example"], "app.example.com"),
            (["--origin-ca", "/no/such/file"], "PEM"),
        ] {
            let error = settings(&parse_args(&flags), None).expect_err("a bad value");
            let said = format!("{error:#}");
            assert!(said.contains(flags[0]) && said.contains(fix), "{said}");
        }
    }
}
