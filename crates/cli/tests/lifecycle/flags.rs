//! The flags of `aplomb run`: each has an environment variable, the effective settings can be printed, and an address
//! in use is reported in one line.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::stage::Stage;

fn aplomb(args: &[&str], environment: &[(&str, &str)]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aplomb"));
    let output = command.args(args).env_clear().envs(environment.iter().copied());
    Ok(output.output()?)
}

/// The flags of `aplomb run --help`, each with its environment variable.
fn documented_flags() -> Result<BTreeMap<String, Option<String>>> {
    let help = String::from_utf8(aplomb(&["run", "--help"], &[])?.stdout)?;
    let mut flags = BTreeMap::new();
    let mut last = String::new();
    for line in help.lines() {
        let word = line.trim().split([' ', '<']).find(|it| it.starts_with("--"));
        if let Some(flag) = word.filter(|_| line.trim().starts_with('-')) {
            last = flag.to_owned();
            flags.insert(last.clone(), None);
        }
        if let Some((_, rest)) = line.split_once("[env: ") {
            let name = rest.split(['=', ']']).next().context("a name")?;
            flags.insert(last.clone(), Some(name.to_owned()));
        }
    }
    Ok(flags)
}

/// A value for the flag other than its default.
fn sample_value(flag: &str, file: &str) -> Result<String> {
    Ok(match flag {
        "--kubeconfig" | "--hetzner-token-file" => file.to_owned(),
        "--domain" => "other.example.com".to_owned(),
        "--hetzner-endpoint" => "http://192.0.2.1/v1".to_owned(),
        "--namespace" | "--pods-namespace" | "--watch-namespace" => "elsewhere".to_owned(),
        "--admin" => "127.0.0.1:9000".to_owned(),
        "--leader-elect" => "false".to_owned(),
        "--identity" => "another".to_owned(),
        "--log-format" => "json".to_owned(),
        _ => anyhow::bail!("{flag} is new: this test needs a value for it"),
    })
}

fn print_config(more: &[&str], environment: &[(&str, &str)]) -> Result<Value> {
    let args = [&["run", "tunnel", "coder", "egress", "--print-config"], more].concat();
    let output = aplomb(&args, environment)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{more:?} {environment:?}: {said}");
    ensure!(said.is_empty(), "unexpected output {said:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Every flag has an environment variable with the same effect.
pub(crate) fn check_environment(dir: &Path) -> Result<()> {
    let file = dir.join("a-file");
    std::fs::write(&file, "x")?;
    let file = file.to_str().context("a path")?;
    // The default identity contains the process id.
    let same = ("APLOMB_IDENTITY", "same");
    let plain = print_config(&[], &[same])?;
    let mut seen = 0;
    for (flag, name) in documented_flags()? {
        // Flags that only change the output are not settings; the last one's variable is NO_COLOR.
        if ["--help", "--print-config", "--color"].contains(&&*flag) {
            continue;
        }
        let name = name.with_context(|| format!("{flag} has no environment variable"))?;
        let value = sample_value(&flag, file)?;
        let by_flag = print_config(&[&flag, &value], &[same])?;
        let by_name = print_config(&[], &[same, (&name, &value)])?;
        ensure!(by_flag == by_name, "{flag} and {name} differ");
        ensure!(by_flag != plain, "--print-config does not print {flag}");
        seen += 1;
    }
    ensure!(seen > 8, "only {seen} flags");
    println!("        {seen} flags, each also as an environment variable");
    Ok(())
}

/// An admin address in use: one line, and exit code 2.
pub(crate) fn check_address_in_use(stage: &Stage) -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let kubeconfig = stage.server.kubeconfig.to_str().context("a path")?;
    let args = ["run", "tunnel", "coder", "egress"];
    let flags = ["--kubeconfig", kubeconfig, "--admin", &address];
    let output = aplomb(&[&args[..], &flags].concat(), &[])?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(2), "{}: {said}", output.status);
    ensure!(output.stdout.is_empty(), "unexpected output on stdout");
    ensure!(
        said.lines().count() == 1 && said.starts_with("aplomb: ") && said.contains(&address),
        "unexpected message {said:?}"
    );
    Ok(())
}
