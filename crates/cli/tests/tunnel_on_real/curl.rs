//! Stock `curl` for requests to the public listener, without HTTP code of our own.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

/// A request to `hostname` at a listener.
pub(crate) struct Curl {
    args: Vec<String>,
    url: String,
}

/// The response.
#[derive(Debug)]
pub(crate) struct CurlResponse {
    pub(crate) status: u16,
    /// 1.1 or 2.
    pub(crate) version: String,
    pub(crate) body: String,
    head: String,
}

impl CurlResponse {
    /// The value of a header, or an empty text.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.trim())
    }

    /// Asserts this status and this `X-Aplomb-Reason`.
    pub(crate) fn expect(&self, status: u16, reason: &str) -> Result<()> {
        let said = (self.status, self.header("x-aplomb-reason"));
        ensure!(said == (status, reason), "wanted {status} {reason}: {self:?}");
        Ok(())
    }
}

impl Curl {
    /// `http://hostname/path`, sent to `listener` (ip:port).
    pub(crate) fn http(listener: &str, hostname: &str, path: &str) -> Self {
        Self::new("http", listener, hostname, path)
    }

    /// `https://hostname/path`, trusting only the authority in this file.
    pub(crate) fn https(listener: &str, hostname: &str, path: &str, authority: &str) -> Self {
        Self::new("https", listener, hostname, path).with_args(&["--cacert", authority])
    }

    fn new(scheme: &str, listener: &str, hostname: &str, path: &str) -> Self {
        let port = listener.rsplit(':').next().unwrap_or_default();
        let args = ["-sS", "--noproxy", "*", "--max-time", "600", "--connect-to"];
        let mut args: Vec<_> = args.map(str::to_owned).into();
        args.push(format!("{hostname}:{port}:{listener}"));
        let url = format!("{scheme}://{hostname}:{port}{path}");
        Self { args, url }
    }

    pub(crate) fn with_args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// The command, for callers that need its pipes.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("curl");
        command.args(&self.args).arg(&self.url);
        command
    }

    /// Runs it to the end; a response of any status is fine.
    pub(crate) fn send(self) -> Result<CurlResponse> {
        let format = ["-D", "-", "-w", "\n%{http_code} %{http_version}"];
        let output = self.with_args(&format).command().output()?;
        parse(&output)
    }

    /// The body of a 200.
    pub(crate) fn fetch_body(self) -> Result<String> {
        let answer = self.send()?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.body)
    }
}

fn parse(output: &Output) -> Result<CurlResponse> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "curl: {}", said.trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let (text, end) = text.rsplit_once('\n').context("curl printed nothing")?;
    let (status, version) = end.split_once(' ').context("curl printed no status")?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    Ok(CurlResponse {
        status: status.parse()?,
        version: version.to_owned(),
        body: body.to_owned(),
        head: head.to_owned(),
    })
}
