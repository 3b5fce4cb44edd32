//! No part of a token or key may appear outside its Secret. Runs last, after error responses that contain
//! the token.

use anyhow::{Result, ensure};

use crate::fixtures::{NEXT_TOKEN, TOKEN};
use crate::stage::Stage;

/// The number of consecutive characters that count as a part.
const MIN_PART_LENGTH: usize = 8;
/// The only place of plaintexts.
const RECORDED_SECRETS: &str =
    r#"go-template={{range .items}}{{range .data}}{{. | base64decode}}{{"\n"}}{{end}}{{end}}"#;

pub(crate) async fn search_secrets(stage: &Stage) -> Result<()> {
    let secrets = secrets(stage);
    let many = secrets.len();
    ensure!(many > 6, "only {many} secrets were recorded");
    ensure!(
        find_leak(&secrets, &TOKEN[10..10 + MIN_PART_LENGTH]).is_some(),
        "the search finds nothing"
    );
    let mut places = vec![("the log".to_owned(), stage.read_log()?)];
    for path in ["/metrics", "/debug/state.json"] {
        places.push((path.to_owned(), stage.get_admin(path).await?));
    }
    for kind in [
        "events",
        "cprov",
        "cwp",
        "deployments",
        "replicasets",
        "serviceaccounts",
        "roles",
        "leases",
    ] {
        let args = ["get", kind, "-A", "-o", "yaml", "--show-managed-fields"];
        places.push((kind.to_owned(), stage.kubectl(&args)?));
    }
    let mut searched = 0;
    for (place, text) in &places {
        searched += text.len();
        let found = find_leak(&secrets, text);
        ensure!(found.is_none(), "{place} contains a part of secret {found:?}");
    }
    println!("        {many} secrets, {} places, {searched} characters", places.len());
    Ok(())
}

/// The searched values: the tokens, and what Secrets have held so far.
fn secrets(stage: &Stage) -> Vec<String> {
    let seen = stage.recorded_secrets.borrow();
    let tokens = [TOKEN, NEXT_TOKEN].map(str::to_owned);
    tokens.into_iter().chain(seen.iter().cloned()).collect()
}

/// Records the current contents of Secrets.
pub(crate) fn record_secrets(stage: &Stage) -> Result<()> {
    let held = stage.get_object(&["get", "secrets", "-o", RECORDED_SECRETS])?;
    let long = held.lines().filter(|line| line.len() >= MIN_PART_LENGTH);
    stage.recorded_secrets.borrow_mut().extend(long.map(str::to_owned));
    Ok(())
}

/// The number of the secret that `text` contains a part of.
fn find_leak(secrets: &[String], text: &str) -> Option<usize> {
    secrets.iter().position(|secret| {
        let mut parts = (0..=secret.len().saturating_sub(MIN_PART_LENGTH)).map(|at| &secret[at..at + MIN_PART_LENGTH]);
        secret.len() >= MIN_PART_LENGTH && parts.any(|part| text.contains(part))
    })
}
