//! The flags of `aplomb connect`. Contains no logic.

use std::net::SocketAddr;
use std::path::PathBuf;

use aplomb_tunnel_agent::ExposedTarget;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct ConnectArgs {
    /// Local service: a port of this machine, HOST:PORT, or a URL without a path
    #[arg(value_name = "PORT|HOST:PORT|URL", value_parser = parse_service)]
    pub(crate) service: ServiceArg,
    /// Kubeconfig of the cluster [default: kubectl's, or the pod's ServiceAccount]
    #[arg(long, env = "APLOMB_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Namespace of the tunnel [default: that of the kubeconfig's context]
    #[arg(long, short, env = "APLOMB_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Custom hostname in addition to the assigned one; may be repeated
    #[arg(long, value_name = "HOSTNAME")]
    pub(crate) hostname: Vec<String>,
    /// Name of the Connector and the HTTPProxy [default: from the machine and the port]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// ConnectorClass [default: aplomb]
    #[arg(long, value_name = "NAME")]
    pub(crate) class: Option<String>,
    /// Seconds without a heartbeat before the connector is offline [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(3..=3_600))]
    pub(crate) lease: Option<u32>,
    /// File of the secret key, created if it does not exist [default: ~/.local/state/aplomb/NAME.key]
    #[arg(long, env = "APLOMB_CONNECT_KEY_FILE", value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print each event as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Delete the HTTPProxy and the Connector at the end, instead of keeping them for the next start
    #[arg(long)]
    pub(crate) delete_on_exit: bool,
    /// PEM file of authorities to trust for an https service, in addition to the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) origin_ca: Option<PathBuf>,
    /// Accept any certificate of an https service
    #[arg(long)]
    pub(crate) origin_insecure: bool,
    /// Time limit in seconds for the tunnel to be proven; exit code 124 after it
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) wait: Option<u32>,
    /// Further service that HTTPProxies may send requests to; may be repeated
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_target)]
    pub(crate) expose: Vec<ExposedTarget>,
    /// Create no HTTPProxy: serve those that name this connector
    #[arg(long, conflicts_with = "hostname")]
    pub(crate) connector_only: bool,
    /// Address to listen on for gateways; may be repeated [default: all addresses, any port]
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) bind: Vec<SocketAddr>,
    /// Further address at which gateways reach this machine; may be repeated
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) advertise: Vec<SocketAddr>,
    /// Publish no addresses: gateways connect through the relays of the class
    #[arg(long)]
    pub(crate) relay_only: bool,
}

/// The target of a tunnel.
#[derive(Clone, Debug)]
pub(crate) struct ServiceArg {
    pub(crate) target: ExposedTarget,
    pub(crate) https: bool,
}

fn parse_service(text: &str) -> Result<ServiceArg, String> {
    let (https, rest) = match text.split_once("://") {
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        Some((scheme, _)) => {
            return Err(format!("{scheme}:// is not supported; use http:// or https://"));
        }
        None => (false, text),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let local = format!("localhost:{rest}");
    let written = match rest.bytes().all(|b| b.is_ascii_digit()) {
        true => &local,
        false => rest,
    };
    let target = parse_target(written)?;
    Ok(ServiceArg { target, https })
}

fn parse_target(text: &str) -> Result<ExposedTarget, String> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_port_a_host_or_a_url() {
        for (text, target, https) in [
            ("3000", "localhost:3000", false),
            ("192.0.2.7:80", "192.0.2.7:80", false),
            ("http://web:8080/", "web:8080", false),
            ("https://localhost:8443", "localhost:8443", true),
            ("[2001:db8::1]:80", "[2001:db8::1]:80", false),
        ] {
            let read = parse_service(text).expect(text);
            assert_eq!((read.target.to_string().as_str(), read.https), (target, https));
        }
    }

    #[test]
    fn an_invalid_service_is_answered_with_an_example() {
        for text in ["", "0", "70000", "ftp://web:21", "web", "http://web:80/path"] {
            let said = parse_service(text).expect_err(text);
            assert!(said.contains("localhost:3000") || said.contains("http://"), "{said}");
        }
    }
}
