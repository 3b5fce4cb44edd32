//! A disk without room: writes are refused, reads go on, and nothing that was acknowledged is lost.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use futures::future::try_join_all;
use http::Method;
use serde_json::json;

use crate::process::Recipe;
use crate::wire::Connection;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What one object weighs.
const WEIGHT: usize = 100_000;
/// How large a file may become.
const ROOM: u64 = 6 << 20;
/// Who writes at once, so that a group of writes the disk refuses is several people's.
const WRITERS: usize = 8;
/// What each tries to write: far more than there is room for, so that refusals meet refusals.
const TRIES: usize = 25;

/// Fills a disk, and says how many objects fitted.
///
/// # Errors
/// What was not as promised.
pub async fn run(program: &Path) -> Result<usize> {
    let place = tempfile::tempdir()?;
    let mut recipe = Recipe {
        program: program.to_owned(),
        directory: place.path().join("data"),
        keeps: true,
        largest_file: Some(ROOM),
    };
    let running = recipe.start().await?;
    let acknowledged = fill(&running.client).await?;
    // What is there can be read, and a refused write is refused again.
    kept(&running.client, &acknowledged).await?;
    let again = create(&running.client, "once-more").await?;
    ensure!(again == 500, "a write without room was answered {again}");
    running.kill().await?;
    recipe.largest_file = None;
    let running = recipe.start().await?;
    kept(&running.client, &acknowledged).await?;
    let again = create(&running.client, "with-room").await?;
    ensure!(again == 201, "a write with room was answered {again}");
    running.kill().await?;
    Ok(acknowledged.len())
}

/// Writes until nobody finds room; the names that were acknowledged.
async fn fill(client: &Connection) -> Result<BTreeSet<String>> {
    let writers = (0..WRITERS).map(|writer| async move {
        let mut acknowledged = Vec::new();
        for number in 0..TRIES {
            let name = format!("full-{writer}-{number}");
            match create(client, &name).await? {
                201 => acknowledged.push(name),
                500 => {}
                code => bail!("{name} was answered {code}"),
            }
        }
        Ok(acknowledged)
    });
    let acknowledged: BTreeSet<String> = try_join_all(writers).await?.into_iter().flatten().collect();
    let (fitted, tried) = (acknowledged.len(), WRITERS * TRIES);
    ensure!(
        fitted > 0 && fitted < tried,
        "{fitted} of {tried} objects fitted into {ROOM} bytes"
    );
    Ok(acknowledged)
}

async fn create(client: &Connection, name: &str) -> Result<u16> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "example.com/full": "true" } },
        "data": { "text": "x".repeat(WEIGHT) },
    });
    let body = body.to_string().into_bytes();
    let answer = client.ask(Method::POST, CONFIG_MAPS, "application/json", body);
    Ok(answer.await?.code)
}

/// Fails unless everything acknowledged is there.
async fn kept(client: &Connection, acknowledged: &BTreeSet<String>) -> Result<()> {
    let path = format!("{CONFIG_MAPS}?labelSelector=example.com/full%3Dtrue");
    let list = client.get(&path).await?;
    let items = list["items"].as_array().into_iter().flatten();
    let there: BTreeSet<String> = items
        .filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let lost: Vec<&String> = acknowledged.difference(&there).collect();
    ensure!(lost.is_empty(), "acknowledged and not there: {lost:?}");
    Ok(())
}
