//! `aplomb get`, `aplomb trace` and `aplomb status` on a real cluster.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::fixtures::tunnel;
use crate::stage::Stage;
use crate::{TENANT, Tally, TestRun};

const NAME: &str = "looked-at";
const KINDS: [&str; 5] = [
    "httpproxies",
    "connectors",
    "connectorclasses",
    "gatewayreplicas",
    "hostnameclaims",
];

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    let object = tunnel(TENANT, NAME, "looked-at.example.com", TENANT, &play.endpoint());
    let stage = &play.stage;
    let made = stage.apply(&object);
    let name = format!("httpproxy/{NAME}");
    let made = made.and_then(|()| stage.wait_for(TENANT, &name, "condition=Ready"));
    tally.record("a tunnel to show", made);
    tally.record("get prints what kubectl prints", check_same_as_kubectl(stage));
    tally.record("trace shows every stage", check_status_text(stage));
    tally.record("status finds the operator", check_trace(stage));
    let gone = stage.kubectl(&["delete", "-n", TENANT, &name]);
    tally.record("it is gone", gone.map(|_| ()));
}

fn aplomb(stage: &Stage, words: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aplomb"));
    let kubeconfig = stage.plane.kubeconfig_path();
    command.args(words).env("APLOMB_KUBECONFIG", kubeconfig);
    command.output().context("aplomb")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Ages change between two commands, so ours runs before and after kubectl. If that takes too long, kubectl's ages
/// must lie between ours.
fn check_same_as_kubectl(stage: &Stage) -> Result<()> {
    for kind in KINDS {
        let words = ["get", kind, "-A", "-o", "wide"];
        let mut last = String::new();
        let mut agreed = false;
        for _ in 0..5 {
            let before = text(&aplomb(stage, &words)?);
            let theirs = stage.kubectl(&words)?;
            let after = text(&aplomb(stage, &words)?);
            agreed = theirs == before || theirs == after || matches_between(&before, &theirs, &after);
            last = format!("kubectl:\n{theirs}aplomb:\n{before}");
            if agreed {
                break;
            }
        }
        ensure!(agreed, "{last}");
    }
    Ok(())
}

/// Whether `shown` equals `before` and `after` except for ages, which lie between theirs.
fn matches_between(before: &str, shown: &str, after: &str) -> bool {
    let [before, shown, after] = [before, shown, after].map(split_ages);
    let same = before.0 == shown.0 && shown.0 == after.0;
    let ages = before.1.iter().zip(&shown.1).zip(&after.1);
    same && ages.into_iter().all(|((from, is), to)| from <= is && is <= to)
}

/// The words of a table without its ages, and the ages in seconds.
fn split_ages(text: &str) -> (Vec<&str>, Vec<u64>) {
    let (mut words, mut ages) = (Vec::new(), Vec::new());
    for word in text.split_whitespace() {
        match parse_age(word) {
            Some(age) => ages.push(age),
            None => words.push(word),
        }
    }
    (words, ages)
}

/// The seconds in `3m5s`; `None` if it is not an age.
fn parse_age(word: &str) -> Option<u64> {
    let mut rest = word;
    let mut total = 0;
    while !rest.is_empty() {
        let end = rest.find(|it: char| !it.is_ascii_digit())?;
        let unit = match rest[end..].chars().next()? {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        total += unit * rest[..end].parse::<u64>().ok()?;
        rest = &rest[end + 1..];
    }
    Some(total)
}

fn check_status_text(stage: &Stage) -> Result<()> {
    let words = ["trace", "hp", NAME, "-n", TENANT, "-o", "json"];
    let output = aplomb(stage, &words)?;
    let trace: Value = serde_json::from_slice(&output.stdout)?;
    let stages = trace["stages"].as_array().context("stages")?;
    ensure!(
        stages.len() == 5 && stages.iter().all(|it| it["at"].is_string()),
        "{stages:?}"
    );
    let timeline = trace["timeline"].as_array().context("a timeline")?;
    let heard = |from: &str| timeline.iter().any(|it| it["from"] == from);
    ensure!(heard("journal") && heard("managedFields"), "{timeline:?}");
    ensure!(trace["gaps"].is_null(), "{}", trace["gaps"]);
    Ok(())
}

fn check_trace(stage: &Stage) -> Result<()> {
    let output = aplomb(stage, &["status"])?;
    let (said, wrong) = (text(&output), String::from_utf8_lossy(&output.stderr));
    ensure!(said.contains("aplomb-tunnel   leading"), "{said}{wrong}");
    ensure!(said.contains("HTTPProxy in all namespaces"), "{said}");
    Ok(())
}
