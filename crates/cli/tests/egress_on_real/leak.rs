//! No part of a token may appear outside its Secret. Runs last, after a 429 whose text contains it.

use anyhow::{Result, ensure};

use crate::fixtures::{NEXT_TOKEN, TOKEN};
use crate::stage::Stage;

/// The number of consecutive characters that count as a part.
const MIN_PART_LENGTH: usize = 8;

pub(crate) async fn search_secrets(stage: &Stage) -> Result<()> {
    ensure!(
        contains_secret(&TOKEN[20..20 + MIN_PART_LENGTH]),
        "the search finds nothing"
    );
    let mut places = Vec::new();
    for replica in &stage.replicas {
        places.push((format!("the log of {}", replica.name), replica.process.log()?));
        if !replica.running {
            continue;
        }
        for path in ["/metrics", "/debug/state.json", "/debug/journal/StableEgress/web"] {
            places.push((
                format!("{path} of {}", replica.name),
                stage.get_admin(replica, path).await?,
            ));
        }
    }
    for kind in ["events", "stableegresses", "nodes", "ciliumnodes", "leases"] {
        let args = ["get", kind, "-A", "-o", "yaml", "--show-managed-fields"];
        places.push((kind.to_owned(), stage.kubectl(&args)?));
    }
    let mut searched = 0;
    for (place, text) in &places {
        ensure!(!text.is_empty(), "{place} is empty");
        searched += text.len();
        let found = contains_secret(text);
        ensure!(!found, "{place} contains a part of a token");
    }
    println!("        {} places, {searched} characters", places.len());
    Ok(())
}

fn contains_secret(text: &str) -> bool {
    let parts = |token: &'static str| {
        let starts = 0..=token.len() - MIN_PART_LENGTH;
        starts.map(move |at| &token[at..at + MIN_PART_LENGTH])
    };
    [TOKEN, NEXT_TOKEN]
        .into_iter()
        .flat_map(parts)
        .any(|part| text.contains(part))
}
