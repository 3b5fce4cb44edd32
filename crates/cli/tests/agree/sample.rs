//! The objects that a source shows at one moment, each with its version and the texts of its columns. Ages are left
//! out: they depend on the moment, not on the object.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use aplomb_console::status::Overview;
use aplomb_console::table::{self, KindInfo, ObjectTable};
use serde_json::Value;

/// An object: kind, namespace, name.
pub(crate) type Object = (String, String, String);
/// Texts by column.
pub(crate) type Cells = BTreeMap<String, String>;

/// One object, as shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SampledObject {
    pub(crate) version: u64,
    pub(crate) cells: Cells,
}

/// Everything that one source shows.
pub(crate) type Sample = BTreeMap<Object, SampledObject>;

/// The column name under which toggles are compared.
pub(crate) const TOGGLE: &str = "toggle";

pub(crate) fn parse_version(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("{text:?} is not a version"))
}

/// Whether a column is an age.
pub(crate) fn is_age(kinds: &[KindInfo], kind: &str, column: &str) -> bool {
    let resource = kinds.iter().find(|it| it.kind == kind);
    let columns = resource.into_iter().flat_map(|it| &it.columns);
    let mut named = columns.filter(|it| it.name == column);
    named.any(|it| it.type_ == "date")
}

/// The rows of a table.
fn sample_table(table: &ObjectTable) -> Result<Sample> {
    let row = |row: &table::TableRow| {
        let object = (
            table.kind.clone(),
            row.namespace.clone().unwrap_or_default(),
            row.name.clone(),
        );
        let columns = table.columns.iter().zip(&row.cells);
        let cells = columns
            .filter(|(column, _)| column.type_ != "date")
            .map(|(column, cell)| (column.name.clone(), cell.clone()));
        let shown = SampledObject {
            version: parse_version(&row.resource_version)?,
            cells: cells.collect(),
        };
        Ok((object, shown))
    };
    table.rows.iter().map(row).collect()
}

/// The content of `/status.json`: its tables, and the toggles of its tunnels.
pub(crate) fn sample_status(text: &str) -> Result<Sample> {
    let status: Overview = serde_json::from_str(text)?;
    let value: Value = serde_json::from_str(text)?;
    let mut sample = Sample::new();
    for table in &status.tables {
        sample.extend(sample_table(table)?);
    }
    for tunnel in value["tunnels"].as_array().into_iter().flatten() {
        let part = |key: &str| tunnel[key].as_str().unwrap_or_default().to_owned();
        let object = ("HTTPProxy".to_owned(), part("namespace"), part("name"));
        let light = |key: &str| tunnel["light"][key].as_str().unwrap_or_default();
        let toggle = format!("{} {}", light("colour"), light("stage"));
        if let Some(shown) = sample.get_mut(&object)
            && parse_version(&part("resourceVersion"))? == shown.version
        {
            shown.cells.insert(TOGGLE.to_owned(), toggle);
        }
    }
    Ok(sample)
}

/// The output of `aplomb get -o json`, printed with the columns of each kind's CRD.
pub(crate) fn sample_objects(kinds: &[KindInfo], text: &str) -> Result<Sample> {
    let list: Value = serde_json::from_str(text)?;
    let mut sample = Sample::new();
    for object in list["items"].as_array().context("the output is not a List")? {
        let kind = object["kind"].as_str().unwrap_or_default();
        let resource = kinds.iter().find(|it| it.kind == kind);
        let resource = resource.with_context(|| format!("unknown kind {kind}"))?;
        let at = aplomb::Clock::system().now();
        sample.extend(sample_table(&resource.build_table([object], at))?);
    }
    Ok(sample)
}
