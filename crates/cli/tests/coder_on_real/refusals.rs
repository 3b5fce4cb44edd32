//! What coderd would reject is rejected at apply, with the fix in the message.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::fixtures::{provisioner, server};
use crate::stage::Stage;

/// Asserts that an object is rejected with a message that contains each of `words`.
fn check_refused(stage: &Stage, object: &Value, words: &[&str]) -> Result<()> {
    let dry = ["create", "--dry-run=server", "-f", "-"];
    let said = match stage.kubectl_with(&dry, &object.to_string()) {
        Ok(_) => anyhow::bail!("it was accepted: {object}"),
        Err(error) => error.to_string(),
    };
    for word in words {
        ensure!(said.contains(word), "{said:?} does not contain {word:?}");
    }
    let said = said.trim().rsplit(": ").next().unwrap_or_default();
    println!("        {said}");
    Ok(())
}

pub(crate) fn check_names(stage: &Stage) -> Result<()> {
    let long = "a".repeat(65);
    for name in [
        long.as_str(),
        "Team",
        "built-in",
        "user-auth",
        "psk",
        "PSK",
        "team_",
        "a b",
        "té",
        "a/b",
        "",
    ] {
        let mut object = provisioner("team", &stage.url);
        object["spec"]["key"] = json!({ "name": name });
        check_refused(stage, &object, &["spec.key.name"])?;
    }
    check_refused(stage, &provisioner("psk", &stage.url), &["key.name"])?;
    let mut longest = provisioner("team", &stage.url);
    longest["spec"]["key"] = json!({ "name": "a".repeat(64) });
    let dry = ["create", "--dry-run=server", "-f", "-"];
    stage.kubectl_with(&dry, &longest.to_string())?;
    Ok(())
}

pub(crate) fn check_servers(stage: &Stage) -> Result<()> {
    let mut none = provisioner("team", &stage.url);
    none["spec"]["server"] = Value::Null;
    check_refused(stage, &none, &["controlPlaneRef", "server"])?;
    let mut both = provisioner("team", &stage.url);
    both["spec"]["server"] = server(&stage.url);
    both["spec"]["controlPlaneRef"] = json!({ "name": "coder" });
    check_refused(stage, &both, &["controlPlaneRef", "server"])
}
