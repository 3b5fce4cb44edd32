//! Our kinds as tables: the columns of each kind's CRD, filled from the object as JSON, as the API server
//! prints them for `kubectl get`. Pure: the time is an argument. Shows nothing that a column does not name.

mod cell;
mod path;
mod resource;
mod text;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::cell::{age_at, human_duration};
pub use self::resource::{KindInfo, all_resources, find_by_name};
pub use self::text::{TableLayout, TableStyle, align_columns};

/// A column of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableColumn {
    /// Its title, as in the CRD.
    pub name: String,
    /// `string`, `integer`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// 0 is always shown; higher values only in wide output.
    pub priority: i32,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
    /// The version of the object that the cells were read from.
    pub resource_version: String,
    pub generation: i64,
    /// One text per column, as printed; empty where the object has no value.
    pub cells: Vec<String>,
}

/// Objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectTable {
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// The name first, then the columns of the CRD.
    pub columns: Vec<TableColumn>,
    /// Sorted by namespace and name.
    pub rows: Vec<TableRow>,
}

impl ObjectTable {
    /// The cell of a row in the column called `name`.
    #[must_use]
    pub fn cell<'a>(&self, row: &'a TableRow, name: &str) -> Option<&'a str> {
        let column = self.columns.iter().position(|column| column.name == name)?;
        row.cells.get(column).map(String::as_str)
    }
}

impl KindInfo {
    #[must_use]
    pub fn build_table<'a>(&self, objects: impl IntoIterator<Item = &'a Value>, at: Timestamp) -> ObjectTable {
        let mut rows: Vec<TableRow> = objects.into_iter().map(|one| self.build_row(one, at)).collect();
        rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        ObjectTable {
            kind: self.kind.clone(),
            plural: self.plural.clone(),
            namespaced: self.namespaced,
            columns: self.columns.clone(),
            rows,
        }
    }

    #[must_use]
    pub fn build_row(&self, object: &Value, at: Timestamp) -> TableRow {
        let meta = &object["metadata"];
        let text = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
        let cells = self.columns.iter().zip(&self.paths);
        TableRow {
            namespace: meta["namespace"].as_str().map(str::to_owned),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            generation: meta["generation"].as_i64().unwrap_or_default(),
            cells: cells
                .map(|(column, path)| match path.find_first(object) {
                    Some(value) => cell::cell_text(&column.type_, value, at),
                    None => String::new(),
                })
                .collect(),
        }
    }
}
