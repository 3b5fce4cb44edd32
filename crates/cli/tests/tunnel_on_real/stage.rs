//! The control plane, the operator, gateways and agents, each a process with its own ServiceAccount,
//! with helpers to use them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aplomb_controlplane::{ControlPlane, Options};
use kube::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::kubectl::kubectl;
use crate::prober::{Prober, Target};
use crate::process::Process;

/// Time limit of each step. Generous: other tests use the same cores, and a slow machine may be ten times
/// slower. The time is printed; promises are asserted in virtual time.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);
/// The base domain of assigned hostnames.
pub(crate) const DOMAIN: &str = "tunnels.example.com";
/// The operator's namespace.
pub(crate) const SYSTEM: &str = "aplomb-system";
/// The ServiceAccounts of the operator and of gateways.
pub(crate) const OPERATOR: &str = "aplomb-tunnel";
pub(crate) const GATEWAY: &str = "aplomb-gateway";
/// The ServiceAccount of agents, in each namespace that has some.
pub(crate) const AGENT: &str = "aplomb-agent";

pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) listen: String,
    pub(crate) listen_tls: String,
    pub(crate) admin: String,
}

pub(crate) struct Stage {
    pub(crate) operator: Option<Process>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) plane: ControlPlane,
    pub(crate) http: reqwest::Client,
    /// The gateways' `/etc/hosts`, if a mount namespace can be created.
    pub(crate) hosts: Option<PathBuf>,
    dir: TempDir,
}

/// Names that lead into the gateway's own network, as a tenant's DNS could define them.
const HOSTS: &str = "127.0.0.1 localhost inside.example.net\n::1 inside6.example.net\n\
    169.254.169.254 metadata.example.net\n";

impl Stage {
    /// Starts the servers, but nothing of ours.
    pub(crate) async fn set_up() -> Result<Self> {
        let options = Options {
            audit_log: true,
            // It requires the right to block the deletion of an owner, as some clusters do.
            apiserver_args: vec!["--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned()],
            ..Options::with_garbage_collection()
        };
        let dir = tempfile::tempdir()?;
        let namespaces = Command::new("unshare").args(["-rm", "true"]).status();
        let hosts = namespaces
            .is_ok_and(|status| status.success())
            .then(|| dir.path().join("hosts"));
        if let Some(hosts) = &hosts {
            std::fs::write(hosts, HOSTS)?;
        }
        Ok(Self {
            operator: None,
            gateways: Vec::new(),
            plane: ControlPlane::start(options).await?,
            http: reqwest::Client::builder().no_proxy().build()?,
            hosts,
            dir,
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// An administrator's client, where kubectl would be too slow.
    pub(crate) async fn client(&self) -> Result<Client> {
        self.plane.client().await
    }

    /// A kubeconfig with a ServiceAccount's token, created with kubectl.
    pub(crate) fn kubeconfig(&self, namespace: &str, account: &str) -> Result<PathBuf> {
        let path = self.dir().join(format!("{namespace}-{account}.kubeconfig"));
        if !path.exists() {
            let token = self.kubectl(&["create", "token", account, "-n", namespace])?;
            let config = self.plane.kubeconfig(token.trim())?;
            std::fs::write(&path, serde_json::to_vec(&config)?)?;
        }
        Ok(path)
    }

    /// Starts the operator, instead of the previous one.
    pub(crate) fn start_operator(&mut self) -> Result<()> {
        self.start_operator_with("true")
    }

    /// The same without waiting for the lease of a killed one.
    pub(crate) fn start_operator_without_lease(&mut self) -> Result<()> {
        self.start_operator_with("false")
    }

    fn start_operator_with(&mut self, leader_elect: &str) -> Result<()> {
        self.operator = None;
        let kubeconfig = self.kubeconfig(SYSTEM, OPERATOR)?;
        let flags = [
            ("--kubeconfig", kubeconfig.to_str().context("a path")?),
            ("--domain", DOMAIN),
            ("--namespace", SYSTEM),
            ("--identity", "operator"),
            ("--leader-elect", leader_elect),
            ("--log-format", "json"),
        ];
        let flags = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
        let args: Vec<&str> = ["run", "tunnel"].into_iter().chain(flags).collect();
        self.operator = Some(Process::aplomb(self.dir(), "operator", &to_strings(&args))?);
        Ok(())
    }

    /// Starts a gateway, or restarts it at its addresses.
    pub(crate) fn start_gateway(&mut self, name: &str) -> Result<()> {
        let at = self.gateways.iter().position(|g| g.process.name == name);
        let old = at.map(|at| self.gateways.remove(at));
        let addresses = match &old {
            Some(old) => [&old.listen, &old.listen_tls, &old.admin].map(Clone::clone),
            None => [free_address()?, free_address()?, free_address()?],
        };
        drop(old);
        let [listen, listen_tls, admin] = addresses;
        let kubeconfig = self.kubeconfig(SYSTEM, GATEWAY)?;
        let flags = [
            "gateway",
            "--kubeconfig",
            kubeconfig.to_str().context("a path")?,
            "--namespace",
            SYSTEM,
            "--identity",
            name,
            "--listen",
            &listen,
            "--listen-tls",
            &listen_tls,
            "--admin",
            &admin,
        ];
        let args = to_strings(&flags);
        let process = match &self.hosts {
            Some(hosts) => Process::with_hosts(self.dir(), name, hosts, &args)?,
            None => Process::aplomb(self.dir(), name, &args)?,
        };
        self.gateways.push(Gateway {
            process,
            listen,
            listen_tls,
            admin,
        });
        Ok(())
    }

    pub(crate) fn find_gateway(&mut self, name: &str) -> Result<&mut Gateway> {
        let mut all = self.gateways.iter_mut();
        all.find(|gateway| gateway.process.name == name)
            .with_context(|| format!("unknown gateway {name}"))
    }

    /// The public listener of the first gateway.
    pub(crate) fn listen_address(&self) -> &str {
        &self.gateways[0].listen
    }

    /// Starts an agent that exposes `target` as the Connector `name`.
    pub(crate) fn start_agent(&self, namespace: &str, name: &str, target: &str, more: &[&str]) -> Result<Process> {
        let kubeconfig = self.kubeconfig(namespace, AGENT)?;
        let key = self.dir().join(format!("{namespace}-{name}.key"));
        let flags = [
            "connect",
            target,
            "--kubeconfig",
            kubeconfig.to_str().context("a path")?,
            "--namespace",
            namespace,
            "--name",
            name,
            "--key-file",
            key.to_str().context("a path")?,
            "--json",
        ];
        let args = to_strings(&[&flags[..], more].concat());
        Process::aplomb(self.dir(), &format!("{namespace}-{name}"), &args)
    }

    /// A namespace with the shipped Role for agents, created as the file describes.
    pub(crate) fn create_tenant(&self, namespace: &str) -> Result<()> {
        self.kubectl(&["create", "namespace", namespace])?;
        let role = include_str!("../../../../deploy/tunnel/samples/agent-rbac.yaml");
        let role = role.replace("namespace: default", &format!("namespace: {namespace}"));
        self.kubectl_with(&["apply", "-f", "-"], &role)?;
        Ok(())
    }

    /// Runs kubectl as the administrator, in the checkout.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with(args, "")
    }

    /// The same, with `input` on standard input.
    pub(crate) fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        kubectl(&self.plane, args, input)
    }

    /// `kubectl apply -f -`
    pub(crate) fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl_with(&["apply", "-f", "-"], &object.to_string())?;
        Ok(())
    }

    /// `kubectl wait` for a condition of an object.
    pub(crate) fn wait_for(&self, namespace: &str, object: &str, what: &str) -> Result<()> {
        let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
        let what = format!("--for={what}");
        let waited = self.kubectl(&["wait", "-n", namespace, &what, object, &timeout]);
        if let Err(error) = waited {
            let now = self.kubectl(&["get", "-n", namespace, object, "-o", "yaml"])?;
            bail!("{error}\n{now}");
        }
        Ok(())
    }

    /// One value of an object, by JSON path.
    pub(crate) fn read_field(&self, namespace: &str, object: &str, path: &str) -> Result<String> {
        let path = format!("jsonpath={{{path}}}");
        self.kubectl(&["get", "-n", namespace, object, "-o", &path])
    }

    /// Fifty requests per second to a tunnel, through every gateway in turn.
    pub(crate) fn start_prober(&self, namespace: &str, name: &str, hostname: &str) -> Result<Prober> {
        let listeners = self.gateways.iter().map(|g| g.listen.clone()).collect();
        let target = Target {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            hostname: hostname.to_owned(),
            listeners,
        };
        Prober::start(&self.plane.kubeconfig_path(), target)
    }

    /// The response of a gateway's admin address.
    pub(crate) async fn get_admin(&self, gateway: &str, path: &str) -> Result<String> {
        let found = self.gateways.iter().find(|g| g.process.name == gateway);
        let admin = &found.context("no such gateway")?.admin;
        let response = self.http.get(format!("http://{admin}{path}")).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }

    /// Polls, because another process cannot be awaited.
    pub(crate) async fn wait_until(&self, what: &str, holds: impl AsyncFn() -> bool) -> Result<Duration> {
        let began = Instant::now();
        while began.elapsed() < TIMEOUT {
            if holds().await {
                return Ok(began.elapsed());
            }
            sleep(Duration::from_millis(20)).await;
        }
        bail!("not within {TIMEOUT:?}: {what}")
    }

    /// The end of every log, after a failure.
    pub(crate) fn show_logs(&self) {
        let mut logs: Vec<_> = std::fs::read_dir(self.dir())
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .collect();
        logs.sort();
        for path in logs {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            println!("-- {}", path.display());
            for line in &lines[lines.len().saturating_sub(25)..] {
                println!("{line}");
            }
        }
    }
}

fn to_strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// A free address.
pub(crate) fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
