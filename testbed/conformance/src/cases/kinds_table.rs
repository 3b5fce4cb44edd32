//! Every built-in kind by a table: good and bad objects, changes and statuses, on both servers.
//!
//! The table is `fixtures/kinds.json`. Each row has objects that are accepted (`good`); merge patches
//! that spoil the first of them (`bad`); and patches of that first object (`change`) and of its status
//! (`status`), accepted or refused. What each server answers is compared whole.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::with;

pub(super) const CASES: &[Case] = &[
    Case::new("kinds-table/core", |t| Box::pin(group(t, "v1"))),
    Case::new("kinds-table/apps", |t| Box::pin(group(t, "apps/v1"))),
    Case::new("kinds-table/batch", |t| Box::pin(group(t, "batch/v1"))),
    Case::new("kinds-table/autoscaling-v1", |t| Box::pin(group(t, "autoscaling/v1"))),
    Case::new("kinds-table/autoscaling-v2", |t| Box::pin(group(t, "autoscaling/v2"))),
    Case::new("kinds-table/networking", |t| Box::pin(group(t, "networking.k8s.io/v1"))),
    Case::new("kinds-table/storage", |t| Box::pin(group(t, "storage.k8s.io/v1"))),
    Case::new("kinds-table/admission", |t| {
        Box::pin(group(t, "admissionregistration.k8s.io/v1"))
    }),
    Case::new("kinds-table/scheduling", |t| Box::pin(group(t, "scheduling.k8s.io/v1"))),
    Case::new("kinds-table/node", |t| Box::pin(group(t, "node.k8s.io/v1"))),
    Case::new("kinds-table/registration", |t| {
        Box::pin(group(t, "apiregistration.k8s.io/v1"))
    }),
    Case::new("kinds-table/certificates", |t| {
        Box::pin(group(t, "certificates.k8s.io/v1"))
    }),
    Case::new("kinds-table/flow-control", |t| {
        Box::pin(group(t, "flowcontrol.apiserver.k8s.io/v1"))
    }),
    Case::new("kinds-table/resource", |t| Box::pin(group(t, "resource.k8s.io/v1"))),
];

/// One kind of the table.
#[derive(Debug, Deserialize)]
struct Row {
    /// Group, version and plural: `apps/v1/statefulsets`.
    resource: String,
    #[serde(default)]
    cluster: bool,
    /// What the bad objects are made from, where no good one is to be stored.
    seed: Option<Value>,
    #[serde(default)]
    good: Vec<Value>,
    #[serde(default)]
    bad: Vec<Value>,
    #[serde(default)]
    change: Vec<Value>,
    #[serde(default)]
    status: Vec<Value>,
}

fn rows(group_version: &str) -> Result<Vec<(String, Row)>> {
    let rows: Vec<Row> = serde_json::from_str(include_str!("../fixtures/kinds.json"))?;
    let mut found = Vec::new();
    for row in rows {
        let (version, plural) = row.resource.rsplit_once('/').context("a resource")?;
        if version == group_version {
            found.push((plural.to_owned(), row));
        }
    }
    ensure!(!found.is_empty(), "the table has no {group_version}");
    Ok(found)
}

async fn group(t: &CaseRun, group_version: &str) -> Result<()> {
    for (plural, row) in rows(group_version)? {
        let root = if group_version == "v1" { "api" } else { "apis" };
        let place = match row.cluster {
            true => plural.clone(),
            false => format!("namespaces/{}/{plural}", t.namespace),
        };
        let path = format!("/{root}/{group_version}/{place}");
        kind(t, &path, &plural, &row).await?;
    }
    Ok(())
}

fn named(body: &Value, name: &str) -> Value {
    with(&json!({ "metadata": { "name": name } }), body.clone())
}

async fn kind(t: &CaseRun, path: &str, plural: &str, row: &Row) -> Result<()> {
    let mut names = Vec::new();
    for (index, body) in row.good.iter().enumerate() {
        let body = named(body, &format!("{plural}-good-{index}"));
        let made = t.create(path, &body).await?.code(201)?;
        names.push(made.text("/metadata/name"));
    }
    let seed = row.seed.as_ref().or(row.good.first());
    let seed = seed.cloned().unwrap_or_else(|| json!({}));
    for (index, patch) in row.bad.iter().enumerate() {
        let body = with(&named(&seed, &format!("{plural}-bad-{index}")), patch.clone());
        let answer = t.create(path, &body).await?;
        if answer.code == 201 {
            // Some look worse than they are; which is for the real server to say.
            let made = format!("{path}/{}", answer.text("/metadata/name"));
            t.delete(&made).await?;
        }
    }
    if let Some(first) = names.first() {
        let one = format!("{path}/{first}");
        for patch in &row.change {
            t.merge(&one, patch).await?;
        }
        for patch in &row.status {
            t.merge(&format!("{one}/status"), patch).await?;
        }
        t.get(&one).await?.code(200)?;
    }
    for name in &names {
        t.delete(&format!("{path}/{name}")).await?.code(200)?;
    }
    t.get(&format!("{path}?fieldSelector=spec.bogus%3Dx"))
        .await?
        .code(400)?;
    Ok(())
}
