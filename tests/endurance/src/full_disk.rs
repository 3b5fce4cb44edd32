//! A disk without room: writes are refused, reads go on, and nothing that was acknowledged is lost.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use http::Method;
use serde_json::json;

use crate::process::Recipe;
use crate::wire::Connection;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What one object weighs.
const WEIGHT: usize = 100_000;
/// How large a file may become.
const ROOM: u64 = 6 << 20;
/// Objects after which there must be no room.
const MANY: usize = 200;

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
    let fitted = fill(&running.client).await?;
    // A refused write is refused again, and what is there can be read.
    let again = create(&running.client, MANY + 1).await?;
    ensure!(again == 500, "a write without room was answered {again}");
    let there = names(&running.client).await?;
    ensure!(there == fitted, "{there} objects, {fitted} acknowledged");
    running.kill().await?;
    recipe.largest_file = None;
    let running = recipe.start().await?;
    let there = names(&running.client).await?;
    ensure!(there == fitted, "{there} objects, {fitted} acknowledged");
    let again = create(&running.client, MANY + 2).await?;
    ensure!(again == 201, "a write with room was answered {again}");
    running.kill().await?;
    Ok(fitted)
}

async fn fill(client: &Connection) -> Result<usize> {
    for number in 0..MANY {
        match create(client, number).await? {
            201 => {}
            500 if number > 0 => return Ok(number),
            code => bail!("object {number} was answered {code}"),
        }
    }
    bail!("{MANY} objects fitted into {ROOM} bytes")
}

async fn create(client: &Connection, number: usize) -> Result<u16> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": format!("full-{number}"), "labels": { "example.com/full": "true" } },
        "data": { "text": "x".repeat(WEIGHT) },
    });
    let body = body.to_string().into_bytes();
    let answer = client.ask(Method::POST, CONFIG_MAPS, "application/json", body);
    Ok(answer.await?.code)
}

async fn names(client: &Connection) -> Result<usize> {
    let path = format!("{CONFIG_MAPS}?labelSelector=example.com/full%3Dtrue");
    let list = client.get(&path).await?;
    Ok(list["items"].as_array().map_or(0, Vec::len))
}
