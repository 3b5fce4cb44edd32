//! Compares docs/metrics.md with the metrics of a running process: names, types and labels.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use crate::stage::Stage;

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// A metric's type and labels.
type Shape = (String, BTreeSet<String>);

/// The rows of the page's tables: a name in backticks, its type, its labels.
fn documented_metrics() -> BTreeMap<String, Shape> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let shapes = rows.filter_map(|row| {
        let mut cells = row.split('|').map(str::trim);
        let name = cells.next()?.trim_end_matches('`').to_owned();
        let kind = cells.next()?.to_owned();
        let labels = cells.next()?.split(", ").filter(|it| !it.is_empty());
        Some((name, (kind, labels.map(str::to_owned).collect())))
    });
    shapes.collect()
}

/// Served metrics, by the name that their samples have in Prometheus.
fn served_metrics(text: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let mut family = (String::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            family = (name.to_owned(), kind.to_owned());
        } else if !line.starts_with('#') {
            let (sample, labels) = line.split_once(['{', ' ']).unwrap_or((line, ""));
            let name = match family.1.as_str() {
                "counter" => sample.to_owned(),
                _ => family.0.clone(),
            };
            let labels = labels.split_once('}').map_or("", |(labels, _)| labels);
            let names = labels.split("\",").filter_map(|it| it.split('=').next());
            let names = names.filter(|it| !it.is_empty() && *it != "le");
            let shape = shapes.entry(name).or_default();
            shape.0.clone_from(&family.1);
            shape.1.extend(names.map(str::to_owned));
        }
    }
    shapes
}

/// Every served metric is documented as it is.
pub(crate) async fn check_documented(stage: &Stage) -> Result<()> {
    let documented = documented_metrics();
    let admin = &stage.replicas[0].admin;
    let served = served_metrics(&stage.get(&format!("http://{admin}/metrics")).await?);
    ensure!(served.len() > 40, "only {} are served", served.len());
    let wrong: Vec<String> = served
        .iter()
        .filter(|(name, shape)| documented.get(*name) != Some(*shape))
        .map(|(name, shape)| format!("{name} is {shape:?}, not {:?}", documented.get(name)))
        .collect();
    ensure!(wrong.is_empty(), "docs/metrics.md: {}", wrong.join("; "));
    println!(
        "        {} metrics served, {} documented",
        served.len(),
        documented.len()
    );
    Ok(())
}
