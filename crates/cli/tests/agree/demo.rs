//! `aplomb demo --json --keep` as a process: the address of its page, the results of its stories, and its end.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Longer than any story: a demo without output for this long is stuck.
const LINE_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) struct Demo {
    pub(crate) page: String,
    pub(crate) kubeconfig: String,
    /// How many stories passed, and how many failed.
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Demo {
    pub(crate) async fn start(arguments: &[String]) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_aplomb"))
            .args(["demo", "--json", "--keep"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let out = child.stdout.take().context("it has an output")?;
        let mut demo = Self {
            page: String::new(),
            kubeconfig: String::new(),
            passed: 0,
            failed: 0,
            child,
            lines: BufReader::new(out).lines(),
        };
        let ready = demo.next_line().await?;
        ensure!(ready["kind"] == json!("ready"), "the first line is {ready}");
        let part = |key: &str| ready[key].as_str().map(str::to_owned);
        demo.page = part("page").context("the first line has no page")?;
        demo.kubeconfig = part("kubeconfig").context("the first line has no kubeconfig")?;
        Ok(demo)
    }

    async fn next_line(&mut self) -> Result<Value> {
        let line = timeout(LINE_TIMEOUT, self.lines.next_line())
            .await
            .context("the demo prints nothing")??;
        let line = line.context("the demo has ended")?;
        serde_json::from_str(&line).with_context(|| format!("{line:?} is not JSON"))
    }

    /// Waits until all stories were played, and prints their results.
    pub(crate) async fn wait_finished(&mut self) -> Result<()> {
        loop {
            let line = self.next_line().await?;
            let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            match &*word("kind") {
                "result" => {
                    let pass = word("result") == "PASS";
                    self.passed += usize::from(pass);
                    self.failed += usize::from(!pass);
                    let mark = if pass { "ok    " } else { "FAILED" };
                    println!("{mark}  {}: {}", word("script"), word("figure"));
                }
                "results" if self.passed + self.failed == 0 => bail!("no story was played"),
                "results" => return Ok(()),
                _ => {}
            }
        }
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) async fn end(&mut self) -> Result<()> {
        let id = self.child.id().context("it has ended by itself")?;
        let id = id.to_string();
        let asked = Command::new("kill").args(["-INT", &id]).status().await?;
        ensure!(asked.success(), "cannot send SIGINT");
        let status = timeout(LINE_TIMEOUT, self.child.wait()).await??;
        ensure!(status.success(), "it ended with {status}");
        let left = std::path::Path::new(&self.kubeconfig).exists();
        ensure!(!left, "it left {} behind", self.kubeconfig);
        Ok(())
    }
}
