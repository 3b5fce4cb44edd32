//! Turns the flags of `aplomb run` into the settings of each operator. An error names the flag and how to fix
//! it; nothing is connected to here.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{NAMESPACE, own_identity, own_namespace};
use crate::args::RunArgs;

#[derive(Debug)]
pub(super) struct OperatorSettings {
    pub(super) coder: aplomb_coder_operator::CoderSettings,
    pub(super) egress: aplomb_egress_operator::EgressSettings,
    pub(super) tunnel: aplomb_tunnel_operator::TunnelSettings,
}

impl OperatorSettings {
    /// The same settings, with the admin URL of the process.
    pub(super) fn with_admin_url(mut self, admin: Option<String>) -> Self {
        self.coder.admin.clone_from(&admin);
        self.egress.admin.clone_from(&admin);
        self.tunnel.admin = admin;
        self
    }
}

/// The settings, if all flags are valid.
pub(super) fn settings(args: &RunArgs) -> Result<OperatorSettings> {
    check_duplicates(args)?;
    check_hetzner(args)?;
    let namespace = args.namespace.clone().unwrap_or_else(own_namespace);
    check_label("--namespace", &namespace)?;
    for (flag, namespace) in [
        ("--pods-namespace", &args.pods_namespace),
        ("--watch-namespace", &args.watch_namespace),
    ] {
        namespace.iter().try_for_each(|it| check_label(flag, it))?;
    }
    let identity = args.identity.clone().unwrap_or_else(own_identity);
    ensure!(
        !identity.trim().is_empty(),
        "--identity is empty; give each replica a unique name, such as its pod's"
    );
    check_domain(&args.domain)?;
    let tunnel = aplomb_tunnel_operator::TunnelSettings {
        domain: args.domain.clone(),
        namespace: namespace.clone(),
        identity: identity.clone(),
        leader_elect: args.leader_elect,
        admin: None,
    };
    let coder = aplomb_coder_operator::CoderSettings {
        namespace: namespace.clone(),
        watch_namespace: args.watch_namespace.clone(),
        identity: identity.clone(),
        leader_elect: args.leader_elect,
        admin: None,
        seed: u64::from(std::process::id()),
    };
    let egress = aplomb_egress_operator::EgressSettings {
        endpoint: args.hetzner_endpoint.trim_end_matches('/').to_owned(),
        token_file: args.hetzner_token_file.clone(),
        namespace,
        pods_namespace: args.pods_namespace.clone(),
        identity,
        leader_elect: args.leader_elect,
        admin: None,
    };
    Ok(OperatorSettings { coder, egress, tunnel })
}

fn check_duplicates(args: &RunArgs) -> Result<()> {
    let mut named = args.operators().to_vec();
    named.sort_unstable();
    named.dedup();
    ensure!(
        named.len() == args.operators().len() && named.len() <= 3,
        "each operator may be named once: aplomb run coder egress tunnel"
    );
    Ok(())
}

fn check_hetzner(args: &RunArgs) -> Result<()> {
    let endpoint = &args.hetzner_endpoint;
    let uri: http::Uri = endpoint.parse().with_context(|| endpoint_fix(endpoint))?;
    let schemed = matches!(uri.scheme_str(), Some("http" | "https"));
    ensure!(
        schemed && uri.host().is_some() && uri.query().is_none(),
        endpoint_fix(endpoint)
    );
    if let Some(file) = &args.hetzner_token_file {
        let readable = std::fs::metadata(file).is_ok_and(|meta| meta.is_file());
        ensure!(
            readable,
            "--hetzner-token-file {} does not exist; write the API token to it, or leave the \
             flag out and give every StableEgress a tokenSecretRef",
            file.display()
        );
    }
    Ok(())
}

/// Hostnames get a prefix of up to 18 characters.
fn check_domain(domain: &str) -> Result<()> {
    ensure!(
        domain.len() <= 235 && domain.split('.').all(is_dns_label),
        "invalid --domain {domain:?}; use lower-case letters, digits, dashes and dots, such as tunnels.example.com"
    );
    Ok(())
}

fn endpoint_fix(endpoint: &str) -> String {
    format!("invalid --hetzner-endpoint {endpoint:?}; use a URL such as https://api.hetzner.cloud/v1")
}

pub(crate) fn is_dns_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = !name.starts_with('-') && !name.ends_with('-');
    (1..=63).contains(&name.len()) && name.chars().all(inner) && edges
}

/// The name of a namespace is a DNS label.
pub(crate) fn check_label(flag: &str, name: &str) -> Result<()> {
    ensure!(
        is_dns_label(name),
        "invalid {flag} {name:?}; use lower-case letters, digits and dashes, such as {NAMESPACE}"
    );
    Ok(())
}

/// The effective settings, by flag name.
pub(super) fn settings_json(args: &RunArgs, settings: &OperatorSettings) -> serde_json::Value {
    let domain = &settings.tunnel.domain;
    let settings = &settings.egress;
    json!({
        "operators": args.operators().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "kubeconfig": args.kubeconfig,
        "domain": domain,
        "hetzner-endpoint": settings.endpoint,
        "hetzner-token-file": settings.token_file,
        "namespace": settings.namespace,
        "pods-namespace": settings.pods_namespace,
        "watch-namespace": args.watch_namespace,
        "admin": args.admin,
        "leader-elect": settings.leader_elect,
        "identity": settings.identity,
        "log-format": args.log_format.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, CliCommand};

    fn parse_args(flags: &[&str]) -> RunArgs {
        let words = ["aplomb", "run", "egress"].iter().chain(flags);
        match Cli::try_parse_from(words).expect("flags").command {
            CliCommand::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn settings_error(flags: &[&str]) -> String {
        let error = settings(&parse_args(flags)).expect_err("a bad value");
        format!("{error:#}")
    }

    #[test]
    fn an_invalid_value_is_answered_with_its_flag_and_an_example() {
        for (flags, fix) in [
            (["--hetzner-endpoint", "api.example.com"], "https://"),
            (["--hetzner-endpoint", "ftp://api.example.com"], "https://"),
            (["--hetzner-token-file", "/no/such/file"], "tokenSecretRef"),
            (["--namespace", "Aplomb_System"], "aplomb-system"),
            (["--pods-namespace", "a-"], "aplomb-system"),
            (["--watch-namespace", "A"], "aplomb-system"),
            (["--identity", " "], "pod"),
            (["--domain", "Tunnels_Example"], "tunnels.example.com"),
        ] {
            let said = settings_error(&flags);
            assert!(said.contains(flags[0]) && said.contains(fix), "{said}");
        }
    }

    #[test]
    fn printed_settings_are_effective() {
        let args = parse_args(&["--namespace", "net", "--identity", "me", "--leader-elect", "false"]);
        let settings = settings(&args).expect("settings");
        let shown = settings_json(&args, &settings);
        assert_eq!(shown["namespace"], "net");
        assert_eq!(shown["leader-elect"], false);
        assert_eq!(shown["hetzner-endpoint"], "https://api.hetzner.cloud/v1");
        assert_eq!(shown["operators"], json!(["egress"]));
    }
}
