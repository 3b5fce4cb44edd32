//! The flags of `aplomb run`: each has an environment name, the settings in force can be printed, and an address
//! that is taken is told in one line.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::stage::Stage;

fn aplomb(args: &[&str], environment: &[(&str, &str)]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aplomb"));
    let output = command
        .args(args)
        .env_clear()
        .envs(environment.iter().copied());
    Ok(output.output()?)
}

/// The flags of `aplomb run --help`, each with its environment name.
fn documented_flags() -> Result<BTreeMap<String, Option<String>>> {
    let help = String::from_utf8(aplomb(&["run", "--help"], &[])?.stdout)?;
    let mut flags = BTreeMap::new();
    let mut last = String::new();
    for line in help.lines() {
        let word = line
            .trim()
            .split([' ', '<'])
            .find(|it| it.starts_with("--"));
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

/// Something that the flag takes and that is not its default.
fn sample_value(flag: &str, file: &str) -> Result<String> {
    Ok(match flag {
        "--kubeconfig" | "--hetzner-token-file" => file.to_owned(),
        "--domain" => "other.example.com".to_owned(),
        "--hetzner-endpoint" => "http://192.0.2.1/v1".to_owned(),
        "--namespace" | "--pods-namespace" | "--watch-namespace" => "elsewhere".to_owned(),
        "--admin" => "127.0.0.1:9000".to_owned(),
        "--leader-elect" => "false".to_owned(),
        "--identity" => "somebody".to_owned(),
        "--log-format" => "json".to_owned(),
        _ => anyhow::bail!("{flag} is new: this test needs a value for it"),
    })
}

fn print_config(more: &[&str], environment: &[(&str, &str)]) -> Result<Value> {
    let args = [
        &["run", "tunnel", "coder", "egress", "--print-config"],
        more,
    ]
    .concat();
    let output = aplomb(&args, environment)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{more:?} {environment:?}: {said}");
    ensure!(said.is_empty(), "it says {said:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Every flag has an environment name, and both ways come to the same.
pub(crate) fn check_environment(dir: &Path) -> Result<()> {
    let file = dir.join("a-file");
    std::fs::write(&file, "x")?;
    let file = file.to_str().context("a path")?;
    // The identity has the process in it, unless it is given.
    let same = ("APLOMB_IDENTITY", "same");
    let plain = print_config(&[], &[same])?;
    let mut seen = 0;
    for (flag, name) in documented_flags()? {
        // What is shown and how is no setting; NO_COLOR is the environment's word for the last.
        if ["--help", "--print-config", "--color"].contains(&&*flag) {
            continue;
        }
        let name = name.with_context(|| format!("{flag} has no environment name"))?;
        let value = sample_value(&flag, file)?;
        let by_flag = print_config(&[&flag, &value], &[same])?;
        let by_name = print_config(&[], &[same, (&name, &value)])?;
        ensure!(by_flag == by_name, "{flag} and {name} differ");
        ensure!(by_flag != plain, "--print-config does not show {flag}");
        seen += 1;
    }
    ensure!(seen > 8, "only {seen} flags");
    println!("        {seen} flags, each by its environment name too");
    Ok(())
}

/// An admin address that somebody has: one line, and 2.
pub(crate) fn check_address_in_use(stage: &Stage) -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let kubeconfig = stage.server.kubeconfig.to_str().context("a path")?;
    let args = ["run", "tunnel", "coder", "egress"];
    let flags = ["--kubeconfig", kubeconfig, "--admin", &address];
    let output = aplomb(&[&args[..], &flags].concat(), &[])?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(2), "{}: {said}", output.status);
    ensure!(output.stdout.is_empty(), "it prints something");
    ensure!(
        said.lines().count() == 1 && said.starts_with("aplomb: ") && said.contains(&address),
        "it says {said:?}"
    );
    Ok(())
}
