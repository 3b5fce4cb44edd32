//! No part of a token or key may be anywhere but in its Secret. Runs last, after refusals that name the
//! token.

use anyhow::{Result, ensure};

use crate::fixtures::{NEXT_TOKEN, TOKEN};
use crate::stage::Stage;

/// So many characters of a secret in a row are a part of it.
const PART: usize = 8;
/// Where plaintexts are, and nowhere else.
const HELD: &str =
    r#"go-template={{range .items}}{{range .data}}{{. | base64decode}}{{"\n"}}{{end}}{{end}}"#;

pub(crate) async fn search(stage: &Stage) -> Result<()> {
    let secrets = secrets(stage);
    let many = secrets.len();
    ensure!(many > 6, "only {many} secrets were ever seen");
    ensure!(
        leaked(&secrets, &TOKEN[10..10 + PART]).is_some(),
        "the search is blind"
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
        ensure!(found.is_none(), "{place} has a part of secret {found:?}");
    }
    println!(
        "        {many} secrets, {} places, {searched} characters",
        places.len()
    );
    Ok(())
}

/// Everything that must not be seen: the tokens, and what Secrets have held on the way.
fn secrets(stage: &Stage) -> Vec<String> {
    let seen = stage.seen.borrow();
    let tokens = [TOKEN, NEXT_TOKEN].map(str::to_owned);
    tokens.into_iter().chain(seen.iter().cloned()).collect()
}

/// Keeps in mind what Secrets hold now.
pub(crate) fn remember(stage: &Stage) -> Result<()> {
    let held = stage.there(&["get", "secrets", "-o", HELD])?;
    let long = held.lines().filter(|line| line.len() >= PART);
    stage.seen.borrow_mut().extend(long.map(str::to_owned));
    Ok(())
}

/// The number of the secret that `text` has a part of.
fn leaked(secrets: &[String], text: &str) -> Option<usize> {
    secrets.iter().position(|secret| {
        let mut parts = (0..=secret.len().saturating_sub(PART)).map(|at| &secret[at..at + PART]);
        secret.len() >= PART && parts.any(|part| text.contains(part))
    })
}
