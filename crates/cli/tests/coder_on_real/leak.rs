//! No part of a token or key may appear outside its Secret. Runs last, after error responses that contain
//! the token.

use anyhow::{Result, ensure};

use crate::fixtures::{NEXT_TOKEN, TOKEN};
use crate::stage::Stage;

/// The number of consecutive characters that count as a part.
const PART: usize = 8;
/// The only place of plaintexts.
const HELD: &str =
    r#"go-template={{range .items}}{{range .data}}{{. | base64decode}}{{"\n"}}{{end}}{{end}}"#;

pub(crate) async fn search(stage: &Stage) -> Result<()> {
    let secrets = secrets(stage);
    let many = secrets.len();
    ensure!(many > 6, "only {many} secrets were recorded");
    ensure!(
        leaked(&secrets, &TOKEN[10..10 + PART]).is_some(),
        "the search finds nothing"
    );
    let mut places = vec![("the log".to_owned(), stage.log()?)];
    for path in ["/metrics", "/debug/state.json"] {
        places.push((path.to_owned(), stage.shown(path).await?));
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
        let found = leaked(&secrets, text);
        ensure!(found.is_none(), "{place} contains a part of secret {found:?}");
    }
    println!(
        "        {many} secrets, {} places, {searched} characters",
        places.len()
    );
    Ok(())
}

/// The searched values: the tokens, and what Secrets have held so far.
fn secrets(stage: &Stage) -> Vec<String> {
    let seen = stage.seen.borrow();
    let tokens = [TOKEN, NEXT_TOKEN].map(str::to_owned);
    tokens.into_iter().chain(seen.iter().cloned()).collect()
}

/// Records the current contents of Secrets.
pub(crate) fn remember(stage: &Stage) -> Result<()> {
    let held = stage.there(&["get", "secrets", "-o", HELD])?;
    let long = held.lines().filter(|line| line.len() >= PART);
    stage.seen.borrow_mut().extend(long.map(str::to_owned));
    Ok(())
}

/// The number of the secret that `text` contains a part of.
fn leaked(secrets: &[String], text: &str) -> Option<usize> {
    secrets.iter().position(|secret| {
        let mut parts = (0..=secret.len().saturating_sub(PART)).map(|at| &secret[at..at + PART]);
        secret.len() >= PART && parts.any(|part| text.contains(part))
    })
}
