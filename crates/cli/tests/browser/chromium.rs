//! The distribution's Chromium, headless, controlled over the DevTools protocol through a pair of pipes.
//!
//! One call at a time: messages that arrive meanwhile are kept as events. Independent of our page.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Time limit of a call: a busy machine starts a browser slowly.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The browser uses the descriptors 3 and 4, which a shell connects.
const PIPE_SCRIPT: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null";

const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A running browser, killed on drop.
pub(crate) struct Chromium {
    _child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    calls: u64,
    events: Vec<Value>,
}

/// A tab.
pub(crate) struct Tab {
    session: String,
}

impl Chromium {
    /// Starts a browser with its profile in `dir`.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let profile = format!("--user-data-dir={}", dir.join("profile").display());
        let mut child = Command::new("sh")
            .args(["-c", PIPE_SCRIPT, "sh", "chromium"])
            .args(FLAGS)
            .arg(profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.join("chromium.log"))?)
            .kill_on_drop(true)
            .spawn()
            .context("starting chromium: is the package installed? (tools/make/need chromium)")?;
        let to = child.stdin.take().context("no pipe to chromium")?;
        let from = child.stdout.take().context("no pipe from chromium")?;
        Ok(Self {
            _child: child,
            stdin: to,
            stdout: BufReader::new(from),
            calls: 0,
            events: Vec::new(),
        })
    }

    /// Opens an empty tab with all event domains enabled.
    pub(crate) async fn open_tab(&mut self) -> Result<Tab> {
        let blank = json!({ "url": "about:blank" });
        let target = self.send(None, "Target.createTarget", blank).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.send(None, "Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().context("no session")?;
        let tab = Tab {
            session: session.to_owned(),
        };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "DOM.enable"] {
            self.call(&tab, domain, json!({})).await?;
        }
        Ok(tab)
    }

    /// Calls a method in a tab.
    pub(crate) async fn call(&mut self, tab: &Tab, method: &str, params: Value) -> Result<Value> {
        self.send(Some(&tab.session), method, params).await
    }

    /// Goes to a page and waits until it has loaded.
    pub(crate) async fn navigate(&mut self, tab: &Tab, url: &str) -> Result<()> {
        self.call(tab, "Page.navigate", json!({ "url": url })).await?;
        self.wait_event(tab, "Page.loadEventFired").await
    }

    /// The value of an expression in the page; a promise is awaited.
    pub(crate) async fn evaluate(&mut self, tab: &Tab, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call(tab, "Runtime.evaluate", params).await?;
        if !answer["exceptionDetails"].is_null() {
            bail!("{expression}: {}", answer["exceptionDetails"]);
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Waits for the next event of this name.
    pub(crate) async fn wait_event(&mut self, tab: &Tab, method: &str) -> Result<()> {
        let wanted = |it: &Value| it["method"] == method && it["sessionId"] == *tab.session;
        let heard = async {
            loop {
                let message = self.receive().await?;
                if wanted(&message) {
                    return Ok(());
                }
                self.events.push(message);
            }
        };
        timeout(TIMEOUT, heard)
            .await
            .with_context(|| format!("no event {method} from chromium"))?
    }

    /// Errors so far: of scripts, the console, requests and the content security policy.
    pub(crate) fn console_errors(&self) -> Vec<String> {
        let complaint = |event: &Value| {
            let (method, params) = (event["method"].as_str()?, &event["params"]);
            let bad = match method {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => params["type"] == "error" || params["type"] == "assert",
                "Log.entryAdded" => params["entry"]["level"] == "error",
                _ => false,
            };
            bad.then(|| format!("{method}: {params}"))
        };
        self.events.iter().filter_map(complaint).collect()
    }

    async fn send(&mut self, session: Option<&str>, method: &str, params: Value) -> Result<Value> {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = serde_json::to_vec(&message)?;
        bytes.push(0);
        self.stdin.write_all(&bytes).await?;
        let answer = async {
            loop {
                let message = self.receive().await?;
                if message["id"] == id {
                    return Ok::<_, anyhow::Error>(message);
                }
                self.events.push(message);
            }
        };
        let answer = timeout(TIMEOUT, answer)
            .await
            .with_context(|| format!("chromium does not respond to {method}"))??;
        match &answer["error"] {
            Value::Null => Ok(answer["result"].clone()),
            error => bail!("{method}: {error}"),
        }
    }

    async fn receive(&mut self) -> Result<Value> {
        let mut bytes = Vec::new();
        self.stdout.read_until(0, &mut bytes).await?;
        if bytes.pop() != Some(0) {
            bail!("chromium ended; see chromium.log");
        }
        Ok(serde_json::from_slice(&bytes)?)
    }
}
