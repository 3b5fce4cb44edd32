//! The control plane, the simulated server and the operator, with helpers to use each.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aplomb_controlplane::{ControlPlane, Options};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::fixtures::{NAMESPACE, NEXT_TOKEN, TOKEN};
use crate::kubectl::kubectl;
use crate::process::Process;

/// Generous: other tests use the same cores.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);
/// The ServiceAccount, as the API server names it.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:aplomb-system:aplomb-coder";

pub(crate) struct Stage {
    pub(crate) plane: ControlPlane,
    pub(crate) operator: Option<Process>,
    pub(crate) admin: String,
    /// The logs of earlier operators.
    previous_logs: String,
    /// What Secrets have held so far.
    pub(crate) recorded_secrets: RefCell<BTreeSet<String>>,
    sim: Process,
    pub(crate) url: String,
    http: reqwest::Client,
    dir: TempDir,
}

impl Stage {
    /// Starts the servers, but no operator.
    pub(crate) async fn set_up() -> Result<Self> {
        let options = Options {
            audit_log: true,
            // It requires the right to block the deletion of an owner, as some clusters do.
            apiserver_args: vec!["--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned()],
            ..Options::with_garbage_collection()
        };
        let plane = ControlPlane::start(options).await?;
        let dir = tempfile::tempdir()?;
        let tokens = dir.path().join("tokens");
        std::fs::write(&tokens, format!("{TOKEN} admin owner\n{NEXT_TOKEN} admin owner\n"))?;
        let (listen, kubeconfig) = (free_address()?, plane.kubeconfig_path());
        let flags = [
            ("--listen", listen.as_str()),
            ("--token-file", tokens.to_str().context("a path")?),
            ("--kubeconfig", kubeconfig.to_str().context("a path")?),
            // So that disconnected daemons are detected soon.
            ("--heartbeat", "2s"),
            ("--job", "3s"),
        ];
        let flags = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
        let sim = ["sim", "coderd", "--ends-sessions"].into_iter();
        let args: Vec<&str> = sim.chain(flags).collect();
        let stage = Self {
            plane,
            operator: None,
            admin: String::new(),
            previous_logs: String::new(),
            recorded_secrets: RefCell::default(),
            sim: Process::aplomb(dir.path(), "sim", &args)?,
            url: format!("http://{listen}"),
            http: reqwest::Client::new(),
            dir,
        };
        let serves = async || stage.debug_state().await.is_ok();
        stage.wait_until("the server serves", serves).await?;
        stage.kubectl(&["create", "namespace", NAMESPACE])?;
        Ok(stage)
    }

    /// Starts the operator, or the next one, with the rights of the ServiceAccount.
    pub(crate) async fn start_operator(&mut self) -> Result<()> {
        self.previous_logs += &self.read_log()?;
        let (kubeconfig, admin) = (self.kubeconfig()?, free_address()?);
        let flags = [
            ("--kubeconfig", kubeconfig.to_str().context("a path")?),
            ("--namespace", "aplomb-system"),
            ("--identity", "one"),
            ("--admin", &admin),
            ("--log-format", "json"),
        ];
        let flags = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
        let args: Vec<&str> = ["run", "coder"].into_iter().chain(flags).collect();
        self.operator = Some(Process::aplomb(self.dir.path(), "operator", &args)?);
        self.admin = format!("http://{admin}");
        let ready = async || self.get_admin("/readyz").await.is_ok();
        self.wait_until("the operator is ready", ready).await
    }

    /// The logs of all operators.
    pub(crate) fn read_log(&self) -> Result<String> {
        let now = self.operator.as_ref().map(Process::log).transpose()?;
        Ok(format!("{}{}", self.previous_logs, now.unwrap_or_default()))
    }

    /// A kubeconfig with the ServiceAccount's token, created with kubectl.
    fn kubeconfig(&self) -> Result<PathBuf> {
        let token = self.kubectl(&["create", "token", "aplomb-coder", "-n", "aplomb-system"])?;
        let path = self.dir.path().join("operator.kubeconfig");
        let config = self.plane.kubeconfig(token.trim())?;
        std::fs::write(&path, serde_json::to_vec(&config)?)?;
        Ok(path)
    }

    /// Runs kubectl as the administrator, in the checkout.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with(args, "")
    }

    /// The same, with `input` on standard input.
    pub(crate) fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        kubectl(&self.plane, args, input)
    }

    pub(crate) fn apply(&self, object: &Value) -> Result<String> {
        self.kubectl_with(&["apply", "-f", "-"], &object.to_string())
    }

    /// The same in the namespace of the objects.
    pub(crate) fn get_object(&self, args: &[&str]) -> Result<String> {
        self.kubectl(&[&["-n", NAMESPACE], args].concat())
    }

    /// `kubectl wait`.
    pub(crate) fn wait_for(&self, object: &str, what: &str) -> Result<()> {
        let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
        let what = format!("--for={what}");
        self.get_object(&["wait", &what, object, &timeout])?;
        Ok(())
    }

    /// One field of an object.
    pub(crate) fn read_field(&self, object: &str, path: &str) -> Result<String> {
        let path = format!("jsonpath={{{path}}}");
        self.get_object(&["get", object, "-o", &path])
    }

    /// The server's whole state.
    pub(crate) async fn debug_state(&self) -> Result<Value> {
        self.control("GET", "/_sim/state", None).await
    }

    /// The names in one of the server's lists, such as `keys`.
    pub(crate) async fn names(&self, list: &str) -> Result<BTreeSet<String>> {
        let state = self.debug_state().await?;
        let all = state[list].as_array().context("no such list")?;
        // A deleted proxy stays in the state.
        let there = all.iter().filter(|it| it["deleted"] != true);
        let name = |it: &Value| it["name"].as_str().map(str::to_owned);
        Ok(there.filter_map(name).collect())
    }

    /// Requests to the server after number `since`.
    pub(crate) async fn requests(&self, since: u64) -> Result<Vec<Value>> {
        let path = format!("/_sim/requests?since={since}");
        let answer = self.control("GET", &path, None).await?;
        let requests = answer["requests"].as_array().context("no requests")?;
        Ok(requests.clone())
    }

    /// The number of the last request.
    pub(crate) async fn last_request(&self) -> Result<u64> {
        let last = self.requests(0).await?.last().map(|it| it["n"].as_u64());
        Ok(last.flatten().unwrap_or_default())
    }

    /// Calls the simulator's own control API.
    pub(crate) async fn control(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value> {
        let url = format!("{}{path}", self.url);
        let request = self.http.request(method.parse()?, url);
        let request = match body {
            Some(body) => request.body(body.to_string()),
            None => request,
        };
        let response = request.send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status.is_success(), "{method} {path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// The response of the operator's admin address.
    pub(crate) async fn get_admin(&self, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.admin);
        let response = self.http.get(url).send().await?.error_for_status()?;
        Ok(response.text().await?)
    }

    /// Polls, because another process cannot be awaited.
    pub(crate) async fn wait_until(&self, what: &str, holds: impl AsyncFn() -> bool) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if holds().await {
                return Ok(());
            }
            sleep(Duration::from_millis(200)).await;
        }
        bail!("not within {TIMEOUT:?}: {what}")
    }

    /// The end of every log, after a failure.
    pub(crate) fn show_logs(&self) {
        let operator = self.operator.iter().map(|it| ("operator", it));
        for (name, process) in operator.chain([("sim", &self.sim)]) {
            let log = process.log().unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            println!("-- {name}");
            for line in &lines[lines.len().saturating_sub(60)..] {
                println!("{line}");
            }
        }
    }
}

/// A free address.
fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
